// `./dev mutate`: with each semantic requirement switched off in turn, are the wrong schedules that it lets
// through noticed by the proof, and by the proof and the interpreter together?
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "tests/fuzz/mutate.h"

using namespace nestor;

int main(int argc, char** argv) {
  MutationOptions o;
  o.progress = isatty(2);
  const double share = 95;
  bool open = false;
  size_t shown = 5;
  CLI::App app{"Requirements switched off, one at a time"};
  app.add_option("--seed", o.seed);
  app.add_option("--minutes", o.minutes, "then requirements that lack wrong schedules are named");
  app.add_option("--processes", o.processes);
  app.add_option("--wanted", o.wanted, "wrong schedules for each requirement");
  app.add_option("--only", o.only, "such as 'reorder 3'; else all");
  app.add_option("--show", shown, "how many crashes and misses are printed");
  app.add_flag("--open", open, "also those that the proof left to the interpreter");
  CLI11_PARSE(app, argc, argv);
  const MutationResult r = run_mutations(o);
  std::cout << "--seed " << o.seed << "\n" << print(r);
  int64_t wrong = 0, caught = 0;
  bool bad = false;
  for (const auto& [name, row] : r.rows) {
    wrong += row.wrong;
    caught += row.caught_by_proof;
    bad = bad || row.missed > 0;
    if (row.wrong >= o.wanted) continue;
    bad = true;
    std::cout << "FEW: " << text(name) << " let only " << row.wrong << " wrong schedules through\n";
  }
  if (100.0 * static_cast<double>(caught) < share * static_cast<double>(wrong)) bad = true;
  for (const Miss& m : r.misses) {
    bad = bad || m.kind == "crash";
    if (shown == 0 || (m.kind == "open" && !open)) continue;
    --shown;
    std::cout << "\n" << m.kind << ": " << m.function << " without " << text(m.requirement) << "\n";
    for (const std::string& step : m.steps) std::cout << "  " << step << "\n";
    std::cout << m.what << "\n";
  }
  return bad ? 1 : 0;
}

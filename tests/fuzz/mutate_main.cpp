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
  app.add_flag("--all", o.keep_all, "also those that the proof sees, and those that are harmless");
  CLI11_PARSE(app, argc, argv);
  const MutationResult r = run_mutations(o);
  std::cout << "--seed " << o.seed << "\n" << print(r);
  const std::vector<std::string> against = complaints(r, o.wanted);
  for (const std::string& line : against) std::cout << line << "\n";
  for (const Miss& m : r.misses) {
    if (shown == 0 || (m.kind == "open" && !open)) continue;
    --shown;
    std::cout << "\n" << m.kind << ": " << m.function << " without " << text(m.requirement) << "\n";
    for (const std::string& step : m.steps) std::cout << "  " << step << "\n";
    std::cout << m.what << "\n";
  }
  return against.empty() ? 0 : 1;
}

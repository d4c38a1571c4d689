// `./dev fuzz`: random legal schedules keep what a function computes, by the interpreter, by LLVM and by
// emulated CUDA. A failure is shrunk and written to files.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "nestor/error.h"
#include "nestor/print.h"
#include "schedules/primitive.h"
#include "tests/fuzz/campaign.h"
#include "tests/fuzz/roads.h"
#include "tests/fuzz/shrink.h"

using namespace nestor;

namespace {

struct Arguments {
  CampaignOptions campaign;
  std::string replay, out = "build/fuzz";
  double shrink_seconds = 60;
};

// What keeps a run from meaning much, although nothing failed.
std::vector<std::string> weaknesses(const CampaignOptions& o, const CampaignResult& r, const Roads& roads) {
  std::vector<std::string> out;
  if (r.traces < o.traces)
    out.push_back("only " + std::to_string(r.traces) + " of " + std::to_string(o.traces) + " traces");
  if (r.traces < 2000 || !o.prefer.empty() || o.open) return out;
  if (r.lengths[r.lengths.size() / 2] < 8) out.push_back("the median trace has fewer than 8 steps");
  if (2 * r.ragged < r.traces) out.push_back("fewer than half of the functions have ragged sizes");
  for (const schedules::Primitive& p : schedules::primitives()) {
    const auto row = r.counts.rows.find(p.name);
    // Few functions have a padding.
    const int64_t wanted = r.traces / (p.name == std::string("skip_zeros") ? 250 : 50);
    if (row == r.counts.rows.end() || row->second.accepted < wanted)
      out.push_back(std::string(p.name) + " was seldom accepted");
  }
  const auto ran = [&](const std::string& road) {
    const auto it = r.roads.find(road);
    return it == r.roads.end() ? 0 : it->second.ran;
  };
  if (roads.count("cpu") && 5 * ran("cpu") < r.traces) out.push_back("fewer than a fifth were compiled");
  if (roads.count("cuda") && 20 * ran("cuda") < r.traces)
    out.push_back("fewer than a twentieth were emulated as CUDA");
  return out;
}

void report(const Failure& failure, const Arguments& a, const Roads& roads) {
  std::cout << "\nFAILED " << failure.kind << ": case " << failure.number << " of --seed " << a.campaign.seed
            << "\n"
            << std::flush;
  const Shrunk s = shrink(failure, a.campaign, roads, a.shrink_seconds);
  const PrimFunc f = s.small.func();
  const auto files = write_case(s.small, s.verdict, a.out, "fail" + std::to_string(failure.number));
  std::cout << "shrunk to " << s.small.steps.size() << " steps over " << block_names(f).size() << " blocks ("
            << s.tried << " tried):\n"
            << print(f);
  for (const std::string& step : s.small.steps) std::cout << "  " << step << "\n";
  std::cout << s.verdict.what << "\nreplay: nestor verify " << files[0] << " --schedule " << files[1]
            << "\n    or: ./dev fuzz --replay " << files[1] << "\n"
            << std::flush;
}

int run(const Arguments& a) {
  const Roads roads = fuzz_roads();
  if (!a.replay.empty()) {
    const Finding v = replay_files(a.replay, roads);
    std::cout << (v.failed() ? v.kind + ": " + v.what : "nothing is wrong") << "\n";
    return v.failed() ? 1 : 0;
  }
  const CampaignResult r = run_campaign(a.campaign, roads);
  std::cout << "--seed " << a.campaign.seed << ": " << print(r);
  for (const Failure& f : r.failures) report(f, a, roads);
  const auto weak = weaknesses(a.campaign, r, roads);
  for (const std::string& w : weak) std::cout << "WEAK: " << w << "\n";
  return r.failures.empty() && weak.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  a.campaign.progress = isatty(2);
  CLI::App app{"Random schedules, checked and shrunk"};
  app.add_option("--seed", a.campaign.seed, "the run; a failure is replayed by its seed, or by its files");
  app.add_option("--traces", a.campaign.traces, "how many");
  app.add_option("--minutes", a.campaign.minutes, "no new work after that");
  app.add_option("--processes", a.campaign.processes);
  app.add_option("--failures", a.campaign.most_failures, "stop at that many");
  app.add_option("--prefer", a.campaign.prefer, "primitives that every other step is proposed of")
      ->delimiter(',');
  app.add_option("--shrink-seconds", a.shrink_seconds, "for one failure");
  app.add_flag("--open", a.campaign.open,
               "functions whose sizes stay open, each run at five sizes; on no CUDA, which needs all sizes");
  app.add_option("--out", a.out, "where failures are written");
  app.add_option("--replay", a.replay, "a .sched file that was written for a failure, its .nest beside it");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(a);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 70;
  }
}

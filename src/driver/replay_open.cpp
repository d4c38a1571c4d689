#include "src/driver/replay_open.h"

namespace nestor {

namespace {

// Where loops weren't fused, the outermost of them takes the place of what they would have become:
// `g = fuse T (i j)`, then `parallel T.g`.
struct Stand {
  std::string fused, outer;
};

std::vector<Stand> stands_for(const Step& fuse) {
  if (fuse.primitive != "fuse" || fuse.results.size() != 1 || fuse.args.size() != 2) return {};
  const std::string& loops = fuse.args[1];  // "(i j)"
  const size_t end = loops.find_first_of(" )");
  if (loops.size() < 2 || loops[0] != '(' || end == std::string::npos) return {};
  return {{fuse.args[0] + "." + fuse.results[0], fuse.args[0] + "." + loops.substr(1, end - 1)}};
}

}  // namespace

Trace accepted_steps(const PrimFunc& f, const Trace& trace) {
  const QuietRefusals quiet;
  Schedule s(f);
  std::vector<Stand> stands;
  Trace out = trace;
  for (Step step : trace.steps) {
    for (const Stand& stand : stands)
      for (std::string& arg : step.args)
        if (arg == stand.fused) arg = stand.outer;
    try {
      s.step(step);
    } catch (const ScheduleError& e) {
      out.given_up.push_back(e.diagnostic().message);
      for (Stand& stand : stands_for(step)) stands.push_back(std::move(stand));
    }
  }
  out.steps = s.trace().steps;
  return out;
}

}  // namespace nestor

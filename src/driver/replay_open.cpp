#include "src/driver/replay_open.h"

#include "nestor/error.h"
#include "nestor/print.h"

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

// Later steps do little with the digits of a loop over a product of open sizes.
bool fuses_open_loops(const PrimFunc& f, const Step& step) {
  if (step.primitive != "fuse" || step.args.size() != 2) return false;
  for (const LoopInfo& l : loops_of(f, step.args[0]))
    for (const std::string& after : {" " + l.name + " ", " " + l.name + ")"})
      if (l.extent < 0 && step.args[1].find(after) != std::string::npos) return true;
  return false;
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
      if (fuses_open_loops(s.func(), step))
        throw ScheduleError("`" + print(step) + "` would fuse loops over open sizes");
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

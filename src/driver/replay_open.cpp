#include "src/driver/replay_open.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "nestor/error.h"
#include "nestor/library.h"
#include "nestor/nest_file.h"
#include "nestor/print.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

// "(i j)" as its words.
std::vector<std::string> in_parentheses(const std::string& list) {
  std::vector<std::string> out;
  if (list.size() < 2 || list.front() != '(' || list.back() != ')') return out;
  std::istringstream words(list.substr(1, list.size() - 2));
  for (std::string word; words >> word;) out.push_back(word);
  return out;
}

// Where loops weren't fused, the outermost of them takes the place of what they would have become:
// `g = fuse T (i j)`, then `parallel T.g`. For `vectorize T.g` it is the innermost, and the others are
// unrolled.
struct Stand {
  std::string block, fused;
  std::vector<std::string> loops;
};

std::vector<Stand> stands_for(const Step& fuse) {
  if (fuse.primitive != "fuse" || fuse.results.size() != 1 || fuse.args.size() != 2) return {};
  const std::vector<std::string> loops = in_parentheses(fuse.args[1]);
  if (loops.empty()) return {};
  return {{fuse.args[0], fuse.results[0], loops}};
}

// The step with what stands for fused loops in their place, and what has to follow it.
std::vector<Step> in_their_place(Step step, const std::vector<Stand>& stands) {
  std::vector<Step> out;
  for (const Stand& stand : stands)
    for (std::string& arg : step.args) {
      if (arg != stand.block + "." + stand.fused) continue;
      const bool vector = step.primitive == "vectorize";
      arg = stand.block + "." + (vector ? stand.loops.back() : stand.loops.front());
      for (size_t l = 0; vector && l + 1 < stand.loops.size(); ++l)
        out.push_back({"unroll", {}, {stand.block + "." + stand.loops[l]}, {}, {}, {}, ""});
    }
  out.insert(out.begin(), std::move(step));
  return out;
}

// What the others do without. The outer one of loops that weren't fused is in parallel alone.
bool is_hint(const Step& s) {
  return s.primitive == "storage_align" || s.primitive == "prefetch" || s.primitive == "annotate" ||
         s.primitive == "fuse";
}

bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return true;
}

// Sizes of one stay: a schedule for one sample needn't be one for many.
int64_t divided_by_nothing(int64_t size) {
  while (!is_prime(size)) ++size;
  return size;
}

// Schedules are told which loops are open.
class MarkOpenLoops : public Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    const Stmt out = children(s);
    const auto* loop = out.as<For>();
    if (!loop || as_int(loop->extent)) return out;
    Annotations marked = loop->annotations;
    marked[kOpenLoop] = int64_t{1};
    return make::loop(loop->var, loop->extent, loop->body, loop->kind, loop->thread, std::move(marked));
  }
};

PrimFunc with_open_loops_marked(PrimFunc f) {
  f.body = MarkOpenLoops().stmt(f.body);
  return f;
}

PrimFunc of_sizes(const PrimFunc& f, const std::unordered_map<Var, int64_t>& typical, int64_t times) {
  VarMap sizes;
  for (const Var& d : f.dims) {
    const int64_t size = typical.at(d);
    sizes[d] = Expr(size > 1 ? divided_by_nothing(size * times) : size);
  }
  return with_dims(f, sizes);
}

// The step without what it does without; nullopt where there is nothing of it.
std::optional<Step> without_hints(Step step) {
  const auto erased = std::erase_if(step.options, [](const auto& o) { return o.first == "at_lines"; });
  return erased > 0 ? std::optional(std::move(step)) : std::nullopt;
}

// The loops inside of tiles, BLOCK.LOOP, that the step makes of an open one: the last tile has fewer
// iterations.
std::vector<std::string> ragged_by(const PrimFunc& f, const Step& step) {
  std::vector<std::string> out;
  if (step.primitive != "split" || step.args.empty()) return out;
  const std::string& cut = step.args[0];
  const std::string block = cut.substr(0, cut.find('.'));
  for (const LoopInfo& l : loops_of(f, block))
    if (l.extent < 0 && cut == block + "." + l.name)
      for (size_t r = 1; r < step.results.size(); ++r) out.push_back(block + "." + step.results[r]);
  return out;
}

// Later steps do little with the digits of a loop over a product of open sizes, or over what is left over of
// one beside others.
bool fuses_open_loops(const PrimFunc& f, const Step& step, const std::set<std::string>& ragged) {
  if (step.primitive != "fuse" || step.args.size() != 2) return false;
  const std::vector<std::string> fused = in_parentheses(step.args[1]);
  for (const LoopInfo& l : loops_of(f, step.args[0])) {
    const auto at = std::find(fused.begin(), fused.end(), l.name);
    if (at == fused.end()) continue;
    if ((l.extent < 0 && at != fused.begin()) || ragged.count(step.args[0] + "." + l.name)) return true;
  }
  return false;
}

bool holds(Schedule& s, const Step& step) {
  try {
    s.step(step);
    return true;
  } catch (const ScheduleError&) {
    return false;
  }
}

}  // namespace

bool from_database(const std::string& origin) {
  return origin == "database" || origin == "adapted";
}

Replay accepted_steps(const PrimFunc& f, const Trace& trace) {
  const QuietRefusals quiet;
  Schedule s(f);
  std::vector<Stand> stands;
  std::set<std::string> ragged;
  Replay out{trace};
  for (const Step& planned : trace.steps) {
    const std::vector<Step> steps = in_their_place(planned, stands);
    const Step& step = steps.front();
    if (step.primitive == "decompose_reduction" && step.results.size() == 1) {
      const std::string block = step.args.at(0).substr(0, step.args.at(0).find('.'));
      for (size_t k = 0, known = stands.size(); k < known; ++k)
        if (stands[k].block == block) stands.push_back({step.results[0], stands[k].fused, stands[k].loops});
    }
    try {
      if (fuses_open_loops(s.func(), step, ragged))
        throw ScheduleError("`" + print(step) + "` would fuse loops over open sizes");
      for (std::string& loop : ragged_by(s.func(), step)) ragged.insert(std::move(loop));
      for (const Step& one : steps) s.step(one);
    } catch (const ScheduleError& e) {
      if (const auto plain = without_hints(step); plain && holds(s, *plain)) continue;
      out.trace.given_up.push_back(e.diagnostic().message);
      out.lost += !is_hint(step);
      for (Stand& stand : stands_for(step)) stands.push_back(std::move(stand));
    }
  }
  out.trace.steps = s.trace().steps;
  return out;
}

std::vector<OpenChoice> choices_for_open_sizes(const PrimFunc& f,
                                               const std::unordered_map<Var, int64_t>& typical,
                                               const CompileOptions& options) {
  constexpr int64_t kMostPlanned = 1 << 14;
  const PrimFunc usual = with_dims(f, typical);
  std::vector<OpenChoice> out;
  if (const ScheduleChoice choice = choose_schedule(usual, options); choice.origin != "default") {
    out.push_back({choice.origin, [=] { return Replay{choice.trace}; }});
    if (!from_database(choice.origin)) return out;
  }
  const Target& target = options.target;
  const PrimFunc marked = with_open_loops_marked(f), told = with_dims(marked, typical);
  out.push_back({"default", [=, &target] { return accepted_steps(f, default_schedule(told, target)); }});
  for (const int64_t times : {1, 4, 16}) {
    if (times > 1 && std::any_of(f.dims.begin(), f.dims.end(),
                                 [&](const Var& d) { return typical.at(d) > kMostPlanned / times; }))
      break;
    const PrimFunc near = of_sizes(marked, typical, times);
    out.push_back({"default", [=, &target] { return accepted_steps(f, default_schedule(near, target)); }});
  }
  out.push_back({"plain", [=, &target] { return Replay{plain_schedule(usual, target)}; }});
  out.push_back({"plain", [=, &target] { return accepted_steps(f, plain_schedule(usual, target)); }});
  return out;
}

}  // namespace nestor

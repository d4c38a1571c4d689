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

// Whether a size divides something: of sizes that happen to be equal little of that is left.
bool divides_by_a_size(const PrimFunc& f) {
  bool any = false;
  for_each_expr(f.body, [&](const Expr& e) {
    const auto* b = e.as<Binary>();
    if (b && (b->op == BinaryOp::div || b->op == BinaryOp::mod) && !as_int(b->b))
      for (const Var& d : f.dims) any = any || uses_var(b->b, d);
  });
  return any;
}

// Those of one, such as samples, become `ones`.
PrimFunc of_sizes(const PrimFunc& f, const std::unordered_map<Var, int64_t>& typical, int64_t times,
                  int64_t ones = 1) {
  const bool different = divides_by_a_size(f);
  VarMap sizes;
  std::set<int64_t> taken;
  for (const Var& d : f.dims) {
    int64_t size = typical.at(d) > 1 ? divided_by_nothing(typical.at(d) * times) : ones;
    while (different && size > 1 && !taken.insert(size).second) size = divided_by_nothing(size + 1);
    sizes[d] = Expr(size);
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

// The number that a step `NAME = sample_choice [...] -> NUMBER` chooses.
std::string* chosen(Trace& trace, const std::string& name) {
  for (Step& s : trace.steps)
    if (s.primitive == "sample_choice" && s.results == std::vector<std::string>{name} && s.args.size() == 3)
      return &s.args[2];
  return nullptr;
}

// Tiles as large as those of the usual sizes, where a loop over an open size is cut by a number chosen from
// some: as large as the loop usually is, if that isn't cut.
Trace with_usual_tiles(const PrimFunc& f, const PrimFunc& usual, Trace near, Trace plan) {
  const auto extent_of = [](const PrimFunc& func, const std::string& block, const std::string& loop) {
    for (const LoopInfo& l : loops_of(func, block))
      if (l.name == loop) return l.extent;
    return int64_t{0};
  };
  for (const Step& s : near.steps) {
    if (s.primitive != "split" || s.args.size() != 2) continue;
    const size_t dot = s.args[0].find('.'), comma = s.args[1].find(", ");
    if (dot == std::string::npos || comma == std::string::npos) continue;
    const std::string block = s.args[0].substr(0, dot), loop = s.args[0].substr(dot + 1);
    const std::string name = s.args[1].substr(comma + 2, s.args[1].size() - comma - 3);
    std::string* number = chosen(near, name);
    if (!number || !find_block(f, block) || extent_of(f, block, loop) >= 0) continue;
    const bool cut = std::any_of(plan.steps.begin(), plan.steps.end(),
                                 [&](const Step& u) { return u.primitive == "split" && u.args == s.args; });
    if (const std::string* usually = cut ? chosen(plan, name) : nullptr) *number = *usually;
    if (cut) continue;
    const int64_t size = extent_of(usual, block, loop);
    const auto* of = &*std::find_if(near.steps.begin(), near.steps.end(), [&](const Step& c) {
      return c.args.size() == 3 && &c.args[2] == number;
    });
    for (const char* after : {",", "]"})
      if (size > 1 && (" " + of->args[0]).find(" " + std::to_string(size) + after) != std::string::npos)
        *number = std::to_string(size);
  }
  return near;
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
  if (!divides_by_a_size(f))
    out.push_back({"default", [=, &target] { return accepted_steps(f, default_schedule(told, target)); }});
  for (const int64_t times : {1, 4, 16}) {
    if (times > 1 && std::any_of(f.dims.begin(), f.dims.end(),
                                 [&](const Var& d) { return typical.at(d) > kMostPlanned / times; }))
      break;
    const PrimFunc near = of_sizes(marked, typical, times);
    out.push_back({"default", [=, &target] {
                     return accepted_steps(f, with_usual_tiles(f, usual, default_schedule(near, target),
                                                               default_schedule(told, target)));
                   }});
  }
  // A schedule for one sample has no place for the loop over many, nor has one for the few rows of one, all
  // of which are in registers.
  if (std::any_of(f.dims.begin(), f.dims.end(), [&](const Var& d) { return typical.at(d) == 1; }))
    for (const int64_t samples : {3, 17}) {
      const PrimFunc near = of_sizes(marked, typical, 1, samples);
      out.push_back({"default", [=, &target] { return accepted_steps(f, default_schedule(near, target)); }});
    }
  out.push_back({"plain", [=, &target] { return Replay{plain_schedule(usual, target)}; }});
  out.push_back({"plain", [=, &target] { return accepted_steps(f, plain_schedule(usual, target)); }});
  return out;
}

}  // namespace nestor

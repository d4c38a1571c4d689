#include "src/driver/plan_control.h"

#include <algorithm>
#include <limits>

#include "nestor/error.h"

namespace nestor {

size_t Lives::add(int64_t bytes, int step) {
  lives_.push_back({bytes, step, step});
  return lives_.size() - 1;
}

void Lives::read(const Ids& buffers, int step) {
  for (const size_t b : buffers) {
    Lifetime& life = lives_[b];
    life.last = std::max(life.last, step);
    for (const auto& [begin, end] : loops_)
      if (begin > life.first) {
        life.last = std::max(life.last, end);
        break;
      }
  }
}

namespace {

Place pointer(int64_t index) {
  return {Region::moving, index};
}

Lives::Ids joined(Lives::Ids a, const Lives::Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

ControlPlanner::ControlPlanner(const Partition& p, PlanValues values)
    : partition_(p), values_(std::move(values)) {
  for (size_t i = 0; i < p.calls.size(); ++i) {
    const KernelCall& call = p.calls[i];
    if (!call.control) continue;
    const auto step = static_cast<int>(i);
    Flow& f = flows_[call.control.get()];
    if (call.func == kLoopBegins || call.func == kBranchBegins) {
      f.begin = step;
      for (const ControlFlow::Part& made : call.control->made) values_.made_at[made.whole] = step;
      for (const ControlFlow::Result& r : call.control->results) values_.made_at[r.result] = step;
    } else {
      (call.func == kOtherwise ? f.middle : f.end) = step;
    }
  }
}

// ---- Where values are, and for how long

bool ControlPlanner::has_place(ValueId v) const {
  return placed_.count(v) || buffer_of_.count(v) || shares_.count(v);
}

// Whether what makes v, between those steps, may write it where somebody wants it.
bool ControlPlanner::may_write(ValueId v, int begin, int end) const {
  const auto it = values_.made_at.find(v);
  return it != values_.made_at.end() && it->second > begin && it->second < end && !has_place(v);
}

void ControlPlanner::put(ValueId v, const Place& place, const Lives::Ids& held) {
  placed_[v] = place;
  holds_[v] = held;
}

void ControlPlanner::share(ValueId v, ValueId with) {
  shares_[v] = with;
  holds_[v] = held(with);
}

Lives::Ids ControlPlanner::held(ValueId v) const {
  const auto it = holds_.find(values_.root(v));
  return it == holds_.end() ? Lives::Ids{} : it->second;
}

void ControlPlanner::read(ValueId v, int step) {
  if (v >= 0) lives_.read(held(v), step);
}

void ControlPlanner::write(ValueId v, int step) {
  if (has_place(v)) return;
  buffer_of_[v] = lives_.add(values_.stored_bytes(v), step);
  holds_[v] = {buffer_of_[v]};
}

std::optional<Place> ControlPlanner::place_of(ValueId v, const std::vector<int64_t>& offsets) const {
  if (const auto it = placed_.find(v); it != placed_.end()) return it->second;
  const auto it = buffer_of_.find(v);
  if (it == buffer_of_.end()) return std::nullopt;
  return Place{Region::arena, offsets[it->second]};
}

ValueId ControlPlanner::shared_with(ValueId v) const {
  for (auto it = shares_.find(v); it != shares_.end(); it = shares_.find(v)) v = it->second;
  return v;
}

void ControlPlanner::visit(int step) {
  const KernelCall& call = partition_.calls[static_cast<size_t>(step)];
  const ControlFlow& c = *call.control;
  Flow& f = flows_.at(&c);
  switch (call.func) {
    case kLoopBegins:
      return begin_loop(f, c);
    case kLoopEnds:
      return end_loop(f, c);
    case kBranchBegins:
      return begin_branch(f, c);
    case kOtherwise:
      return end_side(f.when_true, step);
    default:
      end_side(f.when_false, step);
      for (size_t i = 0; i < f.when_true.size(); ++i)
        if (const Side& s = f.when_true[i]; s.pointer >= 0)
          put(s.result, pointer(s.pointer), joined(held(s.from), held(f.when_false[i].from)));
  }
}

void ControlPlanner::begin_loop(Flow& f, const ControlFlow& c) {
  read(c.condition, f.begin);
  read(c.trips, f.end);
  write(c.iteration, f.begin);
  lives_.read(held(c.iteration), f.end);
  plan_parts(f, c);
  for (const ControlFlow::State& s : c.states) plan_state(f, s);
  lives_.enter_loop(f.begin, f.end);
}

void ControlPlanner::plan_parts(Flow& f, const ControlFlow& c) {
  const Dim trips = c.known_trips.value_or(0);
  for (const ControlFlow::Part& p : c.scanned) {
    f.scanned.push_back({p.whole, p.part, pointers_++, values_.bytes(p.part), trips, p.backward});
    read(p.whole, f.begin);
    put(p.part, pointer(f.scanned.back().pointer), held(p.whole));
  }
  for (const ControlFlow::Part& p : c.made) {
    f.made.push_back({p.whole, values_.root(p.part), pointers_++, values_.bytes(p.part), trips, p.backward});
    write(p.whole, f.begin);
    lives_.read(held(p.whole), f.end);
    Part& made = f.made.back();
    made.copied = !may_write(made.part, f.begin, f.end);
    if (!made.copied) put(made.part, pointer(made.pointer), held(p.whole));
  }
}

void ControlPlanner::plan_state(Flow& f, const ControlFlow::State& s) {
  State state{s.initial, s.inside, values_.root(s.next)};
  read(s.initial, f.begin);
  Lives::Ids ids = held(s.initial);
  const auto element = std::find_if(f.made.begin(), f.made.end(),
                                    [&](const Part& p) { return p.part == state.next && !p.copied; });
  state.now = pointers_++;
  if (state.next == s.inside) {
    state.kind = State::Kind::stays;
  } else if (element != f.made.end()) {
    state.kind = State::Kind::follows;
    state.other = element->pointer;
    ids = joined(ids, held(element->whole));
  } else {
    const int64_t bytes = values_.stored_bytes(s.inside);
    state.first = lives_.add(bytes, f.begin), state.second = lives_.add(bytes, f.begin);
    const Lives::Ids both = {state.first, state.second};
    lives_.read(both, f.end);
    ids = joined(ids, both);
    state.other = pointers_++, state.spare = pointers_++;
    state.copied = !may_write(state.next, f.begin, f.end);
    if (!state.copied) put(state.next, pointer(state.other), both);
  }
  put(s.inside, pointer(state.now), ids);
  if (s.last >= 0) put(s.last, pointer(state.now), ids);
  f.states.push_back(state);
}

void ControlPlanner::end_loop(Flow& f, const ControlFlow& c) {
  read(c.goes_on, f.end);
  for (const ControlFlow::State& s : c.states) read(s.next, f.end);
  for (const ControlFlow::Part& p : c.made) read(p.part, f.end);
  lives_.leave_loop();
}

void ControlPlanner::begin_branch(Flow& f, const ControlFlow& c) {
  read(c.condition, f.begin);
  for (const ControlFlow::Result& r : c.results) {
    const ValueId yes = values_.root(r.when_true), no = values_.root(r.when_false);
    // A side that can't be taken has nothing to write.
    const bool writes_yes = yes < 0 || may_write(yes, f.begin, f.middle),
               writes_no = no < 0 || may_write(no, f.middle, f.end);
    if (!has_place(r.result)) {
      if (!writes_yes || !writes_no) {
        f.when_true.push_back({yes, r.result, pointers_});
        f.when_false.push_back({no, r.result, pointers_++});
        continue;
      }
      write(r.result, f.begin);
    }
    if (writes_yes && yes >= 0) share(yes, r.result);
    if (writes_no && no >= 0) share(no, r.result);
    if (!writes_yes) f.when_true.push_back({yes, r.result, -1});
    if (!writes_no) f.when_false.push_back({no, r.result, -1});
  }
}

void ControlPlanner::end_side(const std::vector<Side>& side, int step) {
  for (const Side& s : side) read(s.from, step);
}

// ---- Calls

void ControlPlanner::emit(int step, const Places& at, std::vector<PlanCall>& calls) {
  const KernelCall& mark = partition_.calls[static_cast<size_t>(step)];
  const ControlFlow& c = *mark.control;
  Flow& f = flows_.at(&c);
  const auto here = [&] { return static_cast<int64_t>(calls.size()); };
  PlanCall call;
  call.label = mark.func == kLoopBegins || mark.func == kLoopEnds ? "Loop" : "If";
  switch (mark.func) {
    case kLoopBegins:
      emit_loop(f, c, std::move(call), at, calls);
      f.jump = calls.size() - 1;
      return;
    case kLoopEnds:
      emit_next(f, c, std::move(call), at, calls);
      calls.back().target = static_cast<int64_t>(f.jump) + 1;
      calls[f.jump].target = here();
      return;
    case kBranchBegins:
      f.jump = calls.size();
      call.kernel = kSkip;
      call.args = {at.place(c.condition)};
      calls.push_back(std::move(call));
      emit_needs(c.true_needs, at, calls);
      return;
    case kOtherwise:
      emit_side(f.when_true, c.not_true, at, calls);
      f.jump_over = calls.size();
      call.kernel = kSkip;
      calls.push_back(std::move(call));
      calls[f.jump].target = here();
      emit_needs(c.false_needs, at, calls);
      return;
    default:
      emit_side(f.when_false, c.not_false, at, calls);
      calls[f.jump_over].target = here();
  }
}

namespace {

using Places = ControlPlanner::Places;

void point(std::vector<PlanCall>& calls, const Place& at, int64_t to) {
  calls.push_back({kPoint, {at, pointer(to)}, 0, "Loop"});
}
void point(std::vector<PlanCall>& calls, const Place& at, int64_t to, const Dim& further, const Places& in) {
  point(calls, at, to);
  if (further.known())
    calls.back().bytes = further;
  else
    calls.back().args.push_back(in.number(further));
}
void copy(std::vector<PlanCall>& calls, const Place& from, const Place& to, const Dim& bytes,
          const Places& in) {
  PlanCall call{kCopy, {from, to}, 0, "copy"};
  if (bytes.known())
    call.bytes = bytes;
  else
    call.bytes_at = static_cast<int>(in.number(bytes).at);
  calls.push_back(std::move(call));
}

}  // namespace

void ControlPlanner::emit_loop(Flow& f, const ControlFlow& c, PlanCall call, const Places& at,
                               std::vector<PlanCall>& calls) {
  const auto buffer = [&](size_t b) { return Place{Region::arena, at.offsets[b]}; };
  for (const auto* parts : {&f.scanned, &f.made})
    for (const Part& p : *parts)
      point(calls, at.place(p.whole), p.pointer, p.backward ? max(p.trips - 1, 0) * p.bytes : Dim(0), at);
  for (const State& s : f.states) {
    point(calls, at.place(s.initial), s.now);
    if (s.kind != State::Kind::flips) continue;
    point(calls, buffer(s.first), s.other);
    point(calls, buffer(s.second), s.spare);
  }
  const Place trips = c.known_trips  ? at.number(*c.known_trips)
                      : c.trips >= 0 ? at.place(c.trips)
                                     : at.number(std::numeric_limits<int64_t>::max());
  call.kernel = kLoop;
  call.args = {at.place(c.iteration), trips};
  if (c.condition >= 0) call.args.push_back(at.place(c.condition));
  calls.push_back(std::move(call));
}

void ControlPlanner::emit_next(const Flow& f, const ControlFlow& c, PlanCall call, const Places& at,
                               std::vector<PlanCall>& calls) {
  for (const Part& p : f.made)
    if (p.copied) copy(calls, at.place(p.part), pointer(p.pointer), p.bytes, at);
  for (const State& s : f.states)
    if (s.kind == State::Kind::flips && s.copied)
      copy(calls, at.place(s.next), pointer(s.other), values_.bytes(s.inside), at);
  for (const State& s : f.states) {
    if (s.kind == State::Kind::stays) continue;
    point(calls, pointer(s.other), s.now);
    if (s.kind == State::Kind::follows) continue;
    point(calls, pointer(s.spare), s.other);
    point(calls, pointer(s.now), s.spare);
  }
  for (const auto* parts : {&f.scanned, &f.made})
    for (const Part& p : *parts)
      point(calls, pointer(p.pointer), p.pointer, p.backward ? -p.bytes : p.bytes, at);
  const std::vector<Place> begin = calls[f.jump].args;
  call.kernel = kNext;
  call.args = {begin[0], begin[1]};
  call.bytes = c.limit;
  if (c.goes_on >= 0) call.args.push_back(at.place(c.goes_on));
  calls.push_back(std::move(call));
}

void ControlPlanner::emit_needs(const std::vector<ControlFlow::Need>& needs, const Places& at,
                                std::vector<PlanCall>& calls) {
  for (const ControlFlow::Need& need : needs)
    calls.push_back({kCheck, {at.number(need.unmet)}, 0, need.text});
}

void ControlPlanner::emit_side(const std::vector<Side>& side, const std::string& impossible, const Places& at,
                               std::vector<PlanCall>& calls) {
  if (!impossible.empty()) calls.push_back({kCheck, {at.number(1)}, 0, impossible});
  for (const Side& s : side)
    if (s.from < 0)
      continue;
    else if (s.pointer >= 0)
      calls.push_back({kPoint, {at.place(s.from), pointer(s.pointer)}, 0, "If"});
    else
      copy(calls, at.place(s.from), at.place(s.result), values_.bytes(s.result), at);
}

}  // namespace nestor

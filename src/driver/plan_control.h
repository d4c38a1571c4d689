// Loops and branches in a plan (src/graph/control_flow.h has the marks). An iteration reads and writes where
// pointers say that move while the plan runs, so that it copies nothing:
//
//   - a part of what is scanned is a pointer into it, one part further in each iteration;
//   - so is an element of what is made: the function that makes it writes it there;
//   - a state has two buffers. An iteration reads one and writes the other, then their pointers change
//     places; at first, and where there is no iteration, the pointer is to the initial value. A state that is
//     also an element needs no buffer: the next iteration reads it where the element is.
//
// What isn't made by a function of the iteration itself (a state handed on, a constant) is copied. Results of
// a branch are written to one place by both sides, or are a pointer to what the side that runs has.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "nestor/graph.h"
#include "nestor/runtime.h"
#include "src/graph/control_flow.h"

namespace nestor {

// Buffers of the arena, and from when to when each is needed.
class Lives {
 public:
  using Ids = std::vector<size_t>;
  size_t add(int64_t bytes, int step);
  // A read at that step: in a loop that began after the buffer did, each iteration reads it.
  void read(const Ids& buffers, int step);
  void enter_loop(int begin, int end) { loops_.emplace_back(begin, end); }
  void leave_loop() { loops_.pop_back(); }
  const std::vector<Lifetime>& all() const { return lives_; }

 private:
  std::vector<Lifetime> lives_;
  std::vector<std::pair<int, int>> loops_;  // those around the step, outermost first
};

// What a plan's control flow needs to know of its values.
struct PlanValues {
  std::function<ValueId(ValueId)> root;
  std::function<Dim(ValueId)> bytes;
  std::function<int64_t(ValueId)> stored_bytes;  // as lives() has them: in a plan of open sizes a number
  std::map<ValueId, int> made_at;  // by step: what functions write, and loops and branches as a whole
};

class ControlPlanner {
 public:
  ControlPlanner(const Partition& p, PlanValues values);

  // The first walk, step by step, finds where values are and for how long. One that has a place before, has
  // it: an output of the caller's.
  bool is_made(ValueId v) const { return values_.made_at.count(v) > 0; }
  bool has_place(ValueId v) const;
  void put(ValueId v, const Place& place, const Lives::Ids& held = {});
  void visit(int step);            // a mark
  void read(ValueId v, int step);  // by a function
  void write(ValueId v, int step);
  const std::vector<Lifetime>& lives() const { return lives_.all(); }

  // Where v is, once buffers have offsets; nullopt: it isn't made by a function, a loop or a branch.
  std::optional<Place> place_of(ValueId v, const std::vector<int64_t>& offsets) const;
  // The value in whose place v is written, or v.
  ValueId shared_with(ValueId v) const;

  // The second walk: the calls that stand for a mark. `place`: of any value, `number`: of an i64 that sizes
  // decide.
  struct Places {
    std::function<Place(ValueId)> place;
    std::function<Place(const Dim&)> number;
    const std::vector<int64_t>& offsets;  // of buffers
  };
  void emit(int step, const Places& places, std::vector<PlanCall>& calls);
  int64_t pointers() const { return pointers_; }

 private:
  struct State {
    ValueId initial, inside, next;
    enum class Kind { stays, follows, flips } kind = Kind::flips;
    int64_t now = -1, other = -1, spare = -1;  // pointers; of those that follow, `other` is the element's
    size_t first = 0, second = 0;              // buffers
    bool copied = true;
  };
  struct Part {
    ValueId whole, part;
    int64_t pointer = -1;
    Dim bytes = 0, trips = 0;
    bool backward = false, copied = false;
  };
  struct Side {
    ValueId from = -1, result = -1;
    int64_t pointer = -1;  // that is set; -1: the value is copied to the result's place
  };
  struct Flow {
    int begin = 0, middle = -1, end = 0;
    std::vector<State> states;
    std::vector<Part> scanned, made;
    std::vector<Side> when_true, when_false;
    size_t jump = 0, jump_over = 0;  // calls that begin the loop, or skip a side
  };

  bool may_write(ValueId v, int begin, int end) const;
  void share(ValueId v, ValueId with);
  Lives::Ids held(ValueId v) const;
  void begin_loop(Flow& f, const ControlFlow& c);
  void plan_parts(Flow& f, const ControlFlow& c);
  void plan_state(Flow& f, const ControlFlow::State& s);
  void end_loop(Flow& f, const ControlFlow& c);
  void begin_branch(Flow& f, const ControlFlow& c);
  void end_side(const std::vector<Side>& side, int step);
  void emit_loop(Flow& f, const ControlFlow& c, PlanCall call, const Places& at,
                 std::vector<PlanCall>& calls);
  void emit_next(const Flow& f, const ControlFlow& c, PlanCall call, const Places& at,
                 std::vector<PlanCall>& calls);
  static void emit_needs(const std::vector<ControlFlow::Need>& needs, const Places& at,
                         std::vector<PlanCall>& calls);
  void emit_side(const std::vector<Side>& side, const std::string& impossible, const Places& at,
                 std::vector<PlanCall>& calls);

  const Partition& partition_;
  PlanValues values_;
  std::map<const ControlFlow*, Flow> flows_;
  Lives lives_;
  // Of values: buffers that are there for as long as it is read; where it is, if that is known before the
  // arena is laid out; or the buffer that it is; or the value whose place it shares.
  std::map<ValueId, Lives::Ids> holds_;
  std::map<ValueId, Place> placed_;
  std::map<ValueId, size_t> buffer_of_;
  std::map<ValueId, ValueId> shares_;
  int64_t pointers_ = 0;
};

}  // namespace nestor

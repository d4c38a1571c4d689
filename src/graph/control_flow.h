// Loops and branches that are decided when a model runs, or that go on for so long that their iterations
// aren't spelled out. In a graph they are nodes that hold graphs, their bodies:
//
//   nestor.Loop(trips, condition, state ..., scanned ..., captured ...) -> final state ..., made ...
//     body(iteration, state ..., part ..., captured ...) -> (goes on, next state ..., element ...)
//   nestor.If(condition, captured by then ..., captured by else ...) -> result ...
//     then(captured ...) -> (result ...)      else(captured ...) -> (result ...)
//
// Captured are the values of the graph around that a body reads; constants are constants of the body. Each
// body goes through the same passes as a model and is partitioned like one; then it is put in its node's
// place (inline_bodies), so that what runs is one list of calls, in which marks say where a loop or a branch
// begins and ends. The plan (src/driver/plan_control.h) makes jumps and moving pointers of the marks: no
// iteration copies a state or a slice.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nestor/graph.h"

namespace nestor {

// Marks: values of KernelCall::func.
inline constexpr int kLoopBegins = -1, kLoopEnds = -2, kBranchBegins = -3, kOtherwise = -4, kBranchEnds = -5;

// What the marks of one loop or branch share.
struct ControlFlow {
  struct State {
    ValueId initial, inside, next, last;  // `inside` is what an iteration reads, `next` what it makes
  };
  struct Part {
    ValueId whole, part;  // of each iteration, along dimension 0
    bool backward;
  };
  struct Result {
    ValueId when_true, when_false, result;
  };
  ValueId condition = -1;  // of a loop: whether it begins, -1: it does; of a branch: which
  // Of a loop.
  ValueId iteration = -1, trips = -1, goes_on = -1;  // trips: -1 without one, unless `known_trips`
  std::optional<Dim> known_trips;                    // where sizes decide it
  int64_t limit = 0;                                 // it fails beyond so many iterations; 0: never
  std::vector<State> states;
  std::vector<Part> scanned, made;
  // Of a branch. A side that can't be taken has the reason; its values are -1. One that needs more of open
  // sizes than the graph around it ends a run where a need isn't met: its number isn't 0.
  struct Need {
    Dim unmet;
    std::string text;
  };
  std::vector<Need> true_needs, false_needs;
  std::vector<Result> results;
  std::string not_true, not_false;
};

// How often a loop runs its body, as far as that is known when compiling; else 1.
int64_t least_trips(const ControlFlow& loop);

// All of those that there are.
std::vector<ValueId> values_of(const ControlFlow& c);

// Attributes of an If: why a side can't be taken, which has an empty body then.
inline constexpr const char *kNoThen = "no_then", *kNoElse = "no_else";

bool is_loop(const Node& n);
bool is_branch(const Node& n);
inline bool has_bodies(const Node& n) {
  return !n.bodies.empty();
}

// What a Loop node's attributes say of its lists.
struct LoopForm {
  int64_t states = 0, scanned = 0;
  int64_t trips = -1;             // where it is a number: input 0 is left out then. Of a size that is open,
                                  // input 0 has it as its element
  int64_t limit = 0;              // as ControlFlow has it
  std::vector<int64_t> backward;  // 1 where parts or elements go from the last to the first; those scanned,
                                  // then those made
  size_t captured_at() const { return static_cast<size_t>(2 + states + scanned); }
};
Attrs attributes_of(const LoopForm& form);
LoopForm loop_form(const Node& n);
// A shape as another graph's symbols have it: those of a branch and of the graph around it.
Dims in_symbols(Dims shape, const std::shared_ptr<Symbols>& symbols);
std::optional<Dim> known_trips(const Graph& g, const Node& n);  // of a loop, where sizes decide it

// One line of what a mark begins or ends.
std::string describe_mark(const Graph& g, const KernelCall& call);

// The pass: bodies get captured values that are constants by now, and go through the passes themselves.
void optimize_bodies(Graph& g, const EvaluateFn& evaluate, const OptimizeOptions& options);

// A body's partition, made as the graph's around it was; may change the graph.
using PartitionBody = std::function<Partition(Graph& body)>;
// Puts the partitions of bodies in the place of their nodes' calls; the graph gets their values and nodes.
void inline_bodies(Graph& g, Partition& p, const PartitionBody& partition_body);

}  // namespace nestor

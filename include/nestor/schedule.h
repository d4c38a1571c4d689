// Schedules: a function and a trace of primitives. A step is plain data and one line of text; primitives are
// pure functions from (PrimFunc, Step) to PrimFunc, listed in one table that also feeds the parser, the CLI,
// the tuner and the docs. See schedules/primitive.h for the table's row.
//
//   schedule matmul for x86-64-v4 {          # header and braces optional in .sched files
//     i0 i1 = split T.i [_, 14] tail=peel    # results = primitive arguments key=value
//     reorder T (i0 j0 k i1 j1)
//     vectorize T.j1
//   }
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "nestor/error.h"
#include "nestor/ir.h"

namespace nestor {

// One step. Arguments are kept as source words ("T.i", "[_,14]", "(i0 j0)", "(n,c)->(n,c/16,c%16)"): the
// primitive's table row says how to read them. `results` names what the step makes; empty names or "_" mean
// "choose".
struct Step {
  std::string primitive;
  std::vector<std::string> results;
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> options;  // key=value, in order
  SourceLoc loc;
  std::vector<SourceLoc> calls;  // where the definitions that it stands in were applied, innermost first
  std::string why;               // of an analytic schedule's step: how its numbers came about; not its text
};
std::string print(const Step& step);

struct Trace {
  std::string func;    // header, may be empty
  std::string target;  // header, may be empty
  std::vector<Step> steps;
  // Of an analytic schedule: plans that were tried before, each with what it was given up for; not its text.
  std::vector<std::string> given_up = {};
};
std::string print(const Trace& trace);
// Adds "PLAN was given up: REASON", where the one before has another reason.
void give_up(std::vector<std::string>& given_up, const std::string& plan, const ScheduleError& why);
// The text of a schedule file: definitions, includes and one schedule, or several. Traces hold primitives
// only: what is applied has been put in.
Trace parse_trace(std::string_view text, std::string file = "<schedule>");
std::vector<Trace> parse_schedules(std::string_view text, const std::string& file);
Step parse_step(std::string_view line);

// Applies one step, or throws ScheduleError: the step as source, the requirement it breaks, the IR
// underlined, a command that would be legal. The input is untouched.
PrimFunc apply(const PrimFunc& f, const Step& step);
PrimFunc apply(const PrimFunc& f, const Trace& trace);

// While one lives, a refusal on this thread says only which requirement is broken and why, without the IR and
// without alternatives, which take time to find: for searches, where nobody reads them.
class QuietRefusals {
 public:
  QuietRefusals();
  ~QuietRefusals();
  QuietRefusals(const QuietRefusals&) = delete;
  QuietRefusals& operator=(const QuietRefusals&) = delete;
};

// A sample_* step of a trace, where the trace has come to it.
struct DecisionSite {
  size_t step = 0;                      // index into Trace::steps
  std::vector<std::string> candidates;  // sample_choice: the words to choose from; sample_location: places
  int64_t extent = 0;                   // sample_factors: of the loop
  int parts = 0;
  int64_t max = 0;                    // of each factor but the first
  std::vector<std::string> decision;  // empty where it is open
};
// Replays the trace and gives its sites in order. Where one is open, the steps after it see the first choice
// there is. Throws ScheduleError where a step is refused.
std::vector<DecisionSite> decision_sites(const PrimFunc& f, const Trace& trace);
// The trace with decisions put in, one per site in order; an empty one leaves its site as it is.
Trace with_decisions(const Trace& trace, const std::vector<std::vector<std::string>>& decisions);
// A random decision for a site: factors that waste at most a quarter of the iterations, divisors preferred.
std::vector<std::string> draw_decision(const DecisionSite& site, std::mt19937_64& rng);
// Draws every open decision (`all`: every decision) in the order of the trace, each seeing what the ones
// before it did.
Trace sample_decisions(const PrimFunc& f, const Trace& trace, std::mt19937_64& rng, bool all = false);
// Draws one decision anew, another one than before where there is a choice; later decisions that no longer
// fit are drawn anew too.
Trace mutate_decision(const PrimFunc& f, const Trace& trace, std::mt19937_64& rng);

// Writing a schedule in C++: each call applies a step and records it.
class Schedule {
 public:
  explicit Schedule(PrimFunc f) : func_(std::move(f)) {}
  const PrimFunc& func() const { return func_; }
  const Trace& trace() const { return trace_; }

  // Applies a line of the text form: s("i0 i1 = split T.i [_, 14]"). Throws ScheduleError and stays as it
  // was.
  Schedule& operator()(std::string_view line);
  Schedule& step(Step step);
  bool try_step(std::string_view line);  // false where the step is refused
  // All steps of a plan or none: false where one is refused, which the trace's given_up then says.
  bool attempt(const std::string& plan, const std::function<void(Schedule&)>& steps);
  // The reason for the next step.
  Schedule& because(std::string why);

 private:
  PrimFunc func_;
  Trace trace_;
  std::map<std::string, std::string> decisions_;  // names bound by sample_* steps
  std::string why_;
};

// What schedulers ask about a function.
struct LoopInfo {
  std::string name;     // "i0"
  std::string block;    // the block it was asked through
  int64_t extent = -1;  // -1 where not constant
  ForKind kind = ForKind::serial;
};
std::vector<std::string> block_names(const PrimFunc& f);                      // in program order
std::vector<LoopInfo> loops_of(const PrimFunc& f, const std::string& block);  // outermost first
const Block* find_block(const PrimFunc& f, const std::string& name);          // nullptr where there is none

// One place where a block reads or writes a buffer; the indices are over its iterators (and its own lets).
struct BlockAccess {
  Buffer buffer;
  std::vector<Expr> indices;
  bool write = false, read = false;  // an Update does both
};
// Init first, then the body in program order; of the buffers that are wanted.
using BufferTest = std::function<bool(const Buffer&)>;
std::vector<BlockAccess> accesses_of(const Block& b);
std::vector<BlockAccess> accesses_of(const Block& b, const BufferTest& wanted);

}  // namespace nestor

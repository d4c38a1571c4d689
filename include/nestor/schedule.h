// Schedules: a function and a trace of primitives. A step is plain data and one line of text; primitives are pure
// functions from (PrimFunc, Step) to PrimFunc, listed in one table that also feeds the parser, the CLI, the tuner and
// the docs. See schedules/primitive.h for the table's row.
//
//   schedule matmul for x86-64-v4 {          # header and braces optional in .sched files
//     i0 i1 = split T.i [_, 14] tail=peel    # results = primitive arguments key=value
//     reorder T (i0 j0 k i1 j1)
//     vectorize T.j1
//   }
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "nestor/error.h"
#include "nestor/ir.h"

namespace nestor {

// One step. Arguments are kept as source words ("T.i", "[_,14]", "(i0 j0)", "(n,c)->(n,c/16,c%16)"): the primitive's
// table row says how to read them. `results` names what the step makes; empty names or "_" mean "choose".
struct Step {
  std::string primitive;
  std::vector<std::string> results;
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> options;  // key=value, in order
  SourceLoc loc;
};
std::string print(const Step& step);

struct Trace {
  std::string func;    // header, may be empty
  std::string target;  // header, may be empty
  std::vector<Step> steps;
};
std::string print(const Trace& trace);
Trace parse_trace(std::string_view text, std::string file = "<schedule>");
Step parse_step(std::string_view line);

// Applies one step, or throws ScheduleError: the step as source, the requirement it breaks, the IR underlined, a command
// that would be legal. The input is untouched.
PrimFunc apply(const PrimFunc& f, const Step& step);
PrimFunc apply(const PrimFunc& f, const Trace& trace);

// Writing a schedule in C++: each call applies a step and records it.
class Schedule {
 public:
  explicit Schedule(PrimFunc f) : func_(std::move(f)) {}
  const PrimFunc& func() const { return func_; }
  const Trace& trace() const { return trace_; }

  // Applies a line of the text form: s("i0 i1 = split T.i [_, 14]"). Throws ScheduleError and stays as it was.
  Schedule& operator()(std::string_view line);
  Schedule& step(Step step);
  bool try_step(std::string_view line);  // false where the step is refused

 private:
  PrimFunc func_;
  Trace trace_;
  std::map<std::string, std::string> decisions_;  // names bound by sample_* steps
};

// What schedulers ask about a function.
struct LoopInfo {
  std::string name;      // "i0"
  std::string block;     // the block it was asked through
  int64_t extent = -1;   // -1 where not constant
  ForKind kind = ForKind::serial;
};
std::vector<std::string> block_names(const PrimFunc& f);              // in program order
std::vector<LoopInfo> loops_of(const PrimFunc& f, const std::string& block);  // outermost first
const Block* find_block(const PrimFunc& f, const std::string& name);  // nullptr where there is none

// One place where a block reads or writes a buffer; the indices are over its iterators (and its own lets).
struct BlockAccess {
  Buffer buffer;
  std::vector<Expr> indices;
  bool write = false, read = false;  // an Update does both
};
std::vector<BlockAccess> accesses_of(const Block& b);  // init first, then the body in program order

}  // namespace nestor

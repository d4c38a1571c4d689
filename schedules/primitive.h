// What a primitive is: one row of one table. The row says how a step's words are read, what the primitive
// requires, and holds its function; the parser's messages, the CLI, the tuner and the docs all read the same
// row.
//
// A primitive's function takes the step (StepContext) and gives the new function. Whatever it can't do it
// refuses with the number of the requirement that is broken. Six requirements hold for all primitives and
// are checked here:
//   A. the step is written as the row says;
//   B. the blocks, loops and buffers it names exist;
//   C. the names it makes are new on every path through the new loops, or in the function for blocks and
//   buffers; D. iterations of parallel, vectorized and thread loops still don't conflict afterwards;
//   E. a block inside of another one moves with it: only its loops in there can be named (rows with
//   `inside_blocks`);
//   F. what it makes stays within bounds (check_size): walks of a function are recursive.
// A seventh, G, is about the target: for_target.cpp checks it where a whole schedule meets one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nestor/schedule.h"
#include "schedules/nest.h"
#include "schedules/words.h"

namespace nestor::schedules {

enum class ArgKind : uint8_t {
  loop,      // T.i
  loops,     // T (i j), or T.i
  location,  // T.i, root or inline
  block,     // T
  target,    // T or T.i
  buffer,    // X
  buffers,   // X Y ..., one or more
  ints,      // [_, 16]
  integer,   // 16
  words,     // [peel, guard]
  map,       // (n, c) -> (n, c/16, c%16)
  word,      // threadIdx.x
  decision,  // -> [4, 16] or -> 4; may be absent
};
struct ArgSpec {
  ArgKind kind;
  const char* name;
};
struct OptionSpec {
  const char* key;
  const char* values;  // "guard|peel|mask|balanced", or "INT", or "VALUE"
  const char* meaning;
};

// A picture of a primitive that can be run: a whole function, and lines of which one is the primitive's.
struct Example {
  const char* func;
  const char* steps;
};

// A requirement is semantic where breaking it changes what the function computes: the step could be made, and
// would be wrong. It is structural where the step has no meaning without it.
struct Requirement {
  Requirement(const char* words, bool changes_meaning = false) : text(words), semantic(changes_meaning) {}
  const char* text;
  bool semantic;
};
inline Requirement semantic(const char* text) {
  return {text, true};
}

// Those of every step: A to G, as above.
struct CommonRequirement {
  char letter;
  Requirement requirement;
};
const std::vector<CommonRequirement>& common_requirements();

// Switches semantic requirements off, so that a test can ask whether anything else notices what they keep
// out. Requirement 0 is D of every step; it is off too where the waived requirement says the same of the loop
// itself (parallel, vectorize, bind). Not for use outside of tests, nor by several threads at once.
struct Waiver {
  std::string primitive;
  int requirement = 0;
};
void waive(const std::vector<Waiver>& waivers);  // replaces those before
bool is_waived(const std::string& primitive, int requirement);

constexpr size_t kMostParts = 64;     // of one loop, of one index map: each a loop or a dimension
constexpr size_t kDeepestNest = 256;  // loops and blocks

class StepContext;

struct Primitive {
  const char* name;
  const char* results;  // as in the usage line; "" where it makes nothing that has a name
  std::vector<ArgSpec> args;
  std::vector<OptionSpec> options;
  const char* summary;
  std::vector<Requirement> requirements;  // numbered from 1
  Example example;
  PrimFunc (*run)(StepContext&);
  bool inside_blocks = false;  // works on what is inside of a block, too
};
const std::vector<Primitive>& primitives();
const Primitive* find_primitive(const std::string& name);
std::string usage(const Primitive& p);  // "i0 i1 ... = split T.i [_, 16] tail=guard|peel|mask|balanced"

// Names bound to decisions by sample_* steps, for the steps after them.
using Decisions = std::map<std::string, std::string>;

// A loop as a step names it.
struct LoopRef {
  Place place;       // of the block it was named through
  Stmt stmt;         // the For
  size_t depth = 0;  // its index in place.path
  std::string text() const { return place.name() + "." + loop_name(stmt); }
};

struct IndexMapText {
  std::vector<std::string> vars;
  std::vector<std::string> exprs;
};

class StepContext {
 public:
  StepContext(const PrimFunc& f, const Step& step, const Primitive& row, Decisions& decisions);
  const PrimFunc& func() const { return func_; }
  const Step& step() const { return step_; }
  Decisions& decisions() { return decisions_; }
  // The primitive has proved D itself for this loop, as it stands in what it returns.
  void proved(const Stmt& loop) { proved_ = loop; }
  bool is_proved(const Stmt& loop) const { return loop.same_as(proved_); }

  // What was proved of loops before the step holds behind it, but for one that the step makes, or for none.
  void only_concerns(const Stmt& loop) { concerned_ = loop; }
  void concerns_no_loop() { settled_ = true; }
  const Stmt& concerned() const { return concerned_; }  // null: any loop may be, or none
  bool is_settled() const { return settled_; }          // none is

  // Arguments by their position in the row.
  LoopRef loop(size_t arg) const;
  std::string location(size_t arg) const;        // "root", "inline", or "" for a loop, which `loop` gives
  std::vector<LoopRef> loops(size_t arg) const;  // in the order written, all on one block's path
  Place block(size_t arg) const;
  bool names_loop(size_t arg) const;  // of a `target`
  Buffer buffer(size_t arg) const;
  Buffer buffer(const std::string& name, const SourceLoc& at) const;  // of an option
  std::vector<Buffer> buffers(size_t arg) const;
  std::vector<std::string> items(size_t arg) const;            // of ints and words; decisions already put in
  std::vector<std::optional<int64_t>> ints(size_t arg) const;  // `_` is nullopt
  int64_t integer(size_t arg) const;
  IndexMapText map(size_t arg) const;
  std::string word(size_t arg) const;
  std::vector<std::string> decision(size_t arg) const;  // empty where there is none yet
  std::optional<std::string> option(const std::string& key) const;
  std::optional<int64_t> int_option(const std::string& key) const;
  std::string choice(const std::string& key) const;  // one of the row's a|b|c, default the first

  // The i-th result's name, checked against `taken` and added to it; `base` made unique where none is given.
  std::string new_name(size_t i, const std::string& base, std::set<std::string>& taken) const;
  // The step with other words for an argument, as text to paste.
  std::string instead(size_t arg, const std::string& words) const;
  void expect_results(size_t most) const;  // refuses more names than things made

  // Throws ScheduleError. `at` is an argument's position in the row (or one of the constants), `marked` nodes
  // of func(). `refuse` is for structural requirements, `forbid` for semantic ones: it returns where a test
  // has waived the requirement, so what follows must hold up without it.
  static constexpr int kPrimitive = -1, kResults = -2;
  [[noreturn]] void refuse(int requirement, int at, const std::string& why,
                           const std::vector<Stmt>& marked = {}, const std::string& hint = "") const;
  [[noreturn]] void refuse(int requirement, const SourceLoc& at, const std::string& why,
                           const std::vector<Stmt>& marked = {}, const std::string& hint = "") const;
  void forbid(int requirement, int at, const std::string& why, const std::vector<Stmt>& marked = {},
              const std::string& hint = "") const;
  [[noreturn]] void refuse_common(char requirement, const SourceLoc& at, const std::string& why,
                                  const std::string& hint, const std::vector<Stmt>& marked = {}) const;
  SourceLoc loc_of_row_arg(size_t arg) const;
  // Accepted steps that are like this one but for what stands at `fault`, or where that helps nothing, in
  // something else (suggest.h).
  std::vector<std::string> alternatives(const SourceLoc& fault) const;

 private:
  struct Slot {
    size_t first = 0, count = 0;  // words of step.args
  };
  [[noreturn]] void throw_refusal(const std::string& message, const SourceLoc& at, const std::string& why,
                                  const std::vector<Stmt>& marked, const std::string& hint) const;
  std::vector<Stmt> named_nodes() const;
  void read_slots();
  void check_options() const;
  std::string with_decided(const std::string& expr, const std::vector<std::string>& vars) const;
  std::string resolved(const std::string& word) const;  // a decision's value, or the word itself
  Place find_block(const std::string& name, const SourceLoc& at) const;
  LoopRef find_loop(const std::string& block, const std::string& loop, const SourceLoc& at) const;

  const PrimFunc& func_;
  const Step& step_;
  const Primitive& row_;
  Decisions& decisions_;
  Stmt proved_, concerned_;
  bool settled_ = false;
  std::vector<Slot> slots_;
};

// One step in a replay: reads it, runs its primitive, and checks D.
PrimFunc apply_step(const PrimFunc& f, const Step& step, Decisions& decisions);

// Where a block could be computed now: "root" first, then "inline", then loops as "T.i", outermost first.
// `mover` is compute_at or reverse_compute_at; step_at_location is the step that brings the block there.
std::vector<std::string> legal_locations(const PrimFunc& f, const Place& p, const std::string& mover);
Step step_at_location(const std::string& mover, const std::string& block, const std::string& location);
// What a mover's step makes whose second word is a decision's name; none where it names a loop itself.
std::optional<PrimFunc> moved_as_decided(StepContext& ctx);

bool quiet_refusals();  // QuietRefusals is in force

// Things spelled like `name`, nearest first; as they were where there is no name.
std::vector<std::string> by_distance(const std::string& name, std::vector<std::string> candidates);
// "a, b, c": the nearest of them, for hints.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace nestor::schedules

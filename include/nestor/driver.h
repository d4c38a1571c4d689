// From a model to something that runs: the one place that strings the compiler's steps together. The command
// line, the tuner and the tests call it. Every stage's result is kept, because `inspect` shows them and
// `verify` compares them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nestor/codegen.h"
#include "nestor/graph.h"
#include "nestor/passes.h"
#include "nestor/proof.h"
#include "nestor/runtime.h"
#include "nestor/schedule.h"
#include "nestor/target.h"
#include "nestor/verify.h"

namespace nestor {

// ---- Where schedules come from

struct ScheduleChoice {
  Trace trace;
  std::string origin = "naive";  // "naive", "default", "plain", "database", "adapted", or the file's name
  bool reduced = false;          // steps of it, or all, were left out since sizes are open
};
// Answers for the functions it knows; nullopt: nothing for this one, ask the next provider. `check` sees all
// functions of a model before the first question and throws where the provider names one that isn't there.
class ScheduleProvider {
 public:
  using Choose = std::function<std::optional<ScheduleChoice>(const PrimFunc&, const Target&)>;
  using Check = std::function<void(const std::vector<PrimFunc>&)>;
  ScheduleProvider() = default;
  template <class F>
  requires std::is_convertible_v<F, Choose> ScheduleProvider(F choose, Check check = {})
      : choose_(std::move(choose)), check_(std::move(check)) {}

  explicit operator bool() const { return static_cast<bool>(choose_); }
  std::optional<ScheduleChoice> operator()(const PrimFunc& f, const Target& t) const { return choose_(f, t); }
  void check(const std::vector<PrimFunc>& funcs) const {
    if (check_) check_(funcs);
  }

 private:
  Choose choose_;
  Check check_;
};

ScheduleProvider default_schedules();  // the analytic library's
ScheduleProvider naive_schedules();    // the loop nest as it is, for every function
// The traces of a .sched file, each for the function of its header's name; one without a header for every
// function.
ScheduleProvider file_schedules(const std::string& path);
ScheduleProvider first_of(std::vector<ScheduleProvider> providers);

// ---- Models

class StoredWeights;  // src/driver/stored_weights.h

// Sees what is worth saying and ends nothing.
using Note = std::function<void(const std::string&)>;

struct CompileOptions {
  Target target = host_target();
  int threads = 1;
  bool fuse = true;
  bool exact_conv = false;  // no convolution by Winograd's algorithm, which rounds more than the direct sum
  // Bytes that transformed weights of Winograd's convolutions may add; less than 0: as WinogradOptions has
  // it.
  int64_t winograd_budget = -1;
  // The compiled model's graph keeps its constants, for oracles and for people to look at. Without, a
  // constant goes as soon as the plan has packed it, which then has the only copy.
  bool keep_constants = true;
  bool blocked_io = false;     // inputs and outputs lie in blocks of channels too (PartitionOptions)
  bool check_indices = false;  // out of range, they end a run instead of being clamped
  ScheduleProvider schedules;  // null: naive. Where it has nothing for a function, that function stays naive.
  BuildOptions build;          // values of symbolic dimensions
  uint64_t seed = 1;           // fills the `const` arguments of operator strings and .nest functions
  LowerOptions lowering;
  Note note;  // told what reading couldn't decide about a .nest function
  // Sees the names of the `const` arguments that are filled so, where there are any, before anything is
  // compiled; what it throws ends the compilation.
  std::function<void(const std::vector<std::string>& names)> drawn;
  // Sees each function after its schedule and before lowering; what it throws ends the compilation.
  std::function<void(const PrimFunc& func, const ScheduleChoice& choice, const PrimFunc& scheduled)> review;
  // A default schedule for a CPU that its steps or lowering refuse, which is a mistake of the library's: it
  // is told here, and a plain schedule takes its place. Null: it ends the compilation.
  std::function<void(const PrimFunc& func, const ScheduleError& why)> refused;
  // By kernels for other sizes of the model; null: by none.
  std::shared_ptr<const StoredWeights> stored = {};
  // Unfused, unscheduled loop nests through the same LLVM: what `--schedule naive` means.
  static CompileOptions naive(Target target = host_target());
};

// Throws UserError, with a witness and the place, where a function that was read from text reaches outside of
// its buffers, reads what wasn't written, leaves elements of its outputs unwritten or races; `note` is told
// what couldn't be decided. `where` is the file. The function is well formed, its sizes are numbers.
void check_nest(const PrimFunc& f, const std::string& where, const Note& note = {});

// A model as read: a graph, and for .nest functions the partition that they are already.
struct Source {
  Graph graph;
  std::optional<Partition> partition;
};

// spec: a path to .onnx, .json or .nest, or an operator as 'Conv(f32[1,3,8,8], const f32[4,3,3,3];
// pads=[1,1,1,1])'.
Source load(const std::string& spec, const CompileOptions& options = {});

// Name(arg, ...; attr=value, ...) with args `f32[1,3,8,8]` (an input), `const f32[4]` (seeded), `i64[2]{3,4}`
// (given) or `_` (omitted); a suffix `-> 2` asks for two outputs, Name@13 for an opset. Errors have a caret.
// `drawn` gets the names of the seeded ones.
Model parse_operator(const std::string& text, uint64_t seed = 1, std::vector<std::string>* drawn = nullptr);
bool looks_like_operator(const std::string& spec);

// Constant folding by the compiler itself: small functions are interpreted, large ones compiled.
EvaluateFn constant_evaluator(const Target& target);

// ---- Functions

// One function on its way down. Errors of its trace name the function.
struct CompiledFunction {
  PrimFunc func;  // as partition made it
  ScheduleChoice choice;
  PrimFunc scheduled, lowered;
  // Of a product: the function of the fewest rows, whose body stands beside that of any rows in `lowered`.
  std::shared_ptr<const CompiledFunction> fewest_rows = {};
};
CompiledFunction compile_function(const PrimFunc& f, const CompileOptions& options);
// That of a partition. Where dimensions are symbolic, it is scheduled as for usual sizes.
CompiledFunction compile_function(const Partition& p, size_t func, const CompileOptions& options);
ScheduleChoice choose_schedule(const PrimFunc& f,
                               const CompileOptions& options);           // naive where there is nothing
PrimFunc scheduled_by(const PrimFunc& f, const ScheduleChoice& choice);  // its refusals name the function
// The refusal of a step, with the function and where the schedule came from among its notes.
ScheduleError in_function(const ScheduleError& e, const PrimFunc& f, const ScheduleChoice& choice);
CompiledFunction compile_function(const PrimFunc& f, ScheduleChoice choice, const Target& target,
                                  const LowerOptions& lowering = {});

// What the proof says of a scheduled function and, where it can't tell, what the interpreter says on random
// inputs.
struct ScheduleReview {
  Proof proof;
  std::string interpreted;  // one sentence; empty where the proof decided
  bool agrees = false;      // the interpreter says so
  bool wrong = false;       // one of the two says so
  bool is_right() const { return proof.ok() || agrees; }
};
ScheduleReview review_schedule(const PrimFunc& before, const PrimFunc& after,
                               const ProofOptions& options = {});
// Of functions over a model's sizes, of which these conditions hold: what is wrong at sizes that can't be
// isn't wrong.
ScheduleReview review_possible_sizes(const PrimFunc& before, const PrimFunc& after,
                                     const std::vector<Expr>& conditions);
std::string describe(const ScheduleReview& review);

// A compiled function with memory around it: what folding, oracles, measuring and tests share.
class FunctionRunner {
 public:
  // `code` holds the function's kernel under its name; null: compiled here.
  FunctionRunner(const CompiledFunction& f, const Target& target, int threads = 1,
                 std::shared_ptr<JitModule> code = nullptr);
  ~FunctionRunner();
  FunctionRunner(FunctionRunner&&) noexcept;

  // args: logical tensors, one per parameter in order; constants are packed here. Outputs are written in
  // place by run.
  void bind(const std::vector<Tensor>& args);
  void run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
// Once, serially: the outputs in parameter order.
std::vector<Tensor> run_function(const CompiledFunction& f, const std::vector<Tensor>& inputs,
                                 const Target& target);

// What a function should give for some inputs: its unscheduled loop nest compiled in f64 (where it sums much,
// with loops in an order that memory likes; each result's terms stay in theirs), and how far rounding alone
// may take the function from that, element by element.
struct Oracle {
  std::vector<Tensor> wanted;  // one per output, f64 for float outputs
  std::vector<Tensor>
      bounds;             // likewise; undefined where there is no bound: exact outputs, and see `unbounded`
  std::string unbounded;  // why with_error_bound has none; then the default tolerance holds
};
Oracle make_oracle(const PrimFunc& f, const std::vector<Tensor>& inputs, const Target& target);
Comparison compare(const Tensor& got, const Oracle& oracle, size_t output, double factor = 1);

// What a function's outputs are compared with: the oracle; the unscheduled nest interpreted; the lowered
// function interpreted, which must agree bit for bit; or what Halide computes.
enum class Against : uint8_t { oracle, interpreter, lowered, halide };
struct OutputCheck {
  std::string name;
  Comparison comparison;
  Tensor want;
};
// One per output, on random inputs of the seed.
std::vector<OutputCheck> check_function(const CompiledFunction& f, Against against, const Target& target,
                                        uint64_t seed = 1);

// ---- Whole models

struct CompiledModel {
  Graph graph;  // optimized
  Partition partition;
  std::vector<CompiledFunction> funcs;  // as partition.funcs
  Target target;
  std::shared_ptr<const Plan> plan;  // null where the target is not a CPU
  PrimFunc size_function;            // lowered: plan->sizes' kernel; without a name where no size is open

  std::vector<PrimFunc> lowered() const;
};

// The layout of a value that lies in blocks of channels; none where it is row major.
std::optional<BufferDecl> channel_blocks(const CompiledModel& m, ValueId v);

// A call whose algorithm isn't what its operators say (Winograd's): on random inputs, its outputs beside
// those of the definition, the direct sum in f64, within the bound on the rounding of all that was computed,
// the transformed weights included. Empty for other calls.
std::vector<OutputCheck> check_algorithm(const CompiledModel& m, size_t call, uint64_t seed = 1);

// The model up to its functions, none of them compiled: `funcs` and `plan` are empty.
CompiledModel partition_model(Source source, const CompileOptions& options = {});
CompiledModel compile_model(const std::string& spec, const CompileOptions& options = {});
CompiledModel compile_model(Source source, const CompileOptions& options = {});

// Machine code in this process. UserError where the target is not this machine's kind.
std::unique_ptr<Executor> make_executor(const CompiledModel& model);
// The same model by Halide and one of its autoschedulers (halide.h); its functions must be as partition made
// them.
std::unique_ptr<Executor> make_halide_executor(const CompiledModel& model, const std::string& scheduler);

// The execution plan: where each value lives, weights packed by the layouts of the scheduled functions.
// keep_constants: as CompileOptions has it.
std::shared_ptr<const Plan> build_plan(Graph& g, const Partition& p,
                                       const std::vector<CompiledFunction>& funcs, int threads,
                                       bool keep_constants = true, PrimFunc* size_function = nullptr);

}  // namespace nestor

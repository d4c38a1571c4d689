// Running a compiled model in this process. A Plan is plain data made at compile time: where each value lives
// and which kernel runs when. The Executor only follows it, so nothing is decided, allocated or looked up by
// name while running. Includes nothing of the compiler; artifacts follow the same plan in machine code
// (src/codegen/artifact.cpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nestor/dtype.h"
#include "nestor/tensor.h"

struct nestor_pool;

namespace nestor {

class RunTrace;
class FittedSizes;  // runtime/fitted_sizes.h

// A kernel in the ABI of nestor/codegen.h: args are one pointer per parameter, aligned to the element (64
// bytes are faster).
using KernelFn = int32_t (*)(void* const* args, void* workspace, void* pool);

// Every buffer of the runtime starts at a multiple of this, as the kernel ABI asks.
inline constexpr int64_t kAlignment = 64;
constexpr int64_t align_up(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// What an executor calls: such a kernel, or what stands for one.
using Kernel = std::function<int32_t(void* const* args, void* workspace, void* pool)>;

// ---- Plan

enum class Region : uint8_t { arena, input, output, weights, sizes, moving };

// Where a value lives: a byte offset into the arena or the weights, the index of a model input or output, or
// that of a pointer that moves while the plan runs. In a plan with symbolic sizes, in the arena the index of
// a value of PlanSizes; `sizes` has the numbers that a run computes, from the one at that index on.
struct Place {
  Region region = Region::arena;
  int64_t at = 0;
  bool operator==(const Place&) const = default;
};

// A size that a model leaves open, and where it is read. A "place" is an index into the inputs' dimensions,
// of all inputs one after another, or kFoundByRun: the calls find it out (kFound). A "number" is an index
// into what `kernel` computes.
constexpr int64_t kFoundByRun = -1;
struct PlanSymbol {
  std::string name, what;  // "seq", "dimension 1 of input 'x' (seq)"
  int64_t least = 1, most = 0, place = 0;
};

// What a run computes from the shapes of its inputs, where they are open (runtime/sizes_rt.h): `numbers` of
// them, by a kernel whose arguments are the symbols' values and the numbers (int64_t each).
struct PlanSizes {
  struct Requirement {  // a number that must not be 0
    std::string text;
    int64_t number = 0, after = kFoundByRun;  // after: the symbol that is to be found before; -1: none
  };
  struct Check {  // a dimension that must be that number
    std::string what;
    int64_t place = 0, number = 0;
  };
  struct InArena {
    int64_t bytes = 0, first = 0, last = 0;  // as Lifetime; `bytes` is a number
  };
  std::vector<PlanSymbol> symbols;
  std::string kernel;
  int64_t numbers = 0;
  std::vector<Requirement> requirements;
  std::vector<Check> checks;
  std::vector<InArena> arena;
  std::vector<int64_t> workspaces;  // numbers: bytes that kernels need
  std::vector<int64_t> outputs;     // numbers: the outputs' dimensions, one after another, at most
  std::vector<int64_t> made;        // and what they are after a run
  bool any() const { return !symbols.empty(); }
};

constexpr int64_t kOpenSize = -1;
struct PlanTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;             // kOpenSize where runs decide
  std::vector<std::string> symbols = {};  // of a shape with such: what each size is, "batch" or "64"
  int64_t bytes() const { return product(shape) * bytes_of(dtype); }
};

std::string to_string(const PlanTensor& t);  // "f32[batch,64]"
// Whether a tensor of that shape can be t: sizes that runs decide may be any.
bool fits(const std::vector<int64_t>& shape, const PlanTensor& t);

// Runs kernels[kernel] on args. kCopy copies `bytes` bytes from args[0] to args[1] (an output that is a view
// of something else). kCheck ends the run where the i32 at args[0] isn't 0: an index is out of range.
//
// Loops and branches are jumps among the calls:
//   kPoint  sets the moving pointer args[1] to args[0] and `bytes` more, or as the i64 at args[2] has it
//   kSkip   goes on at call `target`; only if the bool at args[0] is false, where there is one
//   kLoop   begins a loop: the i64 at args[0], its iteration, is 0. Goes on at call `target`, behind the
//           loop, if the i64 at args[1], the number of iterations, isn't more, or if the bool at args[2] is
//           false, where there is one
//   kNext   ends an iteration: the i64 at args[0] is one more. Goes on at call `target` unless it is as many
//           as args[1], or args[2] is false. Where `bytes` isn't 0 and as many iterations are done, the run
//           fails instead
//
// kFound: the i64 at args[0] is the size of the symbol whose index is `bytes`. The numbers are computed anew.
inline constexpr int kCopy = -1, kCheck = -2, kPoint = -3, kSkip = -4, kLoop = -5, kNext = -6, kFound = -7;
constexpr bool is_jump(int kernel) {
  return kernel == kSkip || kernel == kLoop || kernel == kNext;
}
struct PlanCall {
  int kernel = kCopy;
  std::vector<Place> args;
  int64_t bytes = 0;
  std::string label;   // the graph nodes it computes, for reports
  int64_t target = 0;  // of jumps: index of a call, or their number
  int bytes_at = -1;   // of a copy whose size is open: the number that has it
};

// Floating-point operations of a run.
struct FlopCount {
  double done = 0;       // as the loops run
  double effective = 0;  // the same with direct sums where Winograd's algorithm takes fewer
  std::vector<std::vector<int64_t>> of = {};  // counted for inputs of these shapes, where runs decide sizes
  bool counts(const std::vector<std::vector<int64_t>>& shapes) const { return of.empty() || of == shapes; }
};

struct Plan {
  std::string name;
  std::vector<PlanTensor> inputs, outputs;
  std::vector<std::string> kernels;  // symbol names
  std::vector<double> kernel_flops;  // one per kernel: what a call does
  FlopCount flops;
  std::vector<PlanCall> calls;
  int64_t arena_bytes = 0;      // values between kernels
  int64_t workspace_bytes = 0;  // scratch of the hungriest kernel at `threads`
  int64_t pointers = 0;         // moving ones
  int threads = 1;
  Tensor weights;   // u8, all constants packed as the kernels want them; each at a multiple of kAlignment
  PlanSizes sizes;  // where some are open; then arena_bytes and workspace_bytes are 0
};

// The kernel's name, "copy", "check" or "control flow".
std::string function_of(const Plan& plan, const PlanCall& call);

// Throws InternalError where a place lies outside its region or a kernel index outside the table.
void check_plan(const Plan& plan);

// ---- Arena

// A buffer alive from step `first` to step `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};
struct ArenaLayout {
  std::vector<int64_t> offsets;  // one per lifetime, multiples of kAlignment
  int64_t bytes = 0;
};
// Offsets such that buffers alive at the same step don't overlap: largest first, each into the smallest gap
// that holds it. Deterministic.
ArenaLayout plan_arena(const std::vector<Lifetime>& lifetimes);

// Asks for pages of 2 MB under a tensor of 1 MB or more, all of it; keeps what it holds, and does nothing
// where the system has no such pages.
void prefer_large_pages(Tensor& memory);

// ---- Execution

using NamedTensors = std::map<std::string, Tensor>;

// Throws UserError naming a missing, unknown, wrongly typed or wrongly shaped input. Returns them in
// `expected`'s order.
std::vector<Tensor> check_inputs(const std::vector<PlanTensor>& expected, const NamedTensors& given);

// Of memory among the nodes of a machine that has several (NUMA).
enum class Placement : uint8_t {
  anywhere,    // on the node of the thread that touches it first
  parts,       // in equal parts, the i-th on the node of thread i; loops are split statically
  interleave,  // page by page, on the nodes of all threads
};

// Something that can be run: a plan in this process, or an artifact loaded from a file. One run at a time per
// object: another thread's is refused by UserError.
class Runnable {
 public:
  virtual ~Runnable() = default;
  virtual const std::string& name() const = 0;
  virtual const std::vector<PlanTensor>& inputs() const = 0;
  virtual const std::vector<PlanTensor>& outputs() const = 0;
  virtual FlopCount flops() const = 0;
  virtual int threads() const = 0;
  using Shape = std::vector<int64_t>;
  // Makes ready for runs on inputs of these shapes, and says the outputs'. Throws UserError where a size is
  // out of bounds or sizes contradict each other. Where values decide an output's size, its shape is the
  // largest that it may have.
  virtual std::vector<Shape> fit(const std::vector<Shape>& inputs);
  // The outputs' shapes in the last run, in whose buffers they stand in front; empty: those that fit gave.
  virtual std::vector<Shape> made() const { return {}; }
  // Pointers in the order of inputs() and outputs(), aligned to the element, none overlapping an output.
  // Nothing is checked.
  virtual void run_raw(const void* const* inputs, void* const* outputs) = 0;
  // This process was forked while nothing ran: threads are started anew.
  virtual void forked() {}

  NamedTensors run(const NamedTensors& inputs);  // checks, allocates the outputs, runs
};

class Executor : public Runnable {
 public:
  // kernels: one per plan.kernels. `code` is kept alive with the executor (the module the kernels live in).
  // size_kernel: that of plan.sizes, where there is one.
  Executor(std::shared_ptr<const Plan> plan, std::vector<Kernel> kernels, std::shared_ptr<const void> code,
           KernelFn size_kernel = nullptr);
  ~Executor() override;

  const std::string& name() const override { return plan_->name; }
  const std::vector<PlanTensor>& inputs() const override { return plan_->inputs; }
  const std::vector<PlanTensor>& outputs() const override { return plan_->outputs; }
  FlopCount flops() const override { return plan_->flops; }
  int threads() const override { return plan_->threads; }
  void run_raw(const void* const* inputs, void* const* outputs) override;
  std::vector<Shape> fit(const std::vector<Shape>& inputs) override;
  std::vector<Shape> made() const override;
  std::map<std::string, int64_t> found() const;  // sizes that the last run found, by the symbols' names
  void forked() override;

  // Threads stay on these CPUs, one for each; the first is the caller's, which isn't touched. Before the
  // first run.
  void pin(const std::vector<int32_t>& cpus);
  // Where values and scratch lie among memory nodes, near those CPUs; weights, which all threads read, go on
  // all of them. Throws UserError where the system refuses.
  void place(const std::vector<int32_t>& cpus, Placement how);

  const Plan& plan() const { return *plan_; }
  // With timing on, run_raw adds each call's nanoseconds to call_ns() (one entry per plan call).
  void set_timing(bool on);
  const std::vector<int64_t>& call_ns() const { return call_ns_; }
  // How often each of them ran meanwhile.
  const std::vector<int64_t>& call_runs() const { return call_runs_; }
  // Runs add what ran when to `trace` (run_trace.h) until it is null again.
  void set_trace(RunTrace* trace);

 private:
  std::shared_ptr<const Plan> plan_;
  std::vector<Kernel> kernels_;
  std::shared_ptr<const void> code_;
  std::atomic_flag running_;
  Tensor arena_, workspace_;
  std::unique_ptr<FittedSizes> sizes_;  // null: all are known
  nestor_pool* pool_ = nullptr;         // null: serial
  bool timing_ = false;
  std::vector<int64_t> call_ns_, call_runs_;
  std::vector<void*> moving_;
  RunTrace* trace_ = nullptr;
};

// A shared object made by `nestor compile`. threads: 0 for as many as it was compiled for, and never more
// than that. cpus: as for Executor::pin, in turn where there are more threads; may be empty, then memory lies
// anywhere. Throws UserError where the file is missing, no artifact, or made by another version.
std::unique_ptr<Runnable> load_artifact(const std::string& path, int threads = 0,
                                        const std::vector<int32_t>& cpus = {},
                                        Placement placement = Placement::anywhere);

}  // namespace nestor

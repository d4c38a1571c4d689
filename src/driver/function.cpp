// One function from its loop nest to a kernel that runs on tensors.

#include <algorithm>
#include <cstring>
#include <map>

#include "nestor/driver.h"
#include "nestor/flops.h"
#include "nestor/for_target.h"
#include "nestor/interpret.h"
#include "nestor/library.h"
#include "nestor/nest_file.h"
#include "nestor/start_before_loops.h"
#include "nestor/walk.h"
#include "runtime/kernel_rt.h"
#include "src/driver/given_layouts.h"
#include "src/driver/in_symbols.h"
#include "src/driver/open_rows.h"
#include "src/driver/per_sample.h"
#include "src/driver/replay_open.h"

namespace nestor {

ScheduleError in_function(const ScheduleError& e, const PrimFunc& f, const ScheduleChoice& choice) {
  Diagnostic d = e.diagnostic();
  d.notes.push_back("while scheduling function " + f.name + " (" + choice.origin + " schedule)");
  return ScheduleError(d);
}

ScheduleChoice choose_schedule(const PrimFunc& f, const CompileOptions& options) {
  std::optional<ScheduleChoice> choice;
  if (options.schedules) choice = options.schedules(f, options.target);
  return choice.value_or(ScheduleChoice{});
}

PrimFunc scheduled_by(const PrimFunc& f, const ScheduleChoice& choice) {
  try {
    return apply(f, choice.trace);
  } catch (const ScheduleError& e) {
    throw in_function(e, f, choice);
  }
}

namespace {

PrimFunc lowered_by(const PrimFunc& f, const ScheduleChoice& choice, const PrimFunc& scheduled,
                    const Target& target, const LowerOptions& lowering) {
  try {
    check_for_target(f, choice.trace, target);
    return lower(scheduled, target, lowering);
  } catch (const ScheduleError& e) {
    throw in_function(e, f, choice);
  }
}

}  // namespace

CompiledFunction compile_function(const PrimFunc& f, ScheduleChoice choice, const Target& target,
                                  const LowerOptions& lowering) {
  PrimFunc scheduled = scheduled_by(f, choice);
  PrimFunc lowered = lowered_by(f, choice, scheduled, target, lowering);
  return {f, std::move(choice), std::move(scheduled), std::move(lowered)};
}

namespace {

CompiledFunction compile_reviewed(const PrimFunc& f, ScheduleChoice choice, const CompileOptions& options) {
  PrimFunc scheduled = scheduled_by(f, choice);
  try {
    scheduled = start_before_loops(std::move(scheduled), choice.trace);
  } catch (const ScheduleError& e) {
    throw in_function(e, f, choice);
  }
  if (options.review) options.review(f, choice, scheduled);
  PrimFunc lowered = lowered_by(f, choice, scheduled, options.target, options.lowering);
  return {f, std::move(choice), std::move(scheduled), std::move(lowered)};
}

}  // namespace

namespace {

// Steps that hold for a function of known sizes may hold for all sizes; what refuses them is told.
CompiledFunction compile_symbolic(const PrimFunc& f, const CompileOptions& options,
                                  const std::unordered_map<Var, int64_t>& typical) {
  std::vector<std::string> given_up;
  std::optional<CompiledFunction> best;
  int lost = 0;  // steps of the best one
  for (const OpenChoice& choice : choices_for_open_sizes(f, typical, options)) {
    const bool plain = choice.origin == "plain";
    if (best && plain) break;
    Replay r = choice.make();
    if (best && r.lost >= lost) continue;
    try {
      r.trace.given_up.insert(r.trace.given_up.end(), given_up.begin(), given_up.end());
      best = compile_reviewed(f, {std::move(r.trace), choice.origin, r.lost > 0 || plain}, options);
      lost = r.lost;
      if (lost == 0) break;
    } catch (const ScheduleError& e) {
      if (choice.origin != "default" && !plain && !from_database(choice.origin)) throw;
      give_up(given_up, "the " + choice.origin + " schedule of typical sizes", e);
    }
  }
  if (best) return *std::move(best);
  return compile_reviewed(f, {{"", "", {}, std::move(given_up)}, "naive", true}, options);
}

// Reviews are of functions over the model's sizes where their own ones are quotients of these.
CompileOptions with_review(const Partition& p, size_t func, CompileOptions options) {
  const auto call = std::find_if(p.calls.begin(), p.calls.end(), [&](const KernelCall& c) {
    return !c.control && c.func == static_cast<int>(func) && has_own_sizes(c);
  });
  if (!options.review || call == p.calls.end()) return options;
  options.review = [&p, func, call, review = options.review](const PrimFunc& f, const ScheduleChoice& choice,
                                                             const PrimFunc& scheduled) {
    review(in_symbols(f, p.funcs[func], *call), choice, in_symbols(scheduled, p.funcs[func], *call));
  };
  return options;
}

// A product whose rows a run decides.
CompiledFunction compile_rows(const PrimFunc& f, const OpenRows& rows, const CompileOptions& options) {
  CompiledFunction any = compile_symbolic(rows.func, options, {{rows.rows, rows.typical}});
  std::shared_ptr<CompiledFunction> fewest;
  if (any.choice.origin == "default" && !any.choice.reduced) {
    if (const auto few = of_fewest(rows, any.scheduled, options.target))
      fewest = std::make_shared<CompiledFunction>(compile_function(*few, options));
    if (fewest && !same_layouts(fewest->scheduled, any.scheduled)) fewest = nullptr;
  }
  PrimFunc lowered = over_rows(f, rows, any.lowered, fewest ? &fewest->lowered : nullptr);
  return {f, std::move(any.choice), std::move(any.scheduled), std::move(lowered), std::move(fewest)};
}

}  // namespace

CompiledFunction compile_function(const Partition& p, size_t func, const CompileOptions& given) {
  const PrimFunc& f = p.funcs[func];
  if (f.dims.empty()) return compile_function(f, given);
  const CompileOptions options = with_review(p, func, given);
  const std::optional<OpenRows> rows = open_rows(f, p.typical);
  const auto it = p.one_sample.find(static_cast<int>(func));
  if (it == p.one_sample.end() || !pays_by_sample(it->second, p.typical, rows.has_value()))
    return rows ? compile_rows(f, *rows, options) : compile_symbolic(f, options, p.typical);
  const OneSample& one = it->second;
  PrimFunc of_one = one.func;
  of_one.name = f.name;
  CompiledFunction c =
      of_one.dims.empty() ? compile_function(of_one, options) : compile_symbolic(of_one, options, p.typical);
  return {f, std::move(c.choice), std::move(c.scheduled), over_samples(f, one, c.lowered)};
}

CompiledFunction compile_function(const PrimFunc& f, const CompileOptions& options) {
  ScheduleChoice choice = choose_schedule(f, options);
  const bool replaceable = options.refused && choice.origin == "default" && !choice.trace.steps.empty() &&
                           options.target.kind == TargetKind::cpu;
  if (!replaceable) return compile_reviewed(f, std::move(choice), options);
  try {
    return compile_reviewed(f, std::move(choice), options);
  } catch (const ScheduleError& e) {
    options.refused(f, e);
  }
  try {
    return compile_reviewed(f, {plain_schedule(f, options.target), "plain"}, options);
  } catch (const ScheduleError& e) {
    options.refused(f, e);
    return compile_reviewed(f, {}, options);
  }
}

struct FunctionRunner::Impl {
  std::shared_ptr<JitModule> code;
  KernelFn kernel = nullptr;
  std::vector<Param> params;  // as scheduled: layouts of constants
  std::vector<Tensor> held;
  std::vector<void*> args;
  Tensor workspace;
  nestor_pool* pool = nullptr;
  ~Impl() {
    if (pool) nestor_pool_destroy(pool);
  }
};

FunctionRunner::FunctionRunner(const CompiledFunction& f, const Target& target, int threads,
                               std::shared_ptr<JitModule> code)
    : impl_(std::make_unique<Impl>()) {
  impl_->code = code ? std::move(code) : JitModule::compile({f.lowered}, target);
  impl_->kernel = impl_->code->lookup(f.lowered.name);
  impl_->params = f.scheduled.params;
  impl_->workspace = Tensor(DType::u8, {workspace_bytes(f.lowered, threads)});
  if (threads > 1) impl_->pool = nestor_pool_create(threads);
}
FunctionRunner::~FunctionRunner() = default;
FunctionRunner::FunctionRunner(FunctionRunner&&) noexcept = default;

void FunctionRunner::bind(const std::vector<Tensor>& args) {
  NESTOR_CHECK(args.size() == impl_->params.size()) << args.size() << " tensors for " << impl_->params.size();
  impl_->held.clear();
  impl_->args.clear();
  for (size_t i = 0; i < args.size(); ++i) {
    const Param& p = impl_->params[i];
    Tensor t = args[i];
    if (p.decl.layout) {
      NESTOR_CHECK(p.role == Role::constant) << p.decl.buffer->name << " has a layout and is not constant";
      t = pack(t, p.decl);
    }
    NESTOR_CHECK(t.dtype() == p.decl.buffer->type.dtype && t.size() == physical_size(p.decl))
        << to_string(t.dtype(), t.shape()) << " for parameter " << p.decl.buffer->name;
    impl_->args.push_back(t.data());
    impl_->held.push_back(std::move(t));
  }
}

void FunctionRunner::run() {
  const int32_t rc = impl_->kernel(impl_->args.data(), impl_->workspace.data(), impl_->pool);
  NESTOR_CHECK(rc == 0) << "the kernel returned " << rc;
}

namespace {

Tensor output_for(const Param& p) {
  std::vector<int64_t> shape;
  for (const Expr& e : p.decl.shape) {
    const auto extent = as_int(e);
    NESTOR_CHECK(extent.has_value()) << p.decl.buffer->name << " has a symbolic shape";
    shape.push_back(*extent);
  }
  return Tensor(p.decl.buffer->type.dtype, std::move(shape));
}

// The given tensors for `in` and `const` parameters, fresh ones for the outputs.
std::vector<Tensor> with_outputs(const PrimFunc& f, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> args;
  size_t next = 0;
  for (const Param& p : f.params) {
    if (p.role == Role::out) {
      args.push_back(output_for(p));
    } else {
      NESTOR_CHECK(next < inputs.size()) << f.name << " is given " << inputs.size() << " inputs";
      args.push_back(inputs[next++]);
    }
  }
  return args;
}

std::vector<Tensor> outputs_of(const PrimFunc& f, const std::vector<Tensor>& args) {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < args.size(); ++i)
    if (f.params[i].role == Role::out) outputs.push_back(args[i]);
  return outputs;
}

}  // namespace

std::vector<Tensor> run_function(const CompiledFunction& f, const std::vector<Tensor>& inputs,
                                 const Target& target) {
  const std::vector<Tensor> args = with_outputs(f.func, inputs);
  FunctionRunner runner(f, target);
  runner.bind(args);
  runner.run();
  return outputs_of(f.func, args);
}

namespace {

// Functions that folding needed, compiled: layers mostly want the same. Few are kept, whatever the model has.
class Evaluator {
 public:
  explicit Evaluator(Target host) : host_(std::move(host)) {}

  std::vector<Tensor> operator()(const PrimFunc& f, const std::vector<Tensor>& inputs) {
    // Compiling costs some 30 ms, an interpreted statement well under a microsecond: shape arithmetic is
    // interpreted.
    constexpr double kInterpretUpTo = 3e4;
    std::vector<Tensor> args = with_outputs(f, inputs);
    if (work_of(f.body) > kInterpretUpTo)
      run(f, args);
    else
      interpret(f, args);
    return outputs_of(f, args);
  }

 private:
  void run(const PrimFunc& f, const std::vector<Tensor>& args) {
    constexpr size_t kMostKept = 64;
    const uint64_t hash = structural_hash(f);
    auto it = kept_.find(hash);
    if (it == kept_.end() || !structural_equal(it->second.compiled.func, f)) {
      if (kept_.size() >= kMostKept) kept_.clear();
      CompiledFunction made = compiled(f);
      auto code = JitModule::compile({made.lowered}, host_);
      it = kept_.insert_or_assign(hash, Kept{std::move(made), std::move(code)}).first;
    }
    FunctionRunner runner(it->second.compiled, host_, 1, it->second.code);
    runner.bind(args);
    runner.run();
  }

  // Scheduling costs more than what it gains, save for large products.
  CompiledFunction compiled(const PrimFunc& f) const {
    constexpr double kScheduleFrom = 1e9;
    if (work_of(f.body) < kScheduleFrom) return compile_function(f, ScheduleChoice{}, host_);
    CompileOptions options;
    options.target = host_;
    options.target.cores = 1;
    options.schedules = default_schedules();
    options.refused = [](const PrimFunc&, const ScheduleError&) {};
    return compile_function(f, options);
  }

  struct Kept {
    CompiledFunction compiled;
    std::shared_ptr<JitModule> code;
  };
  Target host_;
  std::map<uint64_t, Kept> kept_;  // by structure
};

}  // namespace

EvaluateFn constant_evaluator(const Target& target) {
  const auto evaluator = std::make_shared<Evaluator>(runs_here(target) ? target : host_target());
  return
      [evaluator](const PrimFunc& f, const std::vector<Tensor>& inputs) { return (*evaluator)(f, inputs); };
}

}  // namespace nestor

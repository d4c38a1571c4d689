// The executor runs the kernels of a plan in this process. All memory is allocated when it is made; a run
// only fills arrays of arguments and makes calls.

#include <algorithm>
#include <chrono>
#include <cstring>

#include "nestor/error.h"
#include "nestor/run_trace.h"
#include "nestor/runtime.h"
#include "runtime/fitted_sizes.h"
#include "runtime/kernel_rt.h"
#include "runtime/nodes_rt.h"

namespace nestor {

std::string function_of(const Plan& plan, const PlanCall& call) {
  if (call.kernel >= 0) return plan.kernels[static_cast<size_t>(call.kernel)];
  return call.kernel == kCopy ? "copy" : call.kernel == kCheck ? "check" : "control flow";
}

namespace {

void check_counts(const Plan& plan, const PlanCall& call) {
  const auto takes = [&](size_t least, size_t most) {
    NESTOR_CHECK(call.args.size() >= least && call.args.size() <= most)
        << function_of(plan, call) << " " << call.kernel << " has " << call.args.size() << " places";
  };
  if (call.kernel == kCopy) takes(2, 2);
  if (call.kernel == kPoint) takes(2, 3);
  if (call.kernel == kCheck || call.kernel == kFound) takes(1, 1);
  const auto symbols = static_cast<int64_t>(plan.sizes.symbols.size());
  NESTOR_CHECK(call.kernel != kFound || (call.bytes >= 0 && call.bytes < symbols))
      << "call '" << call.label << "' finds size " << call.bytes;
  if (call.kernel == kSkip) takes(0, 1);
  if (call.kernel == kLoop || call.kernel == kNext) takes(2, 3);
  NESTOR_CHECK(call.kernel != kPoint || call.args[1].region == Region::moving) << "what is pointed moves";
  NESTOR_CHECK(call.target >= 0 && call.target <= static_cast<int64_t>(plan.calls.size()))
      << "call '" << call.label << "' goes on at " << call.target;
}

}  // namespace

void check_plan(const Plan& plan) {
  const bool open = plan.sizes.numbers > 0;  // the arena's places are indices
  const int64_t limits[] = {open ? static_cast<int64_t>(plan.sizes.arena.size()) : plan.arena_bytes,
                            static_cast<int64_t>(plan.inputs.size()),
                            static_cast<int64_t>(plan.outputs.size()),
                            plan.weights.defined() ? plan.weights.bytes() : 0,
                            plan.sizes.numbers,
                            plan.pointers};
  for (const PlanCall& call : plan.calls) {
    NESTOR_CHECK(call.kernel >= kFound && call.kernel < static_cast<int>(plan.kernels.size()))
        << "call '" << call.label << "' of kernel " << call.kernel;
    check_counts(plan, call);
    for (const Place& place : call.args) {
      const int64_t limit = limits[static_cast<size_t>(place.region)];
      const bool by_index = (place.region != Region::arena || open) && place.region != Region::weights;
      // A zero-sized value may lie at the very end of its region.
      NESTOR_CHECK(place.at >= 0 && (by_index ? place.at < limit : place.at <= limit))
          << "call '" << call.label << "' has an argument at " << place.at << " of " << limit;
      NESTOR_CHECK(by_index || place.at % kAlignment == 0)
          << "call '" << call.label << "' has an unaligned argument";
    }
  }
}

Executor::Executor(std::shared_ptr<const Plan> plan, std::vector<Kernel> kernels,
                   std::shared_ptr<const void> code, KernelFn size_kernel)
    : plan_(std::move(plan)), kernels_(std::move(kernels)), code_(std::move(code)) {
  check_plan(*plan_);
  NESTOR_CHECK(kernels_.size() == plan_->kernels.size())
      << kernels_.size() << " kernels for " << plan_->kernels.size();
  if (plan_->sizes.any()) sizes_ = std::make_unique<FittedSizes>(plan_->sizes, size_kernel);
  arena_ = Tensor(DType::u8, {plan_->arena_bytes});
  workspace_ = Tensor(DType::u8, {plan_->workspace_bytes});
  size_t most = 0;
  for (const PlanCall& call : plan_->calls) most = std::max(most, call.args.size());
  moving_.resize(static_cast<size_t>(plan_->pointers) + most);  // a call's arguments stand behind them
  Tensor weights = plan_->weights;
  for (Tensor* memory : {&arena_, &workspace_, &weights}) prefer_large_pages(*memory);
  if (plan_->threads > 1) {
    pool_ = nestor_pool_create(plan_->threads);
    if (!pool_) throw UserError("can't start " + std::to_string(plan_->threads) + " threads");
  }
}

Executor::~Executor() {
  if (pool_) nestor_pool_destroy(pool_);
}

void Executor::forked() {
  nestor_pool_forked(pool_);
}

void Executor::pin(const std::vector<int32_t>& cpus) {
  NESTOR_CHECK(static_cast<int>(cpus.size()) >= plan_->threads) << cpus.size() << " CPUs";
  nestor_pool_pin(pool_, cpus.data());
}

void Executor::place(const std::vector<int32_t>& cpus, Placement how) {
  const auto count = static_cast<int32_t>(cpus.size());
  const auto place_all = [&](const Tensor& t, nestor_placement where) {
    if (t.defined() && nestor_place(const_cast<void*>(t.data()), t.bytes(), where, cpus.data(), count) != 0)
      throw UserError("the system doesn't place memory on the nodes of these CPUs");
  };
  if (how == Placement::anywhere) return;
  if (sizes_) throw UserError("memory of a size that runs decide can't be placed");
  if (how == Placement::parts) nestor_pool_keep_parts(pool_);
  const auto where = how == Placement::parts ? NESTOR_PLACE_PARTS : NESTOR_PLACE_INTERLEAVE;
  place_all(arena_, where);
  place_all(workspace_, where);
  place_all(plan_->weights, NESTOR_PLACE_INTERLEAVE);
}

void Executor::set_timing(bool on) {
  timing_ = on;
  call_ns_.assign(on ? plan_->calls.size() : 0, 0);
  call_runs_ = call_ns_;
}

void Executor::set_trace(RunTrace* trace) {
  trace_ = trace;
  nestor_pool_watch(pool_, trace ? &RunTrace::watch : nullptr, trace);
}

namespace {

template <class T>
T value_at(const void* place) {
  T out;
  std::memcpy(&out, place, sizeof out);
  return out;
}

// Where the plan goes on after a call that jumps, `next` being the one behind it.
size_t go_on(const PlanCall& call, void* const* args, size_t next) {
  const auto target = static_cast<size_t>(call.target);
  if (call.kernel == kSkip) return call.args.empty() || !value_at<uint8_t>(args[0]) ? target : next;
  const bool begins = call.kernel == kLoop;
  const int64_t done = begins ? 0 : value_at<int64_t>(args[0]) + 1;
  std::memcpy(args[0], &done, sizeof done);
  const bool more = done < value_at<int64_t>(args[1]) && (call.args.size() < 3 || value_at<uint8_t>(args[2]));
  if (begins) return more ? next : target;
  if (more && call.bytes > 0 && done >= call.bytes)
    throw UserError(call.label + " goes on for more than " + std::to_string(call.bytes) +
                    " iterations, the most that it was compiled for");
  return more ? target : next;
}

}  // namespace

void Executor::run_raw(const void* const* inputs, void* const* outputs) {
  if (running_.test_and_set(std::memory_order_acquire))
    throw UserError(plan_->name + " is in a run of another thread: one run at a time");
  struct Done {
    std::atomic_flag& running;
    ~Done() { running.clear(std::memory_order_release); }
  } done{running_};
  using Clock = std::chrono::steady_clock;
  // Constants are never written: the plan passes weights only to `in` and `const` parameters.
  auto* weights = static_cast<uint8_t*>(const_cast<void*>(plan_->weights.data()));
  auto* arena = static_cast<uint8_t*>(arena_.data());
  const int64_t* offsets = sizes_ ? sizes_->offsets() : nullptr;
  auto address = [&](const Place& p) -> void* {
    switch (p.region) {
      case Region::arena:
        return arena + (offsets ? offsets[p.at] : p.at);
      case Region::weights:
        return weights + p.at;
      case Region::input:
        return const_cast<void*>(inputs[p.at]);
      case Region::output:
        return outputs[p.at];
      case Region::sizes:
        return const_cast<int64_t*>(sizes_->numbers()) + p.at;
      case Region::moving:
        return moving_[static_cast<size_t>(p.at)];
    }
    return nullptr;
  };
  if (trace_) trace_->begin(-1);
  for (size_t i = 0, next = 0; i < plan_->calls.size(); i = next) {
    const PlanCall& call = plan_->calls[i];
    next = i + 1;
    const auto start = timing_ ? Clock::now() : Clock::time_point{};
    if (trace_) trace_->begin(static_cast<int>(i));
    void** const args = moving_.data() + plan_->pointers;
    std::transform(call.args.begin(), call.args.end(), args, address);
    if (call.kernel == kCheck) {
      int32_t found = 0;
      std::memcpy(&found, args[0], sizeof found);
      if (found != 0) throw UserError(call.label);
    } else if (call.kernel == kCopy) {
      const int64_t bytes = call.bytes_at < 0 ? call.bytes : sizes_->numbers()[call.bytes_at];
      if (bytes > 0) std::memcpy(args[1], args[0], static_cast<size_t>(bytes));
    } else if (call.kernel == kPoint) {
      const int64_t further = call.bytes + (call.args.size() > 2 ? value_at<int64_t>(args[2]) : 0);
      moving_[static_cast<size_t>(call.args[1].at)] = static_cast<uint8_t*>(args[0]) + further;
    } else if (call.kernel == kFound) {
      sizes_->found(call.bytes, value_at<int64_t>(args[0]));
    } else if (call.kernel < 0) {
      next = go_on(call, args, next);
    } else {
      const int32_t rc = kernels_[static_cast<size_t>(call.kernel)](args, workspace_.data(), pool_);
      NESTOR_CHECK(rc == 0) << "kernel " << plan_->kernels[static_cast<size_t>(call.kernel)] << " returned "
                            << rc;
    }
    if (trace_) trace_->end();
    if (timing_) ++call_runs_[i];
    if (timing_)
      call_ns_[i] += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  }
  if (trace_) trace_->end();
}

}  // namespace nestor

// The peak comes from a kernel compiled like any other: chains of FMAs on accumulators in registers, as many
// as hide the latency and fit in the register file.
#include "nestor/measure.h"

#include <chrono>
#include <cstring>
#include <vector>

#include "nestor/codegen.h"
#include "nestor/error.h"
#include "nestor/tensor.h"

namespace nestor {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// out[chain] = x * y added up `steps` times, starting from x.
PrimFunc fma_chains(int chains, int64_t steps, int lanes, bool fma) {
  const Type vector{DType::f32, lanes};
  const Buffer x = make_buffer("X", {DType::f32}), out = make_buffer("Y", {DType::f32});
  const Buffer acc = make_buffer("A", vector);
  const auto at = [&](const Buffer& b, int64_t i) { return make::load(b, {make::ramp(i, 1, lanes)}); };
  std::vector<Stmt> begin, step, end;
  for (int c = 0; c < chains; ++c) {
    begin.push_back(make::store(acc, {c}, at(x, c)));
    const Expr sum = make::load(acc, {c}), factor = at(x, 0), term = at(x, lanes);
    step.push_back(
        make::store(acc, {c}, fma ? make::call(Intrinsic::fma, {sum, factor, term}) : sum * factor + term));
    end.push_back(make::store(out, {make::ramp(c * lanes, 1, lanes)}, make::load(acc, {c})));
  }
  const Stmt body =
      make::seq({make::seq(begin), make::loop(make_var("k"), steps, make::seq(step)), make::seq(end)});
  const Expr n = chains * lanes;
  return {"fma_chains",
          {},
          {{Role::in, {x, {n}, Scope::global, {}}}, {Role::out, {out, {n}, Scope::global, {}}}},
          {},
          make::alloc({acc, {chains}, Scope::local, {}}, body)};
}

}  // namespace

struct FmaLoop::State {
  int lanes, chains;
  std::shared_ptr<JitModule> module;
  KernelFn kernel;
  Tensor x;
};

namespace {

// 20 to 50 microseconds: shorter than a scheduler's slice, longer than a clock's tick
constexpr int64_t kSteps = 4000;
constexpr size_t kMostFloats = 32 * 16;  // chains times lanes

}  // namespace

FmaLoop::FmaLoop(const Target& target) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.lanes = target.lanes(4);
  s.chains = target.vector_registers >= 32 ? 24 : 12;
  NESTOR_CHECK(static_cast<size_t>(s.lanes * s.chains) <= kMostFloats) << "longer vectors";
  s.module = JitModule::compile({fma_chains(s.chains, kSteps, s.lanes, target.has_fma())}, target);
  s.kernel = s.module->lookup("fma_chains");
  s.x = Tensor(DType::f32, {s.chains * s.lanes});
  for (int64_t i = 0; i < s.x.size(); ++i) s.x.set(i, 0.5);  // a fixed point: a*0.5 + 0.5 stays normal
}

FmaLoop::~FmaLoop() = default;

void FmaLoop::run() const {
  alignas(64) float y[kMostFloats];
  void* args[] = {const_cast<void*>(static_cast<const void*>(state_->x.data())), y};
  state_->kernel(args, nullptr, nullptr);
}

double FmaLoop::flops() const {
  return 2.0 * static_cast<double>(state_->chains * state_->lanes * kSteps);
}

double measure_fma_peak_gflops(double ms, const Target& target) {
  const FmaLoop loop(target);
  double best = 1e30;
  for (const auto start = Clock::now(); seconds_since(start) * 1e3 < ms;) {
    const auto begin = Clock::now();
    loop.run();
    best = std::min(best, seconds_since(begin));
  }
  return loop.flops() / best * 1e-9;
}

double measure_copy_gbs(int64_t bytes) {
  Tensor from(DType::u8, {bytes}), to(DType::u8, {bytes});
  std::memset(from.data(), 1, static_cast<size_t>(bytes));  // else it may be one page of zeros, all over
  constexpr int64_t kTimed = 1 << 20;  // bytes: less takes too little time for the clock
  const int64_t copies = std::max<int64_t>(1, kTimed / std::max<int64_t>(bytes, 1));
  double best = 1e30;
  for (int run = 0; run < 7; ++run) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < copies; ++i) {
      std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes));
      __asm__ volatile("" : : "r"(to.data()) : "memory");  // each is made
    }
    best = std::min(best, seconds_since(begin));
  }
  return 2.0 * static_cast<double>(bytes) * static_cast<double>(copies) / best * 1e-9;
}

}  // namespace nestor

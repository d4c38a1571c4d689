// The tiled MatMul and the row softmax, whose threads pass values to each other through shared memory: right
// as emitted. What the barriers are good for is seen in barriers_test.cpp, too.
#include "catch.h"
#include "check.h"
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/walk.h"
#include "schedules/library/cuda.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

const std::string kBarrier = "__syncthreads();";

size_t count_barriers(const std::string& text) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(kBarrier, at)) != std::string::npos; ++at) ++n;
  return n;
}

// The lowered function without its barrier number `which`.
class WithoutSync : public Rewriter {
 public:
  explicit WithoutSync(size_t which) : which_(which) {}
  Stmt stmt(const Stmt& s) override {
    const auto* e = s.as<Evaluate>();
    const auto* c = e ? e->call.as<Call>() : nullptr;
    if (c && c->fn == Intrinsic::sync && seen_++ == which_) return {};
    return children(s);
  }

 private:
  size_t which_, seen_ = 0;
};

const Target kTarget = parse_target("cuda:sm_80");

// "default" is the MatMul by its default schedule.
CudaCase shared_case(const std::string& name) {
  auto [func, scheduled] = example(name == "default" ? "matmul" : name);
  if (name == "default") {
    func.name = "by_default";
    scheduled = apply(func, default_cuda_schedule(func, kTarget));
  }
  return make_case(func, scheduled);
}

}  // namespace

TEST_CASE("a tiled MatMul and a row softmax with shared memory pass under emulation") {
  const std::vector<CudaCase> cases = {shared_case("matmul"), shared_case("softmax"), shared_case("default")};
  for (const CudaCase& c : cases) {
    CHECK(c.program.kernels.size() == 1);
    CHECK(c.program.kernels[0].shared_bytes > 0);
    CHECK(count_barriers(c.program.source) >= 2);
  }
  CHECK(cases[0].program.kernels[0].grid == std::array<int64_t, 3>{2, 3, 1});
  CHECK(cases[0].program.kernels[0].block == std::array<int64_t, 3>{16, 16, 1});
  CHECK(cases[0].program.kernels[0].shared_bytes == 2 * 16 * 16 * 4);
  check_cases(cases);
}

TEST_CASE("without any one barrier the interpreter's race check fails") {
  for (const std::string name : {"matmul", "softmax", "default"}) {
    const CudaCase c = shared_case(name);
    for (size_t b = 0; b < count_barriers(c.program.source); ++b) {
      PrimFunc racy = c.lowered;
      racy.body = WithoutSync(b).stmt(racy.body);
      InterpretOptions options;
      options.check_races = true;
      std::vector<Tensor> args;
      for (const Tensor& t : c.lowered_inputs) args.push_back(t.clone());
      CHECK_THROWS_AS(interpret(racy, args, options), UserError);
    }
  }
}

TEST_CASE("shared memory holds garbage, and threads that part at a barrier are reported") {
  CudaProgram p;
  p.source = R"(
extern "C" __global__ void garbage(float* Y) {
  __shared__ float S[4];
  Y[blockIdx.x * 4 + threadIdx.x] = S[threadIdx.x];
  S[threadIdx.x] = 1.0f;
}
extern "C" __global__ void parted(float* Y) {
  if (threadIdx.x < 3) __syncthreads();
  Y[threadIdx.x] = 1.0f;
}
)";
  CudaKernel k;
  k.block = {4, 1, 1};
  k.args = {0};
  k.name = "garbage";
  k.grid = {2, 1, 1};
  p.kernels = {k};
  CudaKernel parted = k;
  parted.name = "parted";
  parted.grid = {1, 1, 1};
  parted.waits = true;
  CudaProgram all = p, second = p;
  all.kernels.push_back(parted);
  second.kernels = {parted};
  const Emulator emulator({all});
  std::vector<Tensor> args = {Tensor(DType::f32, {8})};
  emulator.run(p, args, LoopOrder::forward);
  for (int64_t i = 0; i < 8; ++i) CHECK(std::isnan(args[0].get(i)));
  CHECK_THROWS_WITH(
      emulator.run(second, args, LoopOrder::forward),
      "error: parted: thread (0,0,0) of block (0,0,0) waits for the block at line 8: `if (threadIdx.x < 3) "
      "__syncthreads();`, and thread 3 of the block has finished");
}

TEST_CASE("NVRTC compiles the tiled MatMul and the row softmax for sm_80 and sm_90a") {
  if (!has_nvrtc()) return;
  for (const std::string name : {"matmul", "softmax"})
    for (const std::string sm : {"sm_80", "sm_90a"}) {
      const Target target = parse_target("cuda:" + sm);
      const auto [func, scheduled] = example(name);
      const CudaCase c = make_case(func, scheduled, target);
      CHECK(compile_cubin(c.program.source, target).substr(0, 4) ==
            "\x7f"
            "ELF");
      CHECK(compile_ptx(c.program.source, target).find(".target " + sm) != std::string::npos);
    }
}

TEST_CASE("shared memory beyond 48 KB comes with the launch, up to what the device has") {
  const auto text = [](int64_t n) {
    const std::string size = std::to_string(n), loop = "for i in " + std::to_string(n / 64) + " {\n";
    return parse_func(
        "func f(in X: f32[" + size + "], out Y: f32[" + size + "]) {\n  alloc S: f32[" + size +
        "] shared\n  alloc T: f32[64] shared\n  blockIdx.x b in 1 {\n    threadIdx.x t in 64 {\n" + loop +
        "S[i*64+t] = X[i*64+t]\n}\nT[t] = X[t]\n}\nthreadIdx.x t in 64 {\n" + loop + "Y[i*64+t] = S[" +
        std::to_string(n - 1) + "-i*64-t] + T[63-t]\n}\n}\n}\n}\n");
  };
  for (const int64_t n : {1024, 20480}) {
    const PrimFunc f = text(n);
    const CudaCase c = make_case(f, f, parse_target("cuda:sm_80"));
    const int64_t bytes = 4 * (n + 64);
    CHECK(c.program.kernels[0].shared_bytes == bytes);
    CHECK(c.program.kernels[0].dynamic_shared == (n == 1024 ? 0 : bytes));
    CHECK((c.program.source.find("extern __shared__") != std::string::npos) == (n != 1024));
    check_cases({c}, 0);
    if (has_nvrtc()) CHECK_FALSE(compile_cubin(c.program.source, parse_target("cuda:sm_80")).empty());
  }
  const PrimFunc large = text(20480);
  CHECK_THROWS_WITH(
      make_case(large, large, parse_target("cuda:sm_75")),
      Catch::Contains("needs 82176 bytes of shared memory, and a block of sm_75 has at most 65536"));
  CHECK(make_case(large, large, parse_target("cuda:sm_89")).program.kernels[0].dynamic_shared == 82176);
}

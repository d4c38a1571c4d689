// Kernels written by hand that lack a barrier: the race is found in whatever order threads run, with both
// lines.
#include "catch.h"
#include "nestor/emulate.h"
#include "nestor/error.h"
#include "runtime/cuda_driver_rt.h"

using namespace nestor;

namespace {

const char* const kKernels = R"(
extern "C" __global__ void reversed(const float* A, float* Y) {
  __shared__ float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  __syncthreads();
  Y[threadIdx.x] = S[63 - threadIdx.x];
}
extern "C" __global__ void no_barrier(const float* A, float* Y) {
  __shared__ float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  Y[threadIdx.x] = S[63 - threadIdx.x];
}
extern "C" __global__ void barrier_of_warp(const float* A, float* Y) {
  __shared__ float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  __syncwarp();
  Y[threadIdx.x] = S[63 - threadIdx.x];
}
extern "C" __global__ void within_warp(const float* A, float* Y) {
  __shared__ float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  __syncwarp();
  Y[threadIdx.x] = S[threadIdx.x ^ 31];
}
extern "C" __global__ void within_warp_bare(const float* A, float* Y) {
  __shared__ float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  Y[threadIdx.x] = S[threadIdx.x ^ 31];
}
extern "C" __global__ void shuffle_orders(const float* A, float* Y) {
  __shared__ float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  const float other = __shfl_xor_sync(0xffffffff, A[threadIdx.x], 1);
  Y[threadIdx.x] = S[threadIdx.x ^ 31] + other;
}
extern "C" __global__ void half_a_warp(const float* A, float* Y) {
  __shared__ float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  if (threadIdx.x % 32 < 16) __syncwarp(0xffff); else __syncwarp(0xffff0000);
  Y[threadIdx.x] = S[threadIdx.x ^ 16];
}
extern "C" __global__ void next_round(const float* A, float* Y) {
  __shared__ float S[64];
  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    S[threadIdx.x] = A[threadIdx.x + i];
    __syncthreads();
    sum += S[threadIdx.x ^ 32];
  }
  Y[threadIdx.x] = sum;
}
extern "C" __global__ void read_then_write(const float* A, float* Y) {
  __shared__ float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  __syncthreads();
  const float all = S[5];
  __syncwarp();
  if (threadIdx.x == 5) S[5] = all + 1;
  Y[threadIdx.x] = all;
}
extern "C" __global__ void own_columns(const float* A, float* Y) {
  for (int i = 0; i < 4; ++i) Y[threadIdx.x + 64 * i] += A[threadIdx.x];
}
extern "C" __global__ void blocks_meet(const float* A, float* Y) { Y[threadIdx.x] = A[threadIdx.x]; }
extern "C" __global__ void blocks_overlap(const float* A, float* Y) { Y[threadIdx.x + 63 * blockIdx.x] = 1.0f; }
extern "C" __global__ void blocks_apart(const float* A, float* Y) { Y[threadIdx.x + 64 * blockIdx.x] = 1.0f; }
extern "C" __global__ void global_barrier(const float* A, float* Y) {
  Y[threadIdx.x] = A[threadIdx.x];
  __syncthreads();
  Y[threadIdx.x + 64] = Y[threadIdx.x ^ 32];
}
extern "C" __global__ void shared_by_block(const float* A, float* Y) {
  __shared__ float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  __syncthreads();
  Y[threadIdx.x + 64 * blockIdx.x] = S[63 - threadIdx.x];
}
extern "C" __global__ void halves(const float* A, float* Y) {
  __shared__ unsigned short S[64];
  S[threadIdx.x] = (unsigned short)threadIdx.x;
  if (threadIdx.x % 2 == 0) Y[threadIdx.x] = S[threadIdx.x];
}
extern "C" __global__ void wide_read(const float* A, float* Y) {
  __shared__ __align__(16) float S[64];
  S[threadIdx.x] = A[threadIdx.x];
  if (threadIdx.x % 4 == 0) *(float4*)&Y[threadIdx.x] = *(const float4*)&S[threadIdx.x];
}
extern "C" __global__ void outside(const float* A, float* Y) { Y[threadIdx.x * 9] = A[threadIdx.x]; }
extern "C" __global__ void outside_shared(const float* A, float* Y) {
  extern __shared__ float pool[];
  pool[threadIdx.x] = A[threadIdx.x];
}
)";

struct Case {
  const char* name;
  int blocks;
  const char* problem;  // a part of it
};

const Case kCases[] = {
    {"reversed", 1, ""},
    {"no_barrier", 1, "`Y[threadIdx.x] = S[63 - threadIdx.x];`"},
    {"barrier_of_warp", 1, "a race in shared memory"},
    {"within_warp", 1, ""},
    {"within_warp_bare", 1, "a race in shared memory"},
    {"shuffle_orders", 1, ""},
    {"half_a_warp", 1, "a race in shared memory"},
    {"next_round", 1, "`S[threadIdx.x] = A[threadIdx.x + i];`"},
    {"read_then_write", 1, "`if (threadIdx.x == 5) S[5] = all + 1;`"},
    {"own_columns", 1, ""},
    {"blocks_meet", 2, "a race in argument 2: thread "},
    {"blocks_overlap", 3, "blocks don't wait for each other"},
    {"blocks_apart", 3, ""},
    {"global_barrier", 1, ""},
    {"shared_by_block", 3, ""},
    {"halves", 1, ""},
    {"wide_read", 1, "a race in shared memory"},
    {"outside", 1, "writes 4 bytes of argument 2, from byte "},
    {"outside_shared", 1, "writes 4 bytes of dynamic shared memory, from byte "},
};

}  // namespace

TEST_CASE("a missing barrier is a race in any order of threads") {
  CudaProgram all;
  all.source = kKernels;
  for (const Case& c : kCases) {
    all.kernels.emplace_back();
    all.kernels.back().name = c.name;
    all.kernels.back().grid = {c.blocks, 1, 1};
    all.kernels.back().block = {64, 1, 1};
    all.kernels.back().args = {0, 1};
    all.kernels.back().waits = true;
  }
  const Emulator emulator({all}, Tracing::on);
  for (size_t i = 0; i < std::size(kCases); ++i)
    for (const LoopOrder order : {LoopOrder::forward, LoopOrder::reverse, LoopOrder::random})
      for (uint64_t seed = 0; seed < 3; ++seed) {
        CudaProgram one;
        one.kernels = {all.kernels[i]};
        std::vector<Tensor> args = {Tensor(DType::f32, {128}), Tensor(DType::f32, {256})};
        std::string problem;
        try {
          emulator.run(one, args, order, seed);
        } catch (const UserError& e) {
          problem = e.what();
        }
        INFO(kCases[i].name << ": " << problem);
        if (*kCases[i].problem)
          CHECK(problem.find(kCases[i].problem) != std::string::npos);
        else
          CHECK(problem == "");
      }
}

TEST_CASE("shared memory is aligned as its elements are, and no better") {
  CudaProgram p;
  p.source = R"(extern "C" __global__ void misaligned(const float* A, float* Y) {
  __shared__ float S[64];
  *(float4*)&S[4 * threadIdx.x] = *(const float4*)&A[4 * threadIdx.x];
  Y[threadIdx.x] = S[4 * threadIdx.x];
}
)";
  p.kernels.emplace_back();
  p.kernels[0].name = "misaligned";
  p.kernels[0].block = {16, 1, 1};
  p.kernels[0].args = {0, 1};
  std::vector<Tensor> args = {Tensor(DType::f32, {64}), Tensor(DType::f32, {16})};
  const std::string what =
      "error: misaligned: thread (0,0,0) of block (0,0,0) accesses 16 bytes at an address that is no "
      "multiple of 16";
  CHECK_THROWS_WITH(Emulator({p}).run(p, args), what);
  CHECK_THROWS_WITH(
      Emulator({p}, Tracing::on).run(p, args),
      what + " at line 3: `*(float4*)&S[4 * threadIdx.x] = *(const float4*)&A[4 * threadIdx.x];`");
}

TEST_CASE("a launch on an emulated device fails by a race, and says where") {
  EmulatedCode::Part part{R"(extern "C" __global__ void racy(float* Y) {
  Y[threadIdx.x / 2] = threadIdx.x;
}
)",
                          {CudaKernel{}}};
  part.kernels[0].name = "racy";
  const EmulatedCode code(std::vector<EmulatedCode::Part>{part}, Tracing::on);
  const nestor_cuda_driver& driver = emulated_driver();
  void *module = nullptr, *kernel = nullptr;
  nestor_device_pointer memory = 0;
  REQUIRE(driver.load(&module, code.library().c_str()) == 0);
  REQUIRE(driver.function(&kernel, module, "racy") == 0);
  REQUIRE(driver.allocate(&memory, 64) == 0);
  void* args[] = {&memory};
  const int status = driver.launch(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, args, nullptr);
  const char* text = "";
  driver.error_text(status, &text);
  CHECK(status != 0);
  CHECK(std::string(text) ==
        "a race in argument 1: thread 0 of block 0 writes at line 2: `Y[threadIdx.x / 2] = threadIdx.x;`, "
        "thread 1 of "
        "block 0 writes the same bytes at line 2: `Y[threadIdx.x / 2] = threadIdx.x;`, and nothing makes one "
        "wait for "
        "the other");
  driver.free(memory);
  driver.unload(module);
}

// Handwritten kernels whose threads interact: values passed between lanes of a warp, barriers reached on
// different paths, vectors, dynamic shared memory. What a kernel may not do is reported with the line.
#include <algorithm>
#include <numeric>
#include <random>

#include "catch.h"
#include "nestor/emulate.h"
#include "src/emulate/blocks.h"

using namespace nestor;

namespace {

const char* const kKernels = R"(
extern "C" __global__ void sums(float* Y) {
  float x = Y[blockIdx.x * blockDim.x + threadIdx.x];
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffff, x, d);
  Y[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
extern "C" __global__ void shifts(float* Y) {
  const int t = threadIdx.x;
  const double d = Y[t];
  Y[t + 64] = __shfl_down_sync(0xffffffff, Y[t], 3);
  Y[t + 128] = __shfl_up_sync(0xffffffff, Y[t], 3, 8);
  Y[t + 192] = (float)__shfl_sync(0xffffffff, d, 5, 16);
  Y[t + 256] = __shfl_down_sync(0xffffffffu, Y[t], 3, 8);
  if (t % 32 < 4) Y[t + 320] = __shfl_xor_sync(0xf, Y[t], 1);
  Y[t + 384] = (float)__ballot_sync(0xffffffff, t % 32 == 1 || t == 34);
  Y[t + 448] = __any_sync(0xffffffff, t == 40) + 2 * __all_sync(0xffffffff, t < 32);
}
extern "C" __global__ void through_memory(float* Y) {
  __shared__ float S[64];
  const int t = threadIdx.x;
  S[t] = Y[t];
  __syncwarp();
  const float left = S[t ^ 1];
  __syncwarp();
  S[t] = left + 1;
  __syncthreads();
  Y[t] = S[t ^ 32];
}
extern "C" __global__ void two_lines(float* Y) {
  if (threadIdx.x % 2)
    Y[threadIdx.x] = __shfl_xor_sync(0xffffffff, Y[threadIdx.x], 1);
  else
    Y[threadIdx.x] = __shfl_xor_sync(0xffffffff, Y[threadIdx.x], 1);
}
extern "C" __global__ void lane_gone(float* Y) {
  if (threadIdx.x == 7) return;
  Y[threadIdx.x] = __shfl_xor_sync(0xffffffff, Y[threadIdx.x], 1);
}
extern "C" __global__ void lane_unnamed(float* Y) {
  if (threadIdx.x < 2) Y[threadIdx.x] = __shfl_xor_sync(0x3, Y[threadIdx.x], 4);
}
extern "C" __global__ void not_in_mask(float* Y) { __syncwarp(0xfffe); }
extern "C" __global__ void two_barriers(float* Y) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
extern "C" __global__ void barrier_and_warp(float* Y) {
  if (threadIdx.x < 5) __syncwarp();
  __syncthreads();
}
extern "C" __global__ void fours(float* Y) {
  float4* to = reinterpret_cast<float4*>(&Y[threadIdx.x * 4]);
  float4 v = *to;
  v.x += v.w;
  *to = v;
  const int2 i = *reinterpret_cast<const int2*>(&Y[512]);
  Y[514] = __int_as_float(i.y);
}
extern "C" __global__ void not_aligned(float* Y) {
  *reinterpret_cast<float4*>(&Y[threadIdx.x * 4 + 2]) = make_float4(0, 1, 2, 3);
}
extern "C" __global__ void dynamic(float* Y) {
  extern __shared__ __align__(16) float pool[];
  Y[threadIdx.x] = pool[threadIdx.x];
  __syncthreads();
  pool[threadIdx.x ^ 1] = (float)threadIdx.x;
  __syncthreads();
  Y[threadIdx.x + 64] = pool[threadIdx.x];
}
)";

class Library {
 public:
  Library() : code_(std::vector<EmulatedCode::Part>{{kKernels, kernels()}}), library_(code_.library()) {
    REQUIRE(library_.loaded());
  }

  // What is wrong; Y[i] was i before.
  std::string run(const std::string& name, std::vector<float>& y, unsigned threads = 64, size_t dynamic = 0,
                  uint64_t seed = 0) const {
    y.resize(576);
    std::iota(y.begin(), y.end(), 0.0f);
    float* p = y.data();
    void* args[] = {&p};
    const EmulatedKernel* kernel = library_.kernel(name);
    REQUIRE(kernel);
    std::mt19937_64 rng(seed);
    const auto order = [&](size_t n) {
      std::vector<size_t> out(n);
      std::iota(out.begin(), out.end(), size_t{0});
      if (seed) std::shuffle(out.begin(), out.end(), rng);
      return out;
    };
    return run_emulated(library_, *kernel, args, {{1, 1, 1}, {threads, 1, 1}, dynamic, {}, {}}, order);
  }
  std::string run(const std::string& name, unsigned threads = 64, size_t dynamic = 0) const {
    std::vector<float> y;
    return run(name, y, threads, dynamic);
  }

 private:
  static std::vector<CudaKernel> kernels() {
    std::vector<CudaKernel> out;
    for (const char* name :
         {"sums", "shifts", "through_memory", "two_lines", "lane_gone", "lane_unnamed", "not_in_mask",
          "two_barriers", "barrier_and_warp", "fours", "not_aligned", "dynamic"}) {
      out.emplace_back();
      out.back().name = name;
      out.back().waits = true;
    }
    return out;
  }
  EmulatedCode code_;
  EmulatedLibrary library_;
};

const Library& library() {
  static const Library l;
  return l;
}

const std::string kFirst = "thread (0,0,0) of block (0,0,0) ";

}  // namespace

TEST_CASE("lanes of a warp give each other values, in any order of threads") {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::vector<float> y;
    REQUIRE(library().run("sums", y, 64, 0, seed) == "");
    for (size_t t = 0; t < 64; ++t) CHECK(y[t] == (t < 32 ? 496 : 1520));
    REQUIRE(library().run("shifts", y, 64, 0, seed) == "");
    for (size_t t = 0; t < 64; ++t) {
      INFO(t);
      CHECK(y[t + 64] == (t % 32 < 29 ? t + 3 : t));
      CHECK(y[t + 128] == (t % 8 < 3 ? t : t - 3));
      CHECK(y[t + 192] == t / 16 * 16 + 5);
      CHECK(y[t + 256] == (t % 8 < 5 ? t + 3 : t));
      CHECK(y[t + 320] == (t % 32 < 4 ? t ^ 1 : t + 320));
      CHECK(y[t + 384] == (t < 32 ? 2 : 6));
      CHECK(y[t + 448] == (t < 32 ? 2 : 1));
    }
    REQUIRE(library().run("through_memory", y, 64, 0, seed) == "");
    for (size_t t = 0; t < 64; ++t) CHECK(y[t] == (t ^ 33) + 1);
  }
}

TEST_CASE("lanes and threads that wait for others in vain are reported with their lines") {
  CHECK(library().run("two_lines") ==
        kFirst +
            "waits for lanes 0xffffffff at line 33: `Y[threadIdx.x] = __shfl_xor_sync(0xffffffff, "
            "Y[threadIdx.x], 1);`, and thread 1 of the block waits for lanes 0xffffffff at line 31: "
            "`Y[threadIdx.x] = __shfl_xor_sync(0xffffffff, Y[threadIdx.x], 1);`");
  CHECK(library().run("lane_gone") ==
        kFirst +
            "waits for lanes 0xffffffff at line 37: `Y[threadIdx.x] = __shfl_xor_sync(0xffffffff, "
            "Y[threadIdx.x], 1);`, and thread 7 of the block has finished");
  CHECK(library().run("sums", 16) ==
        kFirst +
            "waits for lanes 0xffffffff at line 4: `for (int d = 16; d > 0; d /= 2) x += "
            "__shfl_xor_sync(0xffffffff, x, d);`, and thread 16 of the block isn't in the block");
  CHECK(library().run("lane_unnamed") ==
        kFirst +
            "reads a lane that isn't in the mask at line 40: `if (threadIdx.x < 2) Y[threadIdx.x] = "
            "__shfl_xor_sync(0x3, Y[threadIdx.x], 4);`");
  CHECK(library().run("not_in_mask") ==
        kFirst +
            "waits for lanes 0xfffe at line 42: `extern \"C\" __global__ void not_in_mask(float* Y) { "
            "__syncwarp(0xfffe); }`, which doesn't name its own");
  CHECK(library().run("two_barriers") ==
        kFirst +
            "waits for the block at line 45: `__syncthreads();`, and thread 32 of the block waits for the "
            "block at line 47: `__syncthreads();`");
  CHECK(library().run("barrier_and_warp") ==
        kFirst +
            "waits for lanes 0xffffffff at line 50: `if (threadIdx.x < 5) __syncwarp();`, and thread 5 of "
            "the block waits for the block at line 51: `__syncthreads();`");
}

TEST_CASE("vectors have CUDA's alignment, and one that isn't aligned is reported") {
  std::vector<float> y;
  REQUIRE(library().run("fours", y) == "");
  for (size_t t = 0; t < 64; ++t) {
    CHECK(y[t * 4] == 8 * t + 3);
    CHECK(y[t * 4 + 1] == 4 * t + 1);
  }
  CHECK(y[514] == 513);
  CHECK(library().run("not_aligned", y) ==
        kFirst + "accesses 16 bytes at an address that is no multiple of 16");
  CHECK(y[2] == 0);
  CHECK(y[5] == 3);
}

TEST_CASE("dynamic shared memory holds garbage at first, and its end is watched") {
  std::vector<float> y;
  REQUIRE(library().run("dynamic", y, 64, 256) == "");
  for (size_t t = 0; t < 64; ++t) {
    CHECK(std::isnan(y[t]));
    CHECK(y[t + 64] == (t ^ 1));
  }
  CHECK(library().run("dynamic", 64, 128) == "a thread writes behind the 128 bytes of dynamic shared memory");
}

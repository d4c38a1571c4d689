// Kernels written by hand whose wavefronts and sectors are known.
#include "catch.h"
#include "nestor/emulate.h"

using namespace nestor;

namespace {

// Each of 32 threads; A has 4096 floats, Y 4096.
const char* const kKernels = R"(
extern "C" __global__ void stride_1(const float* A, float* Y) { Y[threadIdx.x] = A[threadIdx.x]; }
extern "C" __global__ void stride_2(const float* A, float* Y) { Y[threadIdx.x] = A[2 * threadIdx.x]; }
extern "C" __global__ void stride_32(const float* A, float* Y) { Y[32 * threadIdx.x] = A[threadIdx.x]; }
extern "C" __global__ void one_for_all(const float* A, float* Y) { Y[threadIdx.x] = A[7]; }
extern "C" __global__ void shifted(const float* A, float* Y) { Y[threadIdx.x] = A[threadIdx.x + 1]; }
extern "C" __global__ void fours(const float* A, float* Y) {
  *(float4*)&Y[4 * threadIdx.x] = *(const float4*)&A[4 * threadIdx.x];
}
extern "C" __global__ void twice(const float* A, float* Y) {
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += A[threadIdx.x + 8 * i];
  Y[threadIdx.x] = sum;
}
extern "C" __global__ void transposed_32(const float* A, float* Y) {
  __shared__ float S[32][32];
  for (int i = 0; i < 32; ++i) S[i][threadIdx.x] = A[i * 32 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 32; ++i) Y[i * 32 + threadIdx.x] = S[threadIdx.x][i];
}
extern "C" __global__ void transposed_33(const float* A, float* Y) {
  __shared__ float S[32][33];
  for (int i = 0; i < 32; ++i) S[i][threadIdx.x] = A[i * 32 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 32; ++i) Y[i * 32 + threadIdx.x] = S[threadIdx.x][i];
}
extern "C" __global__ void shared_fours(const float* A, float* Y) {
  __shared__ __align__(16) float S[512];
  *(float4*)&S[4 * threadIdx.x] = *(const float4*)&A[4 * threadIdx.x];
  __syncthreads();
  const float4 even = *(const float4*)&S[8 * (threadIdx.x % 16)];
  const float4 pairs = *(const float4*)&S[4 * (threadIdx.x / 2)];
  const float4 rows = *(const float4*)&S[16 * threadIdx.x % 512];
  const double two = *(const double*)&S[2 * threadIdx.x];
  *(float4*)&Y[4 * threadIdx.x] = make_float4(even.x + pairs.y, rows.z, pairs.w, (float)two);
}
extern "C" __global__ void updated(const float* A, float* Y) {
  __shared__ float S[32];
  S[threadIdx.x] = A[threadIdx.x];
  __syncwarp();
  S[threadIdx.x ^ 1] += 1.0f;
  __syncwarp();
  Y[threadIdx.x] = S[threadIdx.x];
}
extern "C" __global__ void halves(const unsigned short* A, unsigned short* Y) {
  __shared__ unsigned short S[64];
  S[threadIdx.x] = A[threadIdx.x];
  __syncthreads();
  Y[threadIdx.x] = S[2 * threadIdx.x % 64];
}
)";

const char* const kNames[] = {"stride_1",      "stride_2",     "stride_32", "one_for_all",
                              "shifted",       "fours",        "twice",     "transposed_32",
                              "transposed_33", "shared_fours", "updated",   "halves"};

MemoryCounts count(const std::string& name, int64_t blocks = 1, int64_t most_blocks = 0) {
  static const CudaProgram all = [] {
    CudaProgram p;
    p.source = kKernels;
    for (const char* n : kNames) {
      p.kernels.emplace_back();
      p.kernels.back().name = n;
      p.kernels.back().block = {32, 1, 1};
      p.kernels.back().args = {0, 1};
      p.kernels.back().waits = true;
    }
    return p;
  }();
  static const Emulator emulator({all}, Tracing::on);
  CudaProgram one;
  for (const CudaKernel& k : all.kernels)
    if (k.name == name) one.kernels = {k};
  one.kernels.at(0).grid[0] = blocks;
  std::vector<Tensor> args = {Tensor(DType::f32, {4096}), Tensor(DType::f32, {4096})};
  return emulator.count(one, args, most_blocks).at(0);
}

struct Wanted {
  const char* name;
  int64_t wavefronts, ideal_wavefronts, sectors, ideal_sectors;
};

}  // namespace

TEST_CASE("sectors and wavefronts of a warp are counted as the hardware moves them") {
  const Wanted table[] = {
      {"stride_1", 0, 0, 4 + 4, 4 + 4},
      {"stride_2", 0, 0, 8 + 4, 4 + 4},
      {"stride_32", 0, 0, 4 + 32, 4 + 4},
      {"one_for_all", 0, 0, 1 + 4, 1 + 4},
      {"shifted", 0, 0, 5 + 4, 4 + 4},
      {"fours", 0, 0, 16 + 16, 16 + 16},
      {"twice", 0, 0, 4 * 4 + 4, 4 * 4 + 4},
      {"transposed_32", 32 + 32 * 32, 32 + 32, 256, 256},
      {"transposed_33", 32 + 32, 32 + 32, 256, 256},
      // The write: 4 quarter warps. even: 8 lanes of a quarter on 4 groups of 4 banks. pairs: half as many
      // requests. rows: 8 lanes on 2 groups of banks. two: 2 half warps.
      {"shared_fours", 4 + 4 * 2 + 2 + 4 * 4 + 2, 4 + 4 + 2 + 4 + 2, 16 + 16, 16 + 16},
      {"updated", 4, 4, 8, 8},
      {"halves", 1 + 1, 1 + 1, 2 + 2, 2 + 2},
  };
  for (const Wanted& w : table) {
    INFO(w.name);
    const MemoryCounts c = count(w.name);
    for (const MemoryCounts::Line& l : c.lines)
      UNSCOPED_INFO(l.line << (l.shared ? " shared" : " global") << (l.write ? " write " : " read ")
                           << l.bytes << ": " << l.instructions << " " << l.did << " " << l.ideal);
    CHECK(c.wavefronts == w.wavefronts);
    CHECK(c.ideal_wavefronts == w.ideal_wavefronts);
    CHECK(c.sectors == w.sectors);
    CHECK(c.ideal_sectors == w.ideal_sectors);
  }
}

TEST_CASE("counts have a row for each line that touches memory, and each argument's bytes") {
  const MemoryCounts c = count("transposed_32");
  REQUIRE(c.lines.size() == 4);
  CHECK(c.lines[0].line == 17);
  CHECK(c.lines[3].line == 19);
  const MemoryCounts twice = count("twice");
  REQUIRE(twice.buffers.size() == 2);
  CHECK(twice.buffers[0].read == 4 * 32 * 4);
  CHECK(twice.buffers[0].distinct_read == (32 + 3 * 8) * 4);
  CHECK(twice.buffers[0].written == 0);
  CHECK(twice.buffers[1].written == 32 * 4);
  CHECK(twice.buffers[1].distinct_written == 32 * 4);
}

TEST_CASE("of many blocks some can be counted") {
  CHECK(count("stride_1", 100).sectors == 800);
  CHECK(count("stride_1", 100, 10).sectors == 80);
}

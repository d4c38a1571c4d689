// The price of GPU kernels orders schedules by what they do, and says what binds them.
#include "catch.h"
#include "nestor/gpu_cost.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/schedule.h"

using namespace nestor;

namespace {

const Target kTarget = parse_target("cuda:sm_80");

GpuCost priced(const std::string& func, const std::string& steps) {
  return price_gpu(lower(apply(parse_func(func), parse_trace(steps)), kTarget), kTarget);
}

const std::string kCopy = R"(func f(in X: f32[4096,4096], out Y: f32[4096,4096]) {
  for i in 4096, j in 4096 {
    block Y(vi: S 4096 = i, vj: S 4096 = j) {
      Y[vi,vj] = X[vi,vj]
    }
  }
})";
const std::string kRows = R"(func f(in X: f32[64,8192], out Y: f32[64]) {
  for i in 64, k in 8192 {
    block Y(vi: S 64 = i, vk: R 8192 = k) {
      init { Y[vi] = 0.0f32 }
      Y[vi] += X[vi,vk]
    }
  }
})";

}  // namespace

TEST_CASE("neighbouring threads at neighbouring elements move a quarter of the sectors of a column's") {
  const GpuCost rows = priced(kCopy,
                              "j0 j1 = split Y.j [_, 256]\nbind Y.i blockIdx.y\nbind Y.j0 blockIdx.x\n"
                              "bind Y.j1 threadIdx.x"),
                columns = priced(kCopy,
                                 "i0 i1 = split Y.i [_, 256]\nreorder Y (i0 j i1)\nbind Y.i0 blockIdx.y\n"
                                 "bind Y.j blockIdx.x\nbind Y.i1 threadIdx.x");
  REQUIRE(rows.kernels.size() == 1);
  const GpuKernelCost &dense = rows.kernels[0], &strided = columns.kernels[0];
  CHECK(dense.sectors == 2.0 * 4 * 4096 * 4096 / 32);
  CHECK(dense.sectors == dense.ideal_sectors);
  CHECK(strided.sectors == 8 * strided.ideal_sectors);
  CHECK(dense.binds == std::string("device memory"));
  CHECK(rows.total < columns.total);
}

TEST_CASE("one thread a row waits for itself, a block a row doesn't") {
  const GpuCost alone = priced(kRows, "bind Y.i threadIdx.x"),
                together = priced(kRows,
                                  "k0 k1 = split Y.k [_, 256]\nreorder Y (k1 k0)\n"
                                  "Y_part = reduce_threads Y.k1\nbind Y_part.i blockIdx.x");
  CHECK(alone.kernels[0].binds == std::string("latency"));
  CHECK(together.total * 20 < alone.total);
}

TEST_CASE("a tile whose columns lie in one bank takes 32 times as many passes") {
  const std::string tile =
      "X_tile = cache_read Y X shared\ni0 i1 = split Y.i [_, 32]\nj0 j1 = split Y.j [_, 32]\n"
      "reorder Y (i0 j0 i1 j1)\ncompute_at X_tile Y.j0\nbind Y.i0 blockIdx.y\nbind Y.j0 blockIdx.x\n"
      "bind X_tile.j threadIdx.x\nbind X_tile.i threadIdx.y\nbind Y.i1 threadIdx.x\nbind Y.j1 threadIdx.y\n";
  const GpuKernelCost plain = priced(kCopy, tile).kernels[0],
                      padded = priced(kCopy, "X_tile = cache_read Y X shared\nstorage_align X_tile 0 32 1\n" +
                                                 tile.substr(tile.find('\n') + 1))
                                   .kernels[0];
  CHECK(plain.wavefronts > 10 * plain.ideal_wavefronts);
  CHECK(padded.wavefronts == padded.ideal_wavefronts);
  CHECK(padded.shared_bytes == 4 * 33 * 32);
}

TEST_CASE("there is a row for every architecture, each with more than the one before in some way") {
  for (const char* sm : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100"}) {
    const GpuMachine m = gpu_machine_of(parse_target(std::string("cuda:") + sm));
    CHECK(m.multiprocessors >= 40);
    CHECK(m.memory_gbs >= 300);
  }
  CHECK(gpu_machine_of(parse_target("cuda:sm_80")).name == std::string("A100"));
}

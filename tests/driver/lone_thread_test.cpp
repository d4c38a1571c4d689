// Blocks that one thread of a CUDA kernel runs alone are named, with steps that spread them.
#include "nestor/lone_thread.h"

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"

using namespace nestor;

namespace {

using Lines = std::vector<std::string>;

const char* const kProduct = R"(func mm(in A: f32[60,33], in B: f32[33,70], out Y: f32[60,70]) {
  for i in 60, j in 70, k in 33 {
    block Y(vi: S 60 = i, vj: S 70 = j, vk: R 33 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})";
const std::string kTiles =
    "i0 j0 i1 j1 = tile Y (i j) [16, 16]\nk0 k1 = split Y.k [_, 8]\nreorder Y (i0 j0 k0 i1 j1 k1)\n"
    "As = cache_read Y A shared\nBs = cache_read Y B shared\na b = compute_at As Y.k0\n"
    "c d = compute_at Bs Y.k0\n";
const std::string kBlocks =
    "bind Y.i0 blockIdx.y\nbind Y.j0 blockIdx.x\nbind Y.i1 threadIdx.y\nbind Y.j1 threadIdx.x\n";
const std::string kCopies =
    "bind As.a threadIdx.y\nbind As.b threadIdx.x\nbind Bs.d threadIdx.y\nbind Bs.c threadIdx.x\n";
const std::string kPipeline = "software_pipeline Y.k0 stages=3\n";

PrimFunc scheduled(const std::string& steps) {
  return apply(parse_func(kProduct), parse_trace(steps));
}

}  // namespace

TEST_CASE("What is bound after a pipeline is made leaves the first copies to one thread, and that is said") {
  PrimFunc f = scheduled(kTiles + kPipeline + kBlocks + kCopies);
  const auto found = lone_blocks(f);
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "As_first");
  CHECK(found[0].threads == 256);
  CHECK(found[0].steps == Lines{"bind As_first.b threadIdx.x", "bind As_first.a threadIdx.y"});
  CHECK(found[1].steps == Lines{"bind Bs_first.d threadIdx.x", "bind Bs_first.c threadIdx.y"});
  for (const LoneBlock& b : found)
    for (const std::string& step : b.steps) f = apply(f, parse_step(step));
  CHECK(lone_blocks(f).empty());
}

TEST_CASE("A kernel whose threads all work has nothing to be said of") {
  CHECK(lone_blocks(scheduled(kTiles + kBlocks + kCopies + kPipeline)).empty());
  CHECK(lone_blocks(scheduled(kTiles + kPipeline)).empty());  // of no threads
  CHECK(lone_blocks(scheduled(kTiles + kBlocks)).size() == 2);
}

// A product of f16 by tensor cores: the instruction is in the text, the text compiles, and emulated (a warp's
// threads as fibers, its collective by the description's own reference) it computes what the loops mean.
#include <cmath>

#include "catch.h"
#include "check.h"
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/schedule.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

const char* const kProduct = R"(func half_product(in A: f16[32,48], in B: f16[48,16], out C: f32[32,16]) {
  for i in 32, j in 16, k in 48 {
    block C(vi: S 32 = i, vj: S 16 = j, vk: R 48 = k) {
      init { C[vi,vj] = 1.0f32 }
      C[vi,vj] += f32(A[vi,vk]) * f32(B[vk,vj])
    }
  }
}
)";

// ORDER: the loops over tiles.
const std::string kTiles = R"(
  i0 i1 = split C.i [_, 16]
  j0 j1 = split C.j [_, 8]
  k0 k1 = split C.k [_, 16]
  reorder C (ORDER k0 i1 j1 k1)
  decompose_reduction C.k0
  g = fuse C_init (i1 j1)
  g0 g1 = split C_init.g [_, 32]
  bind C_init.g1 threadIdx.x
)";

PrimFunc product(const std::string& rest, const std::string& order = "i0 j0") {
  std::string tiles = kTiles;
  tiles.replace(tiles.find("ORDER"), 5, order);
  return apply(parse_func(kProduct), parse_trace(tiles + rest));
}

const Target kTarget = parse_target("cuda:sm_80");

// The emulated program against the unscheduled function.
std::string emulated(const PrimFunc& scheduled) {
  const PrimFunc f = parse_func(kProduct);
  const CudaProgram program = make_cuda(lower(scheduled, kTarget), kTarget);
  INFO(program.source);
  const Emulator emulator({program}, Tracing::on);
  for (const LoopOrder order : {LoopOrder::forward, LoopOrder::reverse, LoopOrder::random}) {
    std::vector<Tensor> wanted = random_args(f, 1), got = random_args(f, 1);
    interpret(f, wanted);
    emulator.run(program, got, order, 5);
    for (int64_t i = 0; i < wanted[2].size(); ++i)
      if (!(std::abs(wanted[2].get(i) - got[2].get(i)) <= 1e-4 * std::max(1.0, std::abs(wanted[2].get(i)))))
        return "element " + std::to_string(i) + " is " + std::to_string(got[2].get(i)) + " instead of " +
               std::to_string(wanted[2].get(i));
  }
  return "";
}

}  // namespace

TEST_CASE("tensor cores compute a product of f16") {
  const PrimFunc scheduled =
      product("bind C.i0 blockIdx.y\nbind C.j0 blockIdx.x\ntensorize C.i1 mma_m16n8k16");
  const std::string source = emit_cuda(lower(scheduled, kTarget), kTarget);
  INFO(source);
  CHECK(source.find("mma.sync.aligned.m16n8k16") != std::string::npos);
  CHECK(source.find("  mma_m16n8k16(&") != std::string::npos);
  CHECK(emulated(scheduled) == "");
  if (has_nvrtc()) CHECK(compile_ptx(source, kTarget).find("mma.sync") != std::string::npos);
}

TEST_CASE("several warps of a block, each with tiles of its own") {
  const PrimFunc scheduled =
      product("bind C.j0 blockIdx.x\nbind C.i0 threadIdx.y\ntensorize C.i1 mma_m16n8k16", "j0 i0");
  CHECK(emulated(scheduled) == "");
}

TEST_CASE("without the instruction the same tiles are loops over f16") {
  const PrimFunc scheduled = product("bind C.i0 blockIdx.y\nbind C.j0 blockIdx.x\nblockize C.i1");
  CHECK(emulated(scheduled) == "");
}

TEST_CASE("an instruction of tensor cores needs a GPU that has it") {
  const PrimFunc scheduled =
      product("bind C.i0 blockIdx.y\nbind C.j0 blockIdx.x\ntensorize C.i1 mma_m16n8k16");
  CHECK_THROWS_WITH(lower(scheduled, parse_target("cuda:sm_75")), Catch::Contains("it needs sm_80"));
}

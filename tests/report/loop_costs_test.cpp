// Every figure here is worked out by hand; the comments say how.
#include "src/report/loop_costs.h"

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"

using namespace nestor;
using report::loop_costs;
using report::LoopCost;

namespace {

constexpr const char* kMatmul = R"(
func matmul(in A: f32[64,96], in B: f32[96,128], out Y: f32[64,128]) {
  for i in 64, j in 128, k in 96 {
    block Y(vi: S 64 = i, vj: S 128 = j, vk: R 96 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})";

PrimFunc scheduled(const char* text, const char* trace) {
  return apply(parse_func(text), parse_trace(trace));
}

int64_t bytes(const LoopCost& c, const std::string& buffer) {
  for (const auto& use : c.body)
    if (use.name == buffer) return use.bytes;
  return -1;
}

}  // namespace

TEST_CASE("a naive matmul loop by loop") {
  const auto costs = loop_costs(parse_func(kMatmul));
  REQUIRE(costs.size() == 3);
  const double flops = 2.0 * 64 * 128 * 96;
  for (const LoopCost& c : costs) {
    CHECK(c.flops == flops);
    CHECK(c.exact);
    CHECK(c.registers == 0);
  }
  CHECK(costs[0].trips == 64);
  CHECK(costs[1].trips == 64 * 128);
  CHECK(costs[2].trips == 64 * 128 * 96);
  CHECK(costs[0].touched == 4 * (64 * 96 + 96 * 128 + 64 * 128));  // everything
  CHECK(costs[0].footprint == 4 * (96 + 96 * 128 + 128));          // a row of A, all of B, a row of Y
  CHECK(costs[1].touched == costs[0].footprint);
  CHECK(costs[1].footprint == 4 * (96 + 96 + 1));  // a row, a column, an element
  CHECK(costs[2].footprint == 4 * 3);
}

TEST_CASE("a tiled matmul with its result in registers") {
  const auto costs = loop_costs(scheduled(kMatmul, R"(
    Y_out = cache_write Y local
    i0 i1 = split Y.i [_, 8]
    j0 j1 = split Y.j [_, 32]
    k0 k1 = split Y.k [_, 16]
    reorder Y (j0 i0 k0 k1 i1 j1)
    wi wj = reverse_compute_at Y_out Y.i0
  )"));
  // j0 i0 k0 k1 i1 j1, then wi wj
  REQUIRE(costs.size() == 8);
  CHECK(costs[0].extent == 4);
  CHECK(costs[1].trips == 4 * 8);
  CHECK(costs[1].flops == 2.0 * 64 * 128 * 96);
  // One iteration of i0: 8 rows of A, a panel of 32 columns of B, 8 x 32 results in registers and in memory.
  CHECK(costs[1].footprint == 4 * (8 * 96 + 96 * 32 + 8 * 32));
  CHECK(costs[1].registers == 4 * 8 * 32);
  CHECK(costs[1].touched ==
        4 * (64 * 96 + 96 * 32 + 64 * 32));  // i0 runs: all of A, the panel, 32 columns of Y
  CHECK(costs[2].trips == 4 * 8 * 6);
  CHECK(costs[2].footprint == 4 * (8 * 16 + 16 * 32));  // 16 of k
  CHECK(costs[3].footprint == 4 * (8 + 32));
  CHECK(bytes(costs[3], "A") == 4 * 8);
  CHECK(bytes(costs[3], "B") == 4 * 32);
  CHECK(costs[3].registers == 4 * 8 * 32);
  CHECK(costs[5].footprint == 4 * 2);
  CHECK(costs[5].trips == 64 * 128 * 96);
  CHECK(costs[6].flops == 0);
  CHECK(costs[7].trips == 64 * 128);
}

TEST_CASE("a ragged tail counts its guarded iterations, but only bytes that are there") {
  const auto costs = loop_costs(scheduled(kMatmul, "i0 i1 = split Y.i [_, 48]"));
  REQUIRE(costs.size() == 4);
  CHECK(costs[0].extent == 2);
  CHECK(costs[1].trips == 96);
  CHECK(costs[0].touched == 4 * (64 * 96 + 96 * 128 + 64 * 128));
}

TEST_CASE("windows that overlap, steps that leave gaps, padding that reads nothing") {
  const auto conv = loop_costs(parse_func(R"(
func conv(in X: f32[30], in W: f32[3], out Y: f32[28]) {
  for x in 28, r in 3 {
    block Y(vx: S 28 = x, vr: R 3 = r) {
      init { Y[vx] = 0.0f32 }
      Y[vx] += X[vx+vr] * W[vr]
    }
  }
})"));
  CHECK(conv[0].touched == 4 * (30 + 3 + 28));
  CHECK(conv[0].footprint == 4 * (3 + 3 + 1));
  const auto strided = loop_costs(parse_func(R"(
func strided(in X: f32[64], out Y: f32[16]) {
  for x in 16 {
    block Y(vx: S 16 = x) { Y[vx] = X[vx*4] }
  }
})"));
  CHECK(strided[0].touched == 4 * (16 + 16));
  const auto padded = loop_costs(parse_func(R"(
func padded(in X: f32[10], out Y: f32[14]) {
  for x in 14 {
    block Y(vx: S 14 = x) { Y[vx] = if vx >= 2 && vx < 12 then X[vx-2] else 0.0f32 }
  }
})"));
  CHECK(padded[0].touched == 4 * (10 + 14));
  CHECK(padded[0].exact);
}

TEST_CASE("two accesses of one buffer: neighbours share, strangers add up, a diagonal is no square") {
  const auto costs = loop_costs(parse_func(R"(
func f(in X: f32[100,100], out Y: f32[10]) {
  for x in 10 {
    block Y(vx: S 10 = x) { Y[vx] = X[vx,0] + X[vx+1,0] + X[vx+80,0] + X[vx,vx] }
  }
})"));
  // Rows 0..10 of column 0, rows 80..89, and the 10 of the diagonal (whose first is shared: an upper bound).
  CHECK(costs[0].touched == 4 * (11 + 10 + 10 + 10));
}

TEST_CASE("accesses of one box that reach different elements of it add up") {
  const auto costs = loop_costs(parse_func(R"(
func slots(in X: f32[3], out Y: f32[12], out Z: f32[12]) {
  for o in 6, i in 2 {
    block Y(vi: S 12 = o*2+i) {
      Y[vi] = X[vi%3]
    }
    block Z(vi: S 12 = o*2+i) {
      Z[vi] = X[(vi+2)%3]
    }
  }
})"));
  REQUIRE(costs.size() == 2);
  CHECK(costs[1].touched == 4 * (3 + 2 + 2));  // of o = 0, slots 0 and 1, 2 and 0
}

TEST_CASE("a gather may reach every row, and the figure says that it is a bound") {
  const auto costs = loop_costs(parse_func(R"(
func gather(in X: f32[50,8], in I: i64[4], out Y: f32[4,8]) {
  for i in 4, j in 8 {
    block Y(vi: S 4 = i, vj: S 8 = j) { Y[vi,vj] = X[I[vi],vj] }
  }
})"));
  CHECK_FALSE(costs[0].exact);
  CHECK(bytes(costs[0], "X") <= 50 * 8 * 4);
  CHECK(bytes(costs[0], "I") == 8);
  CHECK(costs[1].footprint >= 4 + 4 + 8);
}

TEST_CASE("what the guards of ragged tiles leave out isn't computed") {
  const PrimFunc f = parse_func(R"(
func f(in A: f32[13,17], const B: f32[17,23], out Y: f32[13,23]) {
  for i in 13, j in 23, k in 17 {
    block Y(vi: S 13 = i, vj: S 23 = j, vk: R 17 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})");
  Schedule s(f);
  s("g = fuse Y (i j)")("g0 g1 = split Y.g [_, 16]")("k0 k1 = split Y.k [_, 5]")("g2 g3 = split Y.g0 [_, 4]");
  for (const LoopCost& c : loop_costs(s.func())) CHECK(c.flops == 2.0 * 13 * 23 * 17);
  CHECK(loop_costs(f)[0].flops == 2.0 * 13 * 23 * 17);
}

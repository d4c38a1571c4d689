// What steps look at: accesses of the buffers in question, and the parallel loops that they changed.
#include "catch.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"

using namespace nestor;

TEST_CASE("accesses of the buffers that are wanted, in program order") {
  const PrimFunc f = parse_func(R"(func f(in X: f32[8], in Z: f32[8], out Y: f32[8]) {
  for i in 8 {
    block Y(vi: S 8 = i) {
      Y[vi] = X[vi] * Z[vi] + X[7-vi]
    }
  }
})");
  const Block& b = *find_block(f, "Y");
  CHECK(accesses_of(b).size() == 4);
  const Buffer x = f.params[0].decl.buffer;
  const auto of_x = accesses_of(b, [&](const Buffer& buffer) { return buffer == x; });
  REQUIRE(of_x.size() == 2);
  CHECK(of_x[0].indices[0].as<VarRef>());
  CHECK(of_x[1].indices[0].as<Binary>());
}

TEST_CASE("a step answers for the parallel loops that it changes") {
  // The loop i was wrong before.
  const PrimFunc f = parse_func(R"(func f(in X: f32[8,8], out Y: f32[8], out Z: f32[8]) {
  parallel i in 8 {
    for j in 8 {
      block Y(vi: S 8 = i, vj: S 8 = j) {
        Y[vj] = X[vi,vj]
      }
    }
  }
  for k in 8 {
    block Z(vk: S 8 = k) {
      Z[vk] = X[vk,0]
    }
  }
})");
  CHECK_NOTHROW(apply(f, parse_step("parallel Z.k")));
  CHECK_THROWS_AS(apply(f, parse_step("unroll Y.j")), ScheduleError);
}

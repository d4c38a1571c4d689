// What steps look at: accesses of the buffers in question, the parallel loops that they changed, and whether
// blocks keep out of each other's way.
#include "catch.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"
#include "schedules/disjoint.h"

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

TEST_CASE("blocks never meet where ranges or remainders say so") {
  const auto meet = [](const std::string& a, const std::string& b) {
    const PrimFunc f = parse_func(
        "func f(in X: f32[8], out Y: f32[99]) {\n"
        "  for i in 8 { block A(vi: S 8 = i) { Y[" +
        a +
        "] = X[vi] } }\n"
        "  for i in 8 { block B(vi: S 8 = i) { Y[" +
        b + "] = X[vi] } }\n}");
    const Block &x = *find_block(f, "A"), &y = *find_block(f, "B");
    const auto is_y = [&](const Buffer& buffer) { return buffer == f.params[1].decl.buffer; };
    return !schedules::never_meet(x, accesses_of(x, is_y)[0], y, accesses_of(y, is_y)[0]);
  };
  CHECK_FALSE(meet("vi*2", "vi*2+1"));
  CHECK_FALSE(meet("vi*2+1", "vi*2"));
  CHECK_FALSE(meet("vi", "vi+8"));
  CHECK_FALSE(meet("vi*4+vi%2", "vi*4+2+vi%2"));
  CHECK_FALSE(meet("vi*4+vi%2", "vi*8+22"));
  CHECK_FALSE(meet("31-vi*4", "vi*4+1"));
  CHECK(meet("vi*4+vi%2", "vi*4+1+vi%2"));
  CHECK(meet("vi*4+3+vi%2", "vi*4"));
  CHECK(meet("vi*2", "vi*2+4"));
  CHECK(meet("vi*2", "vi*3+1"));
  CHECK(meet("vi", "vi+7"));
}

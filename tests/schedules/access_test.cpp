// What steps look at: accesses of the buffers in question, the parallel loops that they changed, and whether
// blocks keep out of each other's way.
#include "catch.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"
#include "schedules/digit.h"
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
  CHECK_THROWS_AS(apply(f, parse_step("split Y.j [_, 4]")), ScheduleError);
  CHECK_NOTHROW(apply(f, parse_step("unroll Y.j")));  // under which iterations of i do what they did
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

TEST_CASE("indices that hold a loop as a digit tell its iterations apart") {
  const auto tell = [](const std::string& a, const std::string& b, const std::string& inner) {
    const PrimFunc f =
        parse_func("func f(in X: f32[8], out Y: f32[99,99]) {\n  for i in 8 {\n    for j in " + inner +
                   " { block A(vi: S 8 = i, vj: S 9 = j) { Y[" + a + "] = X[vi] } }\n    for j in " + inner +
                   " { block B(vi: S 8 = i, vj: S 9 = j) { Y[" + b + "] = X[vi] } }\n  }\n}");
    const std::vector<schedules::Place> all = schedules::places(f.body);
    const auto of = [&](const schedules::Place& p) {
      const auto is_y = [&](const Buffer& buffer) { return buffer == f.params[1].decl.buffer; };
      return schedules::digits_of(p, accesses_of(p.block(), is_y)[0], p.loops()[0]);
    };
    return schedules::tell_apart(of(all[0]), of(all[1]));
  };
  CHECK(tell("vi,vj", "vi,0", "4"));
  CHECK(tell("vj,vi*4+vj", "0,vi*4+vj", "4"));
  CHECK(tell("7-vi,vj", "7-vi,vj", "4"));
  CHECK(tell("0,vi*4+vj", "0,vi*4+vj+1", "3"));
  CHECK_FALSE(tell("0,vi*4+vj", "0,vi*4+vj+1", "4"));
  CHECK_FALSE(tell("0,vi*4+vj", "0,vi*4+vj", "5"));
  CHECK_FALSE(tell("vi,0", "vi+1,0", "4"));
  CHECK_FALSE(tell("vi*4,0", "vi*3,0", "4"));
  CHECK_FALSE(tell("vi,0", "7-vi,0", "4"));
  CHECK_FALSE(tell("vi/2,0", "vi/2,0", "4"));
  CHECK_FALSE(tell("vj,vj", "vj,vj", "4"));
  CHECK_FALSE(tell("vi*vj,0", "vi*vj,0", "4"));
}

// Templates: which functions they match, what their names are bound to, what is wrong in one.
#include "catch.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/plan.h"
#include "nestor/print.h"
#include "tests/fuzz/equivalence.h"

using namespace nestor;

namespace {

const char* const kProduct = R"(func f(in P: f32[20,130], const W: f32[130,48], out Z: f32[20,48]) {
  alloc T: f32[20,48]
  for row in 20, col in 48, s in 130 {
    block Sum(v0: S 20 = row, v1: S 48 = col, v2: R 130 = s) {
      init { T[v0,v1] = 0.0f32 }
      T[v0,v1] += P[v0,v2] * W[v2,v1]
    }
  }
  for a in 20, b in 48 {
    block Relu(v0: S 20 = a, v1: S 48 = b) {
      Z[v0,v1] = max(T[v0,v1], 0.0f32)
    }
  }
})";

const char* const kSteps = R"(
width = sample_choice [16, 32] -> 16
rows = sample_choice [2, 4] -> 4
set_scope Sums local
j0 j1 = split C.j [_, width]
i0 i1 = split C.i [_, rows]
reorder C (j0 i0 k i1 j1)
wi wj = reverse_compute_at E C.i0
unroll C.i1
vectorize C.j1
unroll E.wi
vectorize E.wj
decompose_reduction C.k
)";

// Why the template doesn't match; empty: it does.
std::string why_not(const std::string& when) {
  std::string why;
  const bool matches = ScheduleTemplate("rows.sched", when + "\nannotate C note=1\n")
                           .match(parse_func(kProduct, "f"), parse_target("x86-64-v4"), &why)
                           .has_value();
  return matches ? "" : why;
}

std::string error_of(const std::string& text) {
  try {
    ScheduleTemplate("rows.sched", text);
  } catch (const UserError& e) {
    const Diagnostic& d = e.diagnostic();
    return std::to_string(d.loc.line) + ":" + std::to_string(d.loc.column) + ": " + d.message;
  }
  return "";
}

}  // namespace

TEST_CASE("A template's steps are for the function in its own names") {
  const PrimFunc f = parse_func(kProduct, "f");
  const Target target = parse_target("x86-64-v4");
  const ScheduleTemplate rows(
      "some/folder/product_rows.sched",
      "# a head\nwhen block C reduction k >= 64, spatial i j, reads A B, writes Sums, "
      "constant B, type f32, op add\nwhen block E spatial x y % 16, reads C\nwhen "
      "target lanes >= 8\n" +
          std::string(kSteps));
  CHECK(rows.name() == "product_rows");
  const auto trace = rows.match(f, target);
  REQUIRE(trace);
  CHECK(print(trace->steps[2]) == "set_scope T local");
  CHECK(print(trace->steps[3]) == "j0 j1 = split Sum.col [_, width]");
  CHECK(trace->steps[3].loc.line == 9);
  CHECK(trace->steps[3].calls.empty());
  const PrimFunc scheduled = apply(f, *trace);
  lower(scheduled, target);
  CHECK(compare_runs(scheduled, run_original(f, 7), 7, 1e-4).same);
}

TEST_CASE("A template says what of a function doesn't match") {
  const std::string rest = "\nwhen block E spatial x y";
  CHECK(why_not("when block C reduction k, spatial i j" + rest) == "");
  CHECK(why_not("when block C reduction k" + rest) == "");
  CHECK(why_not("when block C reduction k, spatial i ...\nwhen others") == "");
  CHECK(why_not("when block C spatial x y, reads T\nwhen others") == "");
  CHECK(why_not("when block C reduction k >= 131" + rest) == "block Sum as C: k is 130, not >= 131");
  CHECK(why_not("when block C reduction k % 4" + rest) == "block Sum as C: k is 130, not % 4");
  CHECK(why_not("when block C reduction k l" + rest) == "block Sum as C: it has 1 reduction loops");
  CHECK(why_not("when block C spatial i j" + rest) == "block Sum as C: it is a reduction");
  CHECK(why_not("when block C reduction k\nwhen block E reduction l") ==
        "block Relu as E: it isn't a reduction");
  CHECK(why_not("when block C reduction k, reads A" + rest) == "block Sum as C: it reads 2 buffers");
  CHECK(why_not("when block C reduction k, reads A B, constant A" + rest) ==
        "block Sum as C: A isn't a constant that it reads");
  CHECK(why_not("when block C reduction k, op max" + rest) == "block Sum as C: its operation is add");
  CHECK(why_not("when block C reduction k, type f16" + rest) == "block Sum as C: its results are f32");
  CHECK(why_not("when block C reduction k, reads A B\nwhen block E spatial x y, reads B") ==
        "block Relu as E: it reads T, which isn't B");
  CHECK(why_not("when block C reduction k") == "it has 2 blocks, the template 1");
  CHECK(why_not("when block C reduction k" + rest + "\nwhen target cores > 100000") != "");
}

TEST_CASE("What is wrong in a template is said with its place") {
  CHECK(error_of("split C.i [_, 4]\n") == "0:0: rows.sched doesn't say which functions it is for");
  CHECK(error_of("when block C reduction k >= x\n") == "1:29: `x` isn't a number of at least 1");
  CHECK(error_of("when block C reduction k >=\n") == "1:26: a number is missing after `>=`");
  CHECK(error_of("when block C reduction k spatial i\n") == "1:26: a comma is missing before `spatial`");
  CHECK(error_of("when block C size k\n") == "1:14: `size` isn't a clause");
  CHECK(error_of("when block C reads A > 3\n") == "1:24: `A` isn't a loop, so it has no extent to compare");
  CHECK(error_of("when block C spatial i\nwhen block D spatial i\n") == "2:22: `i` names two things");
  CHECK(error_of("when target speed > 3\n") == "1:21: a target has no `speed`");
  CHECK(error_of("when loop i\n") == "1:6: `when` is followed by `block`, `target` or `others`, not `loop`");
  CHECK(error_of("when block C spatial i\nunroll C.i\nwhen others\n") ==
        "3:1: `when` comes before the steps");
  CHECK(error_of("when block C spatial i\n\nx = split C.i [_, 4\n").starts_with("3:"));
}

TEST_CASE("A plan of another size is carried over") {
  const Target target = parse_target("x86-64-v4");
  const auto text = [](int64_t n) {
    const std::string s = std::to_string(n);
    return "func f(in A: f32[" + s + ",200], in B: f32[200," + s + "], out Y: f32[" + s + "," + s +
           "]) {\n  for i in " + s + ", j in " + s + ", k in 200 {\n    block Y(vi: S " + s + " = i, vj: S " +
           s + " = j, vk: R 200 = k) {\n      init { Y[vi,vj] = 0.0f32 }\n      Y[vi,vj] += A[vi,vk] * " +
           "B[vk,vj]\n    }\n  }\n}\n";
  };
  const auto large = plan_spaces(parse_func(text(100), "f"), target),
             small = plan_spaces(parse_func(text(6), "f"), target);
  std::mt19937_64 rng(1);
  const auto plan = large[0]->draw(rng);
  REQUIRE(plan);
  CHECK(large[0]->carry_over(large[0]->print(*plan)) == plan);
  const auto carried = small[0]->carry_over("any Y.lanes=j Y.i.tile=64 Y.i.inner=12 Y.width=2 Y.gone=3");
  REQUIRE(carried);
  const std::string printed = small[0]->print(*carried);
  CHECK(printed.find("Y.lanes=j Y.width=2 Y.i.tile=4 Y.i.inner=6 ") != std::string::npos);
  CHECK(!small[0]->carry_over("other Y.lanes=j"));
}

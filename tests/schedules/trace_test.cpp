// The text of traces: what is read, printed again the same, and refused with the place.
#include "catch.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/schedule.h"

using namespace nestor;

namespace {

std::string error_of(const std::string& text) {
  try {
    parse_trace(text, "t.sched");
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what is no step reads back as it was written, too") {
  for (const char* line : {"merge T.i,T.j", "split T.i , [_, 4]", "reorder T (i,j),k", "a b=1,2"}) {
    const std::string printed = print(parse_trace(line));
    INFO(printed);
    CHECK(print(parse_trace(printed)) == printed);
  }
}

TEST_CASE("a step about a function without blocks is refused") {
  const PrimFunc f = parse_func("func f(in X: f32[4], out Y: f32[4]) {\n}\n");
  for (const char* line :
       {"reorder Y (i j)", "fuse Y (i j)", "vectorize Y.i", "compute_at Y T.i", "parallel Y"})
    CHECK_THROWS_AS(apply(f, parse_step(line)), UserError);
}

TEST_CASE("a loop of the largest extent isn't split by what overflows") {
  const PrimFunc f = parse_func(
      "func f(in X: f32[4], out Y: f32[4]) {\n  for i in 9223372036854775807 {\n    block Y(vi: S 4 = i) {\n "
      "     "
      "Y[vi] = X[vi]\n    }\n  }\n}\n");
  for (const char* line : {"split Y.i [_, 4]", "split Y.i [2, 4]", "split Y.i [_, 3] tail=balanced"})
    CHECK_THROWS_AS(apply(f, parse_step(line)), UserError);
}

TEST_CASE("a trace round-trips through its text") {
  const std::string text =
      "schedule matmul for x86-64-v4 {\n"
      "  i0 _ i1 = split T.i [_, 2, 14] tail=peel\n"
      "  reorder T (i0 j0 k i1 j1)\n"
      "  transform_layout W V (o, c) -> (o/32, c, o%32)\n"
      "  f0 f1 = sample_factors T.k parts=2 max=64 -> [4, 16]\n"
      "  annotate T.i0 note=\"a # b\"\n"
      "}\n";
  const Trace trace = parse_trace(text);
  CHECK(trace.func == "matmul");
  CHECK(trace.target == "x86-64-v4");
  REQUIRE(trace.steps.size() == 5);
  CHECK(trace.steps[0].results == std::vector<std::string>{"i0", "_", "i1"});
  CHECK(trace.steps[0].args == std::vector<std::string>{"T.i", "[_, 2, 14]"});
  CHECK(trace.steps[0].options == std::vector<std::pair<std::string, std::string>>{{"tail", "peel"}});
  CHECK(print(trace) == text);
  CHECK(print(parse_trace(print(trace))) == text);
}

TEST_CASE("header, blanks and comments are free") {
  const Trace trace = parse_trace("# all of it\n\n  a b = split   T.i [ _ ,16]# why\nreorder T ( a\tb )\r\n");
  CHECK(trace.steps.size() == 2);
  CHECK(print(parse_step("a b = split   T.i [ _ ,16]  # why")) == "a b = split T.i [_, 16]");
  CHECK(print(parse_step("reorder T ( a\tb )")) == "reorder T (a b)");
  CHECK(print(parse_step("transform_layout W (o,c)->(o/2,c,o%2) pad=0")) ==
        "transform_layout W (o, c) -> (o/2, c, o%2) pad=0");
}

TEST_CASE("a step written as a call is shown as a step") {
  const auto hint_of = [](const char* line) -> std::string {
    try {
      parse_step(line);
    } catch (const UserError& e) {
      return e.diagnostic().hint;
    }
    return "accepted";
  };
  CHECK(hint_of("split(T.i, 4)") == "split T.i [_, 4]");
  CHECK(hint_of("a b = split(T.i, _, 4) tail=peel") == "a b = split T.i [_, 4] tail=peel");
  CHECK(hint_of("compute_at(T, Y.i)") == "compute_at T Y.i");
}

TEST_CASE("errors in a trace name file, line and column") {
  CHECK(error_of("x\nsplit T.i [2, 3\n").find("t.sched:2:11: error: `[` is never closed") == 0);
  CHECK(error_of("split T.i 2)\n").find("t.sched:1:12: error: `)` closes nothing") == 0);
  CHECK(error_of("schedule f {\nparallel T.i\n").find("closing `}` is missing") != std::string::npos);
  CHECK(error_of("schedule f for {\n}\n").find("hint: schedule NAME for TARGET {") != std::string::npos);
  CHECK(error_of("schedule f {\n}\nparallel T.i\n").find("t.sched:3:1") == 0);
  CHECK(error_of("= split T.i [2]\n").find("there are no names before `=`") != std::string::npos);
  CHECK(error_of("3x = split T.i [2]\n").find("`3x` isn't a name") != std::string::npos);
  CHECK(error_of("split T.i [2] tail=a tail=b\n").find("given twice") != std::string::npos);
  CHECK_THROWS_AS(parse_step("  # nothing"), UserError);
}

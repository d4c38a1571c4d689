// What is said of a schedule: the proof, else the interpreter.
#include "catch.h"
#include "nestor/driver.h"
#include "nestor/parse.h"

using namespace nestor;

namespace {

PrimFunc copy_of(const std::string& read, const std::string& size = "8") {
  return parse_func("func f(in X: f32[" + size + "], in I: i64[8], out Y: f32[" + size + "]) {\n  for i in " +
                    size + " {\n    block Y(vi: S " + size + " = i) {\n      Y[vi] = " + read +
                    "\n    }\n  }\n}\n");
}

}  // namespace

TEST_CASE("what the proof decides is not interpreted") {
  const ScheduleReview right = review_schedule(copy_of("X[vi]"), copy_of("X[vi]"));
  CHECK((right.proof.ok() && !right.wrong && right.interpreted.empty()));
  const ScheduleReview wrong = review_schedule(copy_of("X[vi]"), copy_of("X[7-vi]"));
  CHECK((wrong.proof.verdict == Verdict::wrong && wrong.wrong && wrong.interpreted.empty()));
}

TEST_CASE("what the proof can't tell the interpreter decides on random inputs") {
  const ScheduleReview same = review_schedule(copy_of("X[vi] * 2.0f32"), copy_of("X[vi] + X[vi]"));
  CHECK(same.proof.verdict == Verdict::unproved);
  CHECK(!same.wrong);
  CHECK(same.interpreted == "the interpreter gives the same on 3 random inputs");
  const ScheduleReview other = review_schedule(copy_of("f32(I[vi] & 3)"), copy_of("f32(I[vi] ^ 3)"));
  CHECK(other.proof.verdict == Verdict::unproved);
  CHECK(other.wrong);
  CHECK(other.interpreted.find("the interpreter on random inputs: Y: ") == 0);
}

TEST_CASE("what is too large to interpret is said to be so") {
  const ScheduleReview large =
      review_schedule(copy_of("X[vi] * 2.0f32", "9000000"), copy_of("X[vi] + X[vi]", "9000000"));
  CHECK(!large.wrong);
  CHECK(large.interpreted.find("not interpreted: ") == 0);
}

TEST_CASE("a review sees each function before it is lowered and can end the compilation") {
  CompileOptions options;
  int seen = 0;
  options.review = [&](const PrimFunc& func, const ScheduleChoice& choice, const PrimFunc& scheduled) {
    ++seen;
    CHECK(choice.origin == "naive");
    CHECK(verify_schedule(func, scheduled).ok());
    if (seen == 2) throw UserError("enough");
  };
  CHECK_NOTHROW(compile_function(copy_of("X[vi]"), options));
  CHECK_THROWS_AS(compile_function(copy_of("X[vi]"), options), UserError);
}

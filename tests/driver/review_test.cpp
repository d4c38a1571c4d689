// The check of a schedule: by the proof, else by the interpreter.
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

// Right schedules whose terms the proof can't pair: what it doesn't see is no error of theirs.
TEST_CASE("schedules that the proof doesn't follow aren't called wrong") {
  const auto review = [](const char* text, std::initializer_list<const char*> steps) {
    const PrimFunc f = parse_func(text);
    Schedule s(f);
    for (const char* step : steps) s(step);
    return review_schedule(f, s.func());
  };
  const char* const product =
      "func f(in A: f32[3,24], const B: f32[24,4], out Y: f32[3,4]) {\n  for i in 3, j in 4, k in 24 {\n"
      "    block Y(vi: S 3 = i, vj: S 4 = j, vk: R 24 = k) {\n      init { Y[vi,vj] = 0.0f32 }\n"
      "      Y[vi,vj] += A[vi,vk] * B[vk,vj]\n    }\n  }\n}\n";
  const ScheduleReview two =
      review(product, {"k0 k1 k2 = split Y.k [_, 2, 3]", "reorder Y (k1 k0 i j k2)", "R = rfactor Y.k1",
                       "K = cache_read R A global", "L = cache_read R B global", "compute_at K R.k0",
                       "compute_at L R.k0", "software_pipeline R.k0 stages=2"});
  INFO(describe(two));
  CHECK(!two.wrong);
  const ScheduleReview twice = review(
      "func f(in X: f32[9], out Y: f32[1]) {\n  for i in 1, k in 9 {\n    block Y(vi: S 1 = i, vk: R 9 = k) "
      "{\n"
      "      init { Y[vi] = 0.0f32 }\n      Y[vi] += X[vk] * X[vk]\n    }\n  }\n}\n",
      {"K = cache_read Y X global", "loop_partition K.k [4]", "a b = split Y.k [3, _]", "rfactor Y.b"});
  INFO(describe(twice));
  CHECK(!twice.wrong);
  const ScheduleReview gather = review(
      "func f(in X: f32[9], in I: i64[6], out Y: f32[6]) {\n  alloc T: f32[9]\n  for i in 9 {\n"
      "    block T(vi: S 9 = i) {\n      T[vi] = X[8-vi]\n    }\n  }\n  for i in 6 {\n"
      "    block Y(vi: S 6 = i) {\n      Y[vi] = T[I[vi]%9]\n    }\n  }\n}\n",
      {"R = cache_read T X global", "compute_inline T"});
  INFO(describe(gather));
  CHECK(!gather.wrong);
}

TEST_CASE("what is too large to interpret is said to be so") {
  const ScheduleReview large =
      review_schedule(copy_of("X[vi] * 2.0f32", "9000000"), copy_of("X[vi] + X[vi]", "9000000"));
  CHECK(!large.wrong);
  CHECK(large.interpreted.find("not interpreted: ") == 0);
}

TEST_CASE("what is proved for some sizes only is said to be so") {
  const char* const flat =
      "func f[N, M](in X: f32[N,M], out Y: f32[N,M]) {\n  for i in N, j in M {\n"
      "    block Y(vi: S N = i, vj: S M = j) {\n      Y[vi,vj] = X[vi,vj] * 2.0f32\n    }\n  }\n}\n";
  const auto fused = [](const std::string& rows) {
    return parse_func(
        "func f[N, M](in X: f32[N,M], out Y: f32[N,M]) {\n  for i in N*M {\n    block Y(vi: S N = i/" + rows +
        ", vj: S M = i%" + rows + ") {\n      Y[vi,vj] = X[vi,vj] * 2.0f32\n    }\n  }\n}\n");
  };
  const ScheduleReview right = review_schedule(parse_func(flat), fused("M"));
  INFO(describe(right));
  CHECK(right.is_right());
  CHECK_FALSE(right.proof.ok());
  CHECK(describe(right).find("right at the sizes tried: N=1, M=1; N=7, M=5;") != std::string::npos);
  const ScheduleReview wrong = review_schedule(parse_func(flat), fused("N"));
  INFO(describe(wrong));
  CHECK(wrong.wrong);
  CHECK(describe(wrong).find("with N=7, M=5: wrong") != std::string::npos);
  const ScheduleReview all = review_schedule(parse_func(flat), parse_func(flat));
  CHECK(all.proof.ok());
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

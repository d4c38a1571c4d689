#include <cmath>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/verify.h"

using namespace nestor;

namespace {

const char* kMatMul = R"(func matmul(in A: f32[5,40], in B: f32[40,7], out C: f32[5,7]) {
  for i in 5, j in 7, k in 40 {
    block C(vi: S 5 = i, vj: S 7 = j, vk: R 40 = k) {
      init { C[vi,vj] = 0.0f32 }
      C[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})";

const char* kSoftmax = R"(func softmax(in X: f32[4,30], out Y: f32[4,30]) {
  alloc M: f32[4]
  alloc E: f32[4,30]
  alloc S: f32[4]
  for i in 4, j in 30 {
    block M(vi: S 4 = i, vj: R 30 = j) {
      init { M[vi] = -inf_f32 }
      M[vi] max= X[vi,vj]
    }
  }
  for i in 4, j in 30 {
    block E(vi: S 4 = i, vj: S 30 = j) {
      E[vi,vj] = exp((X[vi,vj] - M[vi]) * 20.0f32)
    }
  }
  for i in 4, j in 30 {
    block S(vi: S 4 = i, vj: R 30 = j) {
      init { S[vi] = 0.0f32 }
      S[vi] += E[vi,vj]
    }
  }
  for i in 4, j in 30 {
    block Y(vi: S 4 = i, vj: S 30 = j) {
      Y[vi,vj] = E[vi,vj] / S[vi]
    }
  }
})";

// Padding reads nothing outside; the slope depends on a rounded value.
const char* kLeaky = R"(func leaky(in X: f32[9], in W: f32[3], out Y: f32[9], out Z: f32[9]) {
  alloc P: f32[11]
  alloc T: f32[9]
  for x in 11 {
    block P(vx: S 11 = x) {
      P[vx] = if 1 <= vx && vx < 10 then X[vx-1] else 0.0f32
    }
  }
  for x in 9, r in 3 {
    block T(vx: S 9 = x, vr: R 3 = r) {
      init { T[vx] = 0.25f32 }
      T[vx] += P[vx+vr] * W[vr]
    }
  }
  for x in 9 {
    block Y(vx: S 9 = x) {
      Y[vx] = if T[vx] < 0.0f32 then T[vx] * 0.01f32 else sqrt(T[vx])
    }
  }
  for x in 9 {
    block Z(vx: S 9 = x) {
      Z[vx] = tanh(erf(T[vx]) + sigmoid(T[vx])) + pow(abs(T[vx]) + 0.5f32, 1.5f32) - log(abs(T[vx]) + 1.0f32)
    }
  }
})";

struct Run {
  PrimFunc func;
  std::vector<Tensor> args, exact;  // after running; exact: f64, bounds last
  Comparison compared(size_t arg, size_t bound, double factor = 1) const {
    return compare(args[arg], exact[arg], exact[bound], factor);
  }
};

Run run(const char* text, uint64_t seed = 3) {
  Run r;
  r.func = parse_func(text);
  r.args = random_args(r.func, seed);
  const PrimFunc bounded = with_error_bound(r.func).value();
  check_well_formed(bounded);
  r.exact = random_args(bounded, 0);
  for (size_t i = 0; i < r.args.size(); ++i)
    if (r.func.params[i].role != Role::out) r.exact[i] = r.args[i].cast(DType::f64);
  interpret(r.func, r.args);
  interpret(bounded, r.exact);
  return r;
}

double largest(const Tensor& t) {
  double m = 0;
  for (int64_t i = 0; i < t.size(); ++i) m = std::max(m, t.get(i));
  return m;
}

}  // namespace

TEST_CASE("what is computed in f32 lies within the bound, and the bound is near 2 K eps sum of terms") {
  const Run r = run(kMatMul);
  CHECK(r.exact.size() == 4);
  const Comparison c = r.compared(2, 3);
  CHECK(c.ok());
  CHECK(c.max_abs > 0);
  // |terms| sum to at most 10: 40 terms, each at most 1/4.
  CHECK(largest(r.exact[3]) < 2 * 40 * std::ldexp(1.0, -23) * 10);
  // A missing term can't hide under it.
  Run wrong = r;
  wrong.args[2] = r.args[2].clone();
  wrong.args[2].set(17, r.args[2].get(17) - r.args[0].get(2 * 40) * r.args[1].get(3));
  CHECK(wrong.compared(2, 3).mismatches == 1);
}

TEST_CASE("bounds pass through softmax, padding, selects and math functions") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Run softmax = run(kSoftmax, seed);
    const Comparison c = softmax.compared(1, 2);
    INFO(describe(c, "softmax", softmax.exact[1]));
    CHECK(c.ok());
    CHECK(largest(softmax.exact[2]) < 1e-3);
    const Run leaky = run(kLeaky, seed);
    CHECK(leaky.compared(2, 4).ok());
    CHECK(leaky.compared(3, 5).ok());
    CHECK(largest(leaky.exact[5]) < 1e-4);
  }
}

TEST_CASE("a condition that rounding may flip allows either side") {
  const char* step = R"(func step(in X: f32[3], in H: f32[1], out Y: f32[3]) {
  for i in 3 {
    block Y(vi: S 3 = i) {
      Y[vi] = if X[vi] * H[0] < 0.25f32 then 0.0f32 else 1.0f32
    }
  }
})";
  const PrimFunc bounded = with_error_bound(parse_func(step)).value();
  std::vector<Tensor> args = random_args(bounded, 1);
  for (int i = 0; i < 3; ++i) args[0].set(i, 0.25 * (i + 1));
  args[1].set(0, 0.5);  // 0.125, exactly 0.25, 0.375
  interpret(bounded, args);
  CHECK(args[3].get(0) < 1e-6);
  CHECK(args[3].get(1) >= 1);
  CHECK(args[3].get(2) < 1e-6);
}

TEST_CASE("masked infinities leave no NaN in the bound") {
  Run r = run(kSoftmax);
  const PrimFunc bounded = with_error_bound(r.func).value();
  std::vector<Tensor> exact = random_args(bounded, 1);
  for (int i = 0; i < 10; ++i) exact[0].set(i, -INFINITY);
  interpret(bounded, exact);
  CHECK(exact[1].get(0) == 0);
  for (int64_t i = 0; i < exact[2].size(); ++i) REQUIRE(exact[2].get(i) < 1e-3);
}

TEST_CASE("an integer that a float is rounded to may be the next one where the float is near the middle") {
  const char* to_int = R"(func f(in X: f32[4], out Y: i64[4]) {
  for i in 4 {
    block Y(vi: S 4 = i) {
      Y[vi] = i64(round(X[vi] * 3.0f32) + 7.0f32)
    }
  }
})";
  const PrimFunc bounded = with_error_bound(parse_func(to_int)).value();
  std::vector<Tensor> args = random_args(bounded, 1);
  const std::vector<double> x = {1.25, 1.5, -0.5 + 1e-8, 1e9};  // 3.75, 4.5, -1.5 + 3e-8, 3e9
  for (int64_t i = 0; i < 4; ++i) args[0].set(i, x[static_cast<size_t>(i)]);
  interpret(bounded, args);
  CHECK(args[2].get(0) == 0);
  CHECK(args[2].get(1) >= 1);
  CHECK(args[2].get(2) >= 1);
  CHECK(args[2].get(3) >= 100);
  CHECK(args[1].get_int(0) == 11);
}

TEST_CASE("bytes between floats carry what rounding may have done to them") {
  const char* there_and_back = R"(func f(in X: f32[4], in Z: u8[4], out Y: f32[4]) {
  alloc Q: u8[4]
  alloc P: u8[4]
  for i in 4 {
    block Q(vi: S 4 = i) {
      Q[vi] = u8(i32(round(max(min(X[vi] * 3.0f32, 200.0f32), -7.0f32))) + 7i32)
    }
  }
  for i in 4 {
    block P(vi: S 4 = i) {
      P[vi] = if i < 4 then Q[vi] else 0u8
    }
  }
  for i in 4 {
    block Y(vi: S 4 = i) {
      Y[vi] = f32(i32(P[vi]) - i32(Z[vi])) * 0.5f32
    }
  }
})";
  const PrimFunc bounded = with_error_bound(parse_func(there_and_back)).value();
  std::vector<Tensor> args = random_args(bounded, 1);
  const std::vector<double> x = {1.25, 1.5, -0.5 + 1e-8, 1e3};  // 3.75, 4.5, -1.5 + 3e-8, beyond 200
  for (int64_t i = 0; i < 4; ++i) {
    args[0].set(i, x[static_cast<size_t>(i)]);
    args[1].set_int(i, 1);
  }
  interpret(bounded, args);
  CHECK(args[2].get(0) == 5);  // (4 + 7 - 1) / 2
  CHECK(args[3].get(0) < 1e-5);
  CHECK(args[3].get(1) >= 0.5);
  CHECK(args[3].get(2) >= 0.5);
  CHECK(args[3].get(3) < 1e-3);
}

TEST_CASE("the largest of rounded bytes is as certain as they are; their sum has no bound") {
  const auto reduced = [](const std::string& step) {
    return parse_func(R"(func f(in X: f32[2,2], out Y: i32[2]) {
  alloc Q: u8[2,2]
  for i in 2, j in 2 {
    block Q(vi: S 2 = i, vj: S 2 = j) {
      Q[vi,vj] = u8(i32(round(max(min(X[vi,vj] * 3.0f32, 200.0f32), 0.0f32))))
    }
  }
  for i in 2, j in 2 {
    block Y(vi: S 2 = i, vj: R 2 = j) {
      init { Y[vi] = 0i32 }
      Y[vi] )" + step +
                      R"( i32(Q[vi,vj])
    }
  }
})");
  };
  const PrimFunc bounded = with_error_bound(reduced("max=")).value();
  std::vector<Tensor> args = random_args(bounded, 1);
  const std::vector<double> x = {1.25, 1, 1.5, 0};  // 3.75 and 3, 4.5 and 0
  for (int64_t i = 0; i < 4; ++i) args[0].set(i, x[static_cast<size_t>(i)]);
  interpret(bounded, args);
  CHECK(args[1].get_int(0) == 4);
  CHECK(args[2].get(0) == 0);
  CHECK(args[2].get(1) >= 1);
  std::string why;
  CHECK_FALSE(with_error_bound(reduced("+="), &why));
  CHECK_THAT(why, Catch::Matchers::ContainsSubstring("a reduction of integers that were rounded"));
}

TEST_CASE("where rounding may change more than digits there is no bound") {
  const char* to_int = R"(func f(in X: f32[3], out Y: i64[3]) {
  for i in 3 {
    block Y(vi: S 3 = i) {
      Y[vi] = i64(X[vi] * 3.0f32) * 2
    }
  }
})";
  std::string why;
  CHECK_FALSE(with_error_bound(parse_func(to_int), &why));
  CHECK_THAT(why, Catch::Matchers::ContainsSubstring("arithmetic on integers that were rounded"));
}

TEST_CASE("a bound that would double with every choice isn't made") {
  std::string value = "X[vi]", why;
  for (int k = 0; k < 20; ++k) value = "if X[vi] < 0.5f32 then X[vi] else (" + value + ")";
  const std::string text =
      "func f(in X: f32[3], out Y: f32[3]) {\n  for i in 3 {\n    block Y(vi: S 3 = i) { Y[vi] = " + value +
      " }\n  }\n}";
  CHECK_FALSE(with_error_bound(parse_func(text), &why));
  CHECK_THAT(why, Catch::Matchers::ContainsSubstring("too large to compute"));
}

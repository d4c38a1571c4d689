// The oracle of a large sum reorders the loops, and gives the same as the nest.
#include <cmath>

#include "catch.h"
#include "nestor/driver.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"

using namespace nestor;

TEST_CASE("the oracle of a large sum is the sum, and its bound that of all terms and their start") {
  constexpr int64_t kRows = 301, kColumns = 130, kTerms = 333;  // columns: lanes and a tail
  const PrimFunc f = parse_func(R"(func f(in X: f32[301,333], in W: f32[333,130], out Y: f32[301,130]) {
  for i in 301, j in 130, k in 333 {
    block Y(vi: S 301 = i, vj: S 130 = j, vk: R 333 = k) {
      init { Y[vi,vj] = 2.5f32 }
      Y[vi,vj] += X[vi,vk] * W[vk,vj]
    }
  }
})");
  const std::vector<Tensor> args = random_args(f, 3);
  const Tensor &x = args[0], &w = args[1];
  const Oracle oracle = make_oracle(f, {x, w}, host_target());
  REQUIRE(oracle.unbounded.empty());
  const double u = std::ldexp(1, -24), per_term = kTerms * u;
  for (int64_t i = 0; i < kRows; i += 7)
    for (int64_t j = 0; j < kColumns; ++j) {
      double sum = 2.5, bound = per_term * 2.5;
      for (int64_t k = 0; k < kTerms; ++k) {
        const double term = x.get(i * kTerms + k) * w.get(k * kColumns + j), rounded = u * std::abs(term);
        sum += term;
        bound += rounded + per_term * (std::abs(term) + rounded);
      }
      const int64_t at = i * kColumns + j;
      REQUIRE(oracle.wanted[0].get(at) == Approx(sum).epsilon(1e-12));
      REQUIRE(oracle.bounds[0].get(at) == Approx(bound).epsilon(1e-9));
    }
}

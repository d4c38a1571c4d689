#include <cmath>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/verify.h"

using namespace nestor;

namespace {

Tensor tensor(DType t, std::vector<int64_t> shape, std::vector<double> values) {
  Tensor out(t, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, values[static_cast<size_t>(i)]);
  return out;
}

}  // namespace

TEST_CASE("a comparison names the worst element") {
  const Tensor want = tensor(DType::f64, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor got = tensor(DType::f32, {2, 3}, {1, 2.001, 3, 4, 5.5, 6});
  const Comparison c = compare(got, want, {1e-4, 1e-5});
  CHECK(c.mismatches == 2);
  CHECK(c.worst == 4);
  CHECK_THAT(describe(c, "y", want),
             Catch::Matchers::ContainsSubstring("2 of 6 elements differ; worst at [1,1]: 5.5, should be 5"));
  CHECK(compare(got, want, {0.2, 0}).ok());
}

TEST_CASE("what agrees says how near to its bound it comes, not how much terms cancelled") {
  const Tensor want = tensor(DType::f64, {3}, {1000, -1e-6, 5}),
               bound = tensor(DType::f64, {3}, {1e-2, 4e-6, 1e-3});
  const Tensor got =
      tensor(DType::f32, {3}, {1000, 0, 5});  // the second is all rounding: a relative difference of 1
  const Comparison c = compare(got, want, bound);
  CHECK(c.ok());
  CHECK(c.max_rel == 1);
  CHECK(describe(c, "y", want) ==
        "y: 3 elements agree, largest difference 1e-06, none above 0.25 of what is allowed");
  CHECK(describe(compare(want, want, bound), "y", want) ==
        "y: 3 elements agree, largest difference 0, none above 0 of what is allowed");
}

TEST_CASE("NaN and infinity are compared as what they are") {
  const double nan = std::nan(""), inf = INFINITY;
  const Tensor want = tensor(DType::f64, {4}, {nan, inf, 1e300, -inf});
  CHECK(compare(tensor(DType::f32, {4}, {nan, inf, inf, -inf}), want).ok());  // 1e300 is infinite in f32
  CHECK(compare(tensor(DType::f32, {4}, {0, inf, inf, -inf}), want, {1e30, 1e30}).mismatches == 1);
  CHECK(compare(tensor(DType::f32, {4}, {nan, nan, inf, inf}), want, {1e30, 1e30}).mismatches == 2);
  CHECK(compare(tensor(DType::f32, {1}, {inf}), tensor(DType::f64, {1}, {1}), {1e30, 1e30}).mismatches == 1);
  CHECK(compare(tensor(DType::f32, {2}, {5, 5}), tensor(DType::f64, {2}, {inf, nan})).mismatches == 2);
  // A bound that is no number allows nothing.
  CHECK(compare(tensor(DType::f32, {2}, {5, 2}), tensor(DType::f64, {2}, {nan, 5}),
                tensor(DType::f64, {2}, {nan, nan}))
            .mismatches == 2);
}

TEST_CASE("integers must be equal, shapes too") {
  CHECK(compare(tensor(DType::i64, {2}, {1, 2}), tensor(DType::i64, {2}, {1, 3}), {1, 1}).mismatches == 1);
  CHECK_THROWS_AS(compare(tensor(DType::f32, {2}, {1, 2}), tensor(DType::f32, {1, 2}, {1, 2})), UserError);
  CHECK(compare(Tensor(DType::f32, {0, 3}), Tensor(DType::f32, {0, 3})).ok());
}

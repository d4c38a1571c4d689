// Results that a sum with 1 would round away, and the logarithms of sums: against f64.
#include <functional>

#include "catch.h"
#include "tests/ops/run_op.h"

using namespace nestor;

namespace {

// Against f64, in units of the last place of f32; what is exact has the same value.
void check_ulps(const OpCase& node, const Values& x, const std::function<double(double)>& right,
                double ulps) {
  const Values y = run(node, {x});
  for (size_t i = 0; i < x.size(); ++i) {
    const auto given = static_cast<double>(static_cast<float>(x[i]));
    const double wanted = right(given), unit = std::ldexp(1.0, std::max(std::ilogb(wanted), -126) - 23);
    INFO(node.node().op << "(" << given << ") is " << y[i] << " instead of " << wanted);
    CHECK(std::abs(y[i] - wanted) <= ulps * unit);
  }
}

}  // namespace

TEST_CASE("Small results keep their digits") {
  const Values x = {-100,  -75,   -29.1,  -20,   -17,  -16, -10, -5, -1,
                    -1e-3, -1e-6, -1e-20, 1e-20, 1e-6, 0.5, 3,   30};
  const auto node = [&](const char* op) { return OpCase(op).input({static_cast<int64_t>(x.size())}); };
  const auto softplus = [](double v) { return std::log1p(std::exp(v)); };
  check_ulps(node("Softplus"), x, softplus, 4);
  check_ulps(
      OpCase("Mish").input({7}), {-75, -20, -5, -1e-3, 1e-6, 0.5, 3},
      [&](double v) { return v * std::tanh(softplus(v)); }, 8);
  check_ulps(
      node("Elu"), x, [](double v) { return v < 0 ? std::expm1(v) : v; }, 4);
  check_ulps(
      node("Celu").attr("alpha", 2.0), x, [](double v) { return v < 0 ? 2 * std::expm1(v / 2) : v; }, 4);
  check_ulps(
      node("Selu"), x,
      [](double v) { return 1.0507009873554805 * (v < 0 ? 1.6732632423543772 * std::expm1(v) : v); }, 5);
  check_ulps(
      OpCase("Gelu").input({6}).attr("approximate", "tanh"), {-4, -3, -2, -1, 1, 2},
      [](double v) { return v / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }, 40);
  // The largest element's logarithm is that of 1 and a little.
  const double little = std::exp(-20.0) + std::exp(-25.0);
  const Values y = run(OpCase("LogSoftmax").input({1, 3}), {{-20, 0, -25}});
  CHECK(std::abs(y[1] + std::log1p(little)) <= 1e-6 * little);
  CHECK(y[0] == -20);
  CHECK(std::abs(run(OpCase("ReduceLogSumExp").input({3}), {{-20, 0, -25}})[0] - std::log1p(little)) <=
        1e-6 * little);
  CHECK(same(run(OpCase("LogSoftmax").input({1, 4}), {{2, 1, 2, 2}}),
             {-std::log(3 + std::exp(-1)), -1 - std::log(3 + std::exp(-1)), -std::log(3 + std::exp(-1)),
              -std::log(3 + std::exp(-1))}));
}

TEST_CASE("Logarithms of sums of exponentials at infinities and NaN") {
  const auto both = [](const Values& row, double sum, const Values& each) {
    const auto n = static_cast<int64_t>(row.size());
    CHECK(same(run(OpCase("ReduceLogSumExp").input({1, n}).ints({1}), {row}), {sum}));
    CHECK(same(run(OpCase("LogSoftmax").input({1, n}), {row}), each));
  };
  both({-kInf, -kInf}, -kInf, {kNaN, kNaN});
  both({-kInf, 2, -kInf}, 2, {-kInf, 0, -kInf});
  both({kInf, 2, kInf}, kInf, {kNaN, kNaN, kNaN});
  both({kInf, 0, -kInf}, kInf, {kNaN, kNaN, kNaN});
  both({kNaN, 2}, kNaN, {kNaN, kNaN});
}

#include "bench/unary_errors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/interpret.h"

namespace nestor {

namespace {

double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}
double sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
// Constants that the operators round to f32 are rounded here.
double f32(double x) {
  return static_cast<double>(static_cast<float>(x));
}
double hard_sigmoid(double x, double alpha, double beta) {
  const double line = f32(alpha) * x + beta;
  return std::isnan(x) ? x : std::min(1.0, std::max(0.0, line));
}
double magnitude(double x) {
  return std::abs(x);
}

// The error of a result in units of the last place of `unit_of`.
double ulps_off(float got, double exact, double unit_of) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(rounded) || std::isinf(got)) {
    // Within reach of the largest float both are right.
    const bool edge = std::abs(exact) > 0x1.fffff0p127 && std::abs(got) >= 0x1.fffff0p127f;
    return got == rounded || (edge && std::signbit(got) == std::signbit(exact)) ? 0 : 1e30;
  }
  const int exponent = unit_of == 0 ? -126 : std::clamp(std::ilogb(unit_of), -126, 127);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

}  // namespace

const std::vector<UnaryOperator>& unary_operators() {
  static const std::vector<UnaryOperator> all = {
      {"Exp", "", 1.14, [](double x) { return std::exp(x); }, nullptr},
      {"Log", "", 0.94, [](double x) { return std::log(x); }, nullptr},
      {"Sin", "", 1.55, [](double x) { return std::sin(x); }, nullptr},
      {"Cos", "", 1.55, [](double x) { return std::cos(x); }, nullptr},
      {"Tanh", "", 2.6, [](double x) { return std::tanh(x); }, nullptr},
      {"Erf", "", 2.98, [](double x) { return std::erf(x); }, nullptr},
      {"Sigmoid", "", 3.1, sigmoid, nullptr},
      {"Softplus", "", 2.3, softplus, nullptr},
      {"Mish", "", 60, [](double x) { return x * std::tanh(softplus(x)); }, nullptr},
      {"Elu", "; alpha=1.5", 1.8, [](double x) { return x < 0 ? 1.5 * std::expm1(x) : x; }, nullptr},
      {"Celu", "; alpha=1.5", 2.2, [](double x) { return x < 0 ? 1.5 * std::expm1(x / 1.5) : x; }, nullptr},
      {"Selu", "", 2.3,
       [](double x) {
         return f32(1.0507009873554805) * (x < 0 ? f32(1.6732632423543772) * std::expm1(x) : x);
       },
       nullptr},
      {"Gelu", "", 1.6, [](double x) { return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2); }, magnitude},
      {"Gelu", "; approximate=\"tanh\"", 2.2,
       [](double x) { return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)); },
       magnitude},
      {"Swish", "", 60, [](double x) { return x * sigmoid(x); }, nullptr},
      {"HardSigmoid", "", 0.5, [](double x) { return hard_sigmoid(x, 0.2, 0.5); }, [](double) { return 1.0; }},
      {"HardSwish", "", 1.25, [](double x) { return x * hard_sigmoid(x, 1.0 / 6, 0.5); }, magnitude},
      {"Softsign", "", 1.5, [](double x) { return x / (1 + std::abs(x)); }, nullptr},
      {"LeakyRelu", "; alpha=0.25", 0.5, [](double x) { return x < 0 ? 0.25 * x : x; }, nullptr},
      {"ThresholdedRelu", "", 0, [](double x) { return x > 1 ? x : 0; }, nullptr},
      {"Relu", "", 0, [](double x) { return std::isnan(x) ? x : std::max(0.0, x); }, nullptr},
      {"Sqrt", "", 0.5, [](double x) { return std::sqrt(x); }, nullptr},
      {"Reciprocal", "", 0.5, [](double x) { return 1 / x; }, nullptr},
      {"Floor", "", 0, [](double x) { return std::floor(x); }, nullptr},
      {"Ceil", "", 0, [](double x) { return std::ceil(x); }, nullptr},
      {"Round", "", 0, [](double x) { return std::nearbyint(x); }, nullptr},
      {"Neg", "", 0, [](double x) { return -x; }, nullptr},
      {"Abs", "", 0, magnitude, nullptr},
      {"Sign", "", 0, [](double x) { return x > 0   ? 1
                                            : x < 0 ? -1
                                                    : x; }, nullptr},
  };
  return all;
}

WorstError worst_error(const UnaryOperator& op, const Target& target, uint64_t stride) {
  constexpr int64_t kBlock = 1 << 14;
  CompileOptions options;
  options.target = target;
  options.schedules = default_schedules();
  const std::string opset = std::string(op.name) == "Swish" ? "@24" : "";
  const std::string text = op.name + opset + "(f32[" + std::to_string(kBlock) + "]" + op.attrs + ")";
  const Source source = load(text, options);
  const Partition parts = partition(source.graph, {});
  NESTOR_CHECK(parts.funcs.size() == 1) << text << " is " << parts.funcs.size() << " functions";
  const CompiledFunction f = compile_function(parts.funcs[0], options);
  const bool here = runs_here(target);
  Tensor x(DType::f32, {kBlock}), y(DType::f32, {kBlock});
  std::optional<FunctionRunner> runner;
  if (here) {
    runner.emplace(f, target);
    runner->bind({x, y});
  }
  WorstError worst;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32);) {
    const auto in = x.as<float>();
    for (float& v : in) {
      v = std::bit_cast<float>(static_cast<uint32_t>(bits));
      bits += stride;
    }
    std::vector<Tensor> args = {x, y};
    if (runner)
      runner->run();
    else
      interpret(f.lowered, args);
    const auto out = args[1].as<float>();
    for (size_t i = 0; i < in.size(); ++i) {
      const auto given = static_cast<double>(in[i]);
      const double exact = op.exact(given),
                   ulps = ulps_off(out[i], exact, op.scale ? op.scale(given) : exact);
      if (ulps > worst.ulps) {
        const int64_t inputs = worst.inputs;
        worst = {ulps, exact, in[i], out[i], inputs};
      }
    }
    worst.inputs += kBlock;
  }
  return worst;
}

}  // namespace nestor

// The expanded math functions against the C library in double precision, over floats of every exponent and
// sign.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"

using namespace nestor;

namespace {

// Y[i] = fn(X[i] ...) on vectors of 16, expanded.
PrimFunc elementwise(const std::string& fn, int arity, int64_t n, const Target& target = host_target()) {
  const std::string size = std::to_string(n), x = "X[ramp(i*16, 1, 16)]";
  const std::string call = fn == "exp_nonpositive" ? "exp_nonpositive(-abs(" + x + "))"
                           : arity == 2            ? fn + "(" + x + ", Z[ramp(i*16, 1, 16)])"
                                                   : fn + "(" + x + ")";
  return passes::expand_math(
      parse_func("func f(in X: f32[" + size + "], in Z: f32[" + size + "], out Y: f32[" + size +
                 "]) {\n  for i in " + std::to_string(n / 16) + " {\n    Y[ramp(i*16, 1, 16)] = " + call +
                 "\n  }\n}\n"),
      target);
}

// The error of a result in units of the last place of the exact value (of the smallest denormal below the
// normal range).
double ulp_error(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : 1e30;
  const float rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    // Within reach of the largest float both are right.
    return std::abs(exact) > 0x1.fffffdp127 && std::abs(got) >= 0x1.fffffep127f ? 0 : 1e30;
  }
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, exact == 0 ? -149 : exponent - 23);
}

double reference(const std::string& fn, double x, double y) {
  if (fn == "exp") return std::exp(x);
  if (fn == "exp_nonpositive") return std::exp(-std::abs(x));
  if (fn == "expm1") return std::expm1(x);
  if (fn == "log") return std::log(x);
  if (fn == "log1p") return std::log1p(x);
  if (fn == "tanh") return std::tanh(x);
  if (fn == "erf") return std::erf(x);
  if (fn == "sin") return std::sin(x);
  if (fn == "cos") return std::cos(x);
  if (fn == "sigmoid") return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
  return std::pow(x, y);
}

// What n ln2 rounded at once adds to the error.
double allowance(const std::string& fn, double x) {
  return fn == "exp_nonpositive" && !std::isnan(x) ? std::min(std::abs(x), 104.0) / 21 : 0;
}

struct Worst {
  double ulp = 0;
  float x = 0, y = 0, got = 0;
};

// Every `stride`-th bit pattern, in blocks through the compiled function; where that can't run here, one
// block through the interpreter.
Worst worst_error(const std::string& fn, const Target& target, uint64_t stride) {
  constexpr int64_t n = 1 << 16;
  const PrimFunc f = elementwise(fn, fn == "pow" ? 2 : 1, n, target);
  std::shared_ptr<JitModule> module;
  if (runs_here(target))
    module = JitModule::compile({f}, target);
  else
    stride = std::max(stride, (uint64_t{1} << 32) / n - 1);
  Tensor x(DType::f32, {n}), z(DType::f32, {n}), y(DType::f32, {n});
  Worst worst;
  uint64_t bits = 0, mix = 1;
  while (bits < (uint64_t{1} << 32)) {
    for (int64_t i = 0; i < n; ++i, bits += stride) {
      x.as<float>()[static_cast<size_t>(i)] = std::bit_cast<float>(static_cast<uint32_t>(bits));
      mix = mix * 6364136223846793005ULL + 1442695040888963407ULL;
      // Exponents of all sizes for pow, most of them such that the result is in range.
      const auto any = std::bit_cast<float>(static_cast<uint32_t>(mix >> 32));
      const double l = std::log2(std::abs(static_cast<double>(x.as<float>()[static_cast<size_t>(i)])));
      const auto fitting = static_cast<float>((static_cast<double>(mix >> 40) / 0x1p24 - 0.5) * 300 / l);
      z.as<float>()[static_cast<size_t>(i)] = mix & 1 ? any : mix & 2 ? std::round(fitting) : fitting;
    }
    if (module) {
      void* args[] = {x.data(), z.data(), y.data()};
      REQUIRE(module->lookup("f")(args, nullptr, nullptr) == 0);
    } else {
      std::vector<Tensor> args = {x, z, y};
      interpret(f, args);
      y = args[2];
    }
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const float a = x.as<float>()[i], b = z.as<float>()[i], got = y.as<float>()[i];
      const double error = ulp_error(got, reference(fn, a, b)) - allowance(fn, a);
      if (error > worst.ulp) worst = {error, a, b, got};
    }
  }
  return worst;
}

void check_specials(const std::string& target, const std::string& fn,
                    const std::vector<std::pair<float, float>>& cases) {
  PrimFunc f = elementwise(fn, 1, 16, parse_target(target));
  for (const auto& [x, expected] : cases) {
    Tensor in(DType::f32, {16}), out(DType::f32, {16});
    for (int64_t i = 0; i < 16; ++i) in.set(i, x);
    std::vector<Tensor> args = {in, in, out};
    interpret(f, args);
    const auto got = static_cast<float>(args[2].get(3));
    INFO("for " << target << " " << fn << "(" << x << ") = " << got << ", not " << expected);
    CHECK((std::isnan(expected) ? std::isnan(got)
                                : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(expected)));
  }
}

uint64_t stride() {
  const char* dense = std::getenv("NESTOR_DENSE");  // 1: every float, some minutes
  return dense ? std::strtoull(dense, nullptr, 10) : 1021;
}

}  // namespace

TEST_CASE("expanded math functions are within their stated error") {
  // The bounds that the head of math_expansion.cpp states.
  const auto [fn, bound] = GENERATE(table<std::string, double>({{"exp", 1.14},
                                                                {"exp_nonpositive", 1.75},
                                                                {"expm1", 1.6},
                                                                {"log", 0.94},
                                                                {"log1p", 1.5},
                                                                {"tanh", 2.6},
                                                                {"sigmoid", 3.1},
                                                                {"erf", 2.98},
                                                                {"sin", 1.55},
                                                                {"cos", 1.55},
                                                                {"pow", 0.52}}));
  const std::string target = GENERATE("x86-64-v4", "x86-64-v3", "x86-64-v2");
  const double most = fn == "exp" && target != "x86-64-v3" ? 1.05 : bound;
  const Worst w = worst_error(fn, parse_target(target), stride());
  INFO("for " << target << " " << fn << "(" << w.x << ", " << w.y << ") = " << w.got << " is off by " << w.ulp
              << " ulp");
  if (stride() != 1021) WARN(fn << " for " << target << ": " << w.ulp << " ulp at " << w.x << ", " << w.y);
  CHECK(w.ulp <= most);
}

TEST_CASE("expanded math functions at infinities, zeros and NaN") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::string target = GENERATE("x86-64-v4", "x86-64-v3", "x86-64-v2");
  const auto check = [&](const char* fn, const std::vector<std::pair<float, float>>& cases) {
    check_specials(target, fn, cases);
  };
  check("exp",
        {{inf, inf}, {-inf, 0.0f}, {nan, nan}, {0.0f, 1.0f}, {-0.0f, 1.0f}, {89.0f, inf}, {-104.0f, 0.0f}});
  for (const float large : {1e4f, 0x1.fffffep16f, 0x1p17f, 1e9f, 0x1.abcdefp60f, 0x1.fffffep127f})
    check("exp", {{large, inf}, {-large, 0.0f}});
  check("exp_nonpositive",
        {{inf, 0.0f}, {-inf, 0.0f}, {nan, nan}, {0.0f, 1.0f}, {-0.0f, 1.0f}, {1e4f, 0.0f}});
  check("log",
        {{inf, inf}, {-inf, nan}, {nan, nan}, {0.0f, -inf}, {-0.0f, -inf}, {1.0f, 0.0f}, {-1.0f, nan}});
  check("expm1", {{inf, inf},
                  {-inf, -1.0f},
                  {nan, nan},
                  {0.0f, 0.0f},
                  {-0.0f, -0.0f},
                  {89.0f, inf},
                  {-104.0f, -1.0f},
                  {0x1p-149f, 0x1p-149f},
                  {-0x1p-149f, -0x1p-149f}});
  check("log1p", {{inf, inf},
                  {-inf, nan},
                  {nan, nan},
                  {0.0f, 0.0f},
                  {-0.0f, -0.0f},
                  {-1.0f, -inf},
                  {-1.5f, nan},
                  {0x1p-149f, 0x1p-149f},
                  {-0x1p-149f, -0x1p-149f}});
  check("tanh", {{inf, 1.0f}, {-inf, -1.0f}, {nan, nan}, {0.0f, 0.0f}, {-0.0f, -0.0f}});
  check("erf", {{inf, 1.0f}, {-inf, -1.0f}, {nan, nan}, {0.0f, 0.0f}, {-0.0f, -0.0f}});
  check("sin", {{inf, nan}, {-inf, nan}, {nan, nan}, {0.0f, 0.0f}, {-0.0f, -0.0f}});
  check("cos", {{inf, nan}, {-inf, nan}, {nan, nan}, {0.0f, 1.0f}, {-0.0f, 1.0f}});
  check("sigmoid", {{inf, 1.0f}, {-inf, 0.0f}, {nan, nan}, {0.0f, 0.5f}});
}

TEST_CASE("exp_nonpositive is exp up to 40, above which rounding puts no argument") {
  const std::string target = GENERATE("x86-64-v4", "x86-64-v3", "x86-64-v2");
  const PrimFunc f = passes::expand_math(parse_func(R"(
func f(in X: f32[16], out Y: f32[16]) {
  Y[ramp(0, 1, 16)] = exp_nonpositive(X[ramp(0, 1, 16)])
}
)"),
                                         parse_target(target));
  Tensor in(DType::f32, {16}), out(DType::f32, {16});
  for (int64_t i = 0; i < 16; ++i) in.set(i, i == 0 ? 1e-6 : static_cast<double>(i) * 40 / 15);
  std::vector<Tensor> args = {in, out};
  interpret(f, args);
  for (int64_t i = 0; i < 16; ++i) {
    const double x = in.get(i);
    INFO(target << " exp_nonpositive(" << x << ") = " << args[1].get(i));
    CHECK(ulp_error(static_cast<float>(args[1].get(i)), std::exp(x)) <= 1.75 + x / 21);
  }
}

TEST_CASE("exp of what is known not to be above 0 takes fewer steps") {
  const std::string target = GENERATE("x86-64-v4", "x86-64-v3", "x86-64-v2");
  const auto operations = [&](const std::string& fn) {
    int count = 0;
    for_each_expr(elementwise(fn, 1, 16, parse_target(target)).body, [&](const Expr& e) {
      const auto* b = e.as<Binary>();
      count += e.as<Call>() != nullptr || e.as<Select>() != nullptr ||
               (b && b->op != BinaryOp::add && b->op != BinaryOp::mul);
    });
    return count;
  };
  INFO(target);
  CHECK(operations("exp_nonpositive") < operations("exp"));
}

TEST_CASE("expanded pow follows C99's special cases") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {0.0f, -0.0f, 1.0f,  -1.0f,  2.0f, -2.0f, 3.0f, -3.0f,
                                     0.5f, -0.5f, 1e30f, -1e30f, inf,  -inf,  nan,  1e-40f};
  PrimFunc f = elementwise("pow", 2, 16);
  for (float x : values)
    for (float y : values) {
      Tensor a(DType::f32, {16}), b(DType::f32, {16}), out(DType::f32, {16});
      for (int64_t i = 0; i < 16; ++i) {
        a.set(i, x);
        b.set(i, y);
      }
      std::vector<Tensor> args = {a, b, out};
      interpret(f, args);
      const auto got = static_cast<float>(args[2].get(0)), expected = std::pow(x, y);
      INFO("pow(" << x << ", " << y << ") = " << got << ", not " << expected);
      if (std::isnan(expected))
        CHECK(std::isnan(got));
      else
        CHECK((std::abs(got - expected) <= std::abs(expected) * 1e-7f || got == expected));
      if (!std::isnan(expected)) CHECK(std::signbit(got) == std::signbit(expected));
    }
}

TEST_CASE("pow by some constants is a few operations, and follows C99's special cases") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* y : {"1.0", "2.0", "3.0", "-1.0", "0.5", "-0.5"}) {
    PrimFunc f = passes::expand_math(
        parse_func(fmt::format("func f(in X: f32[1], out Y: f32[1]) {{\n  Y[0] = pow(X[0], {}f32)\n}}\n", y)),
        host_target());
    for_each_expr(f.body, [&](const Expr& e) {
      if (const auto* c = e.as<Call>()) CHECK((c->fn == Intrinsic::sqrt || c->fn == Intrinsic::abs));
    });
    for (const float x :
         {0.0f, -0.0f, 1.5f, -1.5f, 1e-20f, 3e12f, -3e12f, 1e30f, -1e30f, 1e-40f, inf, -inf, nan}) {
      std::vector<Tensor> args = {Tensor(DType::f32, {1}), Tensor(DType::f32, {1})};
      args[0].set(0, x);
      interpret(f, args);
      const auto got = static_cast<float>(args[1].get(0)), expected = std::pow(x, std::stof(y));
      INFO("pow(" << x << ", " << y << ") = " << got << ", not " << expected);
      CHECK(std::isnan(got) == std::isnan(expected));
      if (std::isnan(expected)) continue;
      CHECK((std::abs(got - expected) <= std::abs(expected) * 1.2e-7f || got == expected));
      CHECK(std::signbit(got) == std::signbit(expected));
    }
  }
}

// Operators of one tensor, element by element. Each is one row of a table: name, opset, element types,
// formula.
//
// Every operator here passes NaN on, as NumPy and ONNX Runtime do, but those that ask for it and
// ThresholdedRelu, which gives 0 where x isn't above alpha. In `max(0, x)` the constant stands first: that is
// one instruction of the machine.
#include <cmath>
#include <numbers>

#include "src/ops/common.h"
#include "src/ops/inverse_functions.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

using Formula = Expr (*)(const OpContext& ctx, const Expr& x);

Expr call(Intrinsic f, const Expr& x) {
  return make::call(f, {x});
}
Expr imm(const Expr& like, double value) {
  return make::imm(value, like.type());
}

// log(1 + exp(x)) without overflow, and of a very negative x exp(x). Not by exp_nonpositive, whose error
// grows with x: here it would be the result's.
Expr softplus(const Expr& x) {
  return max(imm(x, 0), x) + call(Intrinsic::log1p, call(Intrinsic::exp, -call(Intrinsic::abs, x)));
}

// x tanh(softplus(x)), of which a denormal exp(x) leaves |x| units in the last place: with e = exp(x),
// tanh(log(1 + e)) is w / (w + 2) of w = e (e + 2). It is 1 long before e overflows.
Expr mish(const Expr& x) {
  const Expr e = call(Intrinsic::exp, min(imm(x, 20), x)), w = e * (e + imm(x, 2));
  return x * (w / (w + imm(x, 2)));
}

// A line cut off at 0 and 1.
Expr hard_sigmoid(const Expr& x, double alpha, double beta) {
  return max(imm(x, 0), min(imm(x, 1), imm(x, alpha) * x + imm(x, beta)));
}

// alpha * (exp(x) - 1) below zero.
Expr elu(const Expr& x, double alpha) {
  return make::select(lt(x, imm(x, 0)), imm(x, alpha) * call(Intrinsic::expm1, x), x);
}

// x times the normal distribution's cumulative function, or its approximation by tanh (Hendrycks, Gimpel
// 2016): (1 + tanh(u)) / 2 is sigmoid(2u), which keeps its digits where tanh is near -1.
Expr gelu(const OpContext& ctx, const Expr& x) {
  const std::string approximate = ctx.get_string("approximate", "none");
  if (approximate == "none")
    return imm(x, 0.5) * x * (imm(x, 1) + call(Intrinsic::erf, x * imm(x, std::numbers::sqrt2 / 2)));
  if (approximate != "tanh") ctx.fail("`approximate` is \"" + approximate + "\"", "none or tanh");
  const Expr twice = imm(x, 2 * std::sqrt(2 / std::numbers::pi)) * (x + imm(x, 0.044715) * x * x * x);
  return x * call(Intrinsic::sigmoid, twice);
}

Expr sign(const Expr& x) {
  return make::select(gt(x, imm(x, 0)), imm(x, 1), make::select(lt(x, imm(x, 0)), imm(x, -1), x));
}

Expr absolute(const Expr& x) {
  if (is_float(x.dtype())) return call(Intrinsic::abs, x);
  return is_unsigned(x.dtype()) ? x : make::select(lt(x, imm(x, 0)), imm(x, 0) - x, x);
}

Expr is_infinite(const OpContext& ctx, const Expr& x) {
  const auto asked = [&](const char* attribute, double end) {
    return ctx.get_int(attribute, 1) != 0 ? eq(x, imm(x, end)) : make::imm(0, {DType::boolean, 1});
  };
  return logical_or(asked("detect_negative", -INFINITY), asked("detect_positive", INFINITY));
}

struct Row {
  const char* name;
  int since;
  const std::initializer_list<DType>* types;
  Formula formula;  // of the argument's type, or of booleans
};

const Row kRows[] = {
    {"Relu", 1, &kNumbers, [](const OpContext&, const Expr& x) { return max(imm(x, 0), x); }},
    {"LeakyRelu", 1, &kFloats,
     [](const OpContext& c, const Expr& x) {
       return make::select(lt(x, imm(x, 0)), imm(x, c.get_float("alpha", 0.01)) * x, x);
     }},
    {"ThresholdedRelu", 10, &kFloats,
     [](const OpContext& c, const Expr& x) {
       return make::select(gt(x, imm(x, c.get_float("alpha", 1))), x, imm(x, 0));
     }},
    {"Elu", 1, &kFloats, [](const OpContext& c, const Expr& x) { return elu(x, c.get_float("alpha", 1)); }},
    {"Selu", 1, &kFloats,
     [](const OpContext& c, const Expr& x) {
       return imm(x, c.get_float("gamma", 1.0507009873554805)) *
              elu(x, c.get_float("alpha", 1.6732632423543772));
     }},
    {"Celu", 12, &kFloats,
     [](const OpContext& c, const Expr& x) {
       const double alpha = c.get_float("alpha", 1);
       const Expr grown = imm(x, alpha) * call(Intrinsic::expm1, x / imm(x, alpha));
       return make::select(lt(x, imm(x, 0)), grown, x);
     }},
    {"Sigmoid", 1, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::sigmoid, x); }},
    {"HardSigmoid", 1, &kFloats,
     [](const OpContext& c, const Expr& x) {
       return hard_sigmoid(x, c.get_float("alpha", 0.2), c.get_float("beta", 0.5));
     }},
    {"HardSwish", 14, &kFloats,
     [](const OpContext&, const Expr& x) { return x * hard_sigmoid(x, 1.0 / 6, 0.5); }},
    {"Swish", 24, &kFloats,
     [](const OpContext& c, const Expr& x) {
       return x * call(Intrinsic::sigmoid, imm(x, c.get_float("alpha", 1)) * x);
     }},
    {"Gelu", 20, &kFloats, gelu},
    {"Mish", 18, &kFloats, [](const OpContext&, const Expr& x) { return mish(x); }},
    {"Softplus", 1, &kFloats, [](const OpContext&, const Expr& x) { return softplus(x); }},
    {"Softsign", 1, &kFloats,
     [](const OpContext&, const Expr& x) { return x / (imm(x, 1) + call(Intrinsic::abs, x)); }},
    {"Tanh", 1, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::tanh, x); }},
    {"Erf", 9, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::erf, x); }},
    {"Exp", 1, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::exp, x); }},
    {"Log", 1, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::log, x); }},
    {"Sin", 7, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::sin, x); }},
    {"Cos", 7, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::cos, x); }},
    {"Tan", 7, &kFloats, [](const OpContext&, const Expr& x) { return tan_of(x); }},
    {"Asin", 7, &kFloats, [](const OpContext&, const Expr& x) { return asin_of(x); }},
    {"Acos", 7, &kFloats, [](const OpContext&, const Expr& x) { return acos_of(x); }},
    {"Atan", 7, &kFloats, [](const OpContext&, const Expr& x) { return atan_of(x); }},
    {"Sinh", 9, &kFloats, [](const OpContext&, const Expr& x) { return sinh_of(x); }},
    {"Cosh", 9, &kFloats, [](const OpContext&, const Expr& x) { return cosh_of(x); }},
    {"Asinh", 9, &kFloats, [](const OpContext&, const Expr& x) { return asinh_of(x); }},
    {"Acosh", 9, &kFloats, [](const OpContext&, const Expr& x) { return acosh_of(x); }},
    {"Atanh", 9, &kFloats, [](const OpContext&, const Expr& x) { return atanh_of(x); }},
    {"Shrink", 9, &kFloats,
     [](const OpContext& c, const Expr& x) {
       const Expr bias = imm(x, c.get_float("bias", 0)), bound = imm(x, c.get_float("lambd", 0.5));
       return make::select(lt(x, imm(x, 0) - bound), x + bias,
                           make::select(gt(x, bound), x - bias, imm(x, 0)));
     }},
    {"Sqrt", 1, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::sqrt, x); }},
    {"Reciprocal", 1, &kFloats, [](const OpContext&, const Expr& x) { return imm(x, 1) / x; }},
    {"Floor", 1, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::floor, x); }},
    {"Ceil", 1, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::ceil, x); }},
    {"Round", 11, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::round, x); }},
    {"Neg", 1, &kNumbers, [](const OpContext&, const Expr& x) { return -x; }},
    {"Abs", 1, &kNumbers, [](const OpContext&, const Expr& x) { return absolute(x); }},
    {"Sign", 9, &kNumbers, [](const OpContext&, const Expr& x) { return sign(x); }},
    {"IsNaN", 9, &kFloats, [](const OpContext&, const Expr& x) { return call(Intrinsic::is_nan, x); }},
    {"IsInf", 10, &kFloats, is_infinite},
    {"Not", 1, &kBool, [](const OpContext&, const Expr& x) { return logical_not(x); }},
};

}  // namespace

void register_unary(Rows& rows) {
  for (const Row& row : kRows) {
    // The formula is tried on a number, so that a wrong attribute is reported at import.
    const auto infer = [&row](const OpContext& ctx) -> std::vector<TensorType> {
      require_type(ctx, 0, *row.types);
      const Expr tried = row.formula(ctx, make::imm(0, {ctx.input(0).dtype, 1}));
      return {{tried.dtype(), ctx.input(0).shape}};
    };
    const auto build = [formula = row.formula](const OpContext& ctx, FuncBuilder& b, const Tensors& in,
                                               const Tensors& out) {
      b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) { return formula(ctx, in[0].at(i)); });
    };
    rows.push_back({.name = row.name,
                    .since = row.since,
                    .min_inputs = 1,
                    .max_inputs = 1,
                    .pattern = Pattern::elementwise,
                    .infer = infer,
                    .build = build});
  }
}

}  // namespace nestor::ops

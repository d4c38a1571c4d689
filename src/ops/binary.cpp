// Operators of several tensors, element by element, with broadcasting. Until opset 6 two-operand arithmetic
// broadcast only on request (attributes `broadcast` and `axis`); since opset 7 it is NumPy's rule. Both
// become the same loop nest.
//
// Rules: Div of integers truncates. Pow of integers goes through f64, exact below 2^53. Max and Min pass NaN
// on, whichever operand it is, as `max` and `min` of the IR do. Comparisons with NaN are false (Equal too).
#include <cmath>
#include <limits>

#include "nestor/error.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// The operator `/` of the IR floors; ONNX's Div is C's.
Expr divide(const Expr& a, const Expr& b) {
  return is_float(a.dtype()) ? a / b : make::call(Intrinsic::tdiv, {a, b});
}

// The exponent may have a type of its own (since opset 12); the result has the base's.
Expr power(const Expr& a, const Expr& b) {
  if (const auto* imm = b.as<FloatImm>(); imm && imm->value == 2) return a * a;
  if (is_const_int(b, 2)) return a * a;
  const Type through = is_float(a.dtype()) && (a.dtype() == DType::f64 || b.dtype() != DType::f64)
                           ? a.type()
                           : Type{DType::f64, 1};
  return make::cast(a.type(), make::call(Intrinsic::pow, {make::cast(through, a), make::cast(through, b)}));
}

// The shapes of both operands with broadcasting of the opset in force; second one's dimensions placed by
// `axis`.
std::pair<Dims, Dims> operand_shapes(const OpContext& ctx) {
  const Dims &a = ctx.input(0).shape, &b = ctx.input(1).shape;
  if (ctx.node().opset >= 7) return {a, b};
  if (ctx.node().op == "PRelu") {  // one slope per channel, or one for all
    if (b.size() > 1 || a.size() < 2) return {a, b};
    Dims per_channel(a.size() - 1, 1);
    per_channel[0] = product(b);
    return {a, per_channel};
  }
  if (ctx.get_int("broadcast", 0) == 0) {
    if (a != b)
      ctx.fail("the operands are " + to_string(ctx.input(0)) + " and " + to_string(ctx.input(1)) +
                   ", before opset 7 shapes must be equal",
               "set the attribute broadcast = 1");
    return {a, b};
  }
  const int64_t suffix = static_cast<int64_t>(a.size()) - static_cast<int64_t>(b.size());
  if (suffix < 0)
    ctx.fail("the second operand has more dimensions than the first, which is what it is broadcast to");
  const int64_t axis =
      ctx.has_attr("axis") ? normal_axis(ctx, ctx.get_int("axis", 0), a.size(), true) : suffix;
  if (axis > suffix)
    ctx.fail("`axis` = " + std::to_string(axis) + " leaves too few dimensions for the second operand");
  Dims placed(a.size() - static_cast<size_t>(axis), 1);
  std::copy(b.begin(), b.end(), placed.begin());
  if (broadcast_shapes(ctx, a, placed) != a)
    ctx.fail("the second operand " + to_string(ctx.input(1)) + " doesn't broadcast to the first, " +
             to_string(ctx.input(0)));
  return {a, placed};
}

// Element of t as if its shape were `shape` (the same but for dimensions of 1).
Expr read_placed(const BuildTensor& t, const Dims& shape, const Exprs& i) {
  if (t.shape == shape) return read_broadcast(t, i);
  Exprs at;
  const size_t skip = i.size() - shape.size();
  for (size_t d = 0; d < t.shape.size(); ++d) at.push_back(t.shape[d] == 1 ? Expr(0) : i[skip + d]);
  return t.at(std::move(at));
}

// What an element of the result is, given the operands' elements of the same place.
using Formula = Expr (*)(const Expr& a, const Expr& b);

struct BinaryRow {
  const char* name;
  int since;
  const std::initializer_list<DType>* types;
  bool predicate;  // gives bool
  Formula formula;
};

inline constexpr std::initializer_list<DType> kAny = {DType::f32, DType::f64, DType::i64,    DType::i32,
                                                      DType::i16, DType::i8,  DType::u64,    DType::u32,
                                                      DType::u16, DType::u8,  DType::boolean};

const BinaryRow kBinary[] = {
    {"Add", 1, &kNumbers, false, [](const Expr& a, const Expr& b) { return a + b; }},
    {"Sub", 1, &kNumbers, false, [](const Expr& a, const Expr& b) { return a - b; }},
    {"Mul", 1, &kNumbers, false, [](const Expr& a, const Expr& b) { return a * b; }},
    {"Div", 1, &kNumbers, false, divide},
    {"PRelu", 1, &kFloats, false,
     [](const Expr& x, const Expr& slope) {
       return make::select(lt(x, make::imm(0, x.type())), slope * x, x);
     }},
    {"Equal", 1, &kAny, true, [](const Expr& a, const Expr& b) { return eq(a, b); }},
    {"Less", 1, &kNumbers, true, [](const Expr& a, const Expr& b) { return lt(a, b); }},
    {"LessOrEqual", 12, &kNumbers, true, [](const Expr& a, const Expr& b) { return le(a, b); }},
    {"Greater", 1, &kNumbers, true, [](const Expr& a, const Expr& b) { return gt(a, b); }},
    {"GreaterOrEqual", 12, &kNumbers, true, [](const Expr& a, const Expr& b) { return ge(a, b); }},
    {"And", 1, &kBool, true, [](const Expr& a, const Expr& b) { return logical_and(a, b); }},
    {"Or", 1, &kBool, true, [](const Expr& a, const Expr& b) { return logical_or(a, b); }},
    {"Xor", 1, &kBool, true, [](const Expr& a, const Expr& b) { return ne(a, b); }},
};

void build_binary(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out,
                  Formula formula) {
  const auto [sa, sb] = operand_shapes(ctx);
  b.compute(out[0], axes_of(out[0].shape), [&, &sa = sa, &sb = sb](const Exprs& i) {
    return formula(read_placed(in[0], sa, i), read_placed(in[1], sb, i));
  });
}

// The exponent's type is free since opset 12; the result keeps the base's.
std::vector<TensorType> infer_pow(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  require_type(ctx, 1, kNumbers);
  if (ctx.node().opset < 12) require_same_type(ctx, 0, 1);
  const auto [a, b] = operand_shapes(ctx);
  return {{ctx.input(0).dtype, broadcast_shapes(ctx, a, b)}};
}

std::vector<TensorType> infer_binary(const OpContext& ctx, const BinaryRow& row) {
  require_type(ctx, 0, *row.types);
  require_same_type(ctx, 0, 1);
  const auto [a, b] = operand_shapes(ctx);
  const Dims shape = broadcast_shapes(ctx, a, b);
  if (ctx.node().op == "PRelu" && shape != a)
    ctx.fail("the slope " + to_string(ctx.input(1)) + " doesn't broadcast to " + to_string(ctx.input(0)));
  return {{row.predicate ? DType::boolean : ctx.input(0).dtype, shape}};
}

// ---- Any number of operands

struct VariadicRow {
  const char* name;
  const std::initializer_list<DType>* types;
  Formula formula;
};
const VariadicRow kVariadic[] = {
    {"Sum", &kNumbers, [](const Expr& a, const Expr& b) { return a + b; }},
    {"Mean", &kFloats, [](const Expr& a, const Expr& b) { return a + b; }},
    {"Max", &kNumbers, [](const Expr& a, const Expr& b) { return max(a, b); }},
    {"Min", &kNumbers, [](const Expr& a, const Expr& b) { return min(a, b); }},
};

// All operands broadcast together, folded from the left: ((a + b) + c) + ...
std::vector<TensorType> infer_variadic(const OpContext& ctx, const std::initializer_list<DType>& types) {
  Dims shape = ctx.input(0).shape;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    require_type(ctx, i, types);
    require_same_type(ctx, 0, i);
    shape = broadcast_shapes(ctx, shape, ctx.input(i).shape);
  }
  return {{ctx.input(0).dtype, shape}};
}

// ---- Where, Clip

std::vector<TensorType> infer_where(const OpContext& ctx) {
  require_type(ctx, 0, kBool);
  require_same_type(ctx, 1, 2);
  const Dims shape = broadcast_shapes(ctx, ctx.input(0).shape, ctx.input(1).shape);
  return {{ctx.input(1).dtype, broadcast_shapes(ctx, shape, ctx.input(2).shape)}};
}

void build_where(const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    return make::select(read_broadcast(in[0], i), read_broadcast(in[1], i), read_broadcast(in[2], i));
  });
}

// Bounds were attributes until opset 10, inputs since.
std::vector<TensorType> infer_clip(const OpContext& ctx) {
  require_type(ctx, 0, ctx.node().opset < 11 ? kFloats : kNumbers);
  if (ctx.node().opset < 11)
    for (const char* name : {"min", "max"}) ctx.get_float(name, 0);
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    if (!ctx.has_input(i)) continue;
    require_same_type(ctx, 0, i);
    if (product(ctx.input(i).shape) != 1)
      ctx.fail("a bound is " + to_string(ctx.input(i)) + ", it must be a scalar");
  }
  return {ctx.input(0)};
}

void build_clip(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  // A bound left out is the largest finite number (since opset 6), so that infinities are clipped too.
  const int opset = ctx.node().opset;
  const bool is_f64 = in[0].dtype() == DType::f64 && opset >= 11;
  const double largest = is_f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const auto bound = [&](size_t input, const char* attribute) -> Expr {
    if (opset < 11 && ctx.has_attr(attribute)) return constant_like(in[0], ctx.get_float(attribute, 0));
    if (opset >= 11 && input < in.size() && in[input])
      return in[input].at(Exprs(in[input].shape.size(), Expr(0)));
    if (opset < 6 || !is_float(in[0].dtype())) return {};
    return constant_like(in[0], input == 1 ? -largest : largest);
  };
  const Expr low = bound(1, "min"), high = bound(2, "max");
  // Where low > high the result is high.
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Expr x = in[0].at(i);
    if (low) x = max(low, x);
    return high ? min(high, x) : x;
  });
}

std::vector<TensorType> infer_mod(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  require_same_type(ctx, 0, 1);
  ctx.get_int("fmod", 0);
  return {{ctx.input(0).dtype, broadcast_shapes(ctx, ctx.input(0).shape, ctx.input(1).shape)}};
}

// x - y trunc(x / y), in f64, where the product is exact for quotients of f32 up to 2^29. A divisor that is
// infinite leaves x.
Expr truncated(const Expr& x, const Expr& y) {
  const Type wide{DType::f64, 1};
  const Expr a = make::cast(wide, x), b = make::cast(wide, y), q = a / b;
  const Expr down = make::call(Intrinsic::floor, {make::call(Intrinsic::abs, {q})});
  const Expr whole = make::select(lt(q, make::imm(0, wide)), make::imm(0, wide) - down, down);
  const Expr rest = make::call(Intrinsic::fma, {make::imm(0, wide) - whole, b, a});
  const Expr endless = eq(make::call(Intrinsic::abs, {b}), make::imm(INFINITY, wide));
  return make::cast(
      x.type(),
      make::select(logical_and(endless, lt(make::call(Intrinsic::abs, {a}), make::imm(INFINITY, wide))), a,
                   rest));
}
Expr floored(const Expr& x, const Expr& y) {
  const Expr r = truncated(x, y), zero = make::imm(0, x.type());
  const Expr differ = logical_and(ne(r, zero), ne(lt(r, zero), lt(y, zero)));
  return make::select(differ, r + y, r);
}

// With the divisor's sign, or (fmod) with the dividend's, as in C.
void build_mod(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const bool as_dividend = ctx.get_int("fmod", 0) != 0;
  if (is_float(in[0].dtype())) return build_binary(ctx, b, in, out, as_dividend ? truncated : floored);
  const Formula formula = as_dividend ? [](const Expr& x, const Expr& y) { return x - divide(x, y) * y; }
                                      : [](const Expr& x, const Expr& y) { return x % y; };
  build_binary(ctx, b, in, out, formula);
}

}  // namespace

void register_binary(Rows& rows) {
  for (const BinaryRow& row : kBinary)
    rows.push_back({.name = row.name,
                    .since = row.since,
                    .min_inputs = 2,
                    .max_inputs = 2,
                    .pattern = Pattern::elementwise,
                    .params = "A B",
                    .infer = [&row](const OpContext& ctx) { return infer_binary(ctx, row); },
                    .build = [f = row.formula](const OpContext& ctx, FuncBuilder& b, const Tensors& in,
                                               const Tensors& out) { build_binary(ctx, b, in, out, f); }});
  rows.push_back({.name = "Pow",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .pattern = Pattern::elementwise,
                  .params = "A B",
                  .infer = infer_pow,
                  .build = [](const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
                    build_binary(ctx, b, in, out, power);
                  }});
  rows.push_back({.name = "Mod",
                  .since = 10,
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .pattern = Pattern::elementwise,
                  .params = "A B",
                  .infer = infer_mod,
                  .build = build_mod,
                  .note = "of floats exact where the quotient is below 2^29"});
  for (const VariadicRow& row : kVariadic)
    rows.push_back({.name = row.name,
                    .since = 1,
                    .min_inputs = 1,
                    .max_inputs = -1,
                    .pattern = Pattern::elementwise,
                    .params = "A B C D",
                    .infer = [&row](const OpContext& ctx) { return infer_variadic(ctx, *row.types); },
                    .build =
                        [&row](const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
                          b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
                            Expr e = read_broadcast(in[0], i);
                            for (size_t k = 1; k < in.size(); ++k)
                              e = row.formula(e, read_broadcast(in[k], i));
                            const bool mean = std::string_view(row.name) == "Mean";
                            return mean ? e / make::imm(static_cast<double>(in.size()), e.type()) : e;
                          });
                        }});
  rows.push_back({.name = "Where",
                  .since = 9,
                  .min_inputs = 3,
                  .max_inputs = 3,
                  .pattern = Pattern::elementwise,
                  .params = "C A B",
                  .infer = infer_where,
                  .build = build_where});
  rows.push_back({.name = "Clip",
                  .since = 1,
                  .min_inputs = 1,
                  .max_inputs = 3,
                  .pattern = Pattern::elementwise,
                  .params = "X L H",
                  .infer = infer_clip,
                  .build = build_clip});
}

}  // namespace nestor::ops

// a*b + c becomes fma(a, b, c), rounded once, in f32 and f64. It happens here and not in the machine-code
// generator, so that the interpreter of lowered functions rounds where the machine does. A target without the
// instruction keeps both roundings.
//
// What a byte stands for, a known number times it, is rounded before anything is added: so ONNX's
// DequantizeLinear has it, and the sum may lie half way between two bytes that it is rounded to next.
#include "nestor/walk.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

bool is_number(const Expr& e) {
  const auto* splat = e.as<Broadcast>();
  return static_cast<bool>((splat ? splat->a : e).as<FloatImm>());
}

// Made of loads of integers of 8 or 16 bits, and of no others.
bool is_small_integer(const Expr& e) {
  const auto* c = e.as<Cast>();
  if (!c || is_float(c->a.dtype())) return false;
  bool loads = false, small = true;
  for_each_expr(c->a, [&](const Expr& x) {
    const auto* l = x.as<Load>();
    loads = loads || l;
    small = small && (!l || bytes_of(l->buffer->type.dtype) <= 2);
  });
  return loads && small;
}

bool is_dequantized(const Binary& product) {
  return (is_number(product.a) && is_small_integer(product.b)) ||
         (is_number(product.b) && is_small_integer(product.a));
}

struct Contractor : Rewriter {
  Expr expr(const Expr& e) override {
    Expr out = children(e);
    const auto* sum = out.as<Binary>();
    if (!sum || (out.dtype() != DType::f32 && out.dtype() != DType::f64)) return out;
    if (sum->op != BinaryOp::add && sum->op != BinaryOp::sub) return out;
    const auto product = [](const Expr& x) {
      const auto* b = x.as<Binary>();
      return b && b->op == BinaryOp::mul && !is_dequantized(*b) ? b : nullptr;
    };
    const auto fma = [](Expr a, Expr b, Expr c) {
      return make::call(Intrinsic::fma, {std::move(a), std::move(b), std::move(c)});
    };
    const bool minus = sum->op == BinaryOp::sub;
    // Of two products the right one is contracted: in `X + a*b` the left is the accumulator.
    if (const auto* p = product(sum->b))
      return fma(minus ? make::unary(UnaryOp::neg, p->a) : p->a, p->b, sum->a);
    if (const auto* p = product(sum->a))
      return fma(p->a, p->b, minus ? make::unary(UnaryOp::neg, sum->b) : sum->b);
    return out;
  }
};

}  // namespace

PrimFunc contract_fma(const PrimFunc& f, const Target& target) {
  if (!target.has_fma()) return f;
  PrimFunc out = f;
  out.body = Contractor().stmt(f.body);
  return out;
}

}  // namespace nestor::passes

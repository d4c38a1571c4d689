// Two things differ from ours. Halide's indices have 32 bits, and it infers bounds from them: so integers
// that index are translated apart from integers that are data. And Halide's select evaluates both sides:
// inside one, and where an index was itself loaded, indices are held within the buffer.
#include "src/halide/expr.h"

#include "nestor/walk.h"
#include "src/halide/translate.h"

namespace nestor::halide {

Halide::Type type_of(DType t) {
  switch (t) {
    case DType::f64:
      return Halide::Float(64);
    case DType::f32:
      return Halide::Float(32);
    case DType::i64:
      return Halide::Int(64);
    case DType::i32:
      return Halide::Int(32);
    case DType::i16:
      return Halide::Int(16);
    case DType::i8:
      return Halide::Int(8);
    case DType::u64:
      return Halide::UInt(64);
    case DType::u32:
      return Halide::UInt(32);
    case DType::u16:
      return Halide::UInt(16);
    case DType::u8:
      return Halide::UInt(8);
    case DType::boolean:
      return Halide::Bool();
    case DType::f16:
    case DType::bf16:
      break;
  }
  throw Unsupported("elements of 16-bit floats");
}

// Halide's own min and max say nothing about NaN, and its arithmetic takes it that there is none.
Halide::Expr extremum(BinaryOp op, const Halide::Expr& x, const Halide::Expr& y) {
  const Halide::Expr beyond = op == BinaryOp::min ? x < y : x > y;
  if (!x.type().is_float()) return Halide::select(beyond, x, y);
  return Halide::strict_float(Halide::select(Halide::is_nan(x) || beyond, x, y));
}

Halide::Expr ExprTranslator::load(const Load& l) {
  if (l.mask) throw Unsupported("a masked load");
  const std::vector<int>& extents = extents_.at(l.buffer);
  std::vector<Halide::Expr> indices;
  for (size_t d = 0; d < l.indices.size(); ++d) {
    const Expr& e = l.indices[l.indices.size() - 1 - d];
    Halide::Expr i = index(e);
    if (has_load(e) || (branches_ > 0 && !e.as<IntImm>())) i = Halide::clamp(i, 0, extents[d] - 1);
    indices.push_back(i);
  }
  return access_(l.buffer, indices);
}

Halide::Expr ExprTranslator::index(const Expr& e) {
  if (const auto* imm = e.as<IntImm>()) return Halide::Expr(static_cast<int32_t>(imm->value));
  if (const auto* v = e.as<VarRef>()) {
    if (const auto let = lets_.find(v->var); let != lets_.end()) return index(let->second);
    return vars_.at(v->var);
  }
  if (const auto* b = e.as<Binary>()) {
    const auto both = [&](auto op) { return op(index(b->a), index(b->b)); };
    switch (b->op) {
      case BinaryOp::add:
        return both([](auto x, auto y) { return x + y; });
      case BinaryOp::sub:
        return both([](auto x, auto y) { return x - y; });
      case BinaryOp::mul:
        return both([](auto x, auto y) { return x * y; });
      case BinaryOp::div:
        return both([](auto x, auto y) { return x / y; });
      case BinaryOp::mod:
        return both([](auto x, auto y) { return x % y; });
      case BinaryOp::min:
        return both([](auto x, auto y) { return Halide::min(x, y); });
      case BinaryOp::max:
        return both([](auto x, auto y) { return Halide::max(x, y); });
      default:
        break;
    }
  }
  if (const auto* s = e.as<Select>()) return Halide::select(value(s->cond), index(s->a), index(s->b));
  return Halide::cast<int32_t>(value(e));
}

Halide::Expr ExprTranslator::binary(const Binary& b) {
  const bool compares = is_comparison(b.op);
  const bool indices = compares && b.a.dtype() == DType::i64 && !has_load(b.a) && !has_load(b.b);
  const Halide::Expr x = indices ? index(b.a) : value(b.a), y = indices ? index(b.b) : value(b.b);
  switch (b.op) {
    case BinaryOp::add:
      return x + y;
    case BinaryOp::sub:
      return x - y;
    case BinaryOp::mul:
      return x * y;
    case BinaryOp::div:
      return x / y;
    case BinaryOp::mod:
      return x % y;
    case BinaryOp::min:
    case BinaryOp::max:
      return extremum(b.op, x, y);
    case BinaryOp::eq:
      return x == y;
    case BinaryOp::ne:
      return x != y;
    case BinaryOp::lt:
      return x < y;
    case BinaryOp::le:
      return x <= y;
    case BinaryOp::gt:
      return x > y;
    case BinaryOp::ge:
      return x >= y;
    case BinaryOp::logical_and:
      return x && y;
    case BinaryOp::logical_or:
      return x || y;
    case BinaryOp::bit_and:
      return x & y;
    case BinaryOp::bit_or:
      return x | y;
    case BinaryOp::bit_xor:
      return x ^ y;
    case BinaryOp::shl:
      return x << y;
    case BinaryOp::shr:
      return x >> y;
  }
  throw Unsupported(std::string("the operator ") + symbol(b.op));
}

Halide::Expr ExprTranslator::call(const Call& c, Type type) {
  std::vector<Halide::Expr> a;
  for (const Expr& arg : c.args) a.push_back(value(arg));
  switch (c.fn) {
    case Intrinsic::exp:
    case Intrinsic::exp_nonpositive:
      return Halide::exp(a[0]);
    // Halide has neither of these two: tanh and atanh keep the digits of a small x.
    case Intrinsic::expm1: {
      const Halide::Expr half = Halide::tanh(a[0] / 2);
      return Halide::select(Halide::abs(a[0]) < 1, 2 * half / (1 - half), Halide::exp(a[0]) - 1);
    }
    case Intrinsic::log:
      return Halide::log(a[0]);
    case Intrinsic::log1p:
      return Halide::select(Halide::abs(a[0]) < Halide::cast(a[0].type(), 0.5f),
                            2 * Halide::atanh(a[0] / (2 + a[0])), Halide::log(1 + a[0]));
    case Intrinsic::sqrt:
      return Halide::sqrt(a[0]);
    case Intrinsic::tanh:
      return Halide::tanh(a[0]);
    case Intrinsic::erf:
      if (type.dtype != DType::f32) break;
      return Halide::erf(a[0]);
    case Intrinsic::sigmoid:
      return 1 / (1 + Halide::exp(-a[0]));
    case Intrinsic::sin:
      return Halide::sin(a[0]);
    case Intrinsic::cos:
      return Halide::cos(a[0]);
    case Intrinsic::pow:
      return Halide::pow(a[0], a[1]);
    case Intrinsic::abs:
      return Halide::cast(type_of(type.dtype), Halide::abs(a[0]));
    case Intrinsic::floor:
      return Halide::floor(a[0]);
    case Intrinsic::ceil:
      return Halide::ceil(a[0]);
    case Intrinsic::round:
      return Halide::round(a[0]);
    case Intrinsic::fma:
      return a[0] * a[1] + a[2];
    case Intrinsic::tdiv:
      return Halide::div_round_to_zero(a[0], a[1]);
    case Intrinsic::bitcast:
      return Halide::reinterpret(type_of(type.dtype), a[0]);
    case Intrinsic::is_nan:
      return Halide::is_nan(a[0]);
    case Intrinsic::scalef:
    case Intrinsic::lookup:
    case Intrinsic::sync:
    case Intrinsic::prefetch:
    case Intrinsic::instruction:
      break;
  }
  throw Unsupported(std::string(info(c.fn).name) + " of " +
                    std::string(name_of(c.args.empty() ? type.dtype : c.args[0].dtype())));
}

Halide::Expr ExprTranslator::value(const Expr& e) {
  if (e.type().lanes != 1) throw Unsupported("vector expressions");
  const Halide::Type type = type_of(e.dtype());
  return match(
      e, [&](const IntImm& i) { return Halide::Internal::make_const(type, i.value); },
      [&](const FloatImm& f) { return Halide::Internal::make_const(type, f.value); },
      [&](const VarRef& v) {
        if (const auto let = lets_.find(v.var); let != lets_.end()) return value(let->second);
        return Halide::cast(type, vars_.at(v.var));
      },
      [&](const Load& l) { return load(l); }, [&](const Binary& b) { return binary(b); },
      [&](const Unary& u) { return u.op == UnaryOp::neg ? -value(u.a) : !value(u.a); },
      [&](const Select& s) {
        const Halide::Expr cond = value(s.cond);
        ++branches_;
        const Halide::Expr a = value(s.a), b = value(s.b);
        --branches_;
        return Halide::select(cond, a, b);
      },
      [&](const Cast& c) {
        const Halide::Expr a = value(c.a);
        return e.dtype() == DType::boolean ? a != Halide::cast(a.type(), 0) : Halide::cast(type, a);
      },
      [&](const Call& c) { return call(c, e.type()); },
      [&](const Let& l) {
        lets_[l.var] = l.value;
        return value(l.body);
      },
      [&](const Ramp&) -> Halide::Expr { throw Unsupported("vector expressions"); },
      [&](const Broadcast&) -> Halide::Expr { throw Unsupported("vector expressions"); },
      [&](const VectorReduce&) -> Halide::Expr { throw Unsupported("vector expressions"); },
      [&](const Shuffle&) -> Halide::Expr { throw Unsupported("vector expressions"); });
}

}  // namespace nestor::halide

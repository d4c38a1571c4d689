#include "src/ops/size_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace nestor {

namespace {

// over / under, under > 0. Rounded: a float that is near it.
struct Ratio {
  Expr over;
  int64_t under = 1;
  bool rounded = false;
};

class Integers {
 public:
  explicit Integers(Symbols& symbols) : symbols_(symbols) {}

  // An integer over i64, or null.
  Expr whole(const Expr& e) {
    if (const auto number = as_int(e)) return Expr(*number);
    if (e.as<VarRef>()) return e.dtype() == DType::i64 ? e : Expr{};
    const Expr out = reduced(whole_of(e));
    return out && fits(out, e.dtype()) ? out : Expr{};
  }

  // A bool, or null.
  Expr condition(const Expr& e) {
    if (e.as<IntImm>()) return e;
    if (const auto* cast = e.as<Cast>()) {
      const Expr a = is_int(cast->a.dtype()) ? whole(cast->a) : Expr{};
      return a ? ne(a, Expr(0)) : Expr{};
    }
    if (const auto* unary = e.as<Unary>(); unary && unary->op == UnaryOp::logical_not) {
      const Expr a = condition(unary->a);
      return a ? logical_not(a) : Expr{};
    }
    const auto* binary = e.as<Binary>();
    if (!binary) return {};
    if (binary->op == BinaryOp::logical_and || binary->op == BinaryOp::logical_or)
      return joined(binary->op, condition(binary->a), condition(binary->b));
    if (is_int(binary->a.dtype())) return joined(binary->op, whole(binary->a), whole(binary->b));
    if (!is_float(binary->a.dtype())) return {};
    const auto a = ratio(binary->a), b = ratio(binary->b);
    if (!a || !b || a->rounded || b->rounded) return {};
    return joined(binary->op, a->over * b->under, b->over * a->under);
  }

 private:
  static Expr joined(BinaryOp op, const Expr& a, const Expr& b) {
    return a && b ? make::binary(op, a, b) : Expr{};
  }
  Expr reduced(const Expr& e) const { return e ? symbols_.reduce(e) : e; }
  bool is_at_least(const Expr& e, int64_t least) const { return can_prove(ge(e, least), symbols_.facts()); }

  // Whether e is within bounds, which becomes a requirement.
  bool within(const Expr& e, int64_t least, int64_t most) {
    const char* why = "the model computes this size in a narrower type";
    return symbols_.require(ge(e, least), why) && symbols_.require(le(e, most), why);
  }
  bool fits(const Expr& e, DType t) {
    if (t == DType::i64) return true;
    const int bits = 8 * bytes_of(t) - (t == DType::u8 ? 0 : 1);
    return within(e, t == DType::u8 ? 0 : -(int64_t{1} << bits), (int64_t{1} << bits) - 1);
  }
  bool is_exact(const Expr& e, DType t) {
    const int64_t most = int64_t{1} << (t == DType::f64   ? 53
                                        : t == DType::f32 ? 24
                                        : t == DType::f16 ? 11
                                                          : 8);
    return within(e, -most, most);
  }

  Expr whole_of(const Expr& e) {
    if (const auto* cast = e.as<Cast>()) {
      const DType from = cast->a.dtype();
      if (is_int(from)) return whole(cast->a);
      if (from == DType::boolean) {
        const Expr c = condition(cast->a);
        return c ? make::select(c, Expr(1), Expr(0)) : Expr{};
      }
      const auto r = ratio(cast->a);
      if (!r || r->under == 1) return r ? r->over : Expr{};
      return is_at_least(r->over, 0) ? r->over / Expr(r->under) : Expr{};
    }
    if (const auto* binary = e.as<Binary>()) {
      static constexpr BinaryOp kOps[] = {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::div,
                                          BinaryOp::mod, BinaryOp::min, BinaryOp::max};
      if (std::find(std::begin(kOps), std::end(kOps), binary->op) == std::end(kOps)) return {};
      return joined(binary->op, whole(binary->a), whole(binary->b));
    }
    if (const auto* unary = e.as<Unary>(); unary && unary->op == UnaryOp::neg) {
      const Expr a = whole(unary->a);
      return a ? Expr(0) - a : Expr{};
    }
    if (const auto* select = e.as<Select>()) {
      const Expr c = condition(select->cond), a = whole(select->a), b = whole(select->b);
      return c && a && b ? make::select(c, a, b) : Expr{};
    }
    const auto* call = e.as<Call>();
    if (!call || (call->fn != Intrinsic::tdiv && call->fn != Intrinsic::abs)) return {};
    const Expr a = whole(call->args[0]);
    if (!a) return {};
    if (call->fn == Intrinsic::abs) return is_at_least(a, 0) ? a : Expr{};
    const Expr b = whole(call->args[1]);
    if (!b) return {};
    return is_at_least(a, 0) && is_at_least(b, 1) ? a / b : make::call(Intrinsic::tdiv, {a, b});
  }

  std::optional<Ratio> ratio(const Expr& e) {
    auto r = ratio_of(e);
    if (r) r->over = reduced(r->over);
    if (!r || !is_exact(r->over, e.dtype())) return std::nullopt;
    return r;
  }

  std::optional<Ratio> ratio_of(const Expr& e) {
    if (const auto* imm = e.as<FloatImm>()) {
      constexpr int64_t kMostOver = 1 << 16, kMostUnder = 1 << 8;
      for (int64_t under = 1; under <= kMostUnder; under *= 2)
        if (const double over = imm->value * static_cast<double>(under);
            over == std::floor(over) && std::abs(over) <= kMostOver)
          return Ratio{Expr(static_cast<int64_t>(over)), under};
      return std::nullopt;
    }
    if (const auto* cast = e.as<Cast>()) {
      if (is_float(cast->a.dtype()))
        return bytes_of(cast->a.dtype()) <= bytes_of(e.dtype()) ? ratio(cast->a) : std::nullopt;
      const Expr a = is_int(cast->a.dtype()) ? whole(cast->a) : Expr{};
      return a ? std::optional(Ratio{a}) : std::nullopt;
    }
    if (const auto* call = e.as<Call>()) {
      if (call->fn != Intrinsic::floor && call->fn != Intrinsic::ceil && call->fn != Intrinsic::round)
        return std::nullopt;
      const auto r = ratio(call->args[0]);
      if (!r || r->under == 1 || call->fn == Intrinsic::round) return r && r->under == 1 ? r : std::nullopt;
      const Expr over = call->fn == Intrinsic::ceil ? r->over + Expr(r->under - 1) : r->over;
      return Ratio{over / Expr(r->under)};
    }
    const auto* binary = e.as<Binary>();
    if (!binary) return std::nullopt;
    const auto a = ratio(binary->a), b = ratio(binary->b);
    if (!a || !b || a->rounded || b->rounded) return std::nullopt;
    switch (binary->op) {
      case BinaryOp::add:
        return Ratio{a->over * b->under + b->over * a->under, a->under * b->under};
      case BinaryOp::sub:
        return Ratio{a->over * b->under - b->over * a->under, a->under * b->under};
      case BinaryOp::mul:
        return Ratio{a->over * b->over, a->under * b->under};
      case BinaryOp::div: {
        // Rounded to a float, the quotient of integers that are exact lies on the same side of whole numbers.
        const auto by = as_int(b->over);
        if (!by || *by <= 0) return std::nullopt;
        return Ratio{a->over * b->under, a->under * *by, (*by & (*by - 1)) != 0};
      }
      default:
        return std::nullopt;
    }
  }

  Symbols& symbols_;
};

}  // namespace

Expr in_integers(const Expr& e, Symbols& symbols) {
  const Type type = e.type();
  if (type.lanes != 1 || is_float(type.dtype)) return e;
  Integers integers(symbols);
  const Expr out = type.dtype == DType::boolean ? integers.condition(e) : integers.whole(e);
  if (!out) return e;
  return symbols.reduce(out.type() == type ? out : make::cast(type, out));
}

}  // namespace nestor

// Arithmetic for writing IR in C++, with the folding that keeps hand-built IR readable. Everything deeper is
// simplify.
#include "nestor/error.h"
#include "nestor/ir.h"

namespace nestor {

namespace {

// An i64 immediate takes the type of the other side, so that `x * 2` works for an f32 or vector x.
void unify(Expr& a, Expr& b) {
  if (a.type() == b.type()) return;
  const auto adapt = [](Expr& from, const Expr& to) {
    const auto* i = from.as<IntImm>();
    if (!i || from.type() != Type{}) return false;
    from = make::imm(static_cast<double>(i->value), to.type());
    return true;
  };
  if (adapt(b, a) || adapt(a, b)) return;
  if (a.type().is_vector() && !b.type().is_vector()) b = make::broadcast(b, a.type().lanes);
  if (b.type().is_vector() && !a.type().is_vector()) a = make::broadcast(a, b.type().lanes);
}

bool is_i64(const Expr& e) {
  return e.type() == Type{};
}

Expr arithmetic(BinaryOp op, Expr a, Expr b, int64_t (*fold)(int64_t, int64_t)) {
  unify(a, b);
  const auto* x = a.as<IntImm>();
  const auto* y = b.as<IntImm>();
  if (fold && x && y && is_i64(a)) return fold(x->value, y->value);
  return make::binary(op, std::move(a), std::move(b));
}

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a % b < 0) != (b < 0)));
}
int64_t wrap(uint64_t v) {
  return static_cast<int64_t>(v);
}

Expr compare(BinaryOp op, Expr a, Expr b, bool (*fold)(int64_t, int64_t)) {
  unify(a, b);
  const auto* x = a.as<IntImm>();
  const auto* y = b.as<IntImm>();
  if (x && y && a.dtype() != DType::u64) return make::bool_imm(fold(x->value, y->value));
  return make::binary(op, std::move(a), std::move(b));
}

}  // namespace

Expr operator+(Expr a, Expr b) {
  if (is_i64(a) && is_i64(b)) {
    if (is_const_int(a, 0)) return b;
    if (is_const_int(b, 0)) return a;
  }
  return arithmetic(BinaryOp::add, std::move(a), std::move(b), [](int64_t x, int64_t y) {
    return wrap(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  });
}

Expr operator-(Expr a, Expr b) {
  if (is_i64(a) && is_i64(b) && is_const_int(b, 0)) return a;
  return arithmetic(BinaryOp::sub, std::move(a), std::move(b), [](int64_t x, int64_t y) {
    return wrap(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
  });
}

Expr operator*(Expr a, Expr b) {
  if (is_i64(a) && is_i64(b)) {
    if (is_const_int(a, 1)) return b;
    if (is_const_int(b, 1)) return a;
    if (is_const_int(a, 0) || is_const_int(b, 0)) return 0;
  }
  return arithmetic(BinaryOp::mul, std::move(a), std::move(b), [](int64_t x, int64_t y) {
    return wrap(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  });
}

Expr operator/(Expr a, Expr b) {
  if (is_i64(a) && is_const_int(b, 1)) return a;
  const bool safe = b.as<IntImm>() && b.as<IntImm>()->value > 0;
  return arithmetic(BinaryOp::div, std::move(a), std::move(b), safe ? floor_div : nullptr);
}

Expr operator%(Expr a, Expr b) {
  if (is_i64(a) && is_const_int(b, 1)) return 0;
  const bool safe = b.as<IntImm>() && b.as<IntImm>()->value > 0;
  return arithmetic(BinaryOp::mod, std::move(a), std::move(b),
                    safe ? +[](int64_t x, int64_t y) { return x - y * floor_div(x, y); } : nullptr);
}

Expr operator-(Expr a) {
  if (is_i64(a)) return Expr(0) - std::move(a);
  return make::unary(UnaryOp::neg, std::move(a));
}

Expr min(Expr a, Expr b) {
  return arithmetic(BinaryOp::min, std::move(a), std::move(b),
                    [](int64_t x, int64_t y) { return x < y ? x : y; });
}
Expr max(Expr a, Expr b) {
  return arithmetic(BinaryOp::max, std::move(a), std::move(b),
                    [](int64_t x, int64_t y) { return x > y ? x : y; });
}

Expr eq(Expr a, Expr b) {
  return compare(BinaryOp::eq, std::move(a), std::move(b), [](int64_t x, int64_t y) { return x == y; });
}
Expr ne(Expr a, Expr b) {
  return compare(BinaryOp::ne, std::move(a), std::move(b), [](int64_t x, int64_t y) { return x != y; });
}
Expr lt(Expr a, Expr b) {
  return compare(BinaryOp::lt, std::move(a), std::move(b), [](int64_t x, int64_t y) { return x < y; });
}
Expr le(Expr a, Expr b) {
  return compare(BinaryOp::le, std::move(a), std::move(b), [](int64_t x, int64_t y) { return x <= y; });
}
Expr gt(Expr a, Expr b) {
  return compare(BinaryOp::gt, std::move(a), std::move(b), [](int64_t x, int64_t y) { return x > y; });
}
Expr ge(Expr a, Expr b) {
  return compare(BinaryOp::ge, std::move(a), std::move(b), [](int64_t x, int64_t y) { return x >= y; });
}

Expr logical_and(Expr a, Expr b) {
  unify(a, b);
  if (is_const_int(a, 1)) return b;
  if (is_const_int(b, 1) || is_const_int(a, 0)) return a;
  if (is_const_int(b, 0)) return b;
  return make::binary(BinaryOp::logical_and, std::move(a), std::move(b));
}
Expr logical_or(Expr a, Expr b) {
  unify(a, b);
  if (is_const_int(a, 0)) return b;
  if (is_const_int(b, 0) || is_const_int(a, 1)) return a;
  if (is_const_int(b, 1)) return b;
  return make::binary(BinaryOp::logical_or, std::move(a), std::move(b));
}
Expr logical_not(Expr a) {
  if (const auto* i = a.as<IntImm>()) return make::bool_imm(i->value == 0);
  return make::unary(UnaryOp::logical_not, std::move(a));
}

}  // namespace nestor

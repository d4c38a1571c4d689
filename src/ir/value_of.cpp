#include "nestor/value_of.h"

#include <algorithm>

namespace nestor {

namespace {

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::optional<int64_t> binary(const Binary& b, const Values& at) {
  const auto x = value_of(b.a, at), y = value_of(b.b, at);
  if (!x || !y) return std::nullopt;
  switch (b.op) {
    case BinaryOp::add:
      return *x + *y;
    case BinaryOp::sub:
      return *x - *y;
    case BinaryOp::mul:
      return *x * *y;
    case BinaryOp::div:
      return *y > 0 ? std::optional(floor_div(*x, *y)) : std::nullopt;
    case BinaryOp::mod:
      return *y > 0 ? std::optional(*x - *y * floor_div(*x, *y)) : std::nullopt;
    case BinaryOp::min:
      return std::min(*x, *y);
    case BinaryOp::max:
      return std::max(*x, *y);
    case BinaryOp::bit_xor:
      return *x ^ *y;
    case BinaryOp::bit_and:
      return *x & *y;
    case BinaryOp::bit_or:
      return *x | *y;
    case BinaryOp::eq:
      return *x == *y;
    case BinaryOp::ne:
      return *x != *y;
    case BinaryOp::lt:
      return *x < *y;
    case BinaryOp::le:
      return *x <= *y;
    case BinaryOp::gt:
      return *x > *y;
    case BinaryOp::ge:
      return *x >= *y;
    case BinaryOp::logical_and:
      return *x && *y;
    case BinaryOp::logical_or:
      return *x || *y;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<int64_t> value_of(const Expr& e, const Values& at) {
  if (const auto* i = e.as<IntImm>()) return i->value;
  if (const auto* b = e.as<Binary>()) return binary(*b, at);
  if (const auto* v = e.as<VarRef>()) {
    const auto it = at.find(v->var);
    return it == at.end() ? std::nullopt : std::optional(it->second);
  }
  if (const auto* u = e.as<Unary>()) {
    const auto x = value_of(u->a, at);
    if (!x) return x;
    return u->op == UnaryOp::neg ? -*x : static_cast<int64_t>(*x == 0);
  }
  if (const auto* s = e.as<Select>()) {
    const auto c = value_of(s->cond, at);
    return c ? value_of(*c ? s->a : s->b, at) : c;
  }
  if (const auto* c = e.as<Cast>()) return value_of(c->a, at);
  return std::nullopt;
}

}  // namespace nestor

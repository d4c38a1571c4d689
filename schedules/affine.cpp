#include "schedules/affine.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "nestor/walk.h"
#include "schedules/nest.h"

namespace nestor::schedules {

namespace {

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

void add_term(Linear& l, const Expr& atom, int64_t coefficient) {
  if (coefficient == 0) return;
  for (auto it = l.terms.begin(); it != l.terms.end(); ++it) {
    if (!same_expr(it->atom, atom)) continue;
    it->coefficient += coefficient;
    if (it->coefficient == 0) l.terms.erase(it);
    return;
  }
  l.terms.push_back({atom, coefficient});
}

bool all_multiples(const Linear& l, int64_t c) {
  if (l.constant % c != 0) return false;
  return std::all_of(l.terms.begin(), l.terms.end(), [c](const Term& t) { return t.coefficient % c == 0; });
}

Linear divide(Linear l, int64_t c) {
  for (Term& t : l.terms) t.coefficient /= c;
  l.constant /= c;
  return l;
}

}  // namespace

namespace {

// Beyond, an expression is an atom: nothing overflows.
constexpr int64_t kLargest = int64_t{1} << 40;

bool is_small(int64_t v) {
  return -kLargest <= v && v <= kLargest;
}
bool is_small(const Linear& l, int64_t factor = 1) {
  const auto fits = [factor](int64_t v) {
    int64_t product = 0;
    return !__builtin_mul_overflow(v, factor, &product) && is_small(product);
  };
  return fits(l.constant) &&
         std::all_of(l.terms.begin(), l.terms.end(), [&](const Term& t) { return fits(t.coefficient); });
}

// As a sum, if it is one; of small numbers or not.
std::optional<Linear> sum_of(const Expr& e) {
  if (const auto* i = e.as<IntImm>()) return Linear{{}, i->value};
  const auto* b = e.as<Binary>();
  if (!b) return std::nullopt;
  if (b->op == BinaryOp::add) return add(linear_of(b->a), linear_of(b->b));
  if (b->op == BinaryOp::sub) return add(linear_of(b->a), linear_of(b->b), -1);
  if (b->op != BinaryOp::mul) return std::nullopt;
  const Linear x = linear_of(b->a), y = linear_of(b->b);
  if (y.is_constant() && is_small(x, y.constant)) return scale(x, y.constant);
  if (x.is_constant() && is_small(y, x.constant)) return scale(y, x.constant);
  return std::nullopt;
}

}  // namespace

Linear linear_of(const Expr& e) {
  if (auto sum = sum_of(e); sum && is_small(*sum)) return *std::move(sum);
  return Linear{{{e, 1}}, 0};
}

Expr to_expr(const Linear& l) {
  Expr out = 0;
  for (const Term& t : l.terms) out = out + t.atom * Expr(t.coefficient);
  return l.constant < 0 ? out - Expr(-l.constant) : out + Expr(l.constant);
}

Linear add(Linear a, const Linear& b, int64_t factor) {
  for (const Term& t : b.terms) add_term(a, t.atom, factor * t.coefficient);
  a.constant += factor * b.constant;
  return a;
}
Linear scale(const Linear& a, int64_t factor) {
  return add({}, a, factor);
}
bool is_zero(const Linear& l) {
  return l.terms.empty() && l.constant == 0;
}

Linear Bound::last() const {
  return add(span, number(hi));
}

namespace {

// At least so much: x/c is more than (x-c)/c, and at most x/c.
Linear without_quotients(Linear l) {
  for (size_t i = 0; i < l.terms.size(); ++i) {
    const Term t = l.terms[i];
    const auto* q = t.atom.as<Binary>();
    const auto c = q && q->op == BinaryOp::div ? as_int(q->b) : std::nullopt;
    if (!c || *c < 1 || t.coefficient % *c != 0) continue;
    l.terms.erase(l.terms.begin() + static_cast<std::ptrdiff_t>(i));
    const int64_t times = t.coefficient / *c;
    l = add(std::move(l), linear_of(q->a), times);
    if (times > 0) l.constant -= times * (*c - 1);
    return without_quotients(std::move(l));
  }
  return l;
}

// What the sum is to be multiplied with, so that all its quotients by constants vanish.
int64_t common_divisor_of_quotients(const Linear& l) {
  constexpr int64_t kMost = 1 << 20;
  int64_t times = 1;
  for (const Term& t : l.terms) {
    const auto* q = t.atom.as<Binary>();
    const auto c = q && q->op == BinaryOp::div ? as_int(q->b) : std::nullopt;
    if (!c || *c < 1 || *c > kMost) continue;
    times = std::lcm(times, *c / std::gcd(t.coefficient, *c));
    if (times > kMost) return 1;
  }
  return times;
}

}  // namespace

bool surely_le(const Linear& a, const Linear& b) {
  const Linear difference = add(b, a, -1);
  if (difference.is_constant()) return difference.constant >= 0;
  const int64_t times = common_divisor_of_quotients(difference);  // a number above -1 is 0 at least
  Facts sizes;
  for (const Var& v : vars_of(to_expr(difference))) sizes.set(v, {0, Interval::kMax});
  return range_of(to_expr(difference), sizes).lo >= 0 ||
         range_of(to_expr(without_quotients(scale(difference, times))), sizes).lo > -times;
}

std::optional<Bound> unite(const Bound& a, const Bound& b) {
  const Linear difference = add(b.base, a.base, -1);
  if (!difference.is_constant()) return std::nullopt;
  const int64_t d = difference.constant;
  Bound out{a.base, std::min(a.lo, b.lo + d), std::max(a.hi, b.hi + d), a.span};
  if (is_zero(add(a.span, b.span, -1))) return out;
  const Linear x = a.last(), y = add(b.last(), number(d));
  if (!surely_le(x, y) && !surely_le(y, x)) return std::nullopt;
  const Linear last = surely_le(x, y) ? y : x;
  out.hi = last.constant;
  out.span = add(last, number(-out.hi));
  return out;
}

namespace {

using Moving = std::unordered_map<Var, Interval>;
using Fixed = std::unordered_set<Var>;

std::optional<Bound> bound_of_division(const Bound& x, BinaryOp op, int64_t c) {
  Bound out;
  if (op == BinaryOp::div) {
    if (all_multiples(x.base, c)) return Bound{divide(x.base, c), floor_div(x.lo, c), floor_div(x.hi, c)};
    out.base = linear_of(simplify((to_expr(x.base) + Expr(x.lo)) / Expr(c)));
    out.hi = floor_div(x.hi - x.lo + c - 1, c);
    return out;
  }
  const int64_t block = floor_div(x.lo, c);
  if (all_multiples(x.base, c) && block == floor_div(x.hi, c))
    return Bound{{}, x.lo - block * c, x.hi - block * c};
  out.hi = c - 1;
  return out;
}

// A quotient or remainder of what runs over a symbolic size.
std::optional<Bound> open_division(const Bound& x, BinaryOp op, int64_t c) {
  if (op == BinaryOp::mod) return Bound{{}, 0, c - 1};
  if (!all_multiples(x.base, c)) return std::nullopt;
  Linear last = all_multiples(x.span, c)
                    ? add(divide(x.span, c), number(floor_div(x.hi, c)))
                    : linear_of(simplify((to_expr(x.span) + Expr(x.hi + c)) / Expr(c) - Expr(1)));
  const int64_t hi = std::exchange(last.constant, 0);
  return Bound{divide(x.base, c), floor_div(x.lo, c), hi, std::move(last)};
}

// Of sums, multiples and quotients where a size has a part.
std::optional<Bound> open_bound(BinaryOp op, const Bound& x, const Bound& y) {
  if (op == BinaryOp::add) return Bound{add(x.base, y.base), x.lo + y.lo, x.hi + y.hi, add(x.span, y.span)};
  if (op == BinaryOp::sub && is_zero(y.span))
    return Bound{add(x.base, y.base, -1), x.lo - y.hi, x.hi - y.lo, x.span};
  const Bound &sum = is_zero(y.span) ? x : y, &factor = is_zero(y.span) ? y : x;
  const int64_t times = factor.base.constant + factor.lo;
  const bool constant = is_zero(factor.span) && factor.base.is_constant() && factor.lo == factor.hi;
  if (!constant || times < 1) return std::nullopt;
  if ((op == BinaryOp::div || op == BinaryOp::mod) && &factor == &y) return open_division(sum, op, times);
  if (op != BinaryOp::mul) return std::nullopt;
  return Bound{scale(sum.base, times), times * sum.lo, times * sum.hi, scale(sum.span, times)};
}

std::optional<Bound> bound_of_binary(const Binary& b, const Moving& moving, const Fixed& fixed,
                                     const VarMap& open) {
  auto x = bound_of(b.a, moving, fixed, open), y = bound_of(b.b, moving, fixed, open);
  if (!x || !y) return std::nullopt;
  if (!is_zero(x->span) || !is_zero(y->span)) return open_bound(b.op, *x, *y);
  const bool y_constant = y->base.is_constant() && y->lo == y->hi;
  const bool x_constant = x->base.is_constant() && x->lo == x->hi;
  switch (b.op) {
    case BinaryOp::add:
      return Bound{add(x->base, y->base), x->lo + y->lo, x->hi + y->hi};
    case BinaryOp::sub:
      return Bound{add(x->base, y->base, -1), x->lo - y->hi, x->hi - y->lo};
    case BinaryOp::mul: {
      if (x_constant && !y_constant)
        std::swap(x, y);
      else if (!y_constant)
        return std::nullopt;
      const int64_t c = y->base.constant + y->lo;
      return Bound{scale(x->base, c), std::min(c * x->lo, c * x->hi), std::max(c * x->lo, c * x->hi)};
    }
    case BinaryOp::div:
    case BinaryOp::mod: {
      const int64_t c = y->base.constant + y->lo;
      if (!y_constant || c <= 0) return std::nullopt;
      return bound_of_division(*x, b.op, c);
    }
    case BinaryOp::min:
    case BinaryOp::max: {
      const Linear d = add(y->base, x->base, -1);
      if (!d.is_constant()) return std::nullopt;
      const int64_t lo = y->lo + d.constant, hi = y->hi + d.constant;
      return b.op == BinaryOp::min ? Bound{x->base, std::min(x->lo, lo), std::min(x->hi, hi)}
                                   : Bound{x->base, std::max(x->lo, lo), std::max(x->hi, hi)};
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Bound> bound_of(const Expr& e, const Moving& moving, const Fixed& fixed, const VarMap& open) {
  bool moves = false;
  for (const Var& v : vars_of(e)) {
    if (moving.count(v))
      moves = true;
    else if (!fixed.count(v))
      return std::nullopt;
  }
  if (has_load(e) || e.type() != Type{}) return std::nullopt;
  if (!moves) return Bound{linear_of(e), 0, 0};
  if (const auto* r = e.as<VarRef>()) {
    const Interval range = moving.at(r->var);
    if (const auto size = open.find(r->var); size != open.end()) {
      Linear span = linear_of(size->second);
      const int64_t hi = std::exchange(span.constant, 0) - 1;
      return Bound{{}, 0, hi, std::move(span)};
    }
    if (range.hi >= Interval::kMax || range.lo <= Interval::kMin) return std::nullopt;
    return Bound{{}, range.lo, range.hi};
  }
  if (const auto* s = e.as<Select>()) {
    const auto a = bound_of(s->a, moving, fixed, open), b = bound_of(s->b, moving, fixed, open);
    return a && b ? unite(*a, *b) : std::nullopt;
  }
  if (const auto* b = e.as<Binary>()) return bound_of_binary(*b, moving, fixed, open);
  return std::nullopt;
}

}  // namespace nestor::schedules

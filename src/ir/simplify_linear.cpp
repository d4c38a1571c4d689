#include "src/ir/simplify_linear.h"

#include <algorithm>
#include <numeric>

namespace nestor::algebra {

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}
int64_t floor_mod(int64_t a, int64_t b) {
  return a % b < 0 ? a % b + b : a % b;
}

int64_t content(const Linear& l) {
  int64_t g = 0;
  for (const Term& t : l.terms) g = std::gcd(g, t.coefficient);
  return g;
}

std::optional<int64_t> small_product(int64_t a, int64_t b) {
  int64_t p;
  if (__builtin_mul_overflow(a, b, &p) || !is_small(p)) return std::nullopt;
  return p;
}

int64_t Linear::coefficient_of(const Expr& atom) const {
  for (const Term& t : terms)
    if (same_expr(t.atom, atom)) return t.coefficient;
  return 0;
}

void Linear::add(const Expr& atom, int64_t coefficient) {
  if (coefficient == 0) return;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!same_expr(terms[i].atom, atom)) continue;
    terms[i].coefficient = terms[i].coefficient + coefficient;
    if (terms[i].coefficient == 0) terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
  terms.push_back({atom, coefficient});
}

void Linear::add(const Linear& other, int64_t factor) {
  for (const Term& t : other.terms) add(t.atom, t.coefficient * factor);
  constant += other.constant * factor;
}

bool Linear::can_scale(int64_t factor) const {
  return small_product(constant, factor) && std::all_of(terms.begin(), terms.end(), [&](const Term& t) {
           return small_product(t.coefficient, factor);
         });
}

void Linear::scale(int64_t factor) {
  for (Term& t : terms) t.coefficient *= factor;
  std::erase_if(terms, [](const Term& t) { return t.coefficient == 0; });
  constant *= factor;
}

Linear Linear::divided(int64_t g) const {
  Linear out = *this;
  for (Term& t : out.terms) t.coefficient /= g;
  out.constant = floor_div(constant, g);
  return out;
}

namespace {

void collect(const Expr& e, int64_t factor, Linear& out) {
  if (const auto* i = e.as<IntImm>())
    if (const auto c = small_product(i->value, factor)) {
      out.constant += *c;
      return;
    }
  if (const auto* b = e.as<Binary>()) {
    if (b->op == BinaryOp::add || b->op == BinaryOp::sub) {
      collect(b->a, factor, out);
      return collect(b->b, b->op == BinaryOp::add ? factor : -factor, out);
    }
    if (b->op == BinaryOp::mul)
      for (const auto& [x, y] : {std::pair(b->a, b->b), std::pair(b->b, b->a)})
        if (const auto* c = y.as<IntImm>())
          if (const auto scaled = small_product(factor, c->value)) return collect(x, *scaled, out);
  }
  out.add(e, factor);
}

}  // namespace

Linear parts(const Expr& e) {
  Linear out;
  collect(e, 1, out);
  return out;
}

// Begins with a positive term where there is one; otherwise the constant comes first: `58 - x`.
Expr to_expr(const Linear& l) {
  const auto positive =
      std::find_if(l.terms.begin(), l.terms.end(), [](const Term& t) { return t.coefficient > 0; });
  const auto product = [](const Expr& atom, int64_t c) {
    return c == 1 ? atom : make::binary(BinaryOp::mul, atom, Expr(c));
  };
  const bool constant_first = positive == l.terms.end();
  Expr sum = constant_first ? Expr(l.constant) : product(positive->atom, positive->coefficient);
  for (auto t = l.terms.begin(); t != l.terms.end(); ++t) {
    if (t == positive) continue;
    const bool minus = t->coefficient < 0;
    sum =
        make::binary(minus ? BinaryOp::sub : BinaryOp::add, sum, product(t->atom, std::abs(t->coefficient)));
  }
  if (constant_first || l.constant == 0) return sum;
  return make::binary(l.constant < 0 ? BinaryOp::sub : BinaryOp::add, sum, Expr(std::abs(l.constant)));
}

std::optional<Quotient> as_quotient(const Expr& atom, BinaryOp op) {
  const auto* b = atom.as<Binary>();
  if (!b || b->op != op || atom.type() != Type{}) return std::nullopt;
  const auto* c = b->b.as<IntImm>();
  if (!c || c->value <= 0 || !is_small(c->value)) return std::nullopt;
  return Quotient{b->a, c->value};
}

// ---- Intervals

namespace {

constexpr int64_t kMin = Interval::kMin, kMax = Interval::kMax;
int64_t clamp(int64_t v) {
  return std::clamp(v, kMin, kMax);
}
// An unbounded end stays so, whatever is added to it.
int64_t add_low(int64_t a, int64_t b) {
  return a <= kMin || b <= kMin ? kMin : clamp(a + b);
}
int64_t add_high(int64_t a, int64_t b) {
  return a >= kMax || b >= kMax ? kMax : clamp(a + b);
}
int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t r;
  if (!__builtin_mul_overflow(a, b, &r))
    return (a <= kMin || a >= kMax) && r != 0 ? ((r < 0) ? kMin : kMax) : clamp(r);
  return (a < 0) == (b < 0) ? kMax : kMin;
}

}  // namespace

Interval point(int64_t v) {
  return {clamp(v), clamp(v)};
}
Interval operator+(Interval a, Interval b) {
  return {add_low(a.lo, b.lo), add_high(a.hi, b.hi)};
}
Interval operator*(Interval a, Interval b) {
  const int64_t c[] = {saturating_mul(a.lo, b.lo), saturating_mul(a.lo, b.hi), saturating_mul(a.hi, b.lo),
                       saturating_mul(a.hi, b.hi)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}
Interval scaled(Interval a, int64_t f) {
  const int64_t x = saturating_mul(a.lo, f), y = saturating_mul(a.hi, f);
  return {std::min(x, y), std::max(x, y)};
}
Interval unite(Interval a, Interval b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}
Interval intersect(Interval a, Interval b) {
  return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

// Of its words.
Interval range_of_type(DType t) {
  if (is_float(t) || bytes_of(t) == 8) return {};
  return {least_word(t), greatest_word(t)};
}

std::optional<int64_t> common_quotient(Interval a, int64_t c) {
  if (a.lo <= kMin || a.hi >= kMax) return std::nullopt;
  const int64_t m = floor_div(a.lo, c);
  if (floor_div(a.hi, c) != m) return std::nullopt;
  return m;
}

}  // namespace nestor::algebra

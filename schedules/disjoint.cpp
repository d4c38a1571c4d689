// An index is a sum of atoms times coefficients. Modulo m, the terms that m divides disappear, and the rest
// has a range. Two ranges of less than m elements overlap only if one, moved by a multiple of m, overlaps the
// other.
#include "schedules/disjoint.h"

#include <algorithm>
#include <cstdlib>

namespace nestor::schedules {

namespace {

constexpr int64_t kNone = 0;                  // no modulus: the ranges as they are
constexpr int64_t kPlain = int64_t{1} << 24;  // what is added up without a look at overflows

Facts domains_of(const Block& b) {
  Facts facts;
  for (const IterVar& i : b.iters)
    if (const auto extent = as_int(i.extent)) facts.set(i.var, {0, *extent - 1});
  return facts;
}

Interval rest_of(Linear l, int64_t modulus, const Facts& facts) {
  if (modulus != kNone) std::erase_if(l.terms, [&](const Term& t) { return t.coefficient % modulus == 0; });
  Interval sum{l.constant, l.constant};
  for (const Term& t : l.terms) {
    const auto* r = t.atom.as<VarRef>();
    const Interval range = r ? facts.range(r->var) : Interval{};
    if (range.lo < -kPlain || range.hi > kPlain || range.lo > range.hi || std::abs(t.coefficient) > kPlain)
      return range_of(to_expr(l), facts);
    const int64_t a = t.coefficient * range.lo, b = t.coefficient * range.hi;
    sum = {sum.lo + std::min(a, b), sum.hi + std::max(a, b)};
  }
  return sum;
}

bool overlap(const Interval& a, const Interval& b, int64_t modulus) {
  if (modulus == kNone) return a.lo <= b.hi && b.lo <= a.hi;
  if (a.lo <= Interval::kMin || b.lo <= Interval::kMin || a.hi >= Interval::kMax || b.hi >= Interval::kMax)
    return true;
  if (a.hi - a.lo >= modulus - 1 || b.hi - b.lo >= modulus - 1) return true;
  // The first element at or behind b.lo that is a.lo moved by a multiple, and the range before it.
  const int64_t moved = b.lo + ((a.lo - b.lo) % modulus + modulus) % modulus;
  return moved <= b.hi || moved - modulus + (a.hi - a.lo) >= b.lo;
}

// c * (x % m), whose terms are c * x modulo every divisor of c * m; 0 where the term is no remainder.
int64_t modulus_of(const Term& t) {
  const auto* b = t.atom.as<Binary>();
  const int64_t m = b && b->op == BinaryOp::mod ? as_int(b->b).value_or(0) : 0;
  return m > 0 && m < kPlain && std::abs(t.coefficient) < kPlain ? m * std::abs(t.coefficient) : 0;
}

// What `d` is modulo m, without what m divides.
Linear modulo(const Linear& d, int64_t m) {
  Linear out;
  out.constant = d.constant;
  for (const Term& t : d.terms) {
    const int64_t own = modulus_of(t);
    const bool plain = own == 0 || own % m != 0;
    out = add(out, plain ? Linear{{t}, 0} : linear_of(t.atom.as<Binary>()->a), plain ? 1 : t.coefficient);
  }
  std::erase_if(out.terms, [&](const Term& t) { return t.coefficient % m == 0; });
  return out;
}

}  // namespace

bool never_zero(const Linear& d, const Interval& rest) {
  const auto avoids_zero = [&](const Linear& l, int64_t modulus) {
    return l.is_constant() && !overlap({l.constant + rest.lo, l.constant + rest.hi}, {0, 0}, modulus);
  };
  return avoids_zero(d, kNone) || std::any_of(d.terms.begin(), d.terms.end(), [&](const Term& t) {
           const int64_t m = modulus_of(t);
           return m > 0 && avoids_zero(modulo(d, m), m);
         });
}

bool never_meet(const Block& a, const BlockAccess& x, const Block& b, const BlockAccess& y) {
  if (x.buffer != y.buffer) return true;
  const Facts of_a = domains_of(a), of_b = domains_of(b);
  for (size_t d = 0; d < x.indices.size(); ++d) {
    const Linear p = linear_of(x.indices[d]), q = linear_of(y.indices[d]);
    std::vector<int64_t> moduli = {kNone};
    for (const Linear& l : {p, q})
      for (const Term& t : l.terms)
        if (const int64_t m = std::abs(t.coefficient); m > 1 && !std::count(moduli.begin(), moduli.end(), m))
          moduli.push_back(m);
    for (const int64_t m : moduli)
      if (!overlap(rest_of(p, m, of_a), rest_of(q, m, of_b), m)) return true;
  }
  return false;
}

}  // namespace nestor::schedules

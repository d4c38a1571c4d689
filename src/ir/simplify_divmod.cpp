// Quotients and remainders by constants: the part of index algebra that layouts, splits and fused loops live
// on.
//
// With x = c*q + r the rules are: pull out what c divides; a remainder known to lie in one block of c is
// done; divide through by common factors, also where the part that a factor doesn't divide stays within that
// factor
// ((8*k + e) / 32 is k / 4 for 0 <= e < 8); merge nested quotients and remainders ((x/a)/b is x/(a*b),
// (x % (a*b)) / b is (x/b) % a). The reverse, (x/c)*c + x%c into x, is `recombine`.
#include <algorithm>
#include <numeric>

#include "src/ir/simplifier.h"

namespace nestor::algebra {

namespace {

Linear as_atom(BinaryOp op, const Linear& x, int64_t c) {
  return Linear::of_atom(make::binary(op, to_expr(x), Expr(c)));
}

// Factors shared by c and some coefficient, largest first.
std::vector<int64_t> factors(const Linear& l, int64_t c) {
  std::vector<int64_t> out;
  for (const Term& t : l.terms)
    if (const int64_t g = std::gcd(t.coefficient, c); g > 1) out.push_back(g);
  std::sort(out.begin(), out.end(), std::greater<>());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// l as g * high + low, the coefficients of low not divisible by g; the constant goes to low.
void split(const Linear& l, int64_t g, Linear& high, Linear& low) {
  for (const Term& t : l.terms) {
    if (t.coefficient % g == 0)
      high.terms.push_back({t.atom, t.coefficient / g});
    else
      low.terms.push_back(t);
  }
  low.constant = l.constant;
}

bool divisible(const Linear& l, int64_t c) {
  return l.constant % c == 0 && content(l) % c == 0;
}

}  // namespace

Linear Simplifier::divide(const Linear& l, int64_t c) {
  if (c == 1) return l;
  Linear q, r;
  split(l, c, q, r);
  q.constant = floor_div(l.constant, c);
  r.constant = floor_mod(l.constant, c);
  if (r.is_constant()) return q;
  if (const auto m = common_quotient(bound(r), c)) {
    q.constant += *m;
    return q;
  }
  if (const int64_t g = std::gcd(content(r), c); g > 1) {
    q.add(divide(r.divided(g), c / g));
    return q;
  }
  for (int64_t g : factors(r, c)) {
    Linear high, low;
    split(r, g, high, low);
    if (const auto m = common_quotient(bound(low), g)) {
      high.constant = *m;
      q.add(divide(high, c / g));
      return q;
    }
  }
  if (r.terms.size() == 1 && r.terms[0].coefficient == 1) {
    const Expr& atom = r.terms[0].atom;
    const auto d = as_quotient(atom, BinaryOp::div);
    if (const auto product = d ? small_product(d->c, c) : std::nullopt) {
      Linear x = parts(d->x);
      x.constant += r.constant * d->c;
      q.add(divide(x, *product));
      return q;
    }
    if (const auto m = as_quotient(atom, BinaryOp::mod); m && r.constant == 0 && m->c % c == 0) {
      q.add(modulo(divide(parts(m->x), c), m->c / c));
      return q;
    }
  }
  q.add(as_atom(BinaryOp::div, r, c));
  return q;
}

Linear Simplifier::modulo(const Linear& l, int64_t c) {
  if (c == 1) return {};
  if (const auto m = common_quotient(bound(l), c)) {
    Linear out = l;
    out.constant -= *m * c;
    return out;
  }
  Linear r;
  for (const Term& t : l.terms)
    if (t.coefficient % c != 0) r.terms.push_back({t.atom, t.coefficient % c});
  r.constant = floor_mod(l.constant, c);
  if (r.is_constant()) return r;
  if (const auto m = common_quotient(bound(r), c)) {
    r.constant -= *m * c;
    return r;
  }
  if (const int64_t g = std::gcd(content(r), c); g > 1) {
    Linear out = modulo(r.divided(g), c / g);
    out.scale(g);
    out.constant += floor_mod(r.constant, g);
    return out;
  }
  for (int64_t g : factors(r, c)) {
    Linear high, low;
    split(r, g, high, low);
    if (const auto m = common_quotient(bound(low), g)) {
      high.constant = *m;
      Linear out = modulo(high, c / g);
      out.scale(g);
      out.add(low);
      out.constant -= *m * g;
      return out;
    }
  }
  // k * (x % a) is k * x up to multiples of k * a.
  Linear flat = Linear::of_constant(r.constant);
  bool changed = false;
  for (const Term& t : r.terms) {
    const auto m = as_quotient(t.atom, BinaryOp::mod);
    const auto step = m ? small_product(t.coefficient, m->c) : std::nullopt;
    if (step && *step % c == 0) {
      flat.add(parts(m->x), t.coefficient);
      changed = true;
    } else {
      flat.add(t.atom, t.coefficient);
    }
  }
  if (changed) return modulo(flat, c);
  return as_atom(BinaryOp::mod, r, c);
}

// Divisors that aren't constants: what is a multiple of the divisor leaves, if the rest lies in [0, divisor).
Linear Simplifier::divmod_symbolic(BinaryOp op, const Linear& a, const Linear& b) {
  const Expr n = to_expr(b);
  Linear quotient, rest = Linear::of_constant(a.constant);
  for (const Term& t : a.terms) {
    const auto* m = t.atom.as<Binary>();
    const bool is_product = m && m->op == BinaryOp::mul;
    if (same_expr(t.atom, n))
      quotient.constant += t.coefficient;
    else if (is_product && (same_expr(m->a, n) || same_expr(m->b, n)))
      quotient.add(parts(same_expr(m->a, n) ? m->b : m->a), t.coefficient);
    else
      rest.add(t.atom, t.coefficient);
  }
  Linear below = rest;
  below.add(b, -1);
  if (range_of_divisor(n) && bound(rest).lo >= 0 && (bound(below).hi < 0 || is_below(below)))
    return op == BinaryOp::div ? quotient : rest;
  return Linear::of_atom(make::binary(op, to_expr(a), n));
}

bool Simplifier::recombine_once(Linear& l) {
  for (const Term& t : l.terms) {
    const auto m = as_quotient(t.atom, BinaryOp::mod);
    if (!m) continue;
    const int64_t k = t.coefficient;
    const Linear x = parts(m->x);
    std::optional<Quotient> inner;  // x is y / a
    if (x.terms.size() == 1 && x.constant == 0 && x.terms[0].coefficient == 1)
      inner = as_quotient(x.terms[0].atom, BinaryOp::div);
    for (const Term& other : l.terms) {
      const auto d = as_quotient(other.atom, BinaryOp::div);
      if (!d || other.coefficient != k * m->c) continue;
      const int64_t a = inner && d->c == inner->c * m->c ? inner->c : 1;
      if (a == 1 && d->c != m->c) continue;
      Linear difference = parts(d->x);
      difference.add(a == 1 ? x : parts(inner->x), -1);
      if (!divisible(difference, d->c)) continue;
      // (y / (a*c)) * c + (y / a) % c is y / a.
      const Linear whole = divide(parts(d->x), a);
      const Expr quotient = other.atom, remainder = t.atom;
      l.add(quotient, -k * m->c);
      l.add(remainder, -k);
      l.add(whole, k);
      return true;
    }
  }
  for (const Term& t : l.terms) {
    // (x / n) * n + x % n is x, whatever n.
    const auto* m = t.atom.as<Binary>();
    if (!m || m->op != BinaryOp::mod || as_int(m->b)) continue;
    const Expr whole = make::binary(BinaryOp::div, m->a, m->b);
    for (const Term& other : l.terms) {
      const auto* p = other.atom.as<Binary>();
      if (!p || p->op != BinaryOp::mul || other.coefficient != t.coefficient) continue;
      if (!(same_expr(p->a, whole) && same_expr(p->b, m->b)) &&
          !(same_expr(p->b, whole) && same_expr(p->a, m->b)))
        continue;
      const int64_t k = t.coefficient;
      const Expr remainder = t.atom, multiple = other.atom, x = m->a;
      l.add(remainder, -k);
      l.add(multiple, -k);
      l.add(parts(x), k);
      return true;
    }
  }
  for (const Term& t : l.terms) {
    // y + (b - y) % c, y rounded up as padding does it, is b + (y - b + c - 1) / c * c.
    const auto m = as_quotient(t.atom, BinaryOp::mod);
    if (!m) continue;
    const int64_t k = t.coefficient;
    Linear y = parts(m->x);
    y.scale(-1);
    const bool whole = std::all_of(y.terms.begin(), y.terms.end(), [&](const Term& part) {
      return part.coefficient > 0 && l.coefficient_of(part.atom) == k * part.coefficient;
    });
    if (!whole || y.terms.empty()) continue;
    const Expr remainder = t.atom;
    const int64_t b = -y.constant;
    l.add(remainder, -k);
    y.constant = 0;
    l.add(y, -k);
    y.constant = m->c - 1 - b;
    l.add(divide(y, m->c), k * m->c);
    l.constant += k * b;
    return true;
  }
  for (const Term& t : l.terms) {
    const auto d = as_quotient(t.atom, BinaryOp::div);
    if (!d || t.coefficient % d->c != 0) continue;
    // k*y - (y / c) * c*k is k * (y % c).
    const int64_t k = -t.coefficient / d->c;
    const Linear y = parts(d->x);
    const bool whole = std::all_of(y.terms.begin(), y.terms.end(), [&](const Term& part) {
      return l.coefficient_of(part.atom) == k * part.coefficient;
    });
    if (!whole || y.terms.empty()) continue;
    const Linear remainder = modulo(y, d->c);
    const Expr quotient = t.atom;
    l.add(quotient, k * d->c);
    l.add(y, -k);
    l.add(remainder, k);
    return true;
  }
  return false;
}

void Simplifier::recombine(Linear& l) {
  while (l.terms.size() > 1 && recombine_once(l)) {
  }
}

}  // namespace nestor::algebra

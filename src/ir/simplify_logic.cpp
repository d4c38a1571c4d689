// Comparisons, logic, min, max and select. A comparison of i64 is decided on the difference of its sides;
// where it stays, terms go to the side on which they are positive, and common factors and small remainders
// are divided out: `32*o + l < 64` is `o < 2` for 0 <= l < 32.
#include <algorithm>
#include <numeric>

#include "src/ir/simplifier.h"

namespace nestor::algebra {

namespace {

// Both sides with positive coefficients, a constant on the right unless it stands alone on the left.
Expr difference_to_expr(BinaryOp op, const Linear& d) {
  Linear left, right;
  for (const Term& t : d.terms) {
    if (t.coefficient > 0)
      left.terms.push_back(t);
    else
      right.terms.push_back({t.atom, -t.coefficient});
  }
  (left.is_constant() ? left.constant : right.constant) = left.is_constant() ? d.constant : -d.constant;
  return make::binary(op, to_expr(left), to_expr(right));
}

void flatten(BinaryOp op, const Expr& e, std::vector<Expr>& out) {
  const auto* b = e.as<Binary>();
  if (!b || b->op != op) return out.push_back(e);
  flatten(op, b->a, out);
  flatten(op, b->b, out);
}

}  // namespace

// d < 0 of digits of an open size: x % n is at most n - 1, x / n < k where x < k * n, and k < x / c where
// c * (k + 1) <= x.
bool Simplifier::is_below(const Linear& d) {
  for (const Term& t : d.terms) {
    const auto* b = t.atom.as<Binary>();
    if (!b || (b->op != BinaryOp::mod && b->op != BinaryOp::div)) continue;
    Linear rest = d;
    rest.add(t.atom, -t.coefficient);
    if (const auto c = as_int(b->b)) {
      if (b->op != BinaryOp::div || t.coefficient != -1 || *c <= 0 || !rest.can_scale(*c)) continue;
      rest.constant += 1;
      rest.scale(*c);
      rest.add(parts(b->a), -1);
      rest.constant -= 1;
    } else {
      if (t.coefficient != 1 || !range_of_divisor(b->b)) continue;
      if (b->op == BinaryOp::mod) {
        rest.add(parts(b->b), 1);
        rest.constant -= 1;
      } else {
        rest.scale(-1);
        rest = product(rest, parts(b->b));
        rest.scale(-1);
        rest.add(parts(b->a), 1);
      }
    }
    if (bound(rest).hi < 0) return true;
  }
  return false;
}

std::optional<bool> Simplifier::decide(BinaryOp op, const Linear& d) {
  const Interval r = bound(d);
  if (op == BinaryOp::eq || op == BinaryOp::ne) {
    if (r.lo == 0 && r.hi == 0) return op == BinaryOp::eq;
    if (r.lo > 0 || r.hi < 0) return op == BinaryOp::ne;
    if (const int64_t g = content(d); g > 1 && d.constant % g != 0) return op == BinaryOp::ne;
    return std::nullopt;
  }
  const bool or_equal = op == BinaryOp::le || op == BinaryOp::ge;
  const bool less = op == BinaryOp::lt || op == BinaryOp::le;
  const int64_t sign = less ? 1 : -1;
  const Interval up = scaled(r, sign);  // of sign * d
  if (or_equal ? up.hi <= 0 : up.hi < 0) return true;
  if (or_equal ? up.lo > 0 : up.lo >= 0) return false;
  const auto negative = [&](int64_t factor, int64_t more) {  // factor * d + more
    Linear sum = d;
    sum.scale(factor);
    sum.constant += more;
    return is_below(sum);
  };
  if (negative(sign, or_equal ? -1 : 0)) return true;
  if (negative(-sign, or_equal ? 0 : -1)) return false;
  return std::nullopt;
}

// d op 0
Expr Simplifier::compare_sums(BinaryOp op, Linear d) {
  recombine(d);
  if (const auto known_value = decide(op, d)) return make::bool_imm(*known_value);
  const bool equality = op == BinaryOp::eq || op == BinaryOp::ne;
  if (const int64_t g = content(d); g > 1) {
    const bool up = op == BinaryOp::le || op == BinaryOp::gt;
    const int64_t constant = up ? -floor_div(-d.constant, g) : floor_div(d.constant, g);
    d = d.divided(g);
    d.constant = constant;
  }
  if (d.terms.size() == 1 && !equality)
    if (const auto q = as_quotient(d.terms[0].atom, BinaryOp::div);
        q && small_product(std::abs(d.constant) + 1, q->c)) {
      // x/c + k op 0 without the division: x/c < n is x < c*n.
      const bool positive = d.terms[0].coefficient > 0;
      int64_t k = d.constant;
      if (positive && (op == BinaryOp::le || op == BinaryOp::gt)) {
        --k;
        op = op == BinaryOp::le ? BinaryOp::lt : BinaryOp::ge;
      } else if (!positive && (op == BinaryOp::lt || op == BinaryOp::ge)) {
        ++k;
        op = op == BinaryOp::lt ? BinaryOp::le : BinaryOp::gt;
      }
      Linear x = parts(q->x);
      if (!positive) x.scale(-1);
      x.constant += k * q->c;
      return compare_sums(op, std::move(x));
    }
  if (!equality) {
    // g*high + low < 0 is high < 0 where low stays within [0, g).
    Linear strict = d;
    if (op == BinaryOp::le || op == BinaryOp::gt) --strict.constant;
    std::vector<int64_t> tried;
    for (const Term& t : d.terms) {
      const int64_t g = std::abs(t.coefficient);
      if (g < 2 || std::find(tried.begin(), tried.end(), g) != tried.end()) continue;
      tried.push_back(g);
      Linear high, low;
      for (const Term& part : strict.terms) {
        if (part.coefficient % g == 0)
          high.terms.push_back({part.atom, part.coefficient / g});
        else
          low.terms.push_back(part);
      }
      low.constant = strict.constant;
      const auto m = common_quotient(bound(low), g);
      if (!m) continue;
      high.constant = *m;
      const bool less = op == BinaryOp::lt || op == BinaryOp::le;
      return compare_sums(less ? BinaryOp::lt : BinaryOp::ge, std::move(high));
    }
  }
  const Expr out = difference_to_expr(op, d);
  const auto value = known(out);
  return value ? make::bool_imm(*value) : out;
}

std::optional<bool> Simplifier::known(const Expr& condition) {
  for (const auto& [e, holds] : known_) {
    if (same_expr(e, condition)) return holds;
    const auto* a = e.as<Binary>();
    const auto* b = condition.as<Binary>();
    // Opposites are exact for == and != also of floats.
    const bool both = a && b && (a->op == BinaryOp::eq || a->op == BinaryOp::ne) && opposite(a->op) == b->op;
    if (both && same_expr(a->a, b->a) && same_expr(a->b, b->b)) return !holds;
  }
  return std::nullopt;
}

Expr Simplifier::compare(const Expr& e, const Binary& b) {
  if (b.a.type() == Type{}) {
    Linear d = linear(b.a);
    d.add(linear(b.b), -1);
    return compare_sums(b.op, std::move(d));
  }
  const Expr out = children(e);
  if (const auto value = known(out)) return make::broadcast(make::bool_imm(*value), e.type().lanes);
  return out;
}

Expr Simplifier::min_max(const Expr& e, const Binary& b) {
  if (e.type() != Type{}) {
    const Expr out = children(e);
    const auto* m = out.as<Binary>();
    return m && same_expr(m->a, m->b) ? m->a : out;
  }
  const bool is_min = b.op == BinaryOp::min;
  Linear x = linear(b.a), y = linear(b.b);
  // The constant of a chain goes right, and constants of a chain join.
  if (x.is_constant()) std::swap(x, y);
  if (y.is_constant() && x.terms.size() == 1 && x.constant == 0 && x.terms[0].coefficient == 1)
    if (const auto* inner = x.terms[0].atom.as<Binary>(); inner && inner->op == b.op)
      if (const auto c = as_int(inner->b)) {
        y.constant = is_min ? std::min(*c, y.constant) : std::max(*c, y.constant);
        x = parts(inner->a);
      }
  // What is never less (of a minimum) than another one of the chain goes.
  std::vector<Linear> chain;
  for (const Linear* side : {&x, &y}) {
    std::vector<Expr> operands;
    flatten(b.op, to_expr(*side), operands);
    for (const Expr& o : operands) chain.push_back(parts(o));
  }
  const auto never_needed = [&](const Linear& one, const Linear& other) {
    Linear d = one;
    d.add(other, -1);
    recombine(d);
    const Interval r = bound(d);
    return is_min ? r.lo >= 0 : r.hi <= 0;
  };
  const size_t all = chain.size();
  for (size_t i = 0; i < chain.size(); ++i)
    for (size_t j = chain.size(); j-- > 0;)
      if (j != i && never_needed(chain[j], chain[i])) {
        chain.erase(chain.begin() + static_cast<std::ptrdiff_t>(j));
        i -= j < i;
      }
  if (chain.size() == all) return make::binary(b.op, to_expr(x), to_expr(y));
  Expr out = to_expr(chain[0]);
  for (size_t i = 1; i < chain.size(); ++i) out = make::binary(b.op, out, to_expr(chain[i]));
  return out;
}

// a && b: b is simplified knowing a; then conditions that follow from others go, if nothing after them needs
// their protection.
Expr Simplifier::logical(const Expr& e, const Binary& b) {
  const bool is_and = b.op == BinaryOp::logical_and;
  std::vector<Expr> in, out;
  flatten(b.op, e, in);
  const Mark outside = mark();
  for (const Expr& c : in) {
    std::vector<Expr> flat;
    flatten(b.op, expr(c), flat);
    for (const Expr& s : flat) {
      if (is_const_int(s, is_and ? 0 : 1)) {
        back_to(outside);
        return make::bool_imm(!is_and);
      }
      if (is_const_int(s, is_and ? 1 : 0)) continue;
      out.push_back(s);
      assume(s, is_and);
    }
  }
  back_to(outside);
  for (size_t i = 0; i + 1 < out.size();) {
    const auto* c = out[i].as<Binary>();
    const bool sums = c && is_comparison(c->op) && c->a.type() == Type{};
    bool follows = false;
    if (sums && std::all_of(out.begin() + static_cast<std::ptrdiff_t>(i), out.end(),
                            [this](const Expr& o) { return is_total(o); })) {
      for (size_t j = 0; j < out.size(); ++j)
        if (j != i) assume(out[j], is_and);
      Linear d = parts(c->a);
      d.add(parts(c->b), -1);
      follows = decide(c->op, d) == is_and;
      back_to(outside);
    }
    if (follows)
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  if (out.empty()) return make::bool_imm(is_and);
  Expr result = out[0];
  for (size_t i = 1; i < out.size(); ++i) result = make::binary(b.op, result, out[i]);
  if (const auto value = known(result)) return make::bool_imm(*value);
  return result;
}

Expr Simplifier::logical_not(const Expr& a) {
  if (const auto c = as_int(a)) return make::broadcast(make::bool_imm(*c == 0), a.type().lanes);
  if (const auto* u = a.as<Unary>(); u && u->op == UnaryOp::logical_not) return u->a;
  if (const auto* b = a.as<Binary>(); b && is_comparison(b->op)) {
    // NaN: the opposite of < is >= for integers only.
    const bool exact = !is_float(b->a.dtype()) || b->op == BinaryOp::eq || b->op == BinaryOp::ne;
    if (exact) return make::binary(opposite(b->op), b->a, b->b);
  }
  if (const auto value = known(a)) return make::bool_imm(!*value);
  return make::unary(UnaryOp::logical_not, a);
}

Expr Simplifier::select(const Expr& e, const Select& s) {
  const Expr cond = expr(s.cond);
  if (const auto c = as_int(cond)) return expr(*c ? s.a : s.b);
  const Mark outside = mark();
  const auto under = [&](const Expr& side, bool holds) {
    if (!cond.type().is_vector()) assume(cond, holds);
    Expr out = expr(side);
    back_to(outside);
    return out;
  };
  const Expr a = under(s.a, true), b = under(s.b, false);
  if (same_expr(a, b)) return a;
  if (is_bool(e.dtype()) && !e.type().is_vector()) {
    if (is_const_int(a, 1) && is_const_int(b, 0)) return cond;
    if (is_const_int(a, 0) && is_const_int(b, 1)) return expr(make::unary(UnaryOp::logical_not, cond));
    if (is_const_int(b, 0)) return expr(make::binary(BinaryOp::logical_and, cond, a));
    if (is_const_int(a, 1)) return expr(make::binary(BinaryOp::logical_or, cond, b));
  }
  if (cond.same_as(s.cond) && a.same_as(s.a) && b.same_as(s.b)) return e;
  return make::select(cond, a, b);
}

}  // namespace nestor::algebra

// Ranges of integer expressions, and the facts they follow from. A sum's range is the sum of its terms'
// ranges, made tighter by subtracting multiples of known sums: from `14*i0 + i1 - 57 <= -1` follows `14*i0 +
// i1 + 3 < 60`, though the ranges of i0 and i1 alone don't say so.
#include <algorithm>

#include "src/ir/simplifier.h"

namespace nestor {

namespace algebra {

Interval Simplifier::var_range(const Var& v) const {
  const auto it = ranges_.find(v);
  return it == ranges_.end() ? facts_.range(v) : it->second;
}

Interval Simplifier::range(const Expr& e) {
  if (e.type().is_vector() || is_float(e.dtype())) return {};
  const Interval of_type = range_of_type(e.dtype());
  if (const auto* i = e.as<IntImm>()) return point(i->value);
  if (const auto* r = e.as<VarRef>()) return intersect(of_type, var_range(r->var));
  if (const auto* s = e.as<Select>()) return unite(range(s->a), range(s->b));
  if (const auto* c = e.as<Cast>()) {
    if (is_float(c->a.dtype())) return of_type;
    const Interval a = range(c->a);
    const bool fits = a.lo >= of_type.lo && a.hi <= of_type.hi;
    return fits && !is_bool(e.dtype()) ? a : of_type;
  }
  if (const auto* l = e.as<Let>()) return range(l->body);
  const auto* b = e.as<Binary>();
  if (!b) return of_type;
  if (e.dtype() == DType::u64) return of_type;  // whose words are in another order than its numbers
  if (b->op == BinaryOp::min || b->op == BinaryOp::max) {
    const Interval x = range(b->a), y = range(b->b);
    if (b->op == BinaryOp::min) return {std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
    return {std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
  }
  if (b->op == BinaryOp::bit_and)
    if (const auto c = as_int(b->b); c && *c >= 0) return {0, *c};
  if (e.type() != Type{}) return of_type;
  switch (b->op) {
    case BinaryOp::add:
    case BinaryOp::sub:
    case BinaryOp::mul: {
      const Linear sum = parts(e);
      return is_atom(sum, e) ? range(b->a) * range(b->b) : bound(sum);
    }
    case BinaryOp::div: {
      const Interval x = range(b->a);
      const auto y = range_of_divisor(b->b);
      if (!y) return {};
      const int64_t lo = x.lo <= Interval::kMin ? Interval::kMin : floor_div(x.lo, x.lo < 0 ? y->lo : y->hi);
      const int64_t hi = x.hi >= Interval::kMax ? Interval::kMax : floor_div(x.hi, x.hi < 0 ? y->hi : y->lo);
      return {lo, hi};
    }
    case BinaryOp::mod: {
      const auto y = range_of_divisor(b->b);
      if (!y) return {};
      const Interval x = range(b->a);
      const int64_t top = y->hi >= Interval::kMax ? Interval::kMax : y->hi - 1;
      return x.lo >= 0 ? Interval{0, std::min(x.hi, top)} : Interval{0, top};
    }
    default:
      return of_type;
  }
}

// Nobody divides by 0: an open size that is a divisor is at least 1.
std::optional<Interval> Simplifier::range_of_divisor(const Expr& e) {
  const Interval r = range(e);
  if (r.lo < 0 || r.hi <= 0) return std::nullopt;
  return Interval{std::max<int64_t>(r.lo, 1), r.hi};
}

// x/c - y/c lies between the quotients of x - y rounded down and up.
Interval Simplifier::bound_of_terms(const Linear& l) {
  Interval out = point(l.constant);
  std::vector<bool> done(l.terms.size());
  for (size_t i = 0; i < l.terms.size(); ++i) {
    if (done[i]) continue;
    const Term& t = l.terms[i];
    Interval r = scaled(range(t.atom), t.coefficient);
    const auto x = as_quotient(t.atom, BinaryOp::div);
    for (size_t j = i + 1; x && j < l.terms.size(); ++j) {
      const Term& other = l.terms[j];
      const auto y = as_quotient(other.atom, BinaryOp::div);
      if (done[j] || !y || y->c != x->c || other.coefficient != -t.coefficient) continue;
      Linear d = parts(x->x);
      d.add(parts(y->x), -1);
      const int depth = std::exchange(constraint_depth_, 0);
      const Interval apart = bound(d);
      constraint_depth_ = depth;
      r = r + scaled(range(other.atom), other.coefficient);
      if (apart.lo > Interval::kMin && apart.hi < Interval::kMax)
        r = intersect(r, scaled({floor_div(apart.lo, x->c), -floor_div(-apart.hi, x->c)}, t.coefficient));
      done[j] = true;
      break;
    }
    out = out + r;
  }
  return out;
}

Interval Simplifier::bound(const Linear& l) {
  Interval out = bound_of_terms(l);
  if (constraint_depth_ == 0 || l.is_constant()) return out;
  --constraint_depth_;  // also for the ranges of atoms, which may hold sums that meet the same constraint
                        // again
  for (const Linear& a : constraints_) {
    for (const Term& t : a.terms) {
      const int64_t c = l.coefficient_of(t.atom);
      if (c == 0 || c % t.coefficient != 0) continue;
      const int64_t k = c / t.coefficient;
      Linear rest = l;  // l = rest + k * a with a <= 0
      rest.add(a, -k);
      const Interval r = bound(rest);
      if (k > 0) out.hi = std::min(out.hi, r.hi);
      if (k < 0) out.lo = std::max(out.lo, r.lo);
    }
  }
  ++constraint_depth_;
  return out;
}

// ---- Facts while walking

void Simplifier::set_range(const Var& v, Interval r) {
  const auto it = ranges_.find(v);
  undo_.push_back({v, it == ranges_.end() ? std::nullopt : std::optional(it->second)});
  ranges_[v] = r;
  memo_.clear();
  linear_memo_.clear();
}

void Simplifier::replace(const Var& v, const Expr& value) {
  replaced_[v] = value;
  memo_.clear();
  linear_memo_.clear();
}

void Simplifier::back_to(const Mark& m) {
  if (m.ranges == undo_.size() && m.constraints == constraints_.size() && m.known == known_.size()) return;
  while (undo_.size() > m.ranges) {
    const Undo& u = undo_.back();
    if (u.before)
      ranges_[u.var] = *u.before;
    else
      ranges_.erase(u.var);
    undo_.pop_back();
  }
  constraints_.resize(m.constraints);
  known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(m.known), known_.end());
  memo_.clear();
  linear_memo_.clear();
}

// Tightens the ranges of the variables in l <= 0; keeps l itself where ranges don't say it all.
void Simplifier::add_constraint(Linear l) {
  if (l.is_constant()) return;
  for (const Term& t : l.terms) {
    const auto* r = t.atom.as<VarRef>();
    if (!r) continue;
    Linear others = l;
    others.add(t.atom, -t.coefficient);
    const int depth = std::exchange(constraint_depth_, 0);
    const int64_t low = bound(others).lo;  // c * v <= -low
    constraint_depth_ = depth;
    if (low <= Interval::kMin) continue;
    Interval v = var_range(r->var);
    if (t.coefficient > 0)
      v.hi = std::min(v.hi, floor_div(-low, t.coefficient));
    else
      v.lo = std::max(v.lo, -floor_div(-low, -t.coefficient));
    const Interval before = var_range(r->var);
    if (v.lo != before.lo || v.hi != before.hi) set_range(r->var, v);
  }
  // a - x/c <= 0 says that c*a <= x.
  std::optional<Linear> product;
  for (const Term& t : l.terms)
    if (const auto q = as_quotient(t.atom, BinaryOp::div); q && t.coefficient == -1 && l.can_scale(q->c)) {
      product = l;
      product->add(t.atom, 1);
      product->scale(q->c);
      product->add(parts(q->x), -1);
      break;
    }
  if (l.terms.size() > 1 || !l.terms[0].atom.as<VarRef>()) constraints_.push_back(std::move(l));
  if (product) add_constraint(*std::move(product));
}

void Simplifier::assume(const Expr& condition, bool holds) {
  memo_.clear();
  linear_memo_.clear();
  if (const auto* u = condition.as<Unary>(); u && u->op == UnaryOp::logical_not) return assume(u->a, !holds);
  const auto* b = condition.as<Binary>();
  if (b && b->op == (holds ? BinaryOp::logical_and : BinaryOp::logical_or)) {
    assume(b->a, holds);
    return assume(b->b, holds);
  }
  if (condition.as<IntImm>() || condition.type().is_vector()) return;
  if (b && b->a.type() == Type{} && is_comparison(b->op)) {
    Linear d = parts(b->a);
    d.add(parts(b->b), -1);
    Linear negative = d;
    negative.scale(-1);
    const auto at_most = [&](Linear l, int64_t slack) {  // l + slack <= 0
      l.constant += slack;
      add_constraint(std::move(l));
    };
    switch (b->op) {
      case BinaryOp::lt:
        return holds ? at_most(d, 1) : at_most(negative, 0);
      case BinaryOp::le:
        return holds ? at_most(d, 0) : at_most(negative, 1);
      case BinaryOp::gt:
        return holds ? at_most(negative, 1) : at_most(d, 0);
      case BinaryOp::ge:
        return holds ? at_most(negative, 0) : at_most(d, 1);
      default:
        break;
    }
    if ((b->op == BinaryOp::eq) == holds) {
      at_most(d, 0);
      return at_most(negative, 0);
    }
  }
  known_.emplace_back(condition, holds);
}

}  // namespace algebra

Interval Facts::range(const Var& v) const {
  const auto it = ranges_.find(v);
  return it == ranges_.end() ? Interval{} : it->second;
}

void Facts::set(const Var& v, Interval range) {
  ranges_[v] = range;
  const auto about = [&](const Expr& e) { return uses_var(e, v); };
  if (assumed_ && std::any_of(assumptions_.begin(), assumptions_.end(), about)) assumed_ = nullptr;
}

void Facts::assume(const Expr& condition) {
  const auto* b = condition.as<Binary>();
  if (b && b->op == BinaryOp::logical_and) {
    assume(b->a);
    return assume(b->b);
  }
  assumptions_.push_back(condition);
  assumed_ = nullptr;
  if (!b || b->op < BinaryOp::eq || b->op > BinaryOp::ge || b->a.type() != Type{}) return;
  const auto x = as_affine(b->a - b->b);
  if (!x || x->terms.size() != 1) return;
  const auto& [v, c] = x->terms[0];
  // c * v + constant op 0, as bounds of v
  const bool strict = b->op == BinaryOp::lt || b->op == BinaryOp::gt;
  Interval r = range(v);
  const auto at_most = [&](int64_t coefficient, int64_t limit) {  // coefficient * v <= limit
    if (coefficient > 0)
      r.hi = std::min(r.hi, algebra::floor_div(limit, coefficient));
    else
      r.lo = std::max(r.lo, -algebra::floor_div(limit, -coefficient));
  };
  if (b->op != BinaryOp::gt && b->op != BinaryOp::ge && b->op != BinaryOp::ne)
    at_most(c, -x->constant - strict);
  if (b->op != BinaryOp::lt && b->op != BinaryOp::le && b->op != BinaryOp::ne)
    at_most(-c, x->constant - strict);
  ranges_[v] = r;
}

}  // namespace nestor

// The Solver of affine.h.
#include <algorithm>

#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "schedules/affine.h"
#include "schedules/nest.h"

namespace nestor::schedules {

namespace {

constexpr int64_t kHuge = int64_t{1} << 50;

bool all_multiples(const Linear& l, int64_t c) {
  if (l.constant % c != 0) return false;
  return std::all_of(l.terms.begin(), l.terms.end(), [c](const Term& t) { return t.coefficient % c == 0; });
}

}  // namespace

void Solver::constrain(const Expr& e, int64_t extent) {
  constraints_.push_back({e, extent});
}

bool Solver::knows(const Var& v) const {
  if (known_vars_.count(v)) return true;
  return facts_.range(v).is_point();
}

bool Solver::is_known(const Expr& atom) const {
  if (has_load(atom)) return false;
  for (const Expr& k : known_atoms_)
    if (same_expr(k, atom)) return true;
  const std::vector<Var> vars = vars_of(atom);
  return std::all_of(vars.begin(), vars.end(), [this](const Var& v) { return knows(v); });
}

int64_t Solver::span(const Expr& atom) const {
  const Interval r = range_of(atom, facts_);
  if (r.lo <= Interval::kMin || r.hi >= Interval::kMax) return kHuge;
  return std::min(kHuge, r.hi - r.lo);
}

// How far a sum can vary, at most: each term by itself, or less where a constraint bounds several of them
// together.
int64_t Solver::span(std::vector<Term> terms) const {
  const auto by_terms = [this](const std::vector<Term>& ts) {
    int64_t total = 0;
    for (const Term& t : ts) {
      const int64_t s = span(t.atom), c = std::abs(t.coefficient);
      total = s > kHuge / std::max<int64_t>(c, 1) ? kHuge : std::min(kHuge, total + c * s);
    }
    return total;
  };
  int64_t best = by_terms(terms);
  for (const Constraint& constraint : constraints_) {
    const std::vector<Term> bounded = unknown_terms(constraint.e);
    if (bounded.size() < 2 || bounded.size() > terms.size()) continue;
    std::vector<Term> rest = terms;
    int64_t ratio = 0;
    bool inside = true;
    for (const Term& b : bounded) {
      const auto it =
          std::find_if(rest.begin(), rest.end(), [&](const Term& t) { return same_expr(t.atom, b.atom); });
      if (it == rest.end() || it->coefficient % b.coefficient != 0) {
        inside = false;
        break;
      }
      const int64_t r = it->coefficient / b.coefficient;
      inside = inside && (ratio == 0 || r == ratio);
      ratio = r;
      rest.erase(it);
    }
    if (inside) best = std::min(best, std::abs(ratio) * (constraint.extent - 1) + by_terms(rest));
  }
  return best;
}

std::vector<Term> Solver::unknown_terms(const Expr& e) const {
  std::vector<Term> out;
  for (const Term& t : linear_of(e).terms)
    if (!is_known(t.atom)) out.push_back(t);
  return out;
}

// The term with the largest coefficient follows from the sum if the others together can't reach one step of
// it.
bool Solver::take_largest(const Expr& e) {
  std::vector<Term> terms = unknown_terms(e);
  if (terms.empty()) return false;
  const auto largest = std::max_element(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    return std::abs(a.coefficient) < std::abs(b.coefficient);
  });
  const Term t = *largest;
  if (has_load(t.atom)) return false;
  terms.erase(largest);
  if (span(std::move(terms)) >= std::abs(t.coefficient)) return false;
  learn(t.atom);
  return true;
}

void Solver::learn(const Expr& atom) {
  if (const auto* r = atom.as<VarRef>()) {
    known_vars_.insert(r->var);
    return;
  }
  known_atoms_.push_back(atom);
  const auto* outer = atom.as<Binary>();
  if (!outer || (outer->op != BinaryOp::div && outer->op != BinaryOp::mod)) return;
  const auto c = as_int(outer->b);
  // x / n and x % n tell x, n being a symbolic size; (x / k) / n may be written x / (k * n).
  for (const Expr& known : known_atoms_) {
    const auto* rest = known.as<Binary>();
    if (!rest || rest->op != BinaryOp::mod || !is_known(rest->b)) continue;
    const auto* inner = rest->a.as<Binary>();
    if (inner && inner->op != BinaryOp::div) inner = nullptr;
    if (as_int(rest->b) && (!inner || as_int(inner->b))) continue;  // digits of numbers: see below
    if (is_known(simplify(rest->a / rest->b)) ||
        (inner && is_known(simplify(inner->a / (inner->b * rest->b)))))
      pending_.push_back(rest->a);
  }
  if (!c || *c <= 0) return;
  if (outer->op == BinaryOp::div) return learn_digit({outer->a, *c, 0});
  const auto* inner = outer->a.as<Binary>();
  const auto d = inner ? as_int(inner->b) : std::nullopt;
  if (inner && inner->op == BinaryOp::div && d && *d > 0) learn_digit({inner->a, *d, *c});
  learn_digit({outer->a, 1, *c});
}

// True if the digit is one of `value` too: multiples of lower * size don't change it. (32*a + b) % 7 is
// written (4*a + b) % 7 by the simplifier.
bool Solver::is_digit_of(const Digit& d, const Expr& value) {
  if (same_expr(d.of, value)) return true;
  if (d.size == 0 || d.lower > kHuge / d.size) return false;
  return all_multiples(add(linear_of(d.of), linear_of(value), -1), d.lower * d.size);
}

// Digits of one value that follow each other without a gap, up to its highest, tell the value.
void Solver::learn_digit(const Digit& d) {
  digits_.push_back(d);
  for (const Digit& with_value : digits_)
    if (is_digit_of(d, with_value.of) && covered_by_digits(with_value.of)) pending_.push_back(with_value.of);
}

bool Solver::covered_by_digits(const Expr& value) const {
  int64_t covered = 1;
  for (bool grown = true; grown;) {
    grown = false;
    for (const Digit& d : digits_) {
      if (d.lower != covered || !is_digit_of(d, value)) continue;
      if (d.size == 0) return true;
      if (d.size == 1 || covered > kHuge / d.size) continue;
      covered *= d.size;
      grown = true;
    }
  }
  const Interval r = range_of(value, facts_);
  return r.lo >= 0 && r.hi < covered;
}

void Solver::solve() {
  for (bool grown = true; grown;) {
    grown = false;
    // A remainder that is known tells its value where what is unknown of that varies by less than the
    // modulus: (k+5) % 23 tells k < 23.
    for (size_t i = 0; i < digits_.size(); ++i) {
      const Digit d = digits_[i];  // learning adds others
      if (d.lower == 1 && span(unknown_terms(d.of)) < d.size) grown = take_largest(d.of) || grown;
    }
    for (size_t i = 0; i < pending_.size(); ++i) {
      const Expr e = pending_[i];
      grown = take_largest(e) || grown;
    }
  }
}

}  // namespace nestor::schedules

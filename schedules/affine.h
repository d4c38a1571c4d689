// The index algebra of the primitives: sums of atoms, bounds of an index while some loops run and others are
// fixed, and whether the values of index expressions determine the iteration that computed them.
//
// An atom is whatever isn't a sum or a product with a constant: a variable, g / 56, g % 56, ... Splits make
// sums, and fuses make quotients and remainders, so everything that schedules do to bindings is a sum of
// digits. Uniqueness is then a question of mixed radix: in 14*x0 + x1 with x1 < 14 the sum determines both.
// TVM calls this the iterator map; here it is a fixpoint over what is known, which needs no normal form.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "nestor/simplify.h"

namespace nestor::schedules {

struct Term {
  Expr atom;
  int64_t coefficient;
};
struct Linear {
  std::vector<Term> terms;  // in order of first appearance, coefficients not 0
  int64_t constant = 0;
  bool is_constant() const { return terms.empty(); }
};
Linear linear_of(const Expr& e);
Expr to_expr(const Linear& l);
Linear add(Linear a, const Linear& b, int64_t factor = 1);  // a + factor * b
Linear scale(const Linear& a, int64_t factor);
bool is_zero(const Linear& l);

// The value lies in [base + lo, base + hi], base over variables that stand still.
struct Bound {
  Linear base;
  int64_t lo = 0, hi = 0;
};
// Bounds of e while the variables of `moving` run over their ranges and those of `fixed` stand still. None
// where e reads memory, an unknown variable, or an unbounded one.
std::optional<Bound> bound_of(const Expr& e, const std::unordered_map<Var, Interval>& moving,
                              const std::unordered_set<Var>& fixed);
// The smallest bound that holds both, where their bases differ by a constant.
std::optional<Bound> unite(const Bound& a, const Bound& b);

// Grows the set of variables whose values follow from the values of given expressions.
class Solver {
 public:
  void range(const Var& v, Interval r) { facts_.set(v, r); }
  void constrain(const Expr& e, int64_t extent);  // holds: 0 <= e < extent
  void know(const Var& v) { known_vars_.insert(v); }
  void know(const Expr& e) { pending_.push_back(e); }
  void solve();
  bool knows(const Var& v) const;

 private:
  struct Digit {  // (of / lower) % size; size 0: no modulus
    Expr of;
    int64_t lower = 1, size = 0;
  };
  bool is_known(const Expr& atom) const;
  int64_t span(const Expr& atom) const;
  int64_t span(std::vector<Term> terms) const;
  std::vector<Term> unknown_terms(const Expr& e) const;
  bool take_largest(const Expr& e);
  void learn(const Expr& atom);
  void learn_digit(const Digit& d);
  static bool is_digit_of(const Digit& d, const Expr& value);
  bool covered_by_digits(const Expr& value) const;

  Facts facts_;
  std::unordered_set<Var> known_vars_;
  std::vector<Expr> known_atoms_, pending_;
  std::vector<Digit> digits_;
  struct Constraint {
    Expr e;
    int64_t extent;
  };
  std::vector<Constraint> constraints_;
};

}  // namespace nestor::schedules

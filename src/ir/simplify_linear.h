// Sums with integer coefficients over atoms: the normal form of i64 index arithmetic. An atom is any
// expression that is not itself a sum (a variable, a quotient, a load ...). Terms keep the order in which
// they first appeared, so that the result reads like what was written; equality is decided by subtraction, so
// no canonical order is needed.
#pragma once

#include <vector>

#include "nestor/ir.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor::algebra {

// Immediates beyond this stay atoms, so that coefficients never overflow.
inline constexpr int64_t kLimit = int64_t{1} << 50;
inline bool is_small(int64_t v) {
  return -kLimit <= v && v <= kLimit;
}
std::optional<int64_t> small_product(int64_t a, int64_t b);

struct Term {
  Expr atom;
  int64_t coefficient;
};
struct Linear {
  std::vector<Term> terms;  // atoms differ, coefficients are not 0
  int64_t constant = 0;

  static Linear of_constant(int64_t c) { return {{}, c}; }
  static Linear of_atom(const Expr& e) { return {{{e, 1}}, 0}; }
  bool is_constant() const { return terms.empty(); }
  int64_t coefficient_of(const Expr& atom) const;
  void add(const Expr& atom, int64_t coefficient);
  void add(const Linear& other, int64_t factor = 1);
  void scale(int64_t factor);
  bool can_scale(int64_t factor) const;
  Linear divided(int64_t g) const;  // terms / g exactly, the constant floored
};

// Splits a sum that is already simplified; touches nothing below the sum.
Linear parts(const Expr& e);
inline bool is_atom(const Linear& parts_of_e, const Expr& e) {
  return parts_of_e.terms.size() == 1 && parts_of_e.terms[0].atom.same_as(e);
}
Expr to_expr(const Linear& l);

int64_t floor_div(int64_t a, int64_t b);  // b > 0
int64_t floor_mod(int64_t a, int64_t b);
int64_t content(const Linear& l);  // gcd of the coefficients, 0 where there are none

// `x / c` or `x % c` with a constant c > 0 as an atom.
struct Quotient {
  Expr x;
  int64_t c;
};
std::optional<Quotient> as_quotient(const Expr& atom, BinaryOp op);

// ---- Intervals

Interval point(int64_t v);
Interval operator+(Interval a, Interval b);
Interval operator*(Interval a, Interval b);
Interval scaled(Interval a, int64_t factor);
Interval unite(Interval a, Interval b);
Interval intersect(Interval a, Interval b);
Interval range_of_type(DType t);
// m where all of `a` lies in [m*c, (m+1)*c).
std::optional<int64_t> common_quotient(Interval a, int64_t c);

}  // namespace nestor::algebra

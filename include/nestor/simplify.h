// Algebraic simplification with known ranges of variables. Every value is kept (floats: bit for bit), it is
// idempotent, and an expression that doesn't change keeps its handle. i64 is index arithmetic and is assumed
// not to overflow; narrower integers wrap, and only their constants are folded. An error in a part that is
// never evaluated may disappear.
#pragma once

#include <limits>
#include <memory>
#include <unordered_map>

#include "nestor/ir.h"

namespace nestor {

// A closed interval of integers; the ends saturate at kMin and kMax, which mean "unbounded".
struct Interval {
  static constexpr int64_t kMin = std::numeric_limits<int64_t>::min() / 4;
  static constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 4;
  int64_t lo = kMin, hi = kMax;
  bool is_point() const { return lo == hi; }
};

namespace algebra {
class Simplifier;
struct Assumed;
}  // namespace algebra

// What is known where an expression stands: ranges of variables, and conditions that hold (from enclosing
// ifs).
class Facts {
 public:
  void set(const Var& v, Interval range);
  void assume(const Expr& condition);  // an affine comparison, or && of them; others are remembered as such
  Interval range(const Var& v) const;
  const std::vector<Expr>& assumptions() const { return assumptions_; }

 private:
  friend class algebra::Simplifier;
  std::unordered_map<Var, Interval> ranges_;
  std::vector<Expr> assumptions_;
  // What the assumptions come to, once somebody asked; not for two threads at once.
  mutable std::shared_ptr<const algebra::Assumed> assumed_;
};

struct SimplifyOptions {
  bool drop_unit_loops = false;  // serial loops of extent 1
};

Expr simplify(const Expr& e, const Facts& facts = {});
// Also drops dead branches and loops that don't run; an empty Seq where nothing is left.
Stmt simplify(const Stmt& s, const Facts& facts = {}, const SimplifyOptions& options = {});
PrimFunc simplify(const PrimFunc& f, const SimplifyOptions& options = {});

Interval range_of(const Expr& e, const Facts& facts);  // of an integer expression; conservative
bool can_prove(const Expr& condition, const Facts& facts);

// e as sum of coefficient * var + constant, if it is affine with constant coefficients over VarRefs.
struct Affine {
  std::vector<std::pair<Var, int64_t>> terms;  // in order of first appearance, coefficients not 0
  int64_t constant = 0;
};
std::optional<Affine> as_affine(const Expr& e);
int64_t coefficient(const Affine& a, const Var& v);  // 0 where v is absent
// Whether e has a part that is divided by `by` and moves with v: a group of so many.
bool divides(const Expr& e, const Var& v, int64_t by);

}  // namespace nestor

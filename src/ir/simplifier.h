// The simplifier's state and rules. One pass, bottom up: each node is simplified once from simplified
// children, under the facts that hold where it stands (ranges of variables, sums known to be at most 0,
// conditions known as such). Facts are added on the way into a branch or loop and taken back by a mark on the
// way out.
#pragma once

#include <unordered_map>

#include "nestor/walk.h"
#include "src/ir/simplify_linear.h"

namespace nestor::algebra {

// Facts as they act: their assumptions simplified, each under those before it.
struct Assumed {
  std::unordered_map<Var, Interval> ranges;
  std::vector<Linear> constraints;
  std::vector<std::pair<Expr, bool>> known;
};

class Simplifier {
 public:
  explicit Simplifier(const Facts& facts);

  Expr expr(const Expr& e);
  Linear linear(const Expr& e);  // of an i64 scalar

  // Ranges, of simplified expressions.
  Interval range(const Expr& e);
  Interval var_range(const Var& v) const;
  Interval bound(const Linear& l);

  // Scopes of facts.
  struct Mark {
    size_t ranges, constraints, known;
  };
  Mark mark() const { return {undo_.size(), constraints_.size(), known_.size()}; }
  void back_to(const Mark& m);
  void assume(const Expr& condition, bool holds = true);  // simplified
  void set_range(const Var& v, Interval r);
  void keep(const Var& v) { kept_.insert({v, true}); }  // never replaced by its only value
  void replace(const Var& v, const Expr& value);        // from here on
  bool is_replaced(const Var& v) const { return replaced_.count(v) != 0; }

  bool is_total(const Expr& e) const;  // can't fail: no loads, no division by what may be 0

 private:
  // simplify.cpp
  Expr scalar_rules(const Expr& e);  // and those of vectors of other types than i64 and bool
  Interval bound_of_terms(const Linear& l);  // range.cpp
  Expr children(const Expr& e);
  Expr cast(const Expr& e, const Expr& a);
  Expr load(const Expr& e);
  Expr let(const Expr& e);
  Linear linear_uncached(const Expr& e);
  Linear product(const Linear& a, const Linear& b);

  // simplify_divmod.cpp
  Linear divide(const Linear& l, int64_t c);
  Linear modulo(const Linear& l, int64_t c);
  std::optional<Interval> range_of_divisor(const Expr& e);
  bool is_below(const Linear& d);
  Linear divmod_symbolic(BinaryOp op, const Linear& a, const Linear& b);
  void recombine(Linear& l);
  bool recombine_once(Linear& l);

  // simplify_logic.cpp
  Expr compare(const Expr& e, const Binary& b);
  Expr compare_sums(BinaryOp op, Linear d);
  std::optional<bool> decide(BinaryOp op, const Linear& d);
  std::optional<bool> known(const Expr& condition);
  Expr min_max(const Expr& e, const Binary& b);
  Expr logical(const Expr& e, const Binary& b);
  Expr logical_not(const Expr& a);
  Expr select(const Expr& e, const Select& s);
  void add_constraint(Linear l);  // l <= 0

  // simplify_fold.cpp: immediates, and what is exact for any type
  Expr fold_binary(BinaryOp op, const Expr& a, const Expr& b);
  Expr fold_call(const Expr& e);

  // simplify_vector.cpp
  Expr vector(const Expr& e);
  Expr scalarize(const Expr& e);
  Expr vectorize(const Expr& e, int lanes);
  Expr vectorize_sum(const Linear& l, int lanes);
  bool varies(const Expr& e) const;  // by lane
  const Var& lane_var(int lanes);

  struct Undo {
    Var var;
    std::optional<Interval> before;
  };
  const Facts& facts_;
  std::unordered_map<Var, Interval> ranges_;  // over those of facts_
  std::vector<Undo> undo_;
  std::vector<Linear> constraints_;           // each <= 0
  int constraint_depth_ = 2;                  // how many may still be combined
  std::vector<std::pair<Expr, bool>> known_;  // conditions of other kinds
  std::unordered_map<Var, bool> kept_;
  std::unordered_map<Var, Expr> replaced_;
  // Results under the present facts; the keys are kept alive by the first of each pair.
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> memo_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Linear>> linear_memo_;
  std::unordered_map<int, Var> lane_vars_;
  std::vector<std::pair<Var, Expr>> opaque_;  // vector expressions standing as scalars in a scalarized one
};

}  // namespace nestor::algebra

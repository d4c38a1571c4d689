// A rewriter that knows, wherever it stands, the ranges of the variables in scope and the conditions that
// hold.
#pragma once

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor::passes {

class ScopedRewriter : public Rewriter {
 public:
  Stmt stmt(const Stmt& s) override;

 protected:
  const Facts& facts() const { return facts_; }
  // Runs `f` where `condition` holds as well.
  template <class F>
  auto assuming(const Expr& condition, F&& f) {
    Facts saved = facts_;
    facts_.assume(condition);
    auto result = f();
    facts_ = std::move(saved);
    return result;
  }
  void enter(const For& loop);
  void set_range(const Var& v, Interval range) { facts_.set(v, range); }
  void set_facts(const Facts& facts) { facts_ = facts; }

 private:
  Facts facts_;
};

// The conjuncts of a condition: `a && (b && c)` gives a, b, c. And the other way round; none is `true`.
std::vector<Expr> conjuncts(const Expr& condition);
Expr conjunction(const std::vector<Expr>& conditions);

bool has_loop_annotation(const PrimFunc& f, std::string_view prefix);  // a loop has one that begins so

}  // namespace nestor::passes

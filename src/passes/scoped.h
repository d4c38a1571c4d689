// A rewriter with facts.
#pragma once

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor::passes {

// Sizes that are known when the function runs aren't below 0.
Facts facts_of_sizes(const PrimFunc& f);

// Knows, wherever it stands, the ranges of the variables in scope and the conditions that hold.
class ScopedRewriter : public Rewriter {
 public:
  ScopedRewriter() = default;
  explicit ScopedRewriter(const PrimFunc& f) : facts_(facts_of_sizes(f)) {}
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

// What i < end says of a number that isn't below 0, without minima and maxima where that is possible: that it
// is below each of them.
Expr below(const Expr& i, const Expr& end);

// The conjuncts of a condition: `a && (b && c)` gives a, b, c. And the other way round; none is `true`.
std::vector<Expr> conjuncts(const Expr& condition);
Expr conjunction(const std::vector<Expr>& conditions);

bool has_loop_annotation(const PrimFunc& f, std::string_view prefix);  // a loop has one that begins so

}  // namespace nestor::passes

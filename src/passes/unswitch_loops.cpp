// Moves conditions that are invariant in an innermost loop out of it:
//
//   for i { A; if (c) B }   ->   if (c) { for i { A; B } } else { for i { A } }
//
// Otherwise each iteration of a register tile would have a branch, as for the kernel elements of a
// convolution that fall outside of the image. Only comparisons of indices are moved, and a loop gets few
// versions.
#include "src/passes/passes.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

constexpr int kDeepest = 2;            // conditions: up to four versions of a loop
constexpr int64_t kMostStores = 1024;  // of one version

bool is_order(BinaryOp op) {
  return is_comparison(op) && op != BinaryOp::eq && op != BinaryOp::ne;
}

// What is bound in the loop, and the conditions in it that don't depend on that.
struct Conditions : Walker {
  std::vector<Var> bound;
  std::vector<Expr> found;
  bool innermost = true;
  int64_t stores = 0;

  void expr(const Expr&) override {}
  void stmt(const Stmt& s) override {
    if (const auto* l = s.as<For>()) {
      innermost = innermost && bound.empty();
      bound.push_back(l->var);
    }
    if (const auto* l = s.as<LetStmt>()) bound.push_back(l->var);
    stores += s.as<Store>() != nullptr;
    if (const auto* branch = s.as<If>())
      for (const Expr& c : conjuncts(branch->cond)) {
        const auto* b = c.as<Binary>();
        bool free = b && is_order(b->op) && b->a.type() == Type{} && !has_load(c);
        for (const Var& v : bound) free = free && !uses_var(c, v);
        if (free) found.push_back(c);
      }
    children(s);
  }
};

class Unswitcher : public ScopedRewriter {
 public:
  using ScopedRewriter::ScopedRewriter;
  Stmt stmt(const Stmt& s) override {
    const Stmt out = ScopedRewriter::stmt(s);
    const auto* loop = out ? out.as<For>() : nullptr;
    return loop && loop->kind == ForKind::serial ? versions(out, kDeepest) : out;
  }

 private:
  Stmt versions(const Stmt& loop, int depth) {
    if (!loop || !loop.as<For>() || depth == 0) return loop;
    Conditions c;
    c.stmt(loop);
    if (c.found.empty() || !c.innermost || c.stores > kMostStores) return loop;
    const Expr condition = c.found.front();
    const auto* b = condition.as<Binary>();
    const Expr negation = make::binary(opposite(b->op), b->a, b->b);
    const auto version = [&](const Expr& holds) {
      return assuming(holds, [&] { return versions(simplify(loop, facts()), depth - 1); });
    };
    const Stmt yes = version(condition), no = version(negation);
    const auto* nothing = no ? no.as<Seq>() : nullptr;
    return make::if_then(condition, yes,
                         !no || (nothing && nothing->stmts.empty()) ? Stmt() : fresh_copy(no));
  }
};

}  // namespace

PrimFunc unswitch_loops(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Unswitcher(f).stmt(f.body);
  return out;
}

}  // namespace nestor::passes

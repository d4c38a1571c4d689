// `X[i] op= v` becomes `X[i] = X[i] op v`, the accumulator on the left. Where v is `if c then a else e` and e
// changes nothing, only an update by a is left, behind `if c`: unless c tells lanes of a vector apart, which
// keep to one path.
#include <algorithm>

#include "nestor/walk.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

class UpdateLowering : public Rewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    if (const auto* loop = s.as<For>(); loop && loop->kind == ForKind::vectorized) {
      lanes_.push_back(loop->var);
      Stmt out = children(s);
      lanes_.pop_back();
      return out;
    }
    const auto* u = s.as<Update>();
    if (!u) return children(s);
    if (const auto* choice = u->value.as<Select>(); choice && same_path(choice->cond))
      if (structural_equal(choice->b, identity_of(u->op, u->value.type())))
        return make::if_then(choice->cond, stmt(make::update(u->op, u->buffer, u->indices, choice->a)));
    return make::store(u->buffer, u->indices,
                       make::binary(binary_of(u->op), make::load(u->buffer, u->indices), u->value));
  }

 private:
  bool same_path(const Expr& condition) const {
    return std::none_of(lanes_.begin(), lanes_.end(), [&](const Var& v) { return uses_var(condition, v); });
  }
  std::vector<Var> lanes_;  // of the vectorized loops around
};

}  // namespace

PrimFunc lower_updates(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = UpdateLowering().stmt(f.body);
  return out;
}

}  // namespace nestor::passes

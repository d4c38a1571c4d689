// Sizes that are equal get one name. A model may need two of its sizes to be one (`seq` words and a mask of
// `total - past`), and says so only where both meet: what was made before has the one name, what comes after
// has the other. Functions are built with one, else their loops couldn't be fused.
#include <set>
#include <utility>

#include "nestor/dim.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

// The lesser, the larger or one of several sizes: nothing can be concluded of what it is made of.
bool is_choice(const Expr& e) {
  const auto* b = e.as<Binary>();
  return (b && (b->op == BinaryOp::min || b->op == BinaryOp::max)) || e.as<Select>();
}

using Equal = std::vector<std::pair<Var, Expr>>;
using Choices = std::vector<std::pair<Expr, Var>>;

class Put : public Rewriter {
 public:
  Put(const Equal& equal, const Choices& choices) : choices_(choices) {
    for (auto it = equal.rbegin(); it != equal.rend(); ++it)
      values_[it->first] = substitute(it->second, values_);
  }
  Expr expr(const Expr& e) override {
    if (const auto* ref = e.as<VarRef>()) {
      const auto value = values_.find(ref->var);
      return value == values_.end() ? e : value->second;
    }
    const Expr put = children(e);
    if (is_choice(put))
      for (const auto& [choice, var] : choices_)
        if (same_expr(put, choice)) return expr(var);
    return put;
  }

 private:
  VarMap values_;
  const Choices& choices_;
};

// Symbols in f.
std::vector<Var> used(const PrimFunc& f, const std::vector<Symbol>& all) {
  std::set<const VarNode*> seen;
  const auto see = [&](const Expr& e) {
    if (const auto* ref = e.as<VarRef>()) seen.insert(ref->var.get());
  };
  for (const Param& p : f.params)
    for (const Expr& e : p.decl.shape) for_each_expr(e, see);
  for (const BufferDecl& d : f.allocs)
    for (const Expr& e : d.shape) for_each_expr(e, see);
  for_each_expr(f.body, see);
  std::vector<Var> out;
  for (const Symbol& s : all)
    if (seen.count(s.var.get())) out.push_back(s.var);
  return out;
}

}  // namespace

bool Symbols::equal(const Expr& a, const Expr& b) const {
  return is_const_int(reduce(a - b), 0);
}

void Symbols::take_equal(const Expr& a, const Expr& b) {
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)})
    if (const auto* ref = one.as<VarRef>(); ref && is_choice(other) && !uses_var(other, ref->var)) {
      choices_.emplace_back(other, ref->var);
      return;
    }
  // The later symbol is put as the earlier ones say.
  for (size_t s = all_.size(); s-- > 0;) {
    const Var& var = all_[s].var;
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
      const auto* ref = one.as<VarRef>();
      if (!ref || ref->var != var || uses_var(other, var)) continue;
      equal_.emplace_back(var, other);
      // What was a choice may be none any more.
      for (auto& [choice, symbol] : std::exchange(choices_, {}))
        take_equal(simplify(substitute(choice, VarMap{{var, other}}), facts_), put_equal(symbol));
      return;
    }
  }
}

Expr Symbols::put_equal(const Expr& e) const {
  return equal_.empty() && choices_.empty() ? e : Put(equal_, choices_).expr(e);
}

PrimFunc Symbols::with_equal(const PrimFunc& f) const {
  if (equal_.empty() && choices_.empty()) return f;
  Put put(equal_, choices_);
  PrimFunc out = f;
  bool changed = false;
  const auto put_in = [&](BufferDecl& decl) {
    for (Expr& e : decl.shape) {
      const Expr before = e;
      e = put.expr(e);
      if (e.same_as(before)) continue;
      e = simplify(e, facts_);
      changed = true;
    }
  };
  for (Param& p : out.params) put_in(p.decl);
  for (BufferDecl& d : out.allocs) put_in(d);
  out.body = put.stmt(out.body);
  if (!changed && out.body.same_as(f.body)) return f;
  out.dims = used(out, all_);
  return simplify(out);
}

}  // namespace nestor

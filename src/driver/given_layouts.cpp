#include "src/driver/given_layouts.h"

#include "nestor/library.h"
#include "nestor/schedule.h"
#include "nestor/walk.h"

namespace nestor {

IndexMap layout_of(const BufferDecl& decl) {
  if (decl.layout) return *decl.layout;
  IndexMap out;
  for (size_t d = 0; d < decl.shape.size(); ++d) {
    out.vars.push_back(make_var("d" + std::to_string(d)));
    out.exprs.emplace_back(out.vars.back());
  }
  return out;
}

bool same_layout(const IndexMap& a, const IndexMap& b) {
  if (a.vars.size() != b.vars.size() || a.exprs.size() != b.exprs.size() || a.pad != b.pad) return false;
  VarMap names;
  for (size_t v = 0; v < a.vars.size(); ++v) names[a.vars[v]] = Expr(b.vars[v]);
  for (size_t e = 0; e < a.exprs.size(); ++e)
    if (!same_expr(substitute(a.exprs[e], names), b.exprs[e])) return false;
  return true;
}

bool same_layouts(const PrimFunc& a, const PrimFunc& b) {
  for (size_t i = 0; i < a.params.size(); ++i)
    if (!same_layout(layout_of(a.params[i].decl), layout_of(b.params[i].decl))) return false;
  return true;
}

namespace {

// The dimension whose elements lie beside each other.
size_t innermost(const IndexMap& layout) {
  for (size_t v = 0; v < layout.vars.size() && !layout.exprs.empty(); ++v)
    if (uses_var(layout.exprs.back(), layout.vars[v])) return v;
  return 0;
}

}  // namespace

bool suit(const GivenLayouts& layouts, const PrimFunc& f, const Target& target) {
  const PrimFunc scheduled = apply(f, default_schedule(f, target));
  for (size_t i = 0; i < layouts.size(); ++i)
    if (layouts[i] && innermost(layout_of(scheduled.params[i].decl)) != innermost(*layouts[i])) return false;
  return true;
}

PrimFunc with_layouts(PrimFunc f, const GivenLayouts& layouts) {
  for (size_t i = 0; i < layouts.size(); ++i)
    if (layouts[i]) f.params[i].decl.layout = layouts[i];
  return f;
}

}  // namespace nestor

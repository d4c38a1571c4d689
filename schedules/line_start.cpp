#include "schedules/line_start.h"

namespace nestor::schedules {

namespace {

// The element's number in a row-major buffer, if the distances of rows are constant.
std::optional<Linear> number_of(const BufferDecl& decl, const std::vector<Expr>& indices) {
  Linear out;
  for (size_t d = 0; d < indices.size(); ++d) {
    const auto extent = as_int(decl.shape[d]);
    if (d > 0 && !extent) return std::nullopt;
    out = add(linear_of(indices[d]), out, extent.value_or(0));
  }
  return out;
}

// What is left of a sum of products modulo n, each coefficient in [0, n).
Linear modulo(Linear sum, int64_t n) {
  Linear out;
  for (const Term& t : sum.terms)
    if (const int64_t c = (t.coefficient % n + n) % n) out.terms.push_back({t.atom, c});
  out.constant = (sum.constant % n + n) % n;
  return out;
}

}  // namespace

LineStart line_start(const PrimFunc& f, const LoopRef& loop, const Buffer& b) {
  const BufferDecl decl = decl_of(f, b);
  const std::string& name = b->name;
  if (decl.layout || !decl.align.empty()) return {{}, name + " has a layout of its own"};
  const Var& var = as_for(loop.stmt).var;
  for (const Place& p : places_under(f.body, loop.stmt)) {
    const auto accesses = accesses_at(p, [&](const Buffer& touched) { return touched == b; });
    if (accesses.empty()) continue;
    const auto number = number_of(decl, accesses[0].indices);
    if (!number) return {{}, "the distance of rows of " + name + " isn't constant"};
    const int64_t a_line = kLineBytes / bytes_of(b->type.dtype);
    Linear first;
    int64_t stride = 0;
    for (const Term& t : number->terms) {
      const auto* v = t.atom.as<VarRef>();
      if (v && v->var == var)
        stride = t.coefficient;
      else if (uses_var(t.atom, var))
        return {{}, "neighbours in " + loop.text() + " aren't neighbours in " + name};
      else
        first.terms.push_back(t);
    }
    if (has_load(to_expr(first))) return {{}, "what is read of inputs says where it begins in " + name};
    if (stride != 1) return {{}, "neighbours in " + loop.text() + " aren't neighbours in " + name};
    first.constant = number->constant;
    first = modulo(first, a_line);
    for (const Stmt& l : p.loops()) {
      if (!uses_var(to_expr(first), as_for(l).var)) continue;
      if (p.depth_of(l) > loop.depth)
        return {{}, loop_name(l) + ", inside of " + loop.text() + ", moves it in " + name};
      if (use_of(p.block(), as_for(l).var).reduce)
        return {{}, loop_name(l) + ", a loop of the reduction, moves it in " + name};
      if (p.depth_of(l) < p.inside())
        return {{}, loop_name(l) + ", outside of the block around " + p.name() + ", moves it in " + name};
    }
    return {simplify(to_expr(first) % Expr(a_line), facts_at(loop.place)), ""};
  }
  return {{}, "no block in " + loop.text() + " accesses " + name};
}

}  // namespace nestor::schedules

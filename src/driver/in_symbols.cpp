#include "src/driver/in_symbols.h"

#include <algorithm>

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor {

bool has_own_sizes(const KernelCall& call) {
  return !std::all_of(call.sizes.begin(), call.sizes.end(), [](const Expr& e) { return e.as<VarRef>(); });
}

PrimFunc in_symbols(const PrimFunc& f, const PrimFunc& called, const KernelCall& call) {
  VarMap sizes;
  PrimFunc out = f;
  out.dims.clear();
  for (size_t d = 0; d < called.dims.size(); ++d) {
    if (std::find(f.dims.begin(), f.dims.end(), called.dims[d]) == f.dims.end()) continue;
    sizes[called.dims[d]] = call.sizes[d];
    for_each_expr(call.sizes[d], [&](const Expr& e) {
      const auto* symbol = e.as<VarRef>();
      if (symbol && std::find(out.dims.begin(), out.dims.end(), symbol->var) == out.dims.end())
        out.dims.push_back(symbol->var);
    });
  }
  for (Param& p : out.params)
    for (Expr& e : p.decl.shape) e = simplify(substitute(e, sizes));
  for (BufferDecl& a : out.allocs)
    for (Expr& e : a.shape) e = simplify(substitute(e, sizes));
  out.body = substitute(f.body, sizes);
  return out;
}

}  // namespace nestor

// Which loops nvcc must write out.
#include "nestor/walk.h"
#include "src/codegen/cuda_source.h"

namespace nestor {

// An array of a thread's own is in registers only where every index is known: in loops that are written out.
bool CudaWriter::needs_unrolling(const For& f) const {
  constexpr int64_t kMost = 64;
  if (as_int(f.extent).value_or(kMost + 1) > kMost) return false;
  bool found = false;
  const auto look = [&](const Buffer& b, const std::vector<Expr>& indices) {
    const auto scope = scopes_.find(b);
    if (scope == scopes_.end() || scope->second != Scope::local) return;
    for (const Expr& e : indices) found |= uses_var(e, f.var);
  };
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* st = s.as<Store>()) look(st->buffer, st->indices);
  });
  for_each_expr(f.body, [&](const Expr& e) {
    if (const auto* l = e.as<Load>()) look(l->buffer, l->indices);
  });
  return found;
}

}  // namespace nestor

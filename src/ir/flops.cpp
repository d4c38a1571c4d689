#include "nestor/flops.h"

#include <algorithm>
#include <unordered_set>

#include "nestor/walk.h"

namespace nestor {

namespace {

// What is written twice, as in (a - b) * (a - b), is computed once.
double flops_of_expr(const Expr& e) {
  double count = 0;
  std::unordered_set<Expr, HashExpr, SameExpr> seen;
  for_each_expr(e, [&](const Expr& x) {
    if (!is_float(x.dtype())) return;
    const auto* call = x.as<Call>();
    const double each = call && call->fn == Intrinsic::fma ? 2 : 1;
    if (!x.as<Binary>() && !x.as<Unary>() && !call && !x.as<VectorReduce>()) return;
    if (seen.insert(x).second) count += each * x.type().lanes;
  });
  return count;
}

double flops_of_stmt(const Stmt& s) {
  return match(
      s,
      [](const Seq& q) {
        double sum = 0;
        for (const Stmt& child : q.stmts) sum += flops_of_stmt(child);
        return sum;
      },
      [](const For& f) { return static_cast<double>(as_int(f.extent).value_or(1)) * flops_of_stmt(f.body); },
      [](const Block& b) { return flops_of_stmt(b.body); },  // init runs once in a reduction: left out
      [](const Store& st) { return flops_of_expr(st.value); },
      [](const Update& u) {
        const auto* product = u.value.as<Binary>();  // of small integers: as much work as of floats
        if (!is_float(u.value.dtype()) && product && product->op == BinaryOp::mul)
          return 2.0 * u.value.type().lanes;
        return flops_of_expr(u.value) + (is_float(u.value.dtype()) ? u.value.type().lanes : 0);
      },
      [](const If& i) {
        return std::max(flops_of_stmt(i.then_case), i.else_case ? flops_of_stmt(i.else_case) : 0);
      },
      [](const Alloc& a) { return flops_of_stmt(a.body); },
      [](const LetStmt& l) { return flops_of_expr(l.value) + flops_of_stmt(l.body); },
      [](const Evaluate&) { return 0.0; });
}

}  // namespace

double flops_of(const PrimFunc& f) {
  return flops_of_stmt(f.body);
}

double work_of(const Stmt& s) {
  if (const auto* loop = s.as<For>())
    return static_cast<double>(as_int(loop->extent).value_or(1)) * work_of(loop->body);
  if (const auto* block = s.as<Block>()) return work_of(block->body);
  if (const auto* alloc = s.as<Alloc>()) return work_of(alloc->body);
  double sum = 1;
  if (const auto* seq = s.as<Seq>())
    for (const Stmt& child : seq->stmts) sum += work_of(child);
  return sum;
}

}  // namespace nestor

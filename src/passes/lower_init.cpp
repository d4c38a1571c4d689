// A reduction block's `init` becomes a statement of its body, guarded by "all reduction iterators are 0". A
// schedule that wants the initialization out of its inner loop says so (`decompose_reduction`); this is what
// is left otherwise.
#include "nestor/walk.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

struct InitLowering : Rewriter {
  Stmt stmt(const Stmt& s) override {
    Stmt out = children(s);
    const auto* block = out.as<Block>();
    if (!block || !block->init) return out;
    Expr first = make::bool_imm(true);
    for (const IterVar& i : block->iters)
      if (i.kind == IterKind::reduce) first = logical_and(first, eq(i.var, 0));
    Block lowered = *block;
    Stmt init = is_const_int(first, 1) ? block->init : make::if_then(first, block->init);
    lowered.init = {};
    lowered.body = make::seq({std::move(init), block->body});
    return make::block(std::move(lowered));
  }
};

}  // namespace

PrimFunc lower_init(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = InitLowering().stmt(f.body);
  return out;
}

}  // namespace nestor::passes

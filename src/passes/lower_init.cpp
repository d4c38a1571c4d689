// A reduction block's `init` becomes a statement of its body under the condition that all reduction iterators
// are 0. A schedule that used `decompose_reduction` has moved it out of the inner loop already.
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

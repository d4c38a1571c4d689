// Removes blocks that contain blocks (made by blockize): they are units for schedules, and lowering needs
// only the inner ones. Iterators are replaced by their bindings; a remaining guard becomes an If. Later
// passes then see loops, and blocks that hold plain statements.
#include "src/passes/passes.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

class Flattening : public ScopedRewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    const auto* block = s.as<Block>();
    if (!block) return ScopedRewriter::stmt(s);
    bool holds_blocks = block->annotations.count("tensorize") > 0;  // or the instruction that it has become
    for_each_stmt(block->body, [&](const Stmt& inner) { holds_blocks = holds_blocks || inner.as<Block>(); });
    if (!holds_blocks) return s;
    VarMap bindings;
    std::vector<Expr> guards;
    const auto require = [&](const Expr& condition) {
      Expr c = simplify(condition, facts());
      if (!is_const_int(c, 1)) guards.push_back(std::move(c));
    };
    Expr first = make::bool_imm(true);
    for (const IterVar& i : block->iters) {
      const Expr binding = simplify(i.binding, facts());
      require(le(0, binding));
      require(lt(binding, i.extent));
      bindings.emplace(i.var, binding);
      if (i.kind == IterKind::reduce) first = logical_and(first, eq(binding, 0));
    }
    if (block->where) require(substitute(block->where, bindings));
    std::vector<Stmt> parts;
    if (block->init) {
      const Stmt init = substitute(block->init, bindings);
      first = simplify(first, facts());
      parts.push_back(is_const_int(first, 1) ? init : make::if_then(first, init));
    }
    parts.push_back(substitute(block->body, bindings));
    const Stmt body = make::seq(std::move(parts));
    if (guards.empty()) return stmt(body);
    const Expr guard = conjunction(guards);
    return make::if_then(guard, assuming(guard, [&] { return stmt(body); }));
  }
};

}  // namespace

PrimFunc flatten_blocks(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Flattening().stmt(f.body);
  return out;
}

}  // namespace nestor::passes

// Blocks become plain statements: iterators are replaced by their bindings. The condition under which an
// instance runs (every binding inside its domain, and `where`) becomes an If, unless the ranges of the loops
// prove it. The stores of a block annotated `streaming` become non-temporal.
#include "src/passes/passes.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

struct Streaming : Rewriter {
  Stmt stmt(const Stmt& s) override {
    const auto* st = s.as<Store>();
    return st ? make::store(st->buffer, st->indices, st->value, st->mask, true) : children(s);
  }
};

bool is_streaming(const Block& b) {
  const auto it = b.annotations.find("streaming");
  const auto* value = it == b.annotations.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return value && *value != 0;
}

// Guards are asked for in the order of the iterators, `where` last: it may rely on them.
class BlockLowering : public ScopedRewriter {
 public:
  Stmt stmt(const Stmt& s) override {
    const auto* block = s.as<Block>();
    if (!block) return ScopedRewriter::stmt(s);
    VarMap bindings;
    std::vector<Expr> guards;
    const auto require = [&](const Expr& condition) {
      Expr c = simplify(condition, facts());
      if (!is_const_int(c, 1)) guards.push_back(std::move(c));
    };
    for (const IterVar& i : block->iters) {
      Expr binding = simplify(i.binding, facts());
      require(le(0, binding));
      require(lt(binding, i.extent));
      bindings.emplace(i.var, std::move(binding));
    }
    if (block->where) require(substitute(block->where, bindings));
    Stmt body = substitute(block->body, bindings);
    if (is_streaming(*block)) body = Streaming().stmt(body);
    if (guards.empty()) return stmt(body);
    Expr guard = conjunction(guards);
    body = assuming(guard, [&] { return stmt(body); });
    return body ? make::if_then(std::move(guard), std::move(body)) : Stmt();
  }
};

}  // namespace

PrimFunc lower_blocks(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = BlockLowering().stmt(f.body);
  if (!out.body) out.body = make::seq({});
  return out;
}

}  // namespace nestor::passes

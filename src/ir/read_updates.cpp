// Reads a reduction that is written out, Y[vi] = Y[vi] + x, as Y[vi] += x. As a store that reads its own
// element it would have to keep its order, and no primitive could change its loop.
#include "nestor/parse.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

constexpr ReduceOp kOps[] = {ReduceOp::add, ReduceOp::mul, ReduceOp::max, ReduceOp::min};

class UpdateReader : public Rewriter {
 public:
  Expr expr(const Expr& e) override { return e; }
  Stmt stmt(const Stmt& s) override {
    if (const auto* b = s.as<Block>()) {
      const Block* outer = std::exchange(block_, b);
      const Stmt out = children(s);
      block_ = outer;
      return out;
    }
    const auto* st = s.as<Store>();
    if (!st || !reduces(*st)) return children(s);
    const auto* value = st->value.as<Binary>();
    for (const ReduceOp op : kOps) {
      if (!value || value->op != binary_of(op)) continue;
      for (const auto& [own, term] : {std::pair{value->a, value->b}, std::pair{value->b, value->a}})
        if (reads_itself(*st, own) && !uses_buffer(term, st->buffer))
          return make::update(op, st->buffer, st->indices, term);
    }
    return s;
  }

 private:
  // The innermost block has a reduction iterator, and none of them moves the element.
  bool reduces(const Store& st) const {
    if (!block_ || st.mask || st.value.type().is_vector()) return false;
    bool found = false;
    for (const IterVar& i : block_->iters) {
      if (i.kind != IterKind::reduce) continue;
      found = true;
      for (const Expr& index : st.indices)
        if (uses_var(index, i.var)) return false;
    }
    return found;
  }
  static bool reads_itself(const Store& st, const Expr& e) {
    const auto* l = e.as<Load>();
    return l && l->buffer == st.buffer && !l->mask &&
           std::equal(l->indices.begin(), l->indices.end(), st.indices.begin(), st.indices.end(), same_expr);
  }

  const Block* block_ = nullptr;
};

}  // namespace

PrimFunc read_updates(const PrimFunc& f) {
  PrimFunc out = f;
  out.body = UpdateReader().stmt(f.body);
  return out;
}

}  // namespace nestor

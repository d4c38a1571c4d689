// A grouped convolution reads its input at o/k*m + c: in steps, as o goes. Who asks whether the input moves
// with o (a schedule that looks for what the rows of a tile share) is told that it does, and gathers or reads
// again what is the same for k channels. So o is split by k. What has to follow is a closure: a dimension
// that such an iterator walks as a whole is split likewise, so is every iterator that walks such a dimension;
// a dimension that is indexed by o/k*m + c is split by m.
#include "src/graph/split_groups.h"

#include <algorithm>
#include <map>

#include "nestor/simplify.h"
#include "src/graph/nests.h"

namespace nestor {

namespace {

class GroupSplitter : NestChanger {
 public:
  explicit GroupSplitter(const PrimFunc& f) : NestChanger(f) {}

  PrimFunc run() {
    if (!read()) return func_;
    for (size_t n = 0; n < nests_.size(); ++n) find_groups(n);
    while (!iters_.empty() && possible_ && follow()) {
    }
    if (iters_.empty() || !possible_) return func_;
    PrimFunc out = rebuild();
    return possible_ ? out : func_;
  }

 private:
  const std::vector<IterVar>& iters(size_t n) const { return nests_[n].block.iters; }

  // e is i/k of one of the nest's iterators that isn't dense in what is written: that iterator.
  std::optional<size_t> grouped(size_t n, const Expr& e, int64_t& size) const {
    const auto* quotient = e.as<Binary>();
    const auto* r = quotient && quotient->op == BinaryOp::div ? quotient->a.as<VarRef>() : nullptr;
    size = r ? as_int(quotient->b).value_or(0) : 0;
    for (size_t k = 0; r && size > 1 && k < iters(n).size(); ++k)
      if (iters(n)[k].var == r->var && iters(n)[k].kind == IterKind::spatial && !is_dense(n, r->var))
        return k;
    return std::nullopt;
  }
  bool is_dense(size_t n, const Var& v) const {
    for (const NestAccess& a : uses_[n].accesses)
      if (a.write && !a.indices->empty() && uses_var(a.indices->back(), v)) return true;
    return false;
  }

  // Of a reduction: in a map, tiles of an image that are numbered through come apart likewise (Winograd's),
  // and nothing is shared.
  void find_groups(size_t n) {
    if (std::none_of(iters(n).begin(), iters(n).end(),
                     [](const IterVar& i) { return i.kind == IterKind::reduce; }))
      return;
    for (const NestAccess& a : uses_[n].accesses)
      for (const Expr& index : *a.indices)
        for_each_expr(index, [&](const Expr& e) {
          int64_t size = 0;
          if (const auto k = grouped(n, e, size)) split_iter({n, *k}, size);
        });
  }

  // Whether it was news. A second factor, or one that doesn't divide, ends it all.
  template <class Map, class Key>
  bool set(Map& factors, const Key& key, int64_t extent, int64_t factor) {
    const auto [it, fresh] = factors.insert({key, factor});
    possible_ &= it->second == factor && extent % factor == 0;
    return fresh;
  }
  bool split_iter(std::pair<size_t, size_t> i, int64_t factor) {
    const IterVar& iter = iters(i.first)[i.second];
    const auto extent = as_int(iter.extent);
    possible_ &= iter.kind == IterKind::spatial && extent;
    return set(iters_, i, extent.value_or(0), factor);
  }
  bool split_dim(const Buffer& b, size_t dim, int64_t factor) {
    const auto extent = as_int(decls_.at(b).shape[dim]);
    possible_ &= extent.has_value();
    return set(dims_, std::pair{b.get(), dim}, extent.value_or(0), factor);
  }
  int64_t factor_of(const Buffer& b, size_t dim) const {
    const auto it = dims_.find({b.get(), dim});
    return it == dims_.end() ? 0 : it->second;
  }

  // One round of what the splits so far bring with them. Whether anything was news.
  bool follow() {
    bool news = false;
    for (size_t n = 0; n < nests_.size(); ++n)
      for (const NestAccess& a : uses_[n].accesses)
        for (size_t d = 0; d < a.indices->size(); ++d) {
          const Expr& index = (*a.indices)[d];
          const int64_t factor = factor_of(a.buffer, d);
          if (const auto k = iterator_at(n, index, decls_.at(a.buffer).shape[d])) {
            const auto it = iters_.find({n, *k});
            if (it != iters_.end()) news |= split_dim(a.buffer, d, it->second);
            if (it == iters_.end() && factor) news |= split_iter({n, *k}, factor);
          } else if (const int64_t stride = stride_of_groups(n, index); stride > 1) {
            news |= split_dim(a.buffer, d, stride);
          }
        }
    return news;
  }
  // m where the index is i/k*m + rest; 0 where it is nothing like that.
  int64_t stride_of_groups(size_t n, const Expr& index) const {
    int64_t stride = 0;
    for_each_expr(index, [&](const Expr& e) {
      const auto* product = e.as<Binary>();
      int64_t size = 0;
      if (product && product->op == BinaryOp::mul && grouped(n, product->a, size))
        stride = as_int(product->b).value_or(0);
    });
    return stride;
  }

  BufferDecl rebuilt(BufferDecl d) {
    std::vector<Expr> shape;
    for (size_t k = 0; k < d.shape.size(); ++k) {
      const int64_t factor = factor_of(d.buffer, k);
      if (factor) shape.push_back(Expr(*as_int(d.shape[k]) / factor));
      shape.push_back(factor ? Expr(factor) : d.shape[k]);
    }
    if (shape.size() == d.shape.size()) return d;
    d.shape = std::move(shape);
    d.buffer = renamed_[d.buffer] = make_buffer(d.buffer->name, d.buffer->type);
    return d;
  }

  struct Reindex : AccessRewriter {
    explicit Reindex(const GroupSplitter& s) : AccessRewriter(s.renamed_), owner(s) {}
    std::vector<Expr> indices(const Buffer& b, const std::vector<Expr>& from) override {
      std::vector<Expr> out;
      for (size_t d = 0; d < from.size(); ++d) {
        const Expr index = expr(from[d]);
        const int64_t factor = owner.factor_of(b, d);
        if (!factor) {
          out.push_back(simplify(index, facts));
          continue;
        }
        for (const Expr& part :
             {simplify(index / Expr(factor), facts), simplify(index % Expr(factor), facts)}) {
          plain &= !divides_a_group(part);
          out.push_back(part);
        }
      }
      return out;
    }
    bool divides_a_group(const Expr& index) const {
      bool found = false;
      for_each_expr(index, [&](const Expr& e) {
        const auto* b = e.as<Binary>();
        if (b && (b->op == BinaryOp::div || b->op == BinaryOp::mod))
          for (const Var& v : fresh) found |= uses_var(b->a, v);
      });
      return found;
    }
    const GroupSplitter& owner;
    Facts facts;
    std::vector<Var> fresh;  // og, o
    bool plain = true;       // no quotient of theirs is left where groups are split
  };

  // og stands before o.
  Stmt rebuild_nest(size_t n) {
    Block block = nests_[n].block;
    block.iters.clear();
    Reindex reindex(*this);
    const auto keep = [&](const IterVar& i) {
      set_range(reindex.facts, i);
      block.iters.push_back(i);
    };
    for (size_t k = 0; k < iters(n).size(); ++k) {
      const IterVar& i = iters(n)[k];
      const auto it = iters_.find({n, k});
      if (it == iters_.end()) {
        keep(i);
        continue;
      }
      const std::string name = i.binding.as<VarRef>()->var->name;
      const Var group = make_var("v" + name + "g"), inside = make_var("v" + name);
      keep({group, i.kind, *as_int(i.extent) / it->second, Expr(make_var(name + "g"))});
      keep({inside, i.kind, it->second, Expr(make_var(name))});
      reindex.fresh.insert(reindex.fresh.end(), {group, inside});
      reindex.vars[i.var] = Expr(group) * Expr(it->second) + Expr(inside);
    }
    block.body = simplify(reindex.stmt(block.body), reindex.facts);
    if (block.init) block.init = simplify(reindex.stmt(block.init), reindex.facts);
    if (block.where) block.where = simplify(reindex.expr(block.where), reindex.facts);
    possible_ &= reindex.plain;
    return loops_around(std::move(block));
  }

  PrimFunc rebuild() {
    PrimFunc out = func_;
    for (Param& p : out.params) p.decl = rebuilt(p.decl);
    for (BufferDecl& d : out.allocs) d = rebuilt(d);
    std::vector<Stmt> stmts;
    for (size_t n = 0; n < nests_.size(); ++n) stmts.push_back(rebuild_nest(n));
    out.body = make::seq(std::move(stmts));
    return out;
  }

  bool possible_ = true;
  std::map<std::pair<size_t, size_t>, int64_t> iters_;            // (nest, k) -> k's inner extent
  std::map<std::pair<const BufferNode*, size_t>, int64_t> dims_;  // never iterated
  BufferMap renamed_;
};

}  // namespace

PrimFunc split_groups(const PrimFunc& f) {
  return GroupSplitter(f).run();
}

}  // namespace nestor

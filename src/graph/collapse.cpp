// Which dimensions can be merged is a greatest fixpoint: assume that all adjacent pairs can, of every buffer
// and of every block's iterators, and strike out pairs until nothing contradicts. A buffer's pair (d, d+1)
// stands if every access indexes it by a standing pair of iterators that covers both dimensions; a block's
// pair (k, k+1) stands if its two iterators are used nowhere but in such accesses.
#include "src/graph/collapse.h"

#include <map>
#include <set>

#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/graph/nests.h"

namespace nestor {

namespace {

class Collapser : NestChanger {
 public:
  explicit Collapser(const PrimFunc& f) : NestChanger(f) {}

  PrimFunc run() {
    if (!read()) return func_;
    for (size_t n = 0; n < nests_.size(); ++n) assume_all(n);
    while (strike_out()) {
    }
    return rebuild();
  }

 private:
  std::set<std::pair<const BufferNode*, size_t>> buffer_pairs_;  // never iterated: only membership is asked
  std::set<std::pair<size_t, size_t>> iter_pairs_;               // (nest, k)
  BufferMap renamed_;

  void assume_all(size_t n) {
    const Block& b = nests_[n].block;
    for (size_t k = 0; k + 1 < b.iters.size(); ++k)
      if (b.iters[k].kind == b.iters[k + 1].kind) iter_pairs_.insert({n, k});
    for (const NestAccess& a : uses_[n].accesses)
      for (size_t d = 0; d + 1 < a.indices->size(); ++d) buffer_pairs_.insert({a.buffer.get(), d});
  }

  bool strike_out() {
    bool changed = false;
    for (size_t n = 0; n < nests_.size(); ++n) {
      std::map<size_t, int> together;  // iterator pair -> accesses that use it as a whole
      for (const NestAccess& a : uses_[n].accesses) {
        const std::vector<Expr>& shape = decls_.at(a.buffer).shape;
        for (size_t d = 0; d + 1 < a.indices->size(); ++d) {
          const auto k = iterator_at(n, (*a.indices)[d], shape[d]);
          const auto l = iterator_at(n, (*a.indices)[d + 1], shape[d + 1]);
          const bool paired = k && l && *l == *k + 1 && iter_pairs_.count({n, *k});
          const std::pair<const BufferNode*, size_t> pair{a.buffer.get(), d};
          if (!paired)
            changed |= buffer_pairs_.erase(pair) > 0;
          else if (buffer_pairs_.count(pair))
            ++together[*k];
        }
      }
      const auto& iters = nests_[n].block.iters;
      for (size_t k = 0; k + 1 < iters.size(); ++k) {
        if (!iter_pairs_.count({n, k})) continue;
        const int whole = together.count(k) ? together.at(k) : 0;
        const bool fine = whole > 0 && uses_[n].occurrences[iters[k].var] == whole &&
                          uses_[n].occurrences[iters[k + 1].var] == whole;
        if (!fine) changed |= iter_pairs_.erase({n, k}) > 0;
      }
    }
    return changed;
  }

  std::vector<Expr> merged_shape(const Buffer& b, const std::vector<Expr>& shape) const {
    std::vector<Expr> out;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d > 0 && buffer_pairs_.count({b.get(), d - 1}))
        out.back() = out.back() * shape[d];
      else
        out.push_back(shape[d]);
    }
    return out;
  }

  BufferDecl merged(BufferDecl d) {
    const size_t rank = d.shape.size();
    d.shape = merged_shape(d.buffer, d.shape);
    if (d.shape.size() != rank) {
      Buffer fresh = make_buffer(d.buffer->name, d.buffer->type);
      renamed_[d.buffer] = fresh;
      d.buffer = fresh;
    }
    return d;
  }

  // Replaces the indices of merged dimensions: of a run of iterators, the merged one stands where the first
  // stood.
  struct Reindex : AccessRewriter {
    explicit Reindex(const Collapser& c) : AccessRewriter(c.renamed_), owner(c) {}
    std::vector<Expr> indices(const Buffer& b, const std::vector<Expr>& from) override {
      std::vector<Expr> out;
      for (size_t d = 0; d < from.size(); ++d)
        if (d == 0 || !owner.buffer_pairs_.count({b.get(), d - 1})) out.push_back(expr(from[d]));
      return out;
    }
    const Collapser& owner;
  };

  Stmt rebuild_nest(size_t n) const {
    const Nest& nest = nests_[n];
    Block block = nest.block;
    block.iters.clear();
    std::vector<std::string> names;
    std::vector<Var> firsts;
    for (size_t k = 0; k < nest.block.iters.size(); ++k) {
      const IterVar& i = nest.block.iters[k];
      if (k > 0 && iter_pairs_.count({n, k - 1})) {
        block.iters.back().extent = block.iters.back().extent * i.extent;
        names.back() += nest.loops[k]->var->name;
      } else {
        block.iters.push_back(i);
        names.push_back(nest.loops[k]->var->name);
        firsts.push_back(i.var);
      }
    }
    Reindex reindex(*this);  // its variables: first iterator of a run -> the merged one
    for (size_t k = 0; k < block.iters.size(); ++k) {
      IterVar& i = block.iters[k];
      i.var = make_var("v" + names[k]);
      reindex.vars[firsts[k]] = Expr(i.var);
      i.binding = Expr(make_var(names[k]));
    }
    block.body = reindex.stmt(block.body);
    if (block.init) block.init = reindex.stmt(block.init);
    if (block.where) block.where = reindex.expr(block.where);
    return loops_around(std::move(block));
  }

  PrimFunc rebuild() {
    PrimFunc out = func_;
    for (Param& p : out.params) p.decl = merged(p.decl);
    for (BufferDecl& d : out.allocs) d = merged(d);
    std::vector<Stmt> stmts;
    for (size_t n = 0; n < nests_.size(); ++n) stmts.push_back(rebuild_nest(n));
    out.body = make::seq(std::move(stmts));
    return out;
  }
};

}  // namespace

PrimFunc collapse_dims(const PrimFunc& f) {
  return Collapser(f).run();
}

}  // namespace nestor

// Vector units want what they compute side by side to lie side by side. The channels of a convolution are
// what every output pixel computes alike, whatever its stride, padding and kernel, so tensors between
// convolutions keep a vector's worth of channels together: NCHW16c. This pass gives a function such
// parameters as plain dimensions of its loop nest, so that everything behind it (schedules, proof, code) sees
// ordinary loops and strides.
//
// What has to follow a blocked parameter is a closure: an iterator that indexes a blocked dimension as a
// whole is split, and so is every dimension that such an iterator indexes. Where an index is something else
// (the channel of a group, a concatenation's offset), it is divided, and the simplifier makes of it what it
// can.
//
// Channels that don't fill their last block: the iterators of what is written go over the whole block, so
// that every lane is defined and no code asks where the channels end; constants get zeros there. Reductions
// stay away from those lanes, whatever they hold (an infinity times a zero is no zero): their iterator isn't
// split, its index is divided. A copy from or to row-major channels is cut in pieces: whole blocks, the
// channels of the last one, and zeros behind them.
#include "src/graph/block_channels.h"

#include <algorithm>
#include <map>
#include <set>

#include "nestor/simplify.h"
#include "src/graph/nests.h"

namespace nestor {

namespace {

class ChannelBlocker : NestChanger {
 public:
  ChannelBlocker(const PrimFunc& f, int64_t lanes) : NestChanger(f), lanes_(lanes) {}

  std::optional<PrimFunc> run(const std::vector<bool>& blocked) {
    if (!read()) return std::nullopt;
    for (size_t i = 0; i < func_.params.size(); ++i) {
      const Param& p = func_.params[i];
      if (p.role == Role::constant) continue;
      if (blocked[i])
        add(p.decl.buffer, 1);
      else
        plain_.insert(p.decl.buffer.get());
    }
    close();
    return possible_ && lanes_are_defined() && lanes_are_alike() ? std::optional<PrimFunc>(rebuild())
                                                                 : std::nullopt;
  }

 private:
  using BufferDim = std::pair<const BufferNode*, size_t>;
  using NestIter = std::pair<size_t, size_t>;

  void add(const Buffer& b, size_t dim) {
    if (plain_.count(b.get()) || !dims_.insert({b.get(), dim}).second) return;
    const std::vector<Expr>& shape = decls_.at(b).shape;
    const auto extent = as_int(shape[dim]);
    // Who makes a parameter or reads it knows of blocks of channels and of no others (a filter's outputs).
    const bool shared = find_param(func_, b) && !is_constant(b);
    possible_ &= extent.has_value() && (dim == 1 || !shared);
    if (extent && *extent % lanes_ != 0) {
      padded_.insert({b.get(), dim});
      // Its zeros stand behind its elements.
      for (size_t d = 0; is_constant(b) && d < dim; ++d) possible_ &= is_const_int(shape[d], 1);
    }
    buffers_.push_back({b, dim});
  }

  bool fills_blocks(const IterVar& i) const { return *as_int(i.extent) % lanes_ == 0; }

  void close() {
    for (size_t next = 0; next < buffers_.size(); ++next) {  // grows as iterators bring in more dimensions
      const auto [buffer, dim] = buffers_[next];
      for (size_t n = 0; n < nests_.size(); ++n)
        for (const NestAccess& a : uses_[n].accesses)
          if (a.buffer == buffer)
            if (const auto k = iterator_at(n, (*a.indices)[dim], decls_.at(buffer).shape[dim]))
              if (const IterVar& i = nests_[n].block.iters[*k];
                  i.kind == IterKind::spatial || fills_blocks(i))
                if (iters_.insert({n, *k}).second) add_dims_of(n, *k);
    }
  }

  // Who goes past the channels does so wherever it is: an iterator indexes nothing but dimensions that go as
  // far, and such a dimension is indexed by nothing else, or by a reduction that stays within the channels.
  // The lanes beyond may read what lies beyond.
  bool lanes_are_defined() {
    for (size_t n = 0; n < nests_.size(); ++n) {
      const std::vector<IterVar>& iters = nests_[n].block.iters;
      std::unordered_map<Var, int> followed;
      bool defined = true;
      for (const NestAccess& a : uses_[n].accesses)
        for (size_t d = 0; d < a.indices->size(); ++d) {
          const Expr& index = (*a.indices)[d];
          const auto k = iterator_at(n, index, decls_.at(a.buffer).shape[d]);
          const bool padded = padded_.count({a.buffer.get(), d}) > 0;
          if (k && iters_.count({n, *k}) && split(a.buffer, d)) {
            ++followed[iters[*k].var];
          } else if (padded && !a.write && stays_inside(n, a.buffer, d, index)) {
            NestUses uses;
            uses.expr(index);
            for (const auto& [var, count] : uses.occurrences) followed[var] += count;
          } else if (padded && !(k && iters[*k].kind == IterKind::reduce)) {
            defined = false;
          }
        }
      for (size_t k = 0; k < iters.size(); ++k)
        if (iters_.count({n, k}) && !fills_blocks(iters[k]))
          defined &= followed[iters[k].var] == uses_[n].occurrences.at(iters[k].var);
      if (!defined && !cut_in_pieces(n)) return false;
    }
    return true;
  }
  // A function that copies channels from or to row-major ones, where blocks of them aren't full.
  bool cut_in_pieces(size_t n) {
    const std::vector<IterVar>& iters = nests_[n].block.iters;
    bool ragged = false;
    for (size_t k = 0; k < iters.size(); ++k) ragged |= iters_.count({n, k}) && !fills_blocks(iters[k]);
    const auto* copy = nests_[n].block.body.as<Store>();
    const auto* from = copy ? copy->value.as<Load>() : nullptr;
    if (!ragged || nests_.size() > 1 || !from || from->indices.size() != copy->indices.size()) return false;
    for (size_t d = 0; d < from->indices.size(); ++d) {
      const auto *a = from->indices[d].as<VarRef>(), *b = copy->indices[d].as<VarRef>();
      if (!a || !b || a->var != b->var) return false;
    }
    pieces_.insert(n);
    return true;
  }
  // An index that moves with an iterator that goes past its channels (the channel of a group, of an output).
  bool stays_inside(size_t n, const Buffer& b, size_t dim, const Expr& index) const {
    const std::vector<IterVar>& iters = nests_[n].block.iters;
    const auto padded = [&](const Expr& extent) { return ceil_div(*as_int(extent), lanes_) * lanes_; };
    Facts facts;
    bool moves = false;
    for (size_t k = 0; k < iters.size(); ++k) {
      const bool split = iters_.count({n, k}) > 0;
      moves |= split && uses_var(index, iters[k].var);
      if (split)
        facts.set(iters[k].var, {0, padded(iters[k].extent) - 1});
      else if (const auto extent = as_int(iters[k].extent))
        facts.set(iters[k].var, {0, *extent - 1});
    }
    const Interval reached = range_of(index, facts);
    return moves && reached.lo >= 0 && reached.hi < padded(decls_.at(b).shape[dim]);
  }
  // What the lanes of a block read lies at the same distances in every block, so that it is shuffled and not
  // gathered, and a group's channels begin at the same lane in every group: groups of channels fill blocks,
  // or blocks fill groups, whichever side of a group is in blocks.
  bool lanes_are_alike() const {
    const auto fits = [&](int64_t size) { return size % lanes_ == 0 || lanes_ % size == 0; };
    bool alike = true;
    for (size_t n = 0; n < nests_.size(); ++n)
      for (const NestAccess& a : uses_[n].accesses)
        for (size_t d = 0; d < a.indices->size(); ++d)
          for_each_expr((*a.indices)[d], [&](const Expr& e) {
            const auto* cut = e.as<Binary>();
            if (cut && cut->op == BinaryOp::mul && split(a.buffer, d) && is_quotient(cut->a))
              alike &= fits(as_int(cut->b).value_or(lanes_));
            const bool divides = cut && (cut->op == BinaryOp::div || cut->op == BinaryOp::mod);
            const auto* r = divides ? cut->a.as<VarRef>() : nullptr;
            for (size_t k = 0; r && k < nests_[n].block.iters.size(); ++k)
              if (nests_[n].block.iters[k].var == r->var && iters_.count({n, k}))
                alike &= fits(as_int(cut->b).value_or(lanes_));
          });
    return alike;
  }
  static bool is_quotient(const Expr& e) {
    const auto* b = e.as<Binary>();
    return b && b->op == BinaryOp::div && b->a.as<VarRef>() && as_int(b->b);
  }
  void add_dims_of(size_t n, size_t k) {
    for (const NestAccess& a : uses_[n].accesses)
      for (size_t d = 0; d < a.indices->size(); ++d)
        if (iterator_at(n, (*a.indices)[d], decls_.at(a.buffer).shape[d]) == k) add(a.buffer, d);
  }

  bool split(const Buffer& b, size_t dim) const { return dims_.count({b.get(), dim}) > 0; }
  bool is_constant(const Buffer& b) const {
    const Param* p = find_param(func_, b);
    return p && p->role == Role::constant;
  }

  // Of a constant the lanes stand behind their block, since its bytes stay; elsewhere behind everything.
  template <class Quotient, class Remainder>
  std::vector<Expr> arranged(const Buffer& b, size_t rank, const Quotient& quotient,
                             const Remainder& remainder) const {
    std::vector<Expr> out, last;
    for (size_t d = 0; d < rank; ++d) {
      out.push_back(quotient(d, split(b, d)));
      if (split(b, d)) (is_constant(b) ? out : last).push_back(remainder(d));
    }
    out.insert(out.end(), last.begin(), last.end());
    return out;
  }

  BufferDecl blocked(BufferDecl d) {
    const std::vector<Expr> shape = d.shape;
    d.shape = arranged(
        d.buffer, shape.size(),
        [&](size_t k, bool cut) { return cut ? Expr(ceil_div(*as_int(shape[k]), lanes_)) : shape[k]; },
        [&](size_t) { return Expr(lanes_); });
    if (d.shape.size() == shape.size()) return d;
    Buffer fresh = make_buffer(d.buffer->name, d.buffer->type);
    renamed_[d.buffer] = fresh;
    d.buffer = fresh;
    return d;
  }

  struct Reindex : AccessRewriter {
    explicit Reindex(const ChannelBlocker& b) : AccessRewriter(b.renamed_), owner(b) {}
    std::pair<Expr, Expr> divided(const Expr& e) {
      if (const auto* r = e.as<VarRef>())
        if (const auto it = halves.find(r->var.get()); it != halves.end()) return it->second;
      const Expr index = expr(e), lanes(owner.lanes_);
      return {simplify(index / lanes, facts), simplify(index % lanes, facts)};
    }
    std::vector<Expr> indices(const Buffer& b, const std::vector<Expr>& from) override {
      return owner.arranged(
          b, from.size(),
          [&](size_t d, bool cut) { return cut ? divided(from[d]).first : simplify(expr(from[d]), facts); },
          [&](size_t d) { return divided(from[d]).second; });
    }
    const ChannelBlocker& owner;
    std::map<const VarNode*, std::pair<Expr, Expr>> halves;  // of iterators that are split; only looked up
    Facts facts;
  };

  enum class Piece { whole, full_blocks, rest, zeros };

  // cb stands where c stood, cl behind the other iterators of its kind. In a piece of the last block, cb is
  // known, and cl counts that piece's lanes.
  Stmt rebuild_nest(size_t n, Piece piece = Piece::whole) const {
    Block block = nests_[n].block;
    if (piece == Piece::rest || piece == Piece::zeros)
      block.id = make_block_id(block.id->name + (piece == Piece::rest ? "_rest" : "_zeros"));
    std::vector<IterVar> spatial, spatial_lanes, reduced, reduced_lanes;
    Reindex reindex(*this);
    for (size_t k = 0; k < block.iters.size(); ++k) {
      const IterVar& i = block.iters[k];
      const bool r = i.kind == IterKind::reduce;
      const std::string name = i.binding.as<VarRef>()->var->name;
      const auto half = [&](const char* suffix, int64_t extent) {
        const Var v = make_var("v" + name + suffix);
        if (extent > 1) reindex.facts.set(v, {0, extent - 1});
        return IterVar{v, i.kind, extent, Expr(make_var(name + suffix))};
      };
      if (!iters_.count({n, k})) {
        // Iterators of one value stay in the indices: they are what a schedule finds its way by.
        set_range(reindex.facts, i);
        (r ? reduced : spatial).push_back(i);
        continue;
      }
      const int64_t channels = *as_int(i.extent), full = channels / lanes_, rest = channels % lanes_;
      if (rest != 0 && (piece == Piece::rest || piece == Piece::zeros)) {
        const bool zeros = piece == Piece::zeros;
        const IterVar lane = half("l", zeros ? lanes_ - rest : rest);
        const Expr at = Expr(lane.var) + Expr(zeros ? rest : 0);
        reindex.halves[i.var.get()] = {Expr(full), at};
        reindex.vars[i.var] = Expr(full * lanes_) + at;
        spatial_lanes.push_back(lane);
        continue;
      }
      const IterVar block_of = half("b", piece == Piece::full_blocks ? full : ceil_div(channels, lanes_)),
                    lane = half("l", lanes_);
      reindex.halves[i.var.get()] = {Expr(block_of.var), Expr(lane.var)};
      reindex.vars[i.var] = Expr(block_of.var) * Expr(lanes_) + Expr(lane.var);
      (r ? reduced : spatial).push_back(block_of);
      (r ? reduced_lanes : spatial_lanes).push_back(lane);
    }
    block.iters.clear();
    for (const auto* part : {&spatial, &spatial_lanes, &reduced, &reduced_lanes})
      block.iters.insert(block.iters.end(), part->begin(), part->end());
    if (piece == Piece::zeros) {
      const auto* copy = block.body.as<Store>();
      block.body = make::store(copy->buffer, copy->indices, make::imm(0, copy->value.type()));
    }
    block.body = simplify(reindex.stmt(block.body), reindex.facts);
    if (block.init) block.init = simplify(reindex.stmt(block.init), reindex.facts);
    if (block.where) block.where = simplify(reindex.expr(block.where), reindex.facts);
    return loops_around(std::move(block));
  }

  bool has_full_blocks(size_t n) const {
    const std::vector<IterVar>& iters = nests_[n].block.iters;
    for (size_t k = 0; k < iters.size(); ++k)
      if (iters_.count({n, k}) && !fills_blocks(iters[k])) return *as_int(iters[k].extent) > lanes_;
    return true;
  }

  PrimFunc rebuild() {
    PrimFunc out = func_;
    for (Param& p : out.params) p.decl = blocked(p.decl);
    for (BufferDecl& d : out.allocs) d = blocked(d);
    std::vector<Stmt> stmts;
    for (size_t n = 0; n < nests_.size(); ++n) {
      if (!pieces_.count(n)) {
        stmts.push_back(rebuild_nest(n));
        continue;
      }
      const Buffer& made = nests_[n].block.body.as<Store>()->buffer;
      if (has_full_blocks(n)) stmts.push_back(rebuild_nest(n, Piece::full_blocks));
      stmts.push_back(fresh_copy(rebuild_nest(n, Piece::rest)));
      if (!plain_.count(made.get())) stmts.push_back(fresh_copy(rebuild_nest(n, Piece::zeros)));
    }
    out.body = make::seq(std::move(stmts));
    return out;
  }

  int64_t lanes_;
  bool possible_ = true;
  std::vector<std::pair<Buffer, size_t>> buffers_;  // in order of discovery
  std::set<BufferDim> dims_, padded_;               // never iterated: only membership is asked
  std::set<const BufferNode*> plain_;
  std::set<NestIter> iters_;
  std::set<size_t> pieces_;  // nests that are cut in pieces
  BufferMap renamed_;
};

}  // namespace

std::optional<PrimFunc> block_channels(const PrimFunc& f, const std::vector<bool>& blocked, int64_t lanes) {
  return ChannelBlocker(f, lanes).run(blocked);
}

}  // namespace nestor

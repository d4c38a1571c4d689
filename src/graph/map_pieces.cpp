// A nest E that stores f(B[i, j ..]) at i, j .. and is alone to read the temporary B, and nests that each
// store a piece of it, B[a, b ..] = p: E goes, and each of them stores f(p) where E would, at a, b .. for i,
// j ... The pieces are all of B, as an operator defines what it makes. What else E reads has to be there
// before the first of them, and nobody else may touch what E makes from there on. Where others read B beside
// E, for E alone (x sigmoid(x)), they are first put into it. An expression that is used more than once is
// only put there if it is a small one: a chain of maps that each use the last one twice would double with
// each. (Zen 3: a transposed 4x4/2 of 256 to 128 channels at 4x4 with Relu 11 to 0.17 ms.)
#include "src/graph/map_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "nestor/replace_load.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/graph/nests.h"

namespace nestor {

namespace {

// Whether e is no more than a sum of two loads.
bool is_small(const Expr& e) {
  const auto* sum = e.as<Binary>();
  const auto is_leaf = [](const Expr& x) { return x.as<Load>() || !has_load(x); };
  return is_leaf(e) || (sum && is_leaf(sum->a) && is_leaf(sum->b));
}

// The store that is all of the nest's block, at places that no data say; null: there is more to it.
const Store* only_store(const Nest& nest) {
  const Block& b = nest.block;
  const auto* store = b.body.as<Store>();
  const bool map = std::all_of(b.iters.begin(), b.iters.end(),
                               [](const IterVar& i) { return i.kind == IterKind::spatial; });
  const bool placed = store && std::none_of(store->indices.begin(), store->indices.end(), has_load);
  return map && placed && !b.where && !b.init && !store->mask ? store : nullptr;
}

class PieceMapper : NestChanger {
 public:
  explicit PieceMapper(const PrimFunc& f) : NestChanger(f) {}

  // One map is gone; nullopt: there is none such.
  std::optional<PrimFunc> run() {
    if (!read()) return std::nullopt;
    for (const BufferDecl& d : func_.allocs) {
      pieces_ = touching(d.buffer, true);
      const std::vector<size_t> readers = touching(d.buffer, false);
      if (pieces_.size() < 2 || readers.empty() || pieces_.back() > readers.front()) continue;
      map_ = readers.back();
      if (readers.size() == 1 && may_be_mapped(d)) return mapped(d.buffer);
      for (const size_t n : readers)
        if (auto f = put_into_reader(n)) return f;
    }
    return std::nullopt;
  }

 private:
  bool accesses(size_t n, const Buffer& b, bool write) const {
    return std::any_of(uses_[n].accesses.begin(), uses_[n].accesses.end(),
                       [&](const NestAccess& a) { return a.buffer == b && a.write == write; });
  }

  bool is_piece(size_t n) const { return std::count(pieces_.begin(), pieces_.end(), n) > 0; }

  std::vector<size_t> touching(const Buffer& b, bool write) const {
    std::vector<size_t> out;
    for (size_t n = 0; n < nests_.size(); ++n)
      if (accesses(n, b, write)) out.push_back(n);
    return out;
  }

  bool may_be_mapped(const BufferDecl& temporary) {
    const auto is_store = [&](size_t n) { return only_store(nests_[n]) != nullptr; };
    if (!is_store(map_) || !std::all_of(pieces_.begin(), pieces_.end(), is_store) || !others_are_made())
      return false;
    const auto can_take = [&](size_t n) {
      return !is_short_copy(n) && may_be_used(only_store(nests_[n])->value, temporary.buffer, map_);
    };
    const auto dims = walked(temporary, map_);
    if (dims) dims_ = *dims;
    return dims && std::all_of(pieces_.begin(), pieces_.end(), can_take);
  }

  // Whether `value` may stand wherever the reader loads b.
  bool may_be_used(const Expr& value, const Buffer& b, size_t reader) const {
    return is_small(value) ||
           std::count_if(uses_[reader].accesses.begin(), uses_[reader].accesses.end(),
                         [&](const NestAccess& a) { return a.buffer == b && !a.write; }) == 1;
  }

  // A piece of rows that are short: a map of the whole has longer ones. What makes sums is no copy.
  bool is_short_copy(size_t n) const {
    constexpr int64_t kShort = 16;
    const bool copies =
        std::none_of(uses_[n].accesses.begin(), uses_[n].accesses.end(),
                     [&](const NestAccess& a) { return !a.write && !touching(a.buffer, true).empty(); });
    const std::vector<IterVar>& iters = nests_[n].block.iters;
    return copies && (iters.empty() || as_int(iters.back().extent).value_or(kShort) < kShort);
  }

  // Whether nest m writes what nest n reads.
  bool writes_operand(size_t m, size_t n) const {
    return std::any_of(uses_[n].accesses.begin(), uses_[n].accesses.end(),
                       [&](const NestAccess& a) { return !a.write && accesses(m, a.buffer, true); });
  }

  // The function without nest n, a map whose results one other reads, each once; nullopt: it isn't that.
  std::optional<PrimFunc> put_into_reader(size_t n) const {
    const Store* store = only_store(nests_[n]);
    const auto decl = std::find_if(func_.allocs.begin(), func_.allocs.end(),
                                   [&](const BufferDecl& d) { return store && d.buffer == store->buffer; });
    if (decl == func_.allocs.end() || touching(decl->buffer, true).size() != 1) return std::nullopt;
    const std::vector<size_t> readers = touching(decl->buffer, false);
    if (readers.size() != 1 || readers[0] <= n || !only_store(nests_[readers[0]])) return std::nullopt;
    for (size_t m = n; m < readers[0]; ++m)
      if (writes_operand(m, n)) return std::nullopt;
    if (!may_be_used(store->value, decl->buffer, readers[0])) return std::nullopt;
    const auto made = walked(*decl, n), read = walked(*decl, readers[0]);
    if (!made || !read) return std::nullopt;
    Block block = nests_[readers[0]].block;
    VarMap place;  // of n's iterators, those of its reader
    for (size_t k = 0; k < made->size(); ++k) {
      Expr& at = place[nests_[n].block.iters[k].var] = Expr(0);
      for (size_t l = 0; l < read->size(); ++l)
        if ((*made)[k] && (*made)[k] == (*read)[l]) at = Expr(block.iters[l].var);
    }
    block.body = replace_load(block.body, decl->buffer, substitute(store->value, place));
    return without(decl->buffer, [&](size_t m) -> std::optional<Stmt> {
      if (m == n) return std::nullopt;
      return loops_around(m == readers[0] ? block : nests_[m].block);
    });
  }

  // By iterator of nest n, the dimension of the buffer that it walks; nullopt: the nest doesn't touch all of
  // it, each element in an iteration of its own.
  using Dims = std::vector<std::optional<size_t>>;
  std::optional<Dims> walked(const BufferDecl& decl, size_t n) const {
    const std::vector<IterVar>& iters = nests_[n].block.iters;
    Dims dims(iters.size());
    for (const NestAccess& a : uses_[n].accesses)
      for (size_t d = 0; a.buffer == decl.buffer && d < a.indices->size(); ++d) {
        const Expr& index = (*a.indices)[d];
        if (is_const_int(index, 0) && is_const_int(decl.shape[d], 1)) continue;
        const auto k = iterator_at(n, index, decl.shape[d]);
        if (!k || (dims[*k] && *dims[*k] != d)) return std::nullopt;
        dims[*k] = d;
      }
    std::set<size_t> all;
    for (size_t k = 0; k < iters.size(); ++k) {
      if (!dims[k] && !is_const_int(iters[k].extent, 1)) return std::nullopt;
      if (dims[k] && !all.insert(*dims[k]).second) return std::nullopt;
    }
    return dims;
  }

  bool others_are_made() const {
    const Buffer made = only_store(nests_[map_])->buffer;
    for (size_t n = pieces_.front(); n < map_; ++n)
      if (accesses(n, made, true) || accesses(n, made, false) || (!is_piece(n) && writes_operand(n, map_)))
        return false;
    return true;
  }

  Stmt with_map(size_t piece, const Buffer& temporary, std::string name) const {
    Block block = nests_[piece].block;
    const Store &made = *only_store(nests_[piece]), &map = *only_store(nests_[map_]);
    VarMap place;  // of the map's iterators
    const std::vector<IterVar>& iters = nests_[map_].block.iters;
    for (size_t k = 0; k < iters.size(); ++k)
      place[iters[k].var] = dims_[k] ? made.indices[*dims_[k]] : Expr(0);
    Facts facts;
    for (const IterVar& i : block.iters)  // the others stay iterators
      set_range(facts, i);
    std::vector<Expr> indices;
    for (const Expr& e : map.indices) indices.push_back(substitute(e, place));
    block.id = make_block_id(std::move(name));
    const Expr value = replace_load(substitute(map.value, place), temporary, made.value);
    block.body = simplify(make::store(map.buffer, indices, value), facts);
    return loops_around(std::move(block));
  }

  PrimFunc mapped(const Buffer& temporary) const {
    std::set<std::string> taken;
    for (size_t n = 0; n < nests_.size(); ++n)
      if (n != map_ && !is_piece(n)) taken.insert(nests_[n].block.id->name);
    const std::string& base = nests_[map_].block.id->name;
    return without(temporary, [&](size_t n) -> std::optional<Stmt> {
      if (n == map_) return std::nullopt;
      if (!is_piece(n)) return loops_around(nests_[n].block);
      std::string name = base;
      for (int k = 1; !taken.insert(name).second; ++k) name = fmt::format("{}{}", base, k);
      return with_map(n, temporary, name);
    });
  }

  // The function of what `nest` makes of each nest, and without a temporary.
  template <class Nest>
  PrimFunc without(const Buffer& temporary, const Nest& nest) const {
    PrimFunc out = func_;
    std::erase_if(out.allocs, [&](const BufferDecl& d) { return d.buffer == temporary; });
    std::vector<Stmt> stmts;
    for (size_t n = 0; n < nests_.size(); ++n)
      if (auto s = nest(n)) stmts.push_back(std::move(*s));
    out.body = make::seq(std::move(stmts));
    return out;
  }

  size_t map_ = 0;
  std::vector<size_t> pieces_;
  Dims dims_;  // of the temporary, that the map's iterators walk
};

}  // namespace

PrimFunc map_pieces(const PrimFunc& f) {
  PrimFunc out = f;
  while (auto changed = PieceMapper(out).run()) out = std::move(*changed);
  return out;
}

}  // namespace nestor

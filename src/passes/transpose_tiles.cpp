// Tiles that are read or written along columns are read or written along rows, and transposed in registers.
//
// A block may read contiguously along one loop and write contiguously along another. If a schedule vectorizes
// one of the two loops and unrolls the other, the result is straight-line code with one strided access per
// unrolled iteration:
//
//   Y[ramp(0, 1, 16)] = X[ramp(0, 2048, 16)]         16 gathers: 256 cache accesses
//   Y[ramp(512, 1, 16)] = X[ramp(1, 2048, 16)]
//   ...                                          ->  16 loads X[ramp(i*2048, 1, 16)], 64 shuffles, 16 stores
//
// The same elements are accessed, each once. Accesses with a stride of 2 to 4 without gaps are separated from
// whole vectors in the same way, together with the elements of a window beyond the stride. A run of stores is
// handled as a unit: nothing that it writes is also read in it.
#include <algorithm>

#include "src/passes/collect_terms.h"
#include "src/passes/passes.h"
#include "src/passes/store_runs.h"
#include "src/passes/transpose_tile.h"

namespace nestor::passes {

namespace {

// Stores of one run that are held against each other.
constexpr size_t kMostColumns = 2048;

// Loads that run whenever the statement does.
class Finder : public Walker {
 public:
  explicit Finder(const std::vector<Buffer>& written) : written_(written) {}
  std::vector<Item> found;

  void expr(const Expr& e) override {
    if (const auto* l = e.as<Load>()) {
      if (std::find(written_.begin(), written_.end(), l->buffer) != written_.end() ||
          l->buffer->type.is_vector())
        return;
      if (auto c = column_of(l->buffer, l->indices[0], l->mask); c && seen_.insert(e).second)
        found.push_back({std::move(*c), e});
      return;
    }
    if (const auto* s = e.as<Select>(); s && !s->cond.type().is_vector()) return expr(s->cond);
    if (const auto* b = e.as<Binary>();
        b && !e.type().is_vector() && (b->op == BinaryOp::logical_and || b->op == BinaryOp::logical_or))
      return expr(b->a);
    if (e.as<Let>()) return;
    children(e);
  }

 private:
  const std::vector<Buffer>& written_;
  std::unordered_set<Expr, HashExpr, SameExpr> seen_;
};

class Turner : public StoreRunRewriter {
 public:
  using StoreRunRewriter::StoreRunRewriter;

 private:
  bool rewrite(const std::vector<Stmt>& run, std::vector<Stmt>& rewritten) override {
    const std::vector<Buffer> written = buffers_written(run);
    Finder finder(written);
    for (const Stmt& s : run) finder.stmt(s);
    const std::vector<Group> loads = groups_of(std::move(finder.found), true), stores = stores_of(run);
    if (loads.empty() && stores.empty()) return false;

    std::vector<Stmt> out;
    std::vector<BufferDecl> decls;
    LoadReplacer replacer;
    std::vector<bool> loaded(loads.size());
    std::vector<Tile> tiles;
    for (const Group& g : stores) tiles.emplace_back(g, out);
    for (size_t at = 0; at < run.size(); ++at) {
      for (size_t g = 0; g < loads.size(); ++g) {  // no earlier than needed: they fill registers
        if (loaded[g] || !uses(run[at], loads[g])) continue;
        Tile tile(loads[g], out);
        tile.load(replacer);
        decls.push_back(tile.decl());
        loaded[g] = true;
      }
      const Stmt s = replacer.stmt(run[at]);
      bool taken = false;
      for (size_t t = 0; t < tiles.size(); ++t)
        for (size_t m = 0; m < stores[t].size(); ++m)
          if (stores[t][m].store == at) {
            tiles[t].take(m, s.as<Store>()->value);
            taken = true;
          }
      if (!taken) out.push_back(s);
    }
    for (size_t t = 0; t < tiles.size(); ++t) {
      bool streaming = true;
      for (const Item& i : stores[t]) streaming = streaming && run[i.store].as<Store>()->streaming;
      tiles[t].store(streaming);
      decls.push_back(tiles[t].decl());
    }
    collect_terms(out, decls);
    Stmt s = make::seq(std::move(out));
    for (size_t i = decls.size(); i-- > 0;) s = make::alloc(decls[i], std::move(s));
    std::vector<Expr> unknown;
    for (const Expr& c : strides_needed(run, stores))
      if (!can_prove(c, facts())) unknown.push_back(c);
    rewritten.push_back(unknown.empty() ? s : make::if_then(conjunction(unknown), s, make::seq(run)));
    return true;
  }

  // Of a buffer that the run doesn't read, if all its stores go to different elements of one family: they can
  // wait for each other.
  static std::vector<Group> stores_of(const std::vector<Stmt>& run) {
    std::vector<Item> items;
    std::vector<Buffer> others;
    for (size_t at = 0; at < run.size(); ++at) {
      const auto* st = run[at].as<Store>();
      if (st->buffer->type.is_vector()) continue;
      if (auto c = column_of(st->buffer, st->indices[0], st->mask))
        items.push_back({std::move(*c), {}, at});
      else
        others.push_back(st->buffer);
    }
    if (items.size() > kMostColumns) return {};
    std::unordered_map<Buffer, bool> read;
    for (const Item& i : items) {
      const auto [it, fresh] = read.try_emplace(i.column.buffer, false);
      for (const Stmt& s : run) it->second = it->second || (fresh && uses_value_of(s, i.column.buffer));
    }
    std::vector<Item> free;
    for (const Item& i : items) {
      bool alone = !read.at(i.column.buffer) &&
                   std::find(others.begin(), others.end(), i.column.buffer) == others.end();
      for (const Item& o : items)
        if (o.column.buffer == i.column.buffer && o.store != i.store)
          alone = alone && apart(o.column, i.column);
      if (alone) free.push_back(i);
    }
    return groups_of(std::move(free), false);
  }

  // Columns that share no element: of whole tiles, or of one and of the last, of which a mask leaves some.
  static bool apart(const Column& a, const Column& b) {
    const int64_t distance = std::abs(a.offset - b.offset), stride = std::abs(a.stride);
    if (!a.aligned(b)) return false;
    if (a.open_stride) return distance > 0;  // and less than the stride: see strides_needed
    return distance % stride != 0 || distance / stride >= std::max(a.lanes, b.lanes);
  }

  // Columns of an open stride are apart if all of them fit between two rows.
  static std::vector<Expr> strides_needed(const std::vector<Stmt>& run, const std::vector<Group>& stores) {
    std::vector<Expr> out;
    for (const Group& g : stores) {
      const Column& c = g[0].column;
      if (!c.open_stride) continue;
      int64_t low = c.offset, high = c.offset;
      for (const Stmt& s : run) {
        const auto* st = s.as<Store>();
        const auto o =
            st->buffer == c.buffer ? column_of(st->buffer, st->indices[0], st->mask) : std::nullopt;
        if (!o) continue;
        low = std::min(low, o->offset);
        high = std::max(high, o->offset);
      }
      const Expr enough = gt(c.open_stride, high - low);
      if (std::none_of(out.begin(), out.end(), [&](const Expr& e) { return same_expr(e, enough); }))
        out.push_back(enough);
    }
    return out;
  }

  static bool uses(const Stmt& s, const Group& g) {
    bool found = false;
    for_each_expr(s, [&](const Expr& e) {
      const auto* l = e.as<Load>();
      if (!l || l->buffer != g[0].column.buffer) return;
      for (const Item& i : g) found = found || same_expr(i.load, e);
    });
    return found;
  }

  static bool uses_value_of(const Stmt& s, const Buffer& b) {
    const auto* st = s.as<Store>();
    bool used = uses_buffer(st->value, b) || (st->mask && uses_buffer(st->mask, b));
    for (const Expr& i : st->indices) used = used || uses_buffer(i, b);
    return used;
  }
};

}  // namespace

PrimFunc transpose_tiles(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Turner(f).stmt(f.body);
  return out;
}

}  // namespace nestor::passes

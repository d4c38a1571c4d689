// Two products with rows of scores between them: T = A B, some maps and reductions along T's rows (softmax,
// norms), Y = P V with P one of them. This is attention, and whatever else has its shape. The scores of a few
// rows at a time are made, normalized and used up before the next rows come, so they never leave the cache:
//
//   other rows | row tiles { columns of T { k | tile }, row blocks, columns of Y { j | tile } }
//
// Both products are register tiles over the same rows. Scores of 14 rows of 512 are 28 KB, and each of the
// blocks between keeps as many: the first two levels of cache hold them. Their rows are an odd number of
// lines apart: the second product reads an element of each in turn, and rows 4 KB apart would meet in one set
// of the first-level cache. What scores are multiplied with is read again for each row tile, from the second
// level; a copy of the first product's is in panels as wide as a tile, read from front to back.
//
// A few rows (one query that is asked of many keys) aren't worth copies of what they are multiplied with.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kLine = 64;       // bytes, of the cache
constexpr int64_t kFewestRows = 4;  // for which an operand is worth a copy, or a tile of registers

// What is between the two products, and what may be behind the second one.
struct Chain {
  std::string first, second, epilogue;
  std::vector<std::string> between;  // in program order
  std::vector<std::string> moved;    // maps of parameters that only a product reads: transposed operands
  Buffer scores;                     // of the second's operands the one made here
};

bool moves_operand(const PrimFunc& f, const BlockInfo& b) {
  if (b.reduction || b.output_is_param) return false;
  for (const Access& a : b.accesses)
    if (!a.write && !writers_of(f, a.buffer).empty()) return false;
  const std::vector<std::string> readers = readers_of(f, b.output);
  return readers.size() == 1 && is_product(analyze(f, readers[0]));
}

std::optional<Chain> find_chain(const PrimFunc& f) {
  Chain c;
  std::vector<BlockInfo> blocks;
  std::set<Buffer> moved;
  for (const std::string& name : block_names(f)) {
    blocks.push_back(analyze(f, name));
    if (!moves_operand(f, blocks.back())) continue;
    moved.insert(blocks.back().output);
    c.moved.push_back(name);
    blocks.pop_back();
  }
  if (blocks.size() < 4 || !is_product(blocks.front())) return std::nullopt;
  size_t last = blocks.size() - 1;
  if (!blocks[last].reduction) c.epilogue = blocks[last--].name;
  if (last < 3 || !is_product(blocks[last])) return std::nullopt;
  for (size_t k = 1; k < last; ++k) {
    if (is_product(blocks[k]) || blocks[k].output_is_param) return std::nullopt;
    c.between.push_back(blocks[k].name);
  }
  c.first = blocks.front().name;
  c.second = blocks[last].name;
  for (const Access& a : blocks[last].accesses) {
    if (a.write || moved.count(a.buffer) || writers_of(f, a.buffer).empty()) continue;
    if (c.scores) return std::nullopt;
    c.scores = a.buffer;
  }
  return c.scores ? std::optional(c) : std::nullopt;
}

// The S iterator along which a product's lanes go: all that moves with it lies dense.
const Iter* lanes_in(const BlockInfo& b) {
  const Iter* found = nullptr;
  for (const Iter* i : b.spatial()) {
    bool dense = i->extent > 1 && !i->loop.empty();
    for (const Access& a : b.accesses) dense = dense && (!a.uses(*i) || a.stride(*i) == 1);
    if (dense) found = i;
  }
  return found;
}

// The iterator that indexes dimension `dim` of what is accessed; null where that isn't a plain variable.
const Iter* iter_at(const BlockInfo& b, const Access& a, size_t dim) {
  const auto* r = dim < a.indices.size() ? a.indices[dim].as<VarRef>() : nullptr;
  for (const Iter& i : b.iters)
    if (r && r->var == i.var) return &i;
  return nullptr;
}

size_t dim_of(const BlockInfo& b, const Access& a, const Iter& i) {
  size_t d = 0;
  while (d < a.indices.size() && iter_at(b, a, d) != &i) ++d;
  return d;
}

const Access& access_to(const BlockInfo& b, const Buffer& buffer, bool write) {
  return *std::find_if(b.accesses.begin(), b.accesses.end(),
                       [&](const Access& a) { return a.buffer == buffer && a.write == write; });
}

// A product and the map that writes what its tiles hold, with the loops of both that walk the tile.
struct Tiled {
  std::string product, writer;
  std::string rows, lanes;                // loops of the product
  std::string writer_rows, writer_lanes;  // of the writer
  int64_t extent = 0;                     // of the lanes

  // Behind the reduction's loop, inside of all others; `prefix` is that of the loops' names where the product
  // stands now.
  void in_registers(Schedule& s, const std::string& prefix, const std::string& reduced,
                    std::vector<std::string> order) const {
    const auto of_tile = [&](const std::string& l) {
      return l == reduced || l == prefix + rows || l == prefix + lanes;
    };
    std::erase_if(order, of_tile);
    order.insert(order.end(), {reduced, prefix + rows, prefix + lanes});
    s(fmt::format("reorder {} ({})", product, join(order)));
    s(fmt::format("unroll {}.{}{}", product, prefix, rows));
    s(fmt::format("vectorize {}.{}{}", product, prefix, lanes));
    s(fmt::format("{0}_init = decompose_reduction {0}.{1}", product, reduced));
  }
};

// Maps that one other map reads vanish in it: a scale and a mask are one pass over the scores.
void inline_maps(Schedule& s) {
  for (const std::string& name : block_names(s.func())) {
    const BlockInfo b = analyze(s.func(), name);
    if (b.reduction || b.output_is_param) continue;
    const std::vector<std::string> readers = readers_of(s.func(), b.output);
    if (readers.size() == 1 && !analyze(s.func(), readers[0]).reduction) s.try_step("compute_inline " + name);
  }
}

class Joiner {
 public:
  Joiner(Schedule& s, const Target& target) : s_(s), target_(target) {}

  bool run() {
    inline_maps(s_);
    const auto chain = find_chain(s_.func());
    if (!chain) return false;
    const BlockInfo first = analyze(s_.func(), chain->first), second = analyze(s_.func(), chain->second);
    const Access& scores = access_to(second, chain->scores, false);
    const Iter* rows = nullptr;
    for (const Iter* i : second.spatial())
      if (scores.uses(*i) && i->extent >= kFewestRows && shares(second, *i)) rows = i;
    const Access& made = access_to(first, first.output, true);
    if (!rows || made.indices.size() != scores.indices.size()) return false;
    const Iter* first_rows = iter_at(first, made, dim_of(second, scores, *rows));
    const Iter *lanes = lanes_in(second), *first_lanes = lanes_in(first);
    if (!first_rows || !lanes || !first_lanes || scores.uses(*lanes) || first_lanes == first_rows)
      return false;
    inline_by_rows(chain->moved, first, *first_rows);
    inline_by_rows(chain->moved, second, *rows);
    const Work work = work_of(first, target_) + work_of(second, target_);
    width_ = kVectors * lanes_of(second, target_);
    rows_ = rows_of(rows->extent, target_);
    std::vector<std::string> between = chain->between;
    const std::vector<std::string> readers = readers_of(s_.func(), first.output);
    const bool has_writer = readers.size() == 1 && !analyze(s_.func(), readers[0]).reduction;
    const Tiled scored = tiled(first, *first_rows, *first_lanes, has_writer ? readers[0] : "");
    if (!has_writer) between.insert(between.begin(), scored.writer);
    const Tiled summed = tiled(second, *rows, *lanes, chain->epilogue);
    place_second(summed);
    for (size_t k = between.size(); k-- > 0;) bring(between[k], "s", at_);
    place_first(scored);
    for (const std::string& b : between)
      if (b != scored.writer) finish(b);
    for (const std::string& b : between) align_rows(b, *rows);
    for (const std::string& b : chain->moved)
      if (find_block(s_.func(), b)) place_operand(b, summed.writer);
    parallel(summed.writer, work);
    return true;
  }

 private:
  static constexpr int64_t kVectors = 2;  // of a row

  // Whether the operand that isn't the scores is the same for all rows.
  static bool shares(const BlockInfo& product, const Iter& rows) {
    return std::any_of(product.accesses.begin(), product.accesses.end(),
                       [&](const Access& a) { return !a.write && !a.uses(rows); });
  }

  // As many rows as registers allow, all tiles of nearly the same size.
  static int64_t rows_of(int64_t extent, const Target& target) {
    const int64_t most = std::max<int64_t>(1, (target.vector_registers - kVectors - 1) / kVectors);
    return ceil_div(extent, ceil_div(extent, most));
  }

  // An operand of which each row tile reads rows of its own is read where it lies.
  void inline_by_rows(const std::vector<std::string>& moved, const BlockInfo& product, const Iter& rows) {
    for (const std::string& m : moved) {
      if (!find_block(s_.func(), m)) continue;
      const Buffer out = analyze(s_.func(), m).output;
      for (const Access& a : product.accesses)
        if (a.buffer == out && a.uses(rows)) s_.try_step("compute_inline " + m);
    }
  }

  // The rows of what `block` makes of the scores, an odd number of lines apart.
  void align_rows(const std::string& block, const Iter& rows) {
    const BlockInfo b = analyze(s_.func(), block);
    const auto dims = static_cast<int64_t>(access_to(b, b.output, true).indices.size());
    if (b.reduction || dims < 2 || rows.extent < 2) return;
    const int64_t line = kLine / bytes_of(b.output->type.dtype);
    s_.because("rows meet in few sets of the first-level cache unless they are an odd number of lines apart");
    s_(fmt::format("storage_align {} {} {} {}", b.output->name, dims - 2, 2 * line, line));
  }

  // One that all row tiles read is copied once for them all: turned in registers where it must be.
  void place_operand(const std::string& block, const std::string& writer) {
    if (batch_.empty()) {
      spread_map(s_, block, target_);
      return;
    }
    const BlockInfo b = analyze(s_.func(), block);
    const int64_t side = lanes_of(b, target_);
    std::string lanes, rows;
    for (const Iter& i : b.iters)
      for (const Access& a : b.accesses)
        if (i.extent > 1 && a.stride(i) == 1) (a.write ? lanes : rows) = "m" + i.loop;
    bring(block, "m", writer + "." + batch_);
    in_panels(b);
    if (rows.empty() || lanes.empty() || rows == lanes) {
      vectorize_inside(s_, block, target_);
      return;
    }
    std::vector<std::string> order = brought_[block];
    std::erase_if(order, [&](const std::string& l) { return l == rows || l == lanes; });
    const auto [row_tiles, row] = cut(block, rows, side);
    const auto [lane_tiles, lane] = cut(block, lanes, side);
    for (const std::string& l : {lane_tiles, row_tiles, row, lane})
      if (!l.empty()) order.push_back(l);
    s_.because("rows are read from front to back: the first touch of them comes from far away");
    s_(fmt::format("reorder {} ({})", block, join(order)));
    s_(fmt::format("unroll {}.{}", block, row));
    s_(fmt::format("vectorize {}.{}", block, lane));
  }

  // A copy of more than one tile's lanes: (.., k, j) -> (.., j/width, k, j%width).
  void in_panels(const BlockInfo& copy) {
    const size_t dims = access_to(copy, copy.output, true).indices.size();
    const int64_t lanes = as_int(declarations(s_.func()).at(copy.output).shape.back()).value_or(0);
    if (dims < 2 || lanes <= width_) return;
    std::vector<std::string> names, to;
    for (size_t d = 0; d < dims; ++d) names.push_back(fmt::format("d{}", d));
    to.assign(names.begin(), names.end() - 2);
    const std::string &k = names[dims - 2], &j = names[dims - 1];
    to.insert(to.end(), {fmt::format("{}/{}", j, width_), k, fmt::format("{}%{}", j, width_)});
    s_.because(
        fmt::format("a tile reads its {} columns of {} from front to back", width_, copy.output->name));
    s_(fmt::format("transform_layout {} ({}) -> ({})", copy.output->name, fmt::join(names, ", "),
                   fmt::join(to, ", ")));
  }

  Tiled tiled(const BlockInfo& b, const Iter& rows, const Iter& lanes, const std::string& writer) {
    Tiled t{b.name, writer, rows.loop, lanes.loop, "", "", lanes.extent};
    const Access& out = access_to(b, b.output, true);
    const size_t row_dim = dim_of(b, out, rows), lane_dim = dim_of(b, out, lanes);
    if (writer.empty()) {
      t.writer = b.name + "_out";
      s_(fmt::format("{} = cache_write {} local", t.writer, b.name));
    } else {
      s_(fmt::format("set_scope {} local", b.output->name));
    }
    const BlockInfo w = analyze(s_.func(), t.writer);
    const Access& read = access_to(w, analyze(s_.func(), b.name).output, false);
    const Iter *r = iter_at(w, read, row_dim), *l = iter_at(w, read, lane_dim);
    if (!r || !l) throw ScheduleError(Diagnostic{t.writer + " doesn't walk the tile", {}, {}, ""});
    t.writer_rows = r->loop;
    t.writer_lanes = l->loop;
    return t;
  }

  // The loops of the block's S iterators where it comes to are named after them.
  void bring(const std::string& block, const std::string& prefix, const std::string& location) {
    std::vector<std::string> names;
    const BlockInfo b = analyze(s_.func(), block);
    for (const Iter* i : b.spatial()) names.push_back(prefix + i->loop);
    s_(fmt::format("{} = compute_at {} {}", join(names), block, location));
    brought_[block] = names;
  }

  void bring_product(const Tiled& t, const std::string& prefix, const std::string& location) {
    const std::string reduced = analyze(s_.func(), t.product).reduced().front()->loop;
    bring(t.product, prefix, location);
    t.in_registers(s_, prefix, reduced, brought_[t.product]);
  }

  // Gives the loop over tiles, empty where there is one tile, and the loop inside a tile.
  std::pair<std::string, std::string> cut(const std::string& block, const std::string& loop, int64_t size) {
    if (extent_of(s_, block, loop) <= size) return {"", loop};
    s_(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", loop, block, size));
    return {loop + "0", loop + "1"};
  }

  void place_second(const Tiled& t) {
    std::vector<std::string> order;
    const BlockInfo w = analyze(s_.func(), t.writer);
    for (const Iter& i : w.iters)
      if (i.loop != t.writer_rows && i.loop != t.writer_lanes) order.push_back(i.loop);
    const auto [row_tiles, rows] = cut(t.writer, t.writer_rows, rows_);
    const auto [lane_tiles, lanes] = cut(t.writer, t.writer_lanes, width_);
    outer_ = order;
    if (!order.empty()) batch_ = order.back();
    if (!row_tiles.empty()) order.push_back(row_tiles);
    if (order.empty()) throw ScheduleError(Diagnostic{"one tile of rows", {}, {}, ""});
    at_ = t.writer + "." + order.back();
    if (row_tiles.empty()) outer_.pop_back();
    if (!lane_tiles.empty()) order.push_back(lane_tiles);
    const std::string tile = order.back();
    order.insert(order.end(), {rows, lanes});
    s_(fmt::format("reorder {} ({})", t.writer, join(order)));
    bring_product(t, "y", t.writer + "." + tile);
    s_(fmt::format("unroll {}.{}", t.writer, rows));
    s_(fmt::format("vectorize {}.{}", t.writer, lanes));
  }

  // The writer of the scores has come to the row tile.
  void place_first(const Tiled& t) {
    const std::string rows = "s" + t.writer_rows;
    std::vector<std::string> order;
    for (const std::string& l : brought_[t.writer])
      if (l != rows && l != "s" + t.writer_lanes) order.push_back(l);
    const auto [tiles, lanes] = cut(t.writer, "s" + t.writer_lanes, width_);
    if (!tiles.empty()) order.push_back(tiles);
    const std::string location = order.empty() ? at_ : t.writer + "." + order.back();
    order.insert(order.end(), {rows, lanes});
    s_(fmt::format("reorder {} ({})", t.writer, join(order)));
    bring_product(t, "t", location);
    s_(fmt::format("unroll {}.{}", t.writer, rows));
    s_(fmt::format("vectorize {}.{}", t.writer, lanes));
  }

  void finish(const std::string& block) {
    if (!analyze(s_.func(), block).reduction) {
      vectorize_inside(s_, block, target_);
      return;
    }
    s_(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, brought_[block].front()));
    vectorize_reduction(s_, block);
  }

  void parallel(const std::string& writer, const Work& work) {
    int64_t batches = 1;
    for (const std::string& l : outer_) batches *= extent_of(s_, writer, l);
    const std::string tiles = at_.substr(at_.find('.') + 1);
    share_loops(s_, writer, batches > 1 ? outer_ : std::vector<std::string>{tiles}, work, target_);
  }

  Schedule& s_;
  const Target& target_;
  int64_t width_ = 0, rows_ = 0;
  std::vector<std::string> outer_;  // loops of the second product's writer outside of the row tiles
  std::string batch_;               // the innermost of these
  std::string at_;                  // the loop over row tiles
  std::map<std::string, std::vector<std::string>> brought_;  // by block, its loops where it came to
};

}  // namespace

// A sum of products of two operands, neither of which all S iterators move: each is read again and again, not
// just two or three times.
bool is_product(const BlockInfo& b) {
  int reads = 0;
  for (const Access& a : b.accesses) {
    if (a.write) continue;
    ++reads;
    bool reused = false;
    for (const Iter* i : b.spatial()) reused = reused || (i->extent >= kFewestRows && !a.uses(*i));
    if (!reused) return false;
  }
  return b.reduction && reads == 2 && b.reduced().size() == 1;
}

bool join_products(Schedule& s, const Target& target) {
  return Joiner(s, target).run();
}

}  // namespace nestor::library

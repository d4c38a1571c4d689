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
// level; copies of operands, turned or scaled on the way, are in panels as wide as a tile, read from front to
// back.
//
// A few rows (one query that is asked of many keys) aren't worth copies of what they are multiplied with.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/product_chain.h"
#include "schedules/library/tile.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

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

class Joiner {
 public:
  Joiner(Schedule& s, const Target& target) : s_(s), target_(target) {}

  bool run() {
    inline_chain_maps(s_);
    auto chain = find_product_chain(s_.func());
    if (!chain) return false;
    if (turned_products(s_, *chain, target_)) return true;
    const BlockInfo product = analyze(s_.func(), chain->second);
    const Iter* scored_rows = rows_in(product, access_to(product, chain->scores, false));
    tile_ = chain_tile(product, scored_rows ? scored_rows->extent : 1, target_);
    width_ = tile_.vectors * lanes_of(product, target_);
    copy_values(*chain);
    const BlockInfo first = analyze(s_.func(), chain->first), second = analyze(s_.func(), chain->second);
    const Access& scores = access_to(second, chain->scores, false);
    const Iter* rows = rows_in(second, scores);
    const Access& made = access_to(first, first.output, true);
    if (!rows || made.indices.size() != scores.indices.size()) return false;
    const Iter* first_rows = iter_at(first, made, dim_of(second, scores, *rows));
    const Iter *lanes = lanes_in(second), *first_lanes = lanes_in(first);
    if (!first_rows || !lanes || !first_lanes || scores.uses(*lanes) || first_lanes == first_rows)
      return false;
    inline_by_rows(chain->moved, first, *first_rows);
    inline_by_rows(chain->moved, second, *rows);
    const Work work = work_of(first, target_) + work_of(second, target_);
    rows_ = chain_rows(rows->extent, tile_);
    choose_row_block(first, second, *rows, *lanes);
    std::vector<std::string> between = chain->between;
    const std::vector<std::string> readers = readers_of(s_.func(), first.output);
    const bool has_writer = readers.size() == 1 && !analyze(s_.func(), readers[0]).reduction;
    const Tiled scored = tiled(first, *first_rows, *first_lanes, has_writer ? readers[0] : "");
    if (!has_writer) between.insert(between.begin(), scored.writer);
    const Tiled summed = tiled(second, *rows, *lanes, chain->epilogue);
    place_second(summed);
    for (size_t k = between.size(); k-- > 0;) bring(between[k], "s", at_);
    place_first(scored);
    for (const std::string& b : by_rows_) {
      bring(b, "q", at_);
      prefetch_next_rows(s_, b, row_tiles());
    }
    prefetch_next_rows(s_, scored.product, row_tiles());
    for (const std::string& b : between)
      if (b != scored.writer) finish(b);
    for (const std::string& b : between) align_rows(b, *rows);
    for (const std::string& b : chain->moved) place_operand(b, summed.writer);
    for (const std::string& b : chain->moved)
      prefetch_next_operand(s_, b, batch_, scored.product, row_tiles(), target_);
    if (!prefetch_next_operand(s_, summed.product, batch_, summed.product, row_tiles(), target_))
      prefetch_next_operand(s_, summed.product, batch_, scored.product, row_tiles(), target_);
    for (const std::string& b : by_rows_) vectorize_inside(s_, b, target_);
    for (const Tiled& t : {scored, summed}) take_steps_at_once(t);
    parallel(summed.writer, work);
    return true;
  }

 private:
  // Rows up to so many vectors long fold their lanes together with others': of 8 vectors 0.6 % of the whole
  // faster than each by itself, of 13, a ragged one, 0.3 % slower (Zen 5).
  static constexpr int64_t kFoldedVectors = 8;
  static constexpr int64_t kTilesToCopyFor = 48, kTilesFarFromL3 = 8;

  // The iterator of the scores' rows, for all of which the other operand is the same.
  static const Iter* rows_in(const BlockInfo& product, const Access& scores) {
    const Iter* rows = nullptr;
    for (const Iter* i : product.spatial()) {
      const bool shared = std::any_of(product.accesses.begin(), product.accesses.end(),
                                      [&](const Access& a) { return !a.write && !a.uses(*i); });
      if (scores.uses(*i) && i->extent >= kFewestRows && shared) rows = i;
    }
    return rows;
  }

  // Where what scores are multiplied with doesn't stay in the second-level cache, each row tile has it come
  // from behind that, and a block of them shares each panel: more scores then have to stay. (Cascade Lake:
  // 4x1024x128, twice 512 KB beside 1 MB of cache, by 8 tiles of 6 rows 21 % less time, 2x2048x128 40 %,
  // 1x4096x64 by 4 15 %; of twice 256 KB, 8x512x128 and 8x1024x64 are as fast without.)
  void choose_row_block(const BlockInfo& first, const BlockInfo& second, const Iter& rows,
                        const Iter& lanes) {
    constexpr int64_t kMostTiles = 8, kBlocksForThread = 4;
    const int64_t bytes = bytes_of(second.output->type.dtype), keys = second.reduction_size();
    const int64_t operands = keys * (first.reduction_size() + lanes.extent) * bytes;
    if (!target_.far_l3() || operands <= target_.l2_bytes * 3 / 4) return;
    const int64_t scores = 2 * rows_ * keys * bytes;  // of a tile, and what is made of them
    const int64_t fit = std::min(kMostTiles, target_.l2_bytes * 3 / 4 / scores);
    if (fit < 2 || rows.extent / (rows_ * fit) < kBlocksForThread * std::max(1, target_.cores)) return;
    row_block_ = fit;
    why_block_ =
        fmt::format("{} KiB of operands don't fit in L2; {} row tiles share what is read from beyond it",
                    operands / 1024, fit);
  }

  // An operand of which each row tile reads rows of its own is read where it lies, or made for the tile where
  // it is computed: the tile reads an element for each of its vectors of columns.
  void inline_by_rows(std::vector<std::string>& moved, const BlockInfo& product, const Iter& rows) {
    std::erase_if(moved, [&](const std::string& m) {
      const BlockInfo b = analyze(s_.func(), m);
      const bool by_rows = std::any_of(product.accesses.begin(), product.accesses.end(),
                                       [&](const Access& a) { return a.buffer == b.output && a.uses(rows); });
      if (by_rows && !(b.copies && s_.try_step("compute_inline " + m))) by_rows_.push_back(m);
      return by_rows;
    });
  }

  // What scores are multiplied with, where it lies in an input: a tile reads two vectors of each of its rows.
  // These meet in few sets of the first-level cache where rows are long, or there are too many of them; then
  // each comes from the second level, at its own address, and a copy in panels costs less than that does for
  // a few tiles of rows. (Granite Rapids: 12x512x64 3 %, 16x256x128 6 % faster; 12x197x64, where a set has
  // one line more than ways, 2 % slower. Zen 5: 8x1024x64 with its 74 tiles 1 % faster, 12x512x64 with 37 the
  // same, 16x256x128 with 19 2 % slower. Cascade Lake, 512 keys: 12 heads of 128 with 24 tiles 2 to 4 %
  // faster, with 8 1 to 3, with 4 1 % slower, with 2 4, with 1 8 to 10.)
  void copy_values(ProductChain& chain) {
    const BlockInfo b = analyze(s_.func(), chain.second);
    const Iter* lanes = lanes_in(b);
    const int64_t keys = b.reduction_size();
    const Iter* rows = rows_in(b, access_to(b, chain.scores, false));
    if (!lanes || !rows || lanes->extent <= width_ || b.spatial().size() < 3) return;
    const int64_t tiles = target_.far_l3() ? kTilesFarFromL3 : kTilesToCopyFor;
    if (rows->extent < tiles * chain_rows(rows->extent, tile_)) return;
    for (const Access& a : b.accesses) {
      if (a.write || a.buffer == chain.scores || !find_param(s_.func(), a.buffer) || !a.uses(*lanes))
        continue;
      const int64_t bytes = bytes_of(a.buffer->type.dtype);
      const int64_t pitch = a.stride(*b.reduced().front()).value_or(0) * bytes;
      const int64_t sets = l1_sets(target_), lines = ceil_div(width_ * bytes, kLine);
      if (lines_in_a_set(pitch, keys, sets, lines) <= 2 * target_.l1_ways) continue;
      s_.because(fmt::format("with {} rows {} bytes apart, a tile's {} columns don't stay in L1", keys, pitch,
                             width_));
      chain.moved.push_back(b.name + "_panels");
      s_(fmt::format("{} = cache_read {} {} global", chain.moved.back(), b.name, a.buffer->name));
      return;
    }
  }

  // The rows of what `block` makes of the scores, an odd number of lines apart.
  void align_rows(const std::string& block, const Iter& rows) {
    const BlockInfo b = analyze(s_.func(), block);
    const auto dims = static_cast<int64_t>(access_to(b, b.output, true).indices.size());
    if (b.reduction || dims < 2 || rows.extent < 2) return;
    const int64_t line = kLine / bytes_of(b.output->type.dtype);
    s_.because("rows cause set conflicts in L1 unless their distance is an odd number of lines");
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
    s_.because("rows are read in order: their first access is far away");
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
    s_.because(fmt::format("a tile reads its {} columns of {} in order", width_, copy.output->name));
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
    if (!r || !l) throw ScheduleError(Diagnostic{t.writer + " doesn't follow the tile", {}, {}, ""});
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

  void take_steps_at_once(const Tiled& t) {
    const BlockInfo b = analyze(s_.func(), t.product);
    if (!ends_in_part(t.extent, width_, lanes_of(b, target_)))
      steps_at_once(s_, t.product, rows_, tile_.vectors, b.reduced().front()->loop, target_);
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
    std::string in_block;  // row tiles of a block, inside of the tiles of columns
    if (row_block_ > 1 && !row_tiles.empty()) {
      s_.because(why_block_);
      s_(fmt::format("{0}b {0}t = split {1}.{2} [_, {3}] tail=peel", t.writer_rows, t.writer, row_tiles,
                     row_block_));
      order.push_back(t.writer_rows + "b");
      in_block = t.writer_rows + "t";
    } else if (!row_tiles.empty()) {
      order.push_back(row_tiles);
    }
    if (order.empty()) throw ScheduleError(Diagnostic{"one tile of rows", {}, {}, ""});
    at_ = t.writer + "." + order.back();
    if (row_tiles.empty()) outer_.pop_back();
    for (const std::string& l : {lane_tiles, in_block})
      if (!l.empty()) order.push_back(l);
    const std::string tile = order.back();
    order.insert(order.end(), {rows, lanes});
    s_(fmt::format("reorder {} ({})", t.writer, join(order)));
    bring_product(t, "y", t.writer + "." + tile);
    s_(fmt::format("unroll {}.{}", t.writer, rows));
    s_(fmt::format("vectorize {}.{}", t.writer, lanes));
  }

  // The writer of the scores has come to the row tile.
  void place_first(const Tiled& t) {
    const std::string all_rows = "s" + t.writer_rows;
    std::vector<std::string> order;
    for (const std::string& l : brought_[t.writer])
      if (l != all_rows && l != "s" + t.writer_lanes) order.push_back(l);
    const auto [tiles, lanes] = cut(t.writer, "s" + t.writer_lanes, width_);
    const auto [row_tiles, rows] =
        row_block_ > 1 ? cut(t.writer, all_rows, rows_) : std::pair{std::string(), all_rows};
    for (const std::string& l : {tiles, row_tiles})
      if (!l.empty()) order.push_back(l);
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
    if (!vectorize_reduction(s_, block)) return;
    const std::vector<LoopInfo> loops = loops_of(s_.func(), block);
    const LoopInfo &rows = loops[loops.size() - 2], &row = loops.back();
    if (row.extent > kFoldedVectors * lanes_of(analyze(s_.func(), block), target_) ||
        rows.name != brought_[block].back())
      return;
    s_.because(fmt::format("the lanes of {} rows are reduced together", rows.extent));
    s_.try_step(fmt::format("vectorize {}.{}", block, rows.name));
  }

  void parallel(const std::string& writer, const Work& work) {
    int64_t batches = 1;
    for (const std::string& l : outer_) batches *= extent_of(s_, writer, l);
    share_loops(s_, writer, batches > 1 ? outer_ : std::vector<std::string>{row_tiles()}, work, target_);
  }

  std::string row_tiles() const { return at_.substr(at_.find('.') + 1); }

  Schedule& s_;
  const Target& target_;
  ChainTile tile_;
  int64_t width_ = 0, rows_ = 0;  // of a tile: the lanes of a row, the rows
  int64_t row_block_ = 1;         // row tiles between which a panel stays
  std::string why_block_;
  std::vector<std::string> outer_;    // loops of the second product's writer outside of the row tiles
  std::string batch_;                 // the innermost of these
  std::string at_;                    // the loop over row tiles, by the block that it stands around
  std::vector<std::string> by_rows_;  // maps that make an operand's rows for each tile of them
  std::map<std::string, std::vector<std::string>> brought_;  // by block, its loops where it came to
};

}  // namespace

bool join_products(Schedule& s, const Target& target) {
  return Joiner(s, target).run();
}

}  // namespace nestor::library

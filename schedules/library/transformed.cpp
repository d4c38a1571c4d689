// Products of transformed data: maps that make small combinations of their input (a few rows of a matrix with
// constant elements, chosen by an index), a reduction with a constant operand over what they made, and maps
// that combine its results: Winograd's convolutions, recognised by these dependences, not by a name.
//
//   blocks of rows of tiles | transform: Q for a row, V from it | products M | R for a tile, output from it
//
// An index that chooses is unrolled (an index modulo m: split by m, the inner loop unrolled), so that each
// combination becomes a few additions of vectors; lanes are the innermost dimension, channels. A block of
// rows is as large as the caches want: with few rows, transformed data stays in L2 but the constant operand
// streams through it again for each block; with many, the other way round. The products have the register
// tile of every reduction.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/transformed_chain.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

int64_t bytes_of(const PrimFunc& f, const Buffer& b) {
  int64_t n = nestor::bytes_of(b->type.dtype);
  for (const auto& [buffer, decl] : declarations(f))
    if (buffer == b)
      for (const Expr& e : decl.shape) n *= as_int(e).value_or(1);
  return n;
}

// compute_at with names of our own, `prefix` before each loop's.
void move_to(Schedule& s, const BlockInfo& b, const std::string& loop, const std::string& prefix,
             const std::string& option = "") {
  std::vector<std::string> names;
  for (const Iter& i : b.iters)
    if (!i.reduce) names.push_back(prefix + i.loop);
  s(fmt::format("{} = compute_at {} {}{}", join(names), b.name, loop, option));
}

// The block's loops but those named, which stand last, in that order; of these, the last is vectorized, the
// one before it unrolled.
void lanes_and_choice(Schedule& s, const std::string& block, const std::vector<std::string>& last) {
  std::vector<std::string> order;
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  size_t first = loops.size();
  for (const std::string& l : last)
    for (size_t k = 0; k < loops.size(); ++k)
      if (loops[k].name == l) first = std::min(first, k);
  for (size_t k = first; k < loops.size(); ++k)
    if (std::find(last.begin(), last.end(), loops[k].name) == last.end()) order.push_back(loops[k].name);
  order.insert(order.end(), last.begin(), last.end());
  s(fmt::format("reorder {} ({})", block, join(order)));
  s(fmt::format("unroll {}.{}", block, last[last.size() - 2]));
  s(fmt::format("vectorize {}.{}", block, last.back()));
}

class Planner {
 public:
  Planner(Schedule& s, const TransformedChain& c, const Target& target)
      : s_(s), c_(c), target_(target), tiles_(tiles_of(c)) {}

  void run() {
    choose_block();
    choose_parts();
    plan_last();
    parts_ > 1 ? plan_parts() : plan_products();
    plan_input();
    parallel();
    ask_for_output(s_, c_.last, {channels_.empty() ? "" : channels_.back(), c_.by_last.loop + "0"}, target_);
  }

 private:
  const std::string& lanes_of_block(const BlockInfo& b) const { return b.spatial().back()->loop; }

  // How many rows of tiles make a block: the number for which least is moved between L2 and what is behind
  // it. Of numbers alike, one that leaves no rows over, the one whose blocks keep the cores busy, then the
  // least that fills a register tile of the products: what a block writes to, here and there, then lies in
  // fewer pages (64@56, one row of 14 tiles instead of two: 8 % less time).
  void choose_block() {
    y_ = in_last(c_, c_.by_third.loop);
    images_ = image_loops(c_);
    int64_t images = 1, constant = 0, moved = 0;
    for (const std::string& l : images_) images *= c_.last.iter(l)->extent;
    rows_ = ceil_div(c_.last.iter(y_)->extent, c_.by_third.modulo);
    for (const Access& a : c_.products.accesses)
      (a.constant ? constant : moved) += bytes_of(s_.func(), a.buffer);
    const double cycles = cycles_of(c_.products);
    const int64_t row = std::max<int64_t>(1, tiles_.in_row), full = most_rows();
    std::tuple<double, bool, double, int64_t> best;
    const auto try_block = [&](int64_t rows, int64_t count) {
      const int64_t block = moved / (rows_ * images) * rows, beside = rows * row;
      const int64_t cores = shares_blocks(count, rows) ? 1 : target_.cores;
      const double even = evenness(count, rows);
      const double cost = cost_of_blocks({block, beside, count, moved, constant, cores, cycles}, target_) /
                          (target_.far_l3() ? even : 1);
      const std::tuple score{cost, rows_ % rows != 0 && rows < rows_, -even,
                             beside >= full ? beside : INT64_MAX - beside};
      if (block_rows_ != 0 && best < score) return;
      best = score;
      block_rows_ = rows;
    };
    // A batch leaves rows over in each image (128-128@28 of four images 12 % more time), and a wide core
    // loses more by them than it gains (Emerald Rapids: 160-96@40 by 4 rows of 10 11 % more time than by 2).
    const bool rows_over = target_.far_l3() && target_.is_narrow() && images == 1;
    for (int64_t n = 1; n <= rows_; ++n)
      if (rows_ % n == 0 || (rows_over && 2 * n <= rows_)) try_block(n, ceil_div(rows_, n) * images);
    const bool one_loop = images_.size() == 1;
    for (int64_t n = 2; n <= images; ++n)
      if (images % n == 0 && (one_loop || n == images)) try_block(rows_ * n, images / n);
    whole_ = block_rows_ == rows_ * images;
  }

  // Of the products' register tile, beside two vectors.
  int64_t most_rows() const { return (target_.vector_registers - 3) / 2; }

  // Of a core whose FMAs are never idle.
  double cycles_of(const BlockInfo& b) const {
    double n = 1;
    for (const Iter& i : b.iters) n *= static_cast<double>(i.extent);
    return n / static_cast<double>(2 * lanes_of(b, target_));
  }

  // Of the turns in which cores take blocks, the share that has rows to work on.
  double evenly(int64_t blocks, int64_t rows) const {
    return static_cast<double>(all_rows()) /
           static_cast<double>(target_.cores * ceil_div(blocks, target_.cores) * rows);
  }
  // Whether threads share the blocks: each then works on what it transformed itself.
  bool shares_blocks(int64_t blocks, int64_t rows) const {
    constexpr int64_t kEnough = 8;
    return blocks >= kEnough || (blocks > 1 && evenly(blocks, rows) > 0.85);
  }
  // About the share of the time in which no core waits for others. Where they share the loops inside each
  // phase of a block, they wait at its end, a narrow core also for what others transformed.
  double evenness(int64_t blocks, int64_t rows) const {
    if (target_.cores < 2) return 1;
    if (!shares_blocks(blocks, rows)) return !target_.is_narrow() ? 0.95 : blocks == 1 ? 0.8 : 0.7;
    return std::max(0.75, evenly(blocks, rows));
  }

  // Loops: images, blocks of rows | channels, rows, columns, and in a tile row, column, lanes.
  void plan_last() {
    const std::string& last = c_.last.name;
    const int64_t m = c_.by_third.modulo;
    std::vector<std::string> outer = images_, inner;
    std::string row = y_;
    if (block_rows_ < rows_) {
      s_.because(fmt::format("with {} rows of tiles, blocks of {} keep the transformed values in L2", rows_,
                             block_rows_));
      s_(fmt::format("{0}_b {0}_r = split {1}.{0} [_, {2}] tail=peel", y_, last, block_rows_ * m));
      outer.push_back(y_ + "_b");
      row += "_r";
    }
    if (!whole_ && block_rows_ > rows_) {
      const std::string n = outer.back();
      s_.because(fmt::format("blocks of {} images keep the transformed values in L2", block_rows_ / rows_));
      s_(fmt::format("{0}_b {0}_r = split {1}.{0} [_, {2}]", n, last, block_rows_ / rows_));
      outer.back() = n + "_b";
      inner.push_back(n + "_r");
    }
    std::string x = c_.by_last.loop;
    s_(fmt::format("{0}0 {0}1 = split {1}.{2} [_, {3}] tail=peel", y_, last, row, m));
    s_(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", x, last, c_.by_last.modulo));
    for (const Iter* i : c_.last.spatial())
      if (std::find(images_.begin(), images_.end(), i->loop) == images_.end() && i->loop != y_ &&
          i->loop != x && i != c_.last.spatial().back())
        inner.push_back(i->loop);
    inner.insert(inner.end(), {y_ + "0", x + "0", y_ + "1", x + "1", lanes_of_block(c_.last)});
    shared_ = whole_ || outer.empty() ? "" : last + "." + outer.back();
    outer_ = outer;
    channels_ = inner;
    channels_.resize(inner.size() - 5);  // without rows, columns and what is inside a tile
    outer.insert(outer.end(), inner.begin(), inner.end());
    s_(fmt::format("reorder {} ({})", last, join(outer)));
    if (parts_ == 1) s_(fmt::format("{0}_out = cache_write {0} local", c_.products.name));
    move_to(s_, c_.third, last + "." + x + "0", "r_");
    lanes_and_choice(s_, c_.third.name, {"r_" + c_.by_third.loop, "r_" + lanes_of_block(c_.third)});
    s_(fmt::format("unroll {}.{}1", last, x));
    s_(fmt::format("vectorize {}.{}", last, lanes_of_block(c_.last)));
  }

  // Whether all tiles as one column are better: where the constant operand comes from behind L2 in each call,
  // every vector of it is then used by all of them at once; but the transformed data has to stay in L1. A
  // narrow core gains more, by fewer micro-operations: FMAs take what one column shares with no other from
  // memory. (Cascade Lake: 320 to 448 channels, 16 tiles, 20 to 28 of 32 KB, 5 to 14 % less time.) Far
  // from the third level it does so also where weights would almost fill L2, if each panel has a next one.
  bool streams_past(const BlockInfo& b, const Tile& t) const {
    if (!t.row || !t.column || t.rows >= t.row->extent) return false;
    int64_t constant = 0;
    for (const Access& a : b.accesses)
      if (a.constant) constant += bytes_of(s_.func(), a.buffer);
    Tile one = t;
    one.columns = 1;
    const bool slow = target_.is_narrow() && target_.far_l3();
    const bool come = constant > target_.l2_bytes || (slow && !streamed(b, one, target_).empty());
    return come && one_column_stays(b, t.row->extent, target_) &&
           t.row->extent <= target_.vector_registers - 4;
  }

  // Where threads share what is inside a block, the block's data don't stay anyway.
  void choose_parts() {
    if ((!whole_ && (!images_.empty() || block_rows_ < rows_)) || !tiles_.rows.empty()) return;
    parts_ = parts_that_stay(c_.products, choose_tile(c_.products, target_), target_);
  }

  void plan_parts() {
    const BlockInfo b = analyze(s_.func(), c_.products.name);
    products_ = products_in_parts(s_, choose_tile(b, target_), b, parts_, target_);
  }

  void plan_products() {
    const std::string &name = c_.products.name, out = name + "_out";
    BlockInfo b = analyze(s_.func(), name);
    const std::string& counted = tiles_.rows.empty() ? tiles_.loop : tiles_.rows;
    for (Iter& i : b.iters) {
      if (!i.reduce && i.loop == counted) i.extent = i.extent / all_rows() * block_rows_;
      if (!tiles_.rows.empty() && i.loop == tiles_.loop) i.extent += target_.vector_registers;  // to be split
    }
    Tile t = choose_tile(b, target_);
    if (!tiles_.rows.empty()) {
      t.row = b.iter(tiles_.loop);
      widen_for_rests(t, target_);
    }
    even_columns(t, b, target_);
    leave_next_panel(t, b, target_);
    if (tiles_.rows.empty() && streams_past(b, t)) {
      t.rows = t.row->extent;
      t.columns = 1;
      t.why_size = "the weights come from beyond L2: all tiles use each vector at once";
    }
    TileWords words = sample_tile(s_, t, lanes_of(b, target_));
    for (const Iter* i : b.reduced()) words.reduced.push_back(i->loop);
    for (const Iter* i : b.spatial())
      if (i != t.vector && i != t.row && i != t.column) words.outside.push_back(i->loop);
    for (const Buffer& buffer : t.packed) pack(s_, name, buffer, words);
    BlockInfo writer = analyze(s_.func(), out);
    std::string prefix;
    if (!shared_.empty()) {
      prefix = "m_";
      move_to(s_, writer, shared_, prefix);
    }
    std::vector<std::string> order, inner;
    const auto loop_of = [&](const Iter* i) {  // of the writer, which has the products' iterators in order
      for (size_t k = 0; i && k < b.iters.size(); ++k)
        if (&b.iters[k] == i) return prefix + writer.iters[k].loop;
      return std::string();
    };
    for (const Iter* i : b.spatial())
      if (i != t.vector && i != t.row && i != t.column && i->loop != tiles_.rows) order.push_back(loop_of(i));
    const auto cut = [&](const Iter* i, const std::string& size) {
      if (!i) return;
      const std::string loop = loop_of(i);
      if (size.empty()) {
        inner.push_back(loop);
        return;
      }
      s_(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=balanced", loop, out, size));
      order.push_back(loop + "0");
      inner.push_back(loop + "1");
    };
    cut(t.column, words.columns);
    if (const Iter* rows = tiles_.rows.empty() ? nullptr : b.iter(tiles_.rows))
      order.push_back(loop_of(rows));
    cut(t.row, words.rows);
    std::reverse(inner.begin(), inner.end());  // rows, columns, lanes
    const std::string at = order.back();
    products_ = order;
    const std::vector<std::string> unrolled = inner;
    order.insert(order.end(), inner.begin(), inner.end());
    order.push_back(loop_of(t.vector));
    s_(fmt::format("reorder {} ({})", out, join(order)));
    move_to(s_, b, out + "." + at, "k_", " tail=guard");
    // By blocks where channels don't fill the last: an address for each row, made of a quotient, would be
    // spilled at every step. (Cascade Lake: 100-72@56 40 % less time, 72-100@56 34, 100-72@14 18.)
    const auto blocks = reduced_in_blocks(b);
    for (const auto& [loop, size] : blocks)
      s_(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", loop, name, size));
    std::vector<std::string> tile = reduction_order(b, {}, blocks, target_);
    const std::string first = tile.front(), innermost = tile.back();
    for (const Iter* i : {t.row, t.column, t.vector})
      if (i) tile.push_back("k_" + i->loop);
    s_(fmt::format("reorder {} ({})", name, join(tile)));
    for (const Iter* i : {t.row, t.column})
      if (i) s_(fmt::format("unroll {}.k_{}", name, i->loop));
    for (const std::string& l : unrolled) s_(fmt::format("unroll {}.{}", out, l));
    s_(fmt::format("vectorize {}.k_{}", name, t.vector->loop));
    s_(fmt::format("vectorize {}.{}", out, loop_of(t.vector)));
    s_(fmt::format("{0}_init = decompose_reduction {0}.{1}", name, first));
    if (t.column) stream_products(s_, b, t, {loop_of(t.column) + "0", shared_.empty(), &products_}, target_);
    if (!target_.is_narrow()) steps_at_once(s_, name, t, innermost, target_);
  }

  void plan_input() {
    const std::string &first = c_.first.name, &second = c_.second.name;
    const std::string prefix = shared_.empty() ? "" : "v_";
    if (!shared_.empty()) move_to(s_, c_.second, shared_, prefix);
    const std::string& tiles = tiles_.loop;
    const int64_t row = tiles_.in_row;
    std::vector<std::string> order, late;
    for (const Iter* i : c_.second.spatial()) {
      if (i == c_.second.spatial().back() || i->loop == c_.by_second.loop || i->loop == tiles) continue;
      const bool chooses = loop_over_choice(*i);
      (chooses ? late : order).push_back(prefix + i->loop);
    }
    std::string at = order.front();
    if (!tiles_.rows.empty()) {
      at = prefix + tiles_.rows;
      std::erase(order, at);
      order.push_back(at);
      late.push_back(prefix + tiles);
    } else if (row > 0) {
      s_(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}]", prefix + tiles, second, row));
      order.push_back(prefix + tiles + "0");
      // Inside, so that a row of tiles is written to a few places at a time: those of all pairs of points lie
      // an image apart, often by a power of two (256@14: 28 to 18 us).
      late.push_back(prefix + tiles + "1");
      at = prefix + tiles + "0";
    }
    input_ = order;
    order.insert(order.end(), late.begin(), late.end());
    order.insert(order.end(), {prefix + c_.by_second.loop, prefix + lanes_of_block(c_.second)});
    s_(fmt::format("reorder {} ({})", second, join(order)));
    s_(fmt::format("unroll {}.{}{}", second, prefix, c_.by_second.loop));
    s_(fmt::format("vectorize {}.{}{}", second, prefix, lanes_of_block(c_.second)));
    move_to(s_, c_.first, second + "." + at, "q_");
    lanes_and_choice(s_, first, {"q_" + c_.by_first.loop, "q_" + lanes_of_block(c_.first)});
  }

  // Whether the second block's iterator is what the first chooses by: then it stands inside its tiles' loops.
  bool loop_over_choice(const Iter& i) const {
    for (const Access& a : c_.first.accesses)
      if (a.write)
        for (size_t d = 0; d < a.indices.size(); ++d)
          if (const auto* r = a.indices[d].as<VarRef>(); r &&
                                                         r->var == c_.first.iter(c_.by_first.loop)->var &&
                                                         loop_over_dim(c_.second, a.buffer, d) == i.loop)
            return true;
    return false;
  }

  int64_t all_rows() const {
    int64_t n = rows_;
    for (const std::string& l : images_) n *= c_.last.iter(l)->extent;
    return n;
  }

  // Threads share blocks of rows where there are enough of them, or where a block's products are no work that
  // is worth threads, else the loops inside each phase.
  void parallel() {
    int64_t blocks = 1;
    for (const std::string& l : outer_) blocks *= std::max<int64_t>(1, extent_of(s_, c_.last.name, l));
    const Work products = work_of(c_.products, target_);
    if (shared_.empty()) blocks = 1;
    const auto each = static_cast<double>(blocks);
    const bool short_phases = blocks > 1 && (products / each).microseconds() < target_.parallel_us;
    if (short_phases || shares_blocks(blocks, block_rows_))
      return share_loops(s_, c_.last.name, outer_, products, target_);
    share_loops(s_, c_.products.name + (parts_ > 1 ? "" : "_out"), products_, products / each, target_);
    share_loops(s_, c_.second.name, input_, work_of(c_.second, target_) / each, target_);
    share_loops(s_, c_.last.name, channels_, work_of(c_.last, target_) / each, target_);
  }

  Schedule& s_;
  const TransformedChain& c_;
  const Target& target_;
  const Tiles tiles_;
  std::string y_, shared_;  // shared_: the loop that all phases of a block stand in; empty: none
  std::vector<std::string> images_, outer_, channels_, products_, input_;
  int64_t rows_ = 0, block_rows_ = 0;  // of tiles: in an image, in a block
  int64_t parts_ = 1;                  // of the products' channels
  bool whole_ = false;
};

}  // namespace

bool transformed_products(Schedule& s, const Target& target) {
  const auto chain = find_transformed_chain(s.func());
  if (!chain) return false;
  const int64_t lanes = lanes_of(chain->products, target);  // also of results that are rounded to bytes
  for (const BlockInfo* b : {&chain->first, &chain->second, &chain->products, &chain->third, &chain->last})
    if (b->spatial().back()->extent != lanes) return false;
  const Tile tile = choose_tile(chain->products, target);
  if (tile.vector != chain->products.spatial().back() || tile.turned || tile.taps) return false;
  if (const std::string padding = sole_producer(s.func(), chain->first); !padding.empty())
    s("compute_inline " + padding);
  Planner(s, *chain, target).run();
  return true;
}

}  // namespace nestor::library

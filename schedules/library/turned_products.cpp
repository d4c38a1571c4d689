// Attention of few queries, with its scores turned around: lanes are queries, and keys come one after the
// other. Two products T = A B and Y = P V, and P, softmax of T's rows (join_products.cpp has the other way):
//
//   other rows | blocks of queries { turn them; tiles of keys { k | tile, largest }, exponentials and their
//   sums, columns of Y { j | tile } }
//
// One of the operands of T has to be turned, since both lie along the sums; the queries of a block stay in
// the first-level cache as they are, while all keys turned don't, and are as many for few queries as for
// many. The largest and the sum of a query's scores are folded lane by lane, while these are made, where rows
// of scores take passes of their own and fold lanes at the end. With more queries keys and values pass once
// for each block, and what was won is lost to that.
//
// (Zen 5: 16 heads of 32 queries and 512 keys 15 to 16 % less time, of 64 8 to 13, of 128 5; 12x128x64 2;
// 8x64x64 3; 16 of 32 by 128 9; 12 of 256 and more 0 to 4 % more. By vectors of 8, 12x128x64 3 % less.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/turned_parts.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr int64_t kMostQueries = 128;
constexpr int64_t kVectors = 2;    // of queries in a block, at most
constexpr int64_t kMostKeys = 14;  // in a tile

using schedules::join;

class Turner {
 public:
  Turner(Schedule& s, const ProductChain& c, const TurnedParts& p, const Target& target)
      : s_(s), chain_(c), parts_(p), target_(target) {}

  // Throws a ScheduleError where a step is refused.
  bool run() {
    const BlockInfo second = analyze(s_.func(), chain_.second), first = analyze(s_.func(), chain_.first);
    const Access& scores = access_to(second, chain_.scores, false);
    const Iter *query = iter_at(second, scores, scores.indices.size() - 2), *lanes = lanes_in(second);
    const int64_t width = lanes_of(second, target_), keys = second.reduction_size();
    if (!query || !lanes || query == lanes || scores.uses(*lanes) || query->extent > kMostQueries ||
        query->extent % width != 0)
      return false;
    const Work work = work_of(first, target_) + work_of(second, target_);
    block_ = std::min(query->extent, kVectors * width);
    const int64_t vectors = block_ / width;
    key_rows_ = chain_rows(keys, {vectors, std::min(kMostKeys, most_tile_rows(vectors, 0, target_))});
    if (keys <= key_rows_) return false;
    tile_ = chain_tile(second, block_, target_, true);
    keep_queries_across(first);
    if (!place_results(second, query->extent)) return false;
    place_scores(first.name, vectors);
    place_exponentials();
    place_queries(width);
    place_values(width);
    ask_for_operands(first);
    if (!ends_in_part(lanes->extent, tile_.vectors * width, width))
      steps_at_once(s_, chain_.second, chain_rows(block_, tile_), tile_.vectors,
                    analyze(s_.func(), chain_.second).reduced().front()->loop, target_);
    share_loops(s_, chain_.epilogue, heads_ > 1 ? outer_ : std::vector{block_loop_}, work, target_);
    return true;
  }

 private:
  // The last dimension, or the one before, in blocks of so many, inside of the other: (.., i, j) to (..,
  // i/size, j, i%size) or (.., j/size, i, j%size).
  void store_in_blocks(const Buffer& buffer, bool last, int64_t size) {
    const size_t dims = declarations(s_.func()).at(buffer).shape.size();
    std::vector<std::string> names;
    for (size_t d = 0; d < dims; ++d) names.push_back(fmt::format("d{}", d));
    std::vector<std::string> to(names.begin(), names.end() - 2);
    const std::string &in_blocks = names[dims - (last ? 1 : 2)], &other = names[dims - (last ? 2 : 1)];
    to.insert(to.end(),
              {fmt::format("{}/{}", in_blocks, size), other, fmt::format("{}%{}", in_blocks, size)});
    s_(fmt::format("transform_layout {} ({}) -> ({})", buffer->name, fmt::join(names, ", "),
                   fmt::join(to, ", ")));
  }
  void store_by_queries(const Buffer& buffer) { store_in_blocks(buffer, false, block_); }

  Buffer output_of(const std::string& block) const { return analyze(s_.func(), block).output; }

  void keep_queries_across(const BlockInfo& first) {
    s_.because(fmt::format("a few queries are transposed for each block of {}, instead of all keys at once",
                           block_));
    queries_ = parts_.moved_queries;
    if (queries_.empty()) {
      queries_ = first.name + "_across";
      s_(fmt::format("{} = cache_read {} {} global", queries_, first.name, parts_.queries->name));
    }
    s_("compute_inline " + parts_.turned_keys);  // later: the keys may be of the same input
    store_by_queries(output_of(queries_));
    maker_ = parts_.maker;
    if (maker_.empty()) {
      maker_ = first.name + "_out";
      s_(fmt::format("{} = cache_write {} local", maker_, first.name));
    } else {
      s_(fmt::format("set_scope {} local", first.output->name));
    }
    for (const std::string& b : {first.name, maker_, parts_.exponentials}) store_by_queries(output_of(b));
    for (const std::string& b : {chain_.second, parts_.largest})
      s_(fmt::format("set_scope {} local", output_of(b)->name));
    sum_out_ = parts_.sum + "_out";
    s_(fmt::format("{} = cache_write {} local", sum_out_, parts_.sum));
  }

  // The loops of a block's query and of its key, or of what a query's elements lie along, and the others.
  struct Loops {
    std::vector<std::string> others;
    std::string query, key;
  };

  // Those where the block came to; `reduced`: its rows are folded, so its key is the reduction's.
  Loops bring(const std::string& block, const std::string& location, bool reduced,
              std::string_view tail = "") {
    const BlockInfo b = analyze(s_.func(), block);
    const Access& out = access_to(b, b.output, true);
    const size_t dims = out.indices.size();
    const Iter *query = iter_at(b, out, dims - (reduced ? 1 : 2)), *key = iter_at(b, out, dims - 1);
    Loops loops;
    std::vector<std::string> names;
    for (const Iter* i : b.spatial()) {
      names.push_back(fmt::format("{}_{}", i->loop, block));
      (i == query ? loops.query : i == key ? loops.key : loops.others.emplace_back()) = names.back();
    }
    if (reduced && b.reduction) loops.key = b.reduced().front()->loop;
    s_(fmt::format("{} = compute_at {} {}{}", join(names), block, location, tail));
    return loops;
  }

  std::pair<std::string, std::string> cut(const std::string& block, const std::string& loop, int64_t size,
                                          const std::string& to) {
    if (extent_of(s_, block, loop) <= size) return {"", loop};
    s_(fmt::format("{0}0 {0}1 = split {1}.{2} [_, {3}] tail=peel", to, block, loop, size));
    return {to + "0", to + "1"};
  }

  void order(const std::string& block, const std::vector<std::string>& before,
             const std::vector<std::string>& last) {
    std::vector<std::string> all = before;
    all.insert(all.end(), last.begin(), last.end());
    s_(fmt::format("reorder {} ({})", block, join(all)));
  }

  // A product's tile, inside of the sum's loop, which it gives.
  std::string keep_in_registers(const std::string& product, const Loops& loops, const std::string& rows,
                                const std::string& lanes) {
    const std::string k = analyze(s_.func(), product).reduced().front()->loop;
    order(product, loops.others, {k, rows, lanes});
    s_(fmt::format("unroll {}.{}", product, rows));
    s_(fmt::format("vectorize {}.{}", product, lanes));
    s_(fmt::format("{0}_init = decompose_reduction {0}.{1}", product, k));
    return k;
  }

  // Results by blocks of queries, within them by tiles of the second product; the others come to the block.
  // Whether there are loops for all threads, and one around a block.
  bool place_results(const BlockInfo& second, int64_t queries) {
    const std::string &w = chain_.epilogue, &t = second.name;
    const BlockInfo epilogue = analyze(s_.func(), w);
    const Access& read = access_to(epilogue, second.output, false);
    const Iter *of_query = iter_at(epilogue, read, read.indices.size() - 2), *of_lane = lanes_in(epilogue);
    if (!of_query || !of_lane || of_query == of_lane) return false;
    std::string query = of_query->loop;
    const std::string lane = of_lane->loop;
    for (const Iter& i : epilogue.iters)
      if (i.loop != query && i.loop != lane) {
        outer_.push_back(i.loop);
        heads_ *= i.extent;
      }
    if (heads_ == 1 && ceil_div(queries, block_) < target_.cores) return false;
    std::vector<std::string> all = outer_;
    if (queries > block_) {
      const auto [blocks, in_block] = cut(w, query, block_, "q");
      all.push_back(blocks);
      query = in_block;
    }
    if (all.empty() || (outer_.empty() && !parts_.moved_values.empty())) return false;
    block_loop_ = all.back();
    const auto [row_tiles, rows] = cut(w, query, chain_rows(block_, tile_), "i");
    const auto [lane_tiles, lanes] = cut(w, lane, tile_.vectors * lanes_of(second, target_), "j");
    for (const std::string& l : {row_tiles, lane_tiles})
      if (!l.empty()) all.push_back(l);
    const std::string tile = all.back();
    order(w, all, {rows, lanes});
    const Loops of_tile = bring(t, w + "." + tile, false, " tail=guard");
    keep_in_registers(t, of_tile, of_tile.query, of_tile.key);
    s_(fmt::format("unroll {}.{}", w, rows));
    s_(fmt::format("vectorize {}.{}", w, lanes));
    const std::string at = w + "." + block_loop_;
    s_(fmt::format("vectorize {}.{}", sum_out_, bring(sum_out_, at, true).query));
    sums_ = bring(parts_.sum, at, true);
    exponentials_ = bring(parts_.exponentials, at, false);
    largest_ = bring(parts_.largest, at, true);
    scores_ = bring(maker_, at, false);
    return true;
  }

  // Both blocks' loops inside of `block_loop_`, but the innermost ones, become one; gives the last.
  std::string merge(const std::string& block, const std::vector<std::string>& loops, const std::string& other,
                    const std::vector<std::string>& others, const std::string& prefix) {
    std::string last;
    if (loops.size() != others.size())
      throw ScheduleError(
          Diagnostic{fmt::format("{} and {} don't have the same loops", block, other), {}, {}, ""});
    for (size_t d = 0; d < loops.size(); ++d) {
      last = fmt::format("{}{}", prefix, d);
      s_(fmt::format("{} = merge {}.{} {}.{}", last, block, loops[d], other, others[d]));
    }
    return last;
  }

  void fold_across(const std::string& block, const std::string& loop, const std::string& query) {
    s_(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, loop));
    s_(fmt::format("vectorize {}.{}", block, query));
    s_(fmt::format("vectorize {}_init.{}", block, query));
  }

  void place_scores(const std::string& t, int64_t vectors) {
    const std::string& m = parts_.largest;
    std::vector<std::string> loops = scores_.others, others = largest_.others;
    const auto [tiles, keys] = cut(maker_, scores_.key, key_rows_, "t");
    loops.push_back(tiles);
    order(maker_, loops, {keys, scores_.query});
    const Loops of_tile = bring(t, maker_ + "." + tiles, false);
    const std::string k = keep_in_registers(t, of_tile, of_tile.key, of_tile.query);
    s_(fmt::format("unroll {}.{}", maker_, keys));
    s_(fmt::format("vectorize {}.{}", maker_, scores_.query));
    const auto [folded_tiles, folded] = cut(m, largest_.key, key_rows_, "m");
    others.push_back(folded_tiles);
    order(m, others, {folded, largest_.query});
    s_.because("the maximum of the scores is taken while a tile of them is in registers");
    tiles_ = merge(maker_, loops, m, others, "r");
    s_(fmt::format("unroll {}.{}", m, folded));
    fold_across(m, tiles_, largest_.query);
    steps_at_once(s_, t, key_rows_, vectors, k, target_);
  }

  void place_exponentials() {
    const std::string &e = parts_.exponentials, &m = parts_.sum;
    std::vector<std::string> loops = exponentials_.others, others = sums_.others;
    loops.push_back(exponentials_.key);
    others.push_back(sums_.key);
    order(e, loops, {exponentials_.query});
    order(m, others, {sums_.query});
    s_.because("they are summed, lane by lane, as they are computed");
    const std::string keys = merge(e, loops, m, others, "e");
    fold_across(m, keys, sums_.query);
    s_(fmt::format("vectorize {}.{}", e, exponentials_.query));
  }

  void place_queries(int64_t side) {
    const Loops loops = bring(queries_, chain_.epilogue + "." + block_loop_, false);
    std::vector<std::string> all = loops.others;
    const auto [query_tiles, queries] = cut(queries_, loops.query, side, "g");
    const auto [along_tiles, along] = cut(queries_, loops.key, side, "h");
    for (const std::string& l : {query_tiles, along_tiles})
      if (!l.empty()) all.push_back(l);
    order(queries_, all, {along, queries});
    s_(fmt::format("unroll {}.{}", queries_, along));
    s_(fmt::format("vectorize {}.{}", queries_, queries));
  }

  // A copy of values, in panels as wide as a tile.
  void place_values(int64_t width) {
    if (parts_.moved_values.empty()) return;
    const Buffer values = output_of(parts_.moved_values);
    const std::vector<Expr> shape = declarations(s_.func()).at(values).shape;
    bring(parts_.moved_values, chain_.epilogue + "." + outer_.back(), false);
    const int64_t columns = tile_.vectors * width;
    if (as_int(shape.back()).value_or(0) > columns) store_in_blocks(values, true, columns);
    vectorize_inside(s_, parts_.moved_values, target_);
  }

  // Keys and values that the second-level cache doesn't hold.
  void ask_for_operands(const BlockInfo& first) {
    const BlockInfo b = analyze(s_.func(), first.name);
    for (const Access& a : b.accesses) {
      const int64_t bytes = a.elements * bytes_of(a.buffer->type.dtype);
      if (a.write || !find_param(s_.func(), a.buffer) || bytes <= target_.l2_bytes) continue;
      s_.because(fmt::format("{} KiB of keys have high latency: the next are prefetched while these are used",
                             bytes / 1024));
      s_.try_step(fmt::format("prefetch {}.{} {} distance=1", first.name, tiles_, a.buffer->name));
    }
    const std::string& values = parts_.moved_values.empty() ? chain_.second : parts_.moved_values;
    prefetch_next_operand(s_, values, outer_.empty() ? "" : outer_.back(), first.name, block_loop_, target_);
  }

  Schedule& s_;
  const ProductChain& chain_;
  const TurnedParts& parts_;
  const Target& target_;
  ChainTile tile_;                         // of the second product
  int64_t block_ = 0, key_rows_ = 0;       // queries in a block, keys in a tile
  std::string queries_, maker_, sum_out_;  // blocks: turned queries, scores, sums
  std::vector<std::string> outer_;         // loops of the epilogue outside of the blocks of queries
  int64_t heads_ = 1;                      // their iterations
  Loops scores_, largest_, exponentials_, sums_;
  std::string block_loop_;  // the innermost loop around a block of queries
  std::string tiles_;       // the loop over tiles of keys
};

}  // namespace

// Where a step is refused, as where loops of a function's own are named like these, it is not turned.
bool turned_products(Schedule& s, const ProductChain& chain, const Target& target) {
  const auto parts = turned_parts(s.func(), chain);
  if (!parts) return false;
  Schedule tried = s;
  try {
    if (!Turner(tried, chain, *parts, target).run() || !accumulators_fit(tried.func())) return false;
  } catch (const ScheduleError&) {
    return false;
  }
  s = std::move(tried);
  return true;
}

}  // namespace nestor::library

// Transformed products whose weights come from far away, of so many channels that a point's row of tiles
// doesn't stay in the first-level cache. All tiles as one column use each vector of the weights at once, and
// no weights are read again; but while one panel of weights passes, the tiles' data pass too, from the
// second-level cache, which gives both together no faster than the FMAs take them. So the reduction goes in
// parts of its channels:
//
//   points | parts of the channels | panels of weights | R loops of a part | all tiles (unrolled), lanes
//
// What the tiles have of a part stays while all panels pass, and only weights stream. A panel's results are
// read and written once for each part. (Cascade Lake, at 14x14 beside a busy other thread, of oneDNN's speed:
// 320 channels 1.7 to 2.1, 448 1.8 to 2.1, 512 1.8 to 2.4; 512 at 7x7, by F(2x2), 1.45 to 1.6. 384, whose
// blocks a tile of 9 x 3 divides, 2.4 either way.)
//
// The tiles' data of all channels are read once for each panel: where they fill most of the cache, what
// passes in between pushes them out, and in parts they stay. (Cascade Lake: 256@14 3 to 7 % less time,
// 192@14 2.) A few parts are written out: the first has nothing to add to, which each vector of its results
// would ask.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/part_of_sum.h"
#include "schedules/library/planner.h"
#include "schedules/library/transformed_chain.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kLeastTiles = 12;     // fewer wait for weights anyway (stream_panels.cpp)
constexpr int64_t kLeastChannels = 64;  // channels
constexpr int64_t kWrittenOut = 4;      // parts
constexpr double kLeastEvenly = 0.9;    // of the time, points keep all cores busy

bool tiles_in_one_column(const BlockInfo& b, const Tile& t, const Target& target) {
  if (!target.is_narrow() || !target.far_l3() || !t.vector || !t.row || !t.column) return false;
  // Else such a tile is as fast.
  if (t.column->extent % t.columns == 0 && !one_column_stays(b, t.row->extent, target)) return false;
  if (t.row->extent < kLeastTiles || t.row->extent > target.vector_registers - 4) return false;
  int64_t constant = 0, points = 1;
  for (const Access& a : b.accesses)
    if (a.constant) constant += a.elements * bytes_of(a.buffer->type.dtype);
  for (const Iter* i : b.spatial())
    if (i != t.vector && i != t.row && i != t.column) points *= i->extent;
  const int64_t cores = std::max(1, target.cores), turns = ceil_div(points, cores) * cores;
  return constant > target.l2_bytes && reduced_in_blocks(b).empty() &&
         static_cast<double>(points) >= kLeastEvenly * static_cast<double>(turns);
}

}  // namespace

bool one_column_stays(const BlockInfo& b, int64_t tiles, const Target& target) {
  const int64_t all = b.reduction_size() * tiles * bytes_of(b.output->type.dtype);
  return all <= (target.is_narrow() ? target.l1_bytes * 7 / 8 : target.l1_bytes / 2);
}

int64_t parts_that_stay(const BlockInfo& b, const Tile& t, const Target& target) {
  if (!tiles_in_one_column(b, t, target)) return 1;
  const int64_t rows = t.row->extent, size = bytes_of(b.output->type.dtype);
  const int64_t all = b.reduction_size(), most = b.reduced().front()->extent;
  for (int64_t parts = 1; parts <= most && all / parts >= kLeastChannels; ++parts) {
    // Beside the tiles' data this panel, the next one and the results.
    const int64_t stays = (all / parts * (rows + 2 * t.width) + rows * t.width) * size;
    if (most % parts == 0 && stays <= target.l1_bytes) return parts;
  }
  return 1;
}

std::vector<std::string> products_in_parts(Schedule& s, Tile t, const BlockInfo& b, int64_t parts,
                                           const Target& target) {
  const std::string &block = b.name, &c = b.reduced().front()->loop;
  const std::string &row = t.row->loop, &column = t.column->loop, &lanes = t.vector->loop;
  t.rows = t.row->extent;
  t.columns = 1;
  t.why_size = "the weights come from beyond L2: all tiles use each vector at once";
  TileWords words = sample_tile(s, t, lanes_of(b, target));
  std::vector<std::string> points, reduced;
  for (const Iter* i : b.spatial())
    if (i != t.row && i != t.column && i != t.vector) points.push_back(i->loop);
  for (const Iter* i : b.reduced()) {
    words.reduced.push_back(i->loop);
    reduced.push_back(i->loop == c ? c + "1" : i->loop);
  }
  words.outside = points;
  words.cut = c;
  words.part_of_cut = b.reduced().front()->extent / parts;
  for (const Buffer& buffer : t.packed) pack(s, block, buffer, words);

  s.because(fmt::format(
      "{} KiB of all tiles don't stay in L1 for all panels of weights; each of {} blocks of k does",
      b.reduction_size() * t.rows * bytes_of(b.output->type.dtype) / 1024, parts));
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [{2}, _]", c, block, parts));
  const BlockInfo p = factor_part(s, b, c, reduced);
  const Tile of_part = tile_in(p, t);
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, 1]", column, block));
  std::vector<std::string> order = points;
  order.insert(order.end(), {c + "0", column + "0", row, column + "1", lanes});
  s(fmt::format("reorder {} ({})", block, join(order)));

  const AddingTile adding{block, column + "0", lanes, {row, column + "1"}};
  compute_part(s, p, adding);
  reduced = keep_part(s, p, of_part, adding, reduced);
  stream_panels(s, p.name, p, of_part, column + "0", target);
  if (!target.is_narrow()) steps_at_once(s, p.name, of_part, reduced.back(), target);
  if (parts <= kWrittenOut) s(fmt::format("unroll {}.{}0", block, c));
  return points;
}

}  // namespace nestor::library

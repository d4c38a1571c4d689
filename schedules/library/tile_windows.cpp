// Windows of channels that each have a filter of their own, depthwise convolutions, in blocks of channels:
// each output is a sum of a few products, of which no other channel shares anything. A tile of one row of
// outputs reads a vector for every multiply-add, and the two loads and two multiply-adds of a cycle wait for
// each other; a tile of rows and columns reads what neighbouring windows share once,
//
//   other loops | row tiles | column tiles | rows, columns, taps (unrolled) | channels (lanes)
//
// (2 + 2) (4 + 2) vectors for the 72 multiply-adds of 2 x 4 windows of 3 x 3, with all taps' weights in
// registers. Zen 5: 3x3_32@112 45 to 33 us, a copy takes 28; 3x3_512@14 9.5 to 8.2. Where weights don't fit
// the registers beside the accumulators it is slower (5x5_240@14 10 to 11 us, 7x7 twice), and where there are
// so few taps that memory binds (2x2_64@35 3.8 to 5.1), or one row only (3x3_1024@7 4.5 to 5.0); where
// windows don't overlap there is nothing to share.
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kMostRows = 4, kMostColumns = 8;
constexpr int64_t kLeastTaps = 6;
constexpr int64_t kInputs = 6;  // vectors of the input under way

struct Windows {
  const Iter *lanes = nullptr, *rows = nullptr, *columns = nullptr;
  const Access *input = nullptr, *weights = nullptr, *output = nullptr;
  std::map<const Iter*, int64_t> taps;  // along rows and columns
};

bool moves(const Access& a, const Iter& i) {
  return i.extent > 1 && a.uses(i);
}

// The R iterator that moves the window by as much as the S iterator does: windows overlap along it.
const Iter* tap_of(const BlockInfo& b, const Access& input, const Iter& s) {
  for (const Iter* r : b.reduced())
    if (r->extent > 1 && input.stride(s) && input.stride(*r) == input.stride(s))
      for (const Expr& e : input.indices)
        if (uses_var(e, s.var) && uses_var(e, r->var)) return r;
  return nullptr;
}

// Which operand is which; false where there are others.
bool find_operands(const BlockInfo& b, Windows& w) {
  for (const Access& a : b.accesses) {
    if (a.buffer->type.dtype != b.output->type.dtype) return false;
    bool slides = false;
    for (const Iter* i : b.spatial()) slides |= tap_of(b, a, *i) != nullptr;
    const Access*& place = a.write ? w.output : slides ? w.input : w.weights;
    if (place) return false;
    place = &a;
  }
  return w.input && w.weights && w.output;
}

std::optional<Windows> find_windows(const BlockInfo& b, const Target& target) {
  Windows w;
  const int64_t lanes = lanes_of(b, target);
  if (!b.affine_loops || lanes < 2 || !find_operands(b, w)) return std::nullopt;
  for (const Iter* i : b.spatial()) {
    if (moves(*w.weights, *i) && !w.input->uses(*i)) return std::nullopt;  // channels that share the input
    if (const Iter* tap = tap_of(b, *w.input, *i); tap && !w.weights->uses(*i)) {
      (w.rows ? w.columns : w.rows) = i;
      w.taps[i] = tap->extent;
    } else if (w.input->stride(*i) == 1 && w.output->stride(*i) == 1 && i->extent == lanes) {
      w.lanes = i;
    }
  }
  if (!w.lanes || !w.columns || w.taps.size() != 2) return std::nullopt;
  if (w.output->stride(*w.rows) < w.output->stride(*w.columns)) std::swap(w.rows, w.columns);
  const int64_t taps = b.reduction_size();
  if (w.taps[w.rows] * w.taps[w.columns] != taps || taps < kLeastTaps) return std::nullopt;
  if (!w.weights->constant && w.weights->stride(*w.lanes) != 1) return std::nullopt;
  return w;
}

struct Size {
  int64_t rows = 0, columns = 0;
};

// The tile that loads least, of those whose accumulators fit the registers beside the taps. Rows that leave
// no rest: tiles of them can be shared together with the loops around them.
Size choose_size(const BlockInfo& b, const Windows& w, const Target& target) {
  Size best;
  int64_t least = 0;
  const int64_t room = target.vector_registers - b.reduction_size() - kInputs;
  for (int64_t rows = 2; rows <= std::min(kMostRows, w.rows->extent); ++rows)
    for (int64_t columns = 2; columns <= std::min(kMostColumns, w.columns->extent); ++columns) {
      if (rows * columns > std::min(room, kToHideLatency) || w.rows->extent % rows != 0) continue;
      const int64_t loads = w.rows->extent / rows * ceil_div(w.columns->extent, columns) *
                            (rows + w.taps.at(w.rows) - 1) * (columns + w.taps.at(w.columns) - 1);
      if (best.rows > 0 && loads >= least) continue;
      best = {rows, columns};
      least = loads;
    }
  return best;
}

// Lanes last, so that what a tap reads is one vector.
void lay_out_weights(Schedule& s, const Windows& w) {
  if (w.weights->stride(*w.lanes) == 1) return;
  int dim = -1;
  for (size_t d = 0; d < w.weights->indices.size(); ++d)
    if (uses_var(w.weights->indices[d], w.lanes->var)) dim = static_cast<int>(d);
  s.because("the weights of a kernel element are one vector");
  lay_last(s, w.weights->buffer, {dim});
}

// The loop over tiles of `i`, empty where there is one tile, and that inside of a tile.
std::pair<std::string, std::string> split(Schedule& s, const std::string& block, const Iter& i,
                                          int64_t size) {
  if (size >= i.extent) return {"", i.loop};
  s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", i.loop, block, size));
  return {i.loop + "0", i.loop + "1"};
}

void tile(Schedule& s, const BlockInfo& b, const Windows& w, const Size& size, const std::string& epilogue,
          const Target& target) {
  const std::string& block = b.name;
  Tile lanes;
  lanes.vector = w.lanes;
  skip_padding(s, block, lanes, target);
  lay_out_weights(s, w);
  const std::string writer = accumulate_locally(s, b, epilogue);
  s.because(fmt::format("{} x {} windows share their loads; {} vectors of weights stay in registers",
                        size.rows, size.columns, b.reduction_size()));
  const auto [row_tiles, rows] = split(s, block, *w.rows, size.rows);
  const auto [column_tiles, columns] = split(s, block, *w.columns, size.columns);
  std::vector<std::string> outer, unrolled = {rows, columns};
  for (const Iter* i : b.spatial())
    if (i != w.rows && i != w.columns && i != w.lanes) outer.push_back(i->loop);
  if (!row_tiles.empty()) outer.push_back(row_tiles);
  std::vector<std::string> order = outer;
  if (!column_tiles.empty()) order.push_back(column_tiles);
  const std::string innermost = order.back();
  for (const Iter* r : b.reduced()) unrolled.push_back(r->loop);
  order.insert(order.end(), unrolled.begin(), unrolled.end());
  order.push_back(w.lanes->loop);
  s(fmt::format("reorder {} ({})", block, join(order)));

  const BlockInfo results = analyze(s.func(), writer);
  std::vector<std::string> written;
  std::string write_lanes;
  for (const Iter& i : results.iters) {
    written.push_back("w" + i.loop);
    for (const Access& a : results.accesses)
      if (a.write && i.extent > 1 && a.stride(i) == 1) write_lanes = written.back();
  }
  s(fmt::format("{} = reverse_compute_at {} {}.{}", join(written), writer, block, innermost));
  s(fmt::format("vectorize {}.{}", block, w.lanes->loop));
  s(fmt::format("vectorize {}.{}", writer, write_lanes));
  for (const LoopInfo& l : loops_of(s.func(), writer))
    if (l.extent > 1 && l.name != write_lanes &&
        std::find(written.begin(), written.end(), l.name) != written.end())
      s(fmt::format("unroll {}.{}", writer, l.name));
  for (const std::string& l : unrolled) s(fmt::format("unroll {}.{}", block, l));
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, unrolled.front()));
  if (!column_tiles.empty()) {
    s.because("away from the borders, no column of a window needs a check");
    s.try_step(fmt::format("annotate {}.{} peel=1", block, column_tiles));
  }
  share_loops(s, block, outer, work_of(b, target), target);
}

}  // namespace

bool tile_windows(Schedule& s, const std::string& block, const std::string& epilogue, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const auto w = find_windows(b, target);
  if (!w) return false;
  const Size size = choose_size(b, *w, target);
  if (size.rows == 0 || b.spatial().size() < 4) return false;  // the tile stands inside of some loop
  Schedule tried = s;
  try {
    tile(tried, b, *w, size, epilogue, target);
  } catch (const ScheduleError&) {
    return false;
  }
  s = tried;
  return true;
}

}  // namespace nestor::library

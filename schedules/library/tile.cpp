// A reduction's inner loop is bound by FMA throughput if its accumulators live in registers, there are enough
// of them to hide the FMA's latency (8 in flight: latency 4, two a cycle), and each loaded value is used
// several times. So a tile of rows x vectors accumulators is kept in registers over the whole reduction, and
// each step loads one vector per column and broadcasts one element per row:
//
//   rows * vectors + vectors + 1 <= registers            (Van Zee and van de Geijn, BLIS, ACM TOMS 41(3),
//   2015)
//
// The vector iterator is the S iterator that costs least per output: loads next to each other along it are
// vector loads, loads that don't move with it are broadcasts, a constant parameter can be packed so that it
// is next to each other, what is next to each other along the reduction is turned in registers, a block of as
// many rows as steps at a time (a product of a tall matrix and a narrow one); anything else is a gather;
// stores that aren't next to each other are scattered, but only once per reduction. Lanes that hang over the
// extent are lost; terms that a padding makes zero are spared where all lanes meet it at once. The row
// iterator is the one that leaves most vector loads standing, so that they are shared by all rows; of two
// alike, the one whose neighbours are nearer. A vector iterator of only one vector (channels in blocks) gets
// a column iterator beside it: one that leaves the broadcasts of the rows standing.
#include "schedules/library/tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nestor/walk.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

constexpr double kBroadcast = 0.1;  // of a row, for one FMA alone
// That share a load, where no more are known to. (Emerald Rapids, 3x3/2 in groups of 8, 248 at 100: 1.43 to
// 0.85 ms by lanes along a line, where as many as 4 had been counted along channels; 5x5/2, 64 at 80 590 to
// 397 us.)
constexpr double kSomeRows = 4;
// Of one vector, in the time of a vector load. Of elements a few apart two are loaded and put together, which
// passes where FMAs do. (Zen 4, 3x3/2 of 2 groups of 6 at 106 66 to 46 us by lanes along the filters, of 4 of
// 24 at 29 102 to 84; 12 works of 720, 7 % less time, the worst 9 % more.)
constexpr double kStridedLoad = 3, kGather = 12, kTurned = 10, kScatter = 16;
// Vectors of results that lie apart in the output (Zen 5, from where the choices below are equally fast): by
// a panel, to a panel's lines a multiple of 4 KB apart, turned in place, put together from a few interleaved
// ones, scattered to few lines beside each other; and to lines in a page each, what those take more.
constexpr double kThroughPanel = 10, kThroughFewSets = 16, kTurnedInPlace = 8, kPutTogether = 3,
                 kFewLines = 28, kPages = 16;
constexpr double kManyPages = 2;  // a step of a vector whose lanes come from a page each
constexpr double kLeftOut = 0.8;  // of the time of the padding's terms, spared; the rest goes into asking
constexpr double kCopied = 17;    // a vector turned and stored once, for all rows that share it

// Whether the vectors of a tile that takes all of v are best laid out by lines: a load of one that begins at
// none takes two, each time. But what grows by it has to stay near. (Cascade Lake: 512x256x33 17 % less time;
// 18 filters of 489 channels, 5x5, 1.6 MB instead of 0.9, 19 % more.)
// Nor is it worth the way for a tile or two of rows (5x256x20: 10 % more).
bool lines_pay(const BlockInfo& b, const Access& a, const Tile& t, const Target& target) {
  constexpr int64_t kStays = 4;      // part of the second-level cache
  constexpr int64_t kLeastUses = 3;  // of what is laid out, by tiles
  const Iter& v = *t.vector;
  int64_t uses = 1;
  for (const Iter* i : b.spatial())
    if (!a.uses(*i)) uses *= i == t.row ? ceil_div(i->extent, t.rows) : i->extent;
  if (uses < kLeastUses) return false;
  const int64_t bytes = bytes_of(a.buffer->type.dtype), row = v.extent * bytes;
  bool at_lines = a.stride(v) == 1 || row % kLine == 0;
  for (const Iter& i : b.iters)
    if (a.stride(v) == 1 && i.var != v.var && i.extent > 1 && a.uses(i))
      at_lines = at_lines && a.stride(i).value_or(1) * bytes % kLine == 0;
  return !at_lines && a.elements * bytes / row * ceil_div(row, kLine) * kLine <= target.l2_bytes / kStays;
}

// A constant can be packed so that it is dense along v, if v alone is an index of it.
bool is_packed(const Access& a, const Iter& v) {
  return a.constant && a.stride(v).has_value();
}

bool is_dense(const BlockInfo& b, const Access& a, const Iter& v) {
  return is_packed(a, v) || a.stride(v) == 1 || copy_pays(b, a, v);
}

// Whether all lanes of a vector along v are of one group: they read the same element.
bool is_alike(const Access& a, const Iter& v, int64_t lanes) {
  return std::all_of(a.indices.begin(), a.indices.end(),
                     [&](const Expr& e) { return !uses_var(e, v.var) || divides(e, v.var, lanes); });
}

// The reduction's iterator along which all operands lie dense that would be gathered by the lanes of v; null
// if there is none. Taps that neighbouring windows share are a whole block: they would be turned again for
// each. (Zen 3, 5 of 8 taps, 16 groups of 4 at 86, 5x5/2: 1.46 ms, by other lanes 1.19; 1x7/2 of 5 to 2 at
// 140x128 0.33, 0.21. But 5000x6 by 6x1 0.0033, 0.0133; 7x7 with stride 7 of one channel 2.1 us, 5.5.)
const Iter* turned_along(const BlockInfo& b, const Iter& v, int64_t lanes) {
  const Iter* last = b.reduced().back();
  if (last->loop.empty() || last->extent < lanes / 2 || bytes_of(b.output->type.dtype) != 4) return nullptr;
  bool any = false;
  for (const Access& a : b.accesses) {
    if (a.write || !a.uses(v) || is_dense(b, a, v)) continue;
    if (a.stride(*last) != 1 || !a.stride(v) || bytes_of(a.buffer->type.dtype) != 4) return nullptr;
    for (const Iter* i : b.spatial())
      if (last->extent < lanes && a.slides_along(*last, *i) && i->extent > 1 &&
          std::abs(a.stride(*i).value_or(0)) < last->extent)
        return nullptr;
    any = true;
  }
  return any ? last : nullptr;
}

// Outputs beside each other that share the loads along v, at most; tiles of them are all alike.
double sharing_rows(const BlockInfo& b, const Iter& v) {
  int64_t most = 1;
  for (const Access& a : b.accesses)
    for (const Iter* i : b.spatial())
      if (!a.write && a.uses(v) && i != &v && !a.uses(*i) && !i->loop.empty())
        most = std::max(most, i->extent);
  return static_cast<double>(most) / static_cast<double>(ceil_div(most, kRowsBesideTurned));
}

// Whether lanes along v read an operand in as many pages at a time, that comes from beyond the L2 cache and
// is used at most a few times: it takes as long as memory takes, and lines of one row follow each other while
// those of many rows don't. (Products of matrices of a batch with a vector each, 48 of 688x128: a fifth of
// the bandwidth.)
bool reads_many_pages(const BlockInfo& b, const Access& a, const Iter& v, const Target& target) {
  const int64_t bytes = bytes_of(a.buffer->type.dtype);
  if (a.constant || !a.has_plain_indices() || a.elements * bytes <= target.l2_bytes ||
      std::abs(a.stride(v).value_or(0)) * bytes < kPage)
    return false;
  int64_t uses = 1;
  for (const Iter* i : b.spatial())
    if (!a.uses(*i)) uses *= i->extent;
  return uses <= kMostDotColumns;
}

// The time of as many outputs as there are lanes, one after the other, each by one scalar chain (4 cycles a
// step), or by lanes along a reduction iterator that all loads are dense in, folded at the end.
double cost_without_lanes(const BlockInfo& b, int64_t lanes) {
  constexpr double kFold = 8;
  const auto k = static_cast<double>(b.reduction_size()), n = static_cast<double>(lanes);
  const Iter* last = b.reduced().back();
  bool dense = last->extent >= 8;
  for (const Access& a : b.accesses) dense &= a.write || !a.uses(*last) || a.stride(*last) == 1;
  const double vectors =
      k / static_cast<double>(last->extent) * static_cast<double>(ceil_div(last->extent, lanes));
  return dense ? n * (0.5 * vectors + kFold) : 4 * k * n;
}

// Loads that move with v and not with r: each is made once for all rows. Loads that move with neither count a
// little.
double sharing(const BlockInfo& b, const Iter& v, const Iter& r) {
  double score = 0;
  for (const Access& a : b.accesses)
    if (!a.write && !a.uses(r)) score += a.uses(v) ? 1 : 0.25;
  return score;
}

// How far apart the loads of neighbouring rows are.
int64_t distance(const BlockInfo& b, const Iter& r) {
  int64_t sum = 0;
  for (const Access& a : b.accesses)
    if (!a.write) sum += std::abs(a.stride(r).value_or(1 << 20));
  return sum;
}

// A row that shares nothing, only to have enough accumulators in flight: where rows lie next to each other
// in blocks of a vector each (a pooling).
const Iter* nearest_row(const BlockInfo& b, const Tile& t) {
  const Iter* best = nullptr;
  for (const Iter* i : b.spatial())
    if (i != t.vector && !i->loop.empty() && i->extent > 1 && (!best || distance(b, *i) < distance(b, *best)))
      best = i;
  return best;
}

// Rows are best neighbours. Where the nearest have too few iterations for a tile, those go beside rows of an
// iterator further away that leaves as many loads standing; null: there is none. Windows are walked by one.
// (The results of a transposed convolution that lie between others, row major. Zen 3: 2x2/2 of 441 channels
// to 63 at 48x64 16 to 9.2 ms, of 81 to 128 at 83x64 half the time; 28 random ones 14 % less, few channels
// alike.)
const Iter* longer_row(const BlockInfo& b, const Tile& t, double score) {
  const Iter* longer = nullptr;
  if (!t.row || t.column || t.turned || t.taps || t.row->extent > kInterleaved) return nullptr;
  for (const Iter* i : b.spatial()) {
    if (i == t.vector || i->loop.empty() || i->extent <= kInterleaved || sharing(b, *t.vector, *i) < score)
      continue;
    if (!longer || distance(b, *i) < distance(b, *longer)) longer = i;
  }
  for (const Access& a : b.accesses)
    for (const Iter* tap : b.reduced())
      if (longer && !a.constant && (a.slides_along(*tap, *t.row) || a.slides_along(*tap, *longer)))
        return nullptr;
  return longer;
}

// The loads that are broadcast along the vector and move with the row: a column that leaves them standing
// shares them.
const Iter* choose_column(const BlockInfo& b, const Tile& t) {
  if (!t.row) return nullptr;
  for (const Iter* i : b.spatial()) {
    if (i == t.vector || i == t.row || i->loop.empty() || i->extent < 2) continue;
    for (const Access& a : b.accesses)
      if (!a.write && !a.uses(*t.vector) && a.uses(*t.row) && !a.uses(*i)) return i;
  }
  return nullptr;
}

// An operand whose lanes come from here and there (the channels of a group), and that windows of neighbouring
// rows share: the reduction's iterator within such a window; null if there is none.
const Iter* shared_taps(const BlockInfo& b, const Tile& t) {
  constexpr int64_t kWidestWindow = 7;
  if (!t.row || b.reduced().size() < 2) return nullptr;
  for (const Access& a : b.accesses)
    for (const Expr& e : a.indices)
      for (const Iter* r : b.reduced())
        if (!a.write && a.uses(*t.vector) && !a.stride(*t.vector) && uses_var(e, t.row->var) &&
            uses_var(e, r->var) && r->extent > 1 && r->extent <= kWidestWindow && !r->loop.empty())
          return r;
  return nullptr;
}

// How a vector of results along v reaches the output, written by `w`, where `lanes` walks it.
struct Stored {
  double cost = kScatter;
  double per_step = 1;  // times as long for a step: too few accumulators are in flight
};

// Dense along another iterator: through a panel (result_panel.cpp), by lines whose sets of the cache may be
// few; or those of an iterator beside it fill the gaps, unrolled: whole vectors are put together.
Stored stored_apart(const BlockInfo& w, const Iter& lanes, int64_t width, const Target& target) {
  const double part = static_cast<double>(width) / 16;  // of the lanes that the costs are of
  const double few_lines = kFewLines * part;
  const Iter* dense = iter_at(w, 1);
  const int bytes = bytes_of(w.output->type.dtype);
  const int64_t distance = std::abs(write_of(w)->stride(lanes).value_or(kPage)) * bytes;
  if (dense && bytes == 4 && iter_at(w, dense->extent) == &lanes && dense->extent < kLine / bytes) {
    if (dense->extent > kInterleaved) return {kTurnedInPlace, 1};
    const int64_t vectors = ceil_div(lanes.extent, width);  // where it is one, more lie beside it
    const auto most = static_cast<double>(vectors > 1 ? dense->extent * vectors : kToHideLatency);
    return {kPutTogether, std::max(1.0, kToHideLatency / most)};
  }
  if (bytes != 4) return {};
  if (run_beside(w, lanes) >= kShortestRun) {
    if (lanes.extent < width) return {};
    return {part * (distance % kPage == 0 ? kThroughFewSets : kThroughPanel), 1};
  }
  const double pages = part * kPages / beside_fma(target);  // the same time, whatever an FMA takes
  return {distance < kLine ? few_lines : few_lines + pages, 1};
}

Stored stored_along(const BlockInfo& b, const BlockInfo* writer, const Iter& v, const Target& target) {
  const int64_t width = lanes_of(b, target);
  const BlockInfo& w = writer ? *writer : b;
  const Iter* lanes = writer ? iter_over(w, b.output, dim_of(b, &v)) : &v;
  if (!write_of(w) || !lanes || turned_along(b, v, width)) return {};
  if (write_of(w)->stride(*lanes) == 1) return {1, 1};
  return stored_apart(w, *lanes, width, target);
}

}  // namespace

double cost_of_lanes(const BlockInfo& b, const Iter& v, const Target& target, const BlockInfo* writer) {
  const int64_t lanes = lanes_of(b, target);
  const double left_out = 1 - share_of_terms(b, v, target);
  const double k = static_cast<double>(b.reduction_size()) * (1 - kLeftOut * left_out);
  const Stored stored = stored_along(b, writer, v, target);
  double per_step = 0.5;
  for (const Access& a : b.accesses) {
    if (a.write) continue;
    const auto stride = a.stride(v);
    if (!a.uses(v) || is_packed(a, v) || stride == 1 || is_alike(a, v, lanes)) continue;
    if (copy_pays(b, a, v)) {
      double shared = 1;
      for (const Iter* i : b.spatial())
        if (i != &v && !a.uses(*i)) shared *= static_cast<double>(i->extent);
      per_step += beside_fma(target) * kCopied / shared;
      continue;
    }
    if (reads_many_pages(b, a, v, target)) per_step += kManyPages;
    if (turned_along(b, v, lanes))
      per_step += kTurned / 4 / sharing_rows(b, v);
    else if (stride && std::abs(*stride) <= kInterleaved)
      per_step += kStridedLoad / std::max(kSomeRows, sharing_rows(b, v));
    else
      per_step += kGather / kSomeRows;
  }
  const auto useful = [&](int64_t width) {
    return static_cast<double>(v.extent) / static_cast<double>(ceil_div(v.extent, width) * width);
  };
  // Half a vector takes half of its time there, but to be broadcast for and to be stored as long.
  const bool half = target.double_pumped && v.extent <= lanes / 2 && v.extent >= lanes / 4;
  if (half) per_step += kBroadcast;
  return k * per_step * stored.per_step / useful(half ? lanes / 2 : lanes) +
         beside_fma(target) * stored.cost / useful(lanes);
}

bool shares_an_operand(const BlockInfo& b, const Tile& t) {
  for (const Access& a : b.accesses)
    if (!a.write && t.vector && !moves_with_columns(a, t)) return true;
  return false;
}

int64_t lanes_of(const BlockInfo& b, const Target& target) {
  const int bytes = bytes_of(b.output->type.dtype);
  return std::max(1, target.lanes(bytes));
}

Tile choose_tile(const BlockInfo& b, const Target& target, const Iter* vector, const BlockInfo* writer) {
  Tile t;
  const int64_t lanes = lanes_of(b, target);
  double best = 0;
  std::string costs;
  for (const Iter* i : b.spatial()) {
    if (i->loop.empty() || i->extent < 2 || (vector && i != vector)) continue;
    const double cost = cost_of_lanes(b, *i, target, writer);
    costs += costs.empty() ? fmt::format("{:.0f} FMAs with vectors along {}", cost, i->loop)
                           : fmt::format(", {:.0f} along {}", cost, i->loop);
    if (!t.vector || cost < best) {
      t.vector = i;
      best = cost;
    }
  }
  if (!t.vector) return t;
  t.why_vector = fmt::format("{} results cost as much as {}", lanes, costs);
  if (!vector && best > cost_without_lanes(b, lanes)) {
    t.vector = nullptr;
    return t;
  }
  // Neighbours, but for rows of which there are too few to be anything else than waited for.
  const auto nearer = [&](const Iter& i, const Iter& j) {
    const auto in_flight = [&](const Iter& row) {
      return std::min(row.extent * ceil_div(t.vector->extent, lanes), kToHideLatency / 2);
    };
    return in_flight(i) != in_flight(j) ? in_flight(i) > in_flight(j) : distance(b, i) < distance(b, j);
  };
  best = 0.9;  // a row that shares nothing but broadcasts is worth no registers
  for (const Iter* i : b.spatial()) {
    if (i == t.vector || i->loop.empty() || i->extent < 2) continue;
    const double score = sharing(b, *t.vector, *i);
    if (score < best || (t.row && score == best && !nearer(*i, *t.row))) continue;
    t.row = i;
    best = score;
  }
  if (t.vector->extent <= lanes) t.column = choose_column(b, t);
  const bool shares = t.row != nullptr;
  if (!shares && t.vector->extent <= lanes * kToHideLatency / 2) t.row = nearest_row(b, t);

  t.turned = turned_along(b, *t.vector, lanes);
  t.taps = t.column ? nullptr : shared_taps(b, t);
  if (const Iter* longer = longer_row(b, t, best); longer && shares) t.beside = std::exchange(t.row, longer);
  size_tile(b, t, shares, target);
  t.width = std::min(t.column ? lanes : t.width * lanes, t.vector->extent);
  for (const Access& a : b.accesses)
    if (a.constant && a.uses(*t.vector) && a.stride(*t.vector)) {
      const bool whole_tiles = !t.column && t.vector->extent <= t.width;
      const bool by_lines = whole_tiles && lines_pay(b, a, t, target);
      if (by_lines) t.by_lines.push_back(a.buffer);
      if (by_lines || !whole_tiles || a.stride(*t.vector) != 1) t.packed.push_back(a.buffer);
    }
  for (const Access& a : b.accesses)
    if (const OperandCopy copy = copy_of(b, a, t, target); copy != OperandCopy::none)
      (copy == OperandCopy::whole ? t.copied : t.panels).push_back(a.buffer);
  return t;
}

}  // namespace nestor::library

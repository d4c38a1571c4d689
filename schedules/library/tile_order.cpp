// Which loops stand around a register tile, and in what order.
//
// The innermost one mustn't be short: where a loop of three taps ends, the core has foreseen a fourth as
// often as not, and a guard of the padding stands in each of its steps. So channels are innermost, and since
// each is a line or two of a plane of the image, by as many at a time as stay in the first-level cache while
// the window's taps come and go. (Cascade Lake: 3x3 of 24 to 24 channels in each of three groups at 18 0.15
// to 0.10 ms; 3x3/2 of 128 to 64 at 28 0.25 to 0.20, with all channels at a time 0.27; 5x5 of 493 to 48 at
// 30 11.2 to 9.7, all at a time 17.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile.h"

namespace nestor::library {

std::map<std::string, int64_t> reduced_in_blocks(const BlockInfo& b) {
  std::map<std::string, int64_t> out;
  for (const Access& a : b.accesses)
    for (const Expr& e : a.indices)
      for_each_expr(e, [&](const Expr& part) {  // a group's channels follow those of the groups before
        const auto* quotient = part.as<Binary>();
        const auto* r = quotient && quotient->op == BinaryOp::div ? quotient->a.as<VarRef>() : nullptr;
        for (const Iter* i : b.reduced()) {
          const int64_t size = r && r->var == i->var ? as_int(quotient->b).value_or(0) : 0;
          if (size > 1 && size < i->extent) out[i->loop] = size;
        }
      });
  return out;
}

ChannelBlocks channels_by_blocks(const BlockInfo& b, const std::vector<std::string>& taps,
                                 const Target& target) {
  constexpr int64_t kBlock = 16, kMost = 2 * kBlock, kLeast = kBlock / 2;
  const auto is_tap = [&](const Iter* i) {
    return std::find(taps.begin(), taps.end(), i->loop) != taps.end();
  };
  if (!target.is_narrow() || b.reduced().empty() || !is_tap(b.reduced().back())) return {};
  const Iter* longest = nullptr;
  for (const Iter* i : b.reduced())
    if (!is_tap(i) && !i->loop.empty() && (!longest || i->extent > longest->extent)) longest = i;
  if (!longest || longest->extent <= kMost) return {};
  for (const Access& a : b.accesses)
    for (const Expr& e : a.indices)
      if (uses_var(e, longest->var) && !e.as<VarRef>()) return {};  // a window's, too
  int64_t size = kBlock;
  while (size > kLeast && longest->extent % size != 0) --size;
  if (longest->extent % size != 0) size = kBlock;
  return {longest->loop, size,
          fmt::format("lines of {} channels stay in L1 for all {} kernel elements", size,
                      b.reduction_size() / longest->extent)};
}

namespace {

// Whether `i` is no tap of a window, and all operands go further from one iteration of it to the next than of
// `j`.
bool goes_further(const BlockInfo& b, const Iter& i, const Iter& j) {
  bool further = false;
  for (const Access& a : b.accesses) {
    if (a.write) continue;
    for (const Iter* s : b.spatial())
      if (a.slides_along(i, *s)) return false;
    const auto by_i = a.stride(i), by_j = a.stride(j);
    if (!by_i || !by_j || std::abs(*by_i) < std::abs(*by_j)) return false;
    further |= std::abs(*by_i) > std::abs(*by_j);
  }
  return further;
}

// What lies furthest apart outermost, planes of channels around the taps within one: those then find its
// lines in the first level, however the operator names them. (Zen 4, transposed 3x3x3 over 256 channels of
// 16x13x8 8.2 to 3.3 ms.)
std::vector<const Iter*> furthest_first(const BlockInfo& b) {
  std::vector<const Iter*> out;
  for (const Iter* i : b.reduced()) {
    auto at = out.end();
    while (at != out.begin() && goes_further(b, *i, **(at - 1))) --at;
    out.insert(at, i);
  }
  return out;
}

// Where several steps are one body (steps_at_once.cpp), so few channels are one, inside of the taps, whose
// loops may end anywhere at a border. (Zen 3: 3x3 3-32@56 4 % less time, beside a busy other thread 25, with
// stride 2 12 and 15; 2-192@47 5 and 25; 7x7 3-64@224 with stride 2 1 and 14, 2-384@65 10 and 15, 5x5
// 4-403@60 3 and 20, 11x11 2-20@64 2 and 28.) Not if the taps that are written out would stand directly
// around them.
bool few_channels_last(std::vector<std::string>& order, const BlockInfo& b,
                       const std::vector<std::string>& taps, const Target& target) {
  if (steps_of_body(target) <= 2) return false;
  auto channels = order.end();
  bool between = false;
  for (auto l = order.begin(); l != order.end(); ++l) {
    const Iter& i = *b.iter(*l);
    const bool is_tap = std::find(taps.begin(), taps.end(), *l) != taps.end();
    if (i.extent == 1 || is_tap) continue;
    if (slides_along_any(b, i))
      between = true;
    else if (channels == order.end())
      channels = l;
    else
      return false;
  }
  if (channels == order.end() || !between) return false;
  if (b.iter(*channels)->extent > kFewInWindows) return false;
  std::rotate(channels, channels + 1, order.end());
  return true;
}

}  // namespace

std::vector<std::string> reduction_order(const BlockInfo& b, const std::vector<std::string>& taps,
                                         const std::map<std::string, int64_t>& blocks, const Target& target) {
  std::vector<std::string> order, inside;
  for (const Iter* i : blocks.empty() && taps.empty() ? furthest_first(b) : b.reduced()) {
    const bool cut = blocks.count(i->loop) > 0;
    order.push_back(cut ? i->loop + "0" : i->loop);
    if (cut) inside.push_back(i->loop + "1");
  }
  order.insert(order.end(), inside.begin(), inside.end());
  const bool channels_last = blocks.empty() && few_channels_last(order, b, taps, target);
  const auto is_tap = [&](const std::string& l) {
    return std::find(taps.begin(), taps.end(), l) != taps.end();
  };
  if (!is_tap(order.back()) && !channels_last) return order;
  std::vector<std::string> taps_first = order;
  std::stable_partition(taps_first.begin(), taps_first.end(), is_tap);
  const auto steps = [&](const std::string& l) { return is_tap(l) ? 0 : b.iter(l)->extent; };
  const auto longest = std::max_element(order.begin(), order.end(),
                                        [&](const auto& l, const auto& m) { return steps(l) < steps(m); });
  if (channels_last || !target.is_narrow() || steps(taps_first.back()) == steps(*longest)) return taps_first;
  std::rotate(longest, longest + 1, order.end());
  return order;
}

namespace {

// Why an iterator of the image alone, a batch's, goes inside of the tiles of columns, if it does: what these
// read of the weights then passes once, not once for each image, and each image once for each such tile.
std::string batch_inside(const BlockInfo& b, const Tile& t, const Iter& over, const Target& target) {
  constexpr double kLeastSaved = 0.1;
  constexpr int64_t kMostUses = 50;  // of weights by an image: with more they come in time
  const int64_t tiles = column_tiles(t);
  if (over.extent < 2 || tiles < 2 || t.turned || !t.copied.empty() || !t.panels.empty()) return "";
  std::map<const Iter*, int64_t> all, tile, one;
  for (const Iter& i : b.iters) {
    all[&i] = i.extent;
    tile[&i] = &i == t.vector ? t.width : &i == t.column ? t.columns : i.extent;
    one[&i] = &i == &over ? 1 : i.extent;
  }
  int64_t uses = 1;
  for (const Iter* i : b.spatial())
    if (i != &over && i != t.vector && i != t.column) uses *= i->extent;
  if (uses > kMostUses) return "";
  int64_t weights = 0, panel = 0, image = 0;
  for (const Access& a : b.accesses) {
    if (a.write) continue;
    if (!moves_with_columns(a, t)) {
      image += bytes_read(a, one, b);
      continue;
    }
    if (a.uses(over)) return "";
    weights += bytes_read(a, all, b);
    panel += bytes_read(a, tile, b);
  }
  if (weights <= target.l2_bytes / 2 || panel > target.l2_bytes * 3 / 4 || image > target.l2_bytes / 4)
    return "";
  const int64_t now = over.extent * (weights + image), then = weights + tiles * over.extent * image;
  if (static_cast<double>(then) > (1 - kLeastSaved) * static_cast<double>(now)) return "";
  return fmt::format(
      "{} KiB of weights stay in L2 for all {} of {}; otherwise all {} KiB would come from beyond L2 each "
      "time",
      panel / 1024, over.extent, over.loop, weights / 1024);
}

}  // namespace

OuterLoops outer_loops(const BlockInfo& b, const Tile& t, const Target& target) {
  OuterLoops out;
  const Iter* wide = t.column ? t.column : t.vector;
  const bool shared = shares_an_operand(b, t);
  bool behind = false;
  for (const Iter* i : b.spatial()) {
    behind |= i == wide;
    if (i == t.vector || i == t.row || i == t.beside || i == t.column) continue;
    const std::string why = shared && !behind ? batch_inside(b, t, *i, target) : "";
    if (!why.empty()) out.why_inside = why;
    (shared && (behind || !why.empty()) ? out.between : out.outside).push_back(i->loop);
  }
  return out;
}

bool rows_share_vectors(const BlockInfo& b, const Tile& t) {
  if (!t.row || !t.vector) return true;
  for (const Access& a : b.accesses)
    if (!a.write && !a.uses(*t.row) && moves_with_columns(a, t)) return true;
  return false;
}

std::string why_order(const BlockInfo& b, const Tile& t, const std::string& row_tiles,
                      const std::string& why_inside, const Target& target) {
  if (!why_inside.empty()) return why_inside;
  if (row_tiles.empty() || !t.vector)
    return "accumulators are written once if all reduction loops are inside";
  if (!rows_share_vectors(b, t))
    return fmt::format("neighbouring tiles along {} share lines, those along {} don't", t.vector->loop,
                       t.row->loop);
  int64_t bytes = 0;  // of an element of what moves with the columns
  for (const Access& a : b.accesses)
    if (!a.write && a.uses(*t.vector)) bytes = std::max<int64_t>(bytes, bytes_of(a.buffer->type.dtype));
  const int64_t panel = b.reduction_size() * t.width * t.columns * bytes;
  return fmt::format("the {:.1f} KiB that depend on {} {}", static_cast<double>(panel) / 1024,
                     t.column ? t.column->loop : t.vector->loop,
                     panel <= target.l2_bytes ? "stay in the cache for all tiles of rows"
                                              : "are read once per tile of rows: they don't fit in L2");
}

}  // namespace nestor::library

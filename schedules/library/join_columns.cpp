// Several reductions over the same rows, which lie beside each other in memory: softmax over channels, norms
// over the first dimension. An element of one row follows that of the row before, so lanes go across rows:
//
//   other rows | tiles of rows { block by block { elements of a row | lanes } }
//
// A tile is a few vectors wide, or less where rows are few, so that threads share them. It is read from
// memory once, by the first block; the others find it in the cache. (Cascade Lake, softmax of [1000,64] along
// its first dimension 0.66 to 0.05 ms.) Every row takes its elements in their old order. A reduction's
// results are read and written once for a few elements, which stand in one straight line.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kVectors = 4;  // of a tile
constexpr int64_t kSteps = 8;    // of a reduction in one straight line
// A vector is worth it where one of so many lanes is used; beside exponentials of f32, of more.
constexpr int64_t kEmpty = 2, kEmptyExp = 4;

// The block's S iterator of that extent along which all that moves with it lies dense, its output too.
const Iter* lanes_in(const BlockInfo& b, int64_t extent) {
  for (const Iter* i : b.spatial()) {
    bool dense = i->extent == extent && !i->loop.empty();
    for (const Access& a : b.accesses) dense = dense && (a.uses(*i) ? a.stride(*i) == 1 : !a.write);
    if (dense) return i;
  }
  return nullptr;
}

// `order` are the loops inside the tile, the lanes' last.
void finish_reduction(Schedule& s, const std::string& block, std::vector<std::string> order,
                      const Target& target) {
  const std::string lanes = order.back();
  order.pop_back();
  const Iter* last = nullptr;
  const BlockInfo b = analyze(s.func(), block);
  for (const Iter* r : b.reduced()) {
    order.push_back(r->loop);
    last = r;
  }
  order.push_back(lanes);
  s(fmt::format("reorder {} ({})", block, join(order)));
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, b.reduced().front()->loop));
  vectorize_inside(s, block + "_init", target);
  std::string steps = last->loop;
  if (last->extent > kSteps) {
    s.because(fmt::format("each result is read and written once per {} elements", kSteps));
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", steps, block, kSteps));
    steps += "1";
  }
  s(fmt::format("unroll {}.{}", block, steps));
  s(fmt::format("vectorize {}.{}", block, lanes));
}

}  // namespace

bool join_columns(Schedule& s, const Target& target) {
  const std::vector<std::string> names = block_names(s.func());
  const BlockInfo root = analyze(s.func(), names.back());
  std::vector<std::string> rows = row_loops(s.func(), root);
  if (rows.empty() || root.reduction) return false;
  const Iter* across = root.iter(rows.back());
  int64_t lanes = 1;
  for (const std::string& name : names) lanes = std::max(lanes, lanes_of(analyze(s.func(), name), target));
  int64_t width = kVectors * lanes;
  const bool few = rows.size() == 1 && across->extent <= width;  // then tiles are the only loop around
  if (few) width = std::min(across->extent, lanes * ceil_div(across->extent, 2 * lanes));
  Work work;
  int64_t empty = kEmpty;
  std::vector<std::string> lane_loops;
  for (const std::string& name : names) {
    const BlockInfo b = analyze(s.func(), name);
    const Iter* i = lanes_in(b, across->extent);
    if (b.has_math && b.output->type.dtype == DType::f32) empty = kEmptyExp;
    for (const Iter* r : b.reduced())
      if (r->loop.empty() || r->extent < 2) return false;
    if (!i) return false;
    lane_loops.push_back(i->loop);
    work = work + work_of(b, target);
  }
  if (lane_loops.back() != rows.back() || across->extent * empty < lanes) return false;

  std::string tile = rows.back();
  rows.pop_back();
  if (few || across->extent > width) {
    s.because(fmt::format("{} vectors of {}: rows are contiguous", ceil_div(width, lanes), lanes));
    s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail=peel", tile, root.name, width));
    rows.push_back(tile + "0");
    tile += "1";
  }
  std::vector<std::string> order = rows;
  for (const Iter& i : root.iters)
    if (i.loop != lane_loops.back() && std::find(rows.begin(), rows.end(), i.loop) == rows.end())
      order.push_back(i.loop);
  order.push_back(tile);
  if (order.size() > 1) s(fmt::format("reorder {} ({})", root.name, join(order)));
  for (size_t k = names.size() - 1; k-- > 0;) {
    std::vector<std::string> inside;
    const BlockInfo b = analyze(s.func(), names[k]);
    for (const Iter* i : b.spatial()) inside.push_back("t" + i->loop);
    s.because(fmt::format("a tile of {} rows is read from memory once", width));
    s(fmt::format("{} = compute_at {} {}.{}", join(inside), names[k], root.name, rows.back()));
    std::erase(inside, "t" + lane_loops[k]);
    inside.push_back("t" + lane_loops[k]);
    if (b.reduction) {
      finish_reduction(s, names[k], inside, target);
      continue;
    }
    if (inside.size() > 1) s(fmt::format("reorder {} ({})", names[k], join(inside)));
    s(fmt::format("vectorize {}.{}", names[k], inside.back()));
  }
  s(fmt::format("vectorize {}.{}", root.name, tile));
  share_loops(s, root.name, rows, work, target);
  return true;
}

}  // namespace nestor::library

// A padded copy of an input costs a pass over memory, and multiplying its zeros costs time: at 7x7 with a 3x3
// window almost a fifth of all products. Where the lanes of a tile don't move across the border (they are
// channels), the copy is inlined and the terms that are zeros are left out: along a tile's rows and columns
// by unrolling the window, so that each tap knows which ones it doesn't reach, elsewhere by the window's loop
// starting later or ending sooner. Up to 11 taps in a row are unrolled: where they aren't, guards of all the
// tile's rows stand in each step. (Zen 5, 8 to 11 taps, 37 works: in the middle 6 % less time, least 2 more,
// 9x9, 5 channels to 27 at 70x56 0.95 to 0.67 ms; of 13 and 15 about as much, for 240 to 370 ms of
// compiling.)
//
// Where they do move across it, along a line of the image, each tap of a line is unrolled and loads what of a
// vector lies inside, if few products of each element pay for the copy. (Emerald Rapids: 1x7/3, 15 channels
// to 6 at 147x139 115 to 31 us; 3 of 1 dimension, 128 to 2 137 to 65; 3x3 in groups of 6 23 to 28 % less
// time; 3x3, 3x7 and 7x7 with 72 to 441 products of each from 4 % less to 10 more. By AVX2 there half as
// much. Narrow cores go on as below: not measured.)
//
// Else the lines of some channels that one step of the window's other taps reads are padded just before, in
// the first-level cache: that costs a fourth of what a pass over memory does, for a copy that is made again
// by each line of outputs that reads it. (Granite Rapids, copies of 1.3 MB: 3x2/2 dilated, 92 channels to 4
// at 16x64 94 to 46 us; 3x7/3, 125 to 2 at 27x32 119 to 79.)
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

// What windows share is copied again for each panel, in a fourth of the time that it takes through memory.
constexpr int64_t kMostRepeated = 3;

}  // namespace

SkippedPadding skip_padding(Schedule& s, const std::string& block, const Tile& t, const Target& target) {
  constexpr int64_t kWidestOfLanes = 7, kWidestOfRows = 11;
  const BlockInfo b = analyze(s.func(), block);
  const Iter* vector = t.vector ? b.iter(t.vector->loop) : nullptr;
  const Iter* row = t.row ? b.iter(t.row->loop) : nullptr;
  const Iter* column = t.column ? b.iter(t.column->loop) : nullptr;
  const bool as_they_lie = vector && !t.turned && !t.taps && t.copied.empty() && t.panels.empty();
  SkippedPadding out;
  for (const Access& a : b.accesses) {
    const Block* padding = a.write ? nullptr : padding_of(s.func(), a.buffer);
    if (!padding || t.copies(a.buffer)) continue;
    const auto* store = padding->body.as<Store>();
    const Expr condition = store->value.as<Select>()->cond;
    bool crosses = false, along_lanes = false;
    std::vector<std::string> taps;
    for (size_t d = 0; d < a.indices.size(); ++d) {
      const auto* i = store->indices[d].as<VarRef>();
      if (!i || !uses_var(condition, i->var)) continue;
      const auto moves_by = [&](const Iter* iter) { return iter && uses_var(a.indices[d], iter->var); };
      const bool by_lanes = moves_by(vector);
      along_lanes |= by_lanes;
      crosses |= by_lanes && !(as_they_lie && loads_parts(b, a, target));
      crosses |= t.turned && moves_by(b.iter(t.turned->loop));  // blocks of them are loaded whole
      if (!by_lanes && !moves_by(row) && !moves_by(column)) continue;
      for (const Iter* r : b.reduced()) {
        if (!moves_by(r)) continue;
        crosses |= by_lanes && r->extent > kWidestOfLanes;
        if (r->extent <= (by_lanes ? kWidestOfLanes : kWidestOfRows)) taps.push_back(r->loop);
      }
    }
    if (crosses) continue;
    if (along_lanes)
      s.because(fmt::format(
          "each copied element would be used only {} times: loads from the image are masked instead",
          products_of_each(b, a)));
    if (!s.try_step("compute_inline " + padding->id->name)) continue;
    if (!along_lanes) s.because("terms of the padding are zero");
    s.try_step(fmt::format("skip_zeros {}{}", block, along_lanes ? " masks=" + vector->loop : ""));
    out.unrolled.insert(out.unrolled.end(), taps.begin(), taps.end());
    if (!along_lanes) out.first.insert(out.first.end(), taps.begin(), taps.end());
  }
  return out;
}

PadLines pad_by_lines(const PrimFunc& f, const BlockInfo& b, const Tile& t, const Target& target) {
  constexpr int64_t kMostChannels = 16, kLeastChannels = 4, kShareOfL1 = 4, kShareOfL2 = 4;
  const PadLines none;
  if (!t.vector || t.turned || t.taps || !t.copied.empty() || !t.panels.empty()) return none;
  for (const Access& a : b.accesses) {
    const Block* padding = a.write || !a.uses(*t.vector) ? nullptr : padding_of(f, a.buffer);
    const int64_t size = a.elements * bytes_of(a.buffer->type.dtype);
    if (!padding || size <= target.l2_bytes / kShareOfL2) continue;
    PadLines out{padding->id->name, "", 0, {}, ""};
    std::map<const Iter*, int64_t> extents;  // of what one step of the other taps reads
    std::vector<std::string> inside;
    int64_t copies = 1;
    for (const Iter* i : b.spatial()) {
      extents[i] = std::min(in_tile(t, i), i->extent);
      copies *= ceil_div(i->extent, extents[i]);
    }
    for (const Iter* i : b.reduced()) {
      bool alone = false, along = false, used = false;
      for (const Expr& e : a.indices)
        if (uses_var(e, i->var)) {
          used = true;
          along |= uses_var(e, t.vector->var);
          alone |= e.as<VarRef>() != nullptr;
        }
      if (!used || i->loop.empty()) return none;
      extents[i] = alone || along ? i->extent : 1;
      if (alone && out.loop.empty())
        out.loop = i->loop;
      else
        (along ? inside : out.reduced).push_back(i->loop);
      if (!along && !alone) copies *= i->extent;
    }
    // Rows of the tile that a stride sets apart would have what lies between copied, too.
    for (const Iter* i : {t.row, t.column})
      for (const Expr& e : a.indices)
        if (i && uses_var(e, i->var) && !e.as<VarRef>()) return none;
    const Iter* channels = out.loop.empty() ? nullptr : b.iter(out.loop);
    if (!channels || channels->extent < 2 * kLeastChannels) return none;
    const int64_t lines = bytes_read(a, extents, b), of_channel = ceil_div(lines, channels->extent);
    if (copies * lines > kMostRepeated * size) return none;
    out.channels = std::min(kMostChannels, target.l1_bytes / kShareOfL1 / of_channel);
    if (out.channels < kLeastChannels || out.channels >= channels->extent) return none;
    out.reduced.push_back(out.loop + "0");
    out.reduced.push_back(out.loop + "1");
    out.reduced.insert(out.reduced.end(), inside.begin(), inside.end());
    out.why = fmt::format(
        "the padded copy has {} KiB, too much for L2; the lines of {} channels are used at a time",
        size / 1024, out.channels);
    return out;
  }
  return none;
}

void pad_panels(Schedule& s, const BlockInfo& b, const std::vector<std::string>& outer,
                const Target& target) {
  for (const Access& a : b.accesses) {
    const Block* padding = a.write ? nullptr : padding_of(s.func(), a.buffer);
    const int64_t size = a.elements * bytes_of(a.buffer->type.dtype);
    if (!padding || size <= target.l2_bytes) continue;
    std::map<const Iter*, int64_t> extents;
    for (const Iter& i : b.iters) extents[&i] = i.extent;
    int64_t panels = 1;
    for (const std::string& loop : outer) {
      const Iter* i = walked_by(b, loop);
      const int64_t count = extent_of(s, b.name, loop);
      if (count == 1) continue;
      if (!i || !a.uses(*i)) break;  // else it would be made for each of its iterations
      extents[i] = ceil_div(extents[i], count);
      panels *= count;
      const int64_t panel = bytes_read(a, extents, b);
      if (panel > target.l2_bytes / 2) continue;
      if (panels * panel > kMostRepeated * size) break;
      const std::string name = padding->id->name;
      std::vector<std::string> names;
      for (const Iter& p : analyze(s.func(), name).iters) names.push_back("p" + p.loop);
      s.because(fmt::format(
          "{:.0f} KiB of the padded copy are used at a time; the whole copy would go through memory",
          static_cast<double>(panel) / 1024));
      if (s.try_step(fmt::format("{} = compute_at {} {}.{}", schedules::join(names), name, b.name, loop)))
        vectorize_inside(s, name, target);
      break;
    }
  }
}

}  // namespace nestor::library

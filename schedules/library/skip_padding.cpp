// A padded copy of an input costs a pass over memory, and multiplying its zeros costs time: at 7x7 with a 3x3
// window almost a fifth of all products. Where the lanes of a tile don't move across the border (they are
// channels), the copy is inlined and the terms that are zeros are left out: along a tile's rows by unrolling
// the window, so that each tap knows which rows it doesn't reach, elsewhere by the window's loop starting
// later or ending sooner.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

// The padding block that alone makes the buffer, for this reader alone; null where it isn't so.
const Block* padding_of(const PrimFunc& f, const Buffer& buffer) {
  const std::vector<std::string> writers = writers_of(f, buffer), readers = readers_of(f, buffer);
  if (find_param(f, buffer) || writers.size() != 1 || readers.size() != 1) return nullptr;
  const Block* b = find_block(f, writers.front());
  const auto* store = b->body.as<Store>();
  const auto* choice = store ? store->value.as<Select>() : nullptr;
  return choice && choice->b.as<FloatImm>() ? b : nullptr;
}

}  // namespace

std::vector<std::string> skip_padding(Schedule& s, const std::string& block, const Tile& t) {
  constexpr int64_t kWidestWindow = 7;
  const BlockInfo b = analyze(s.func(), block);
  const Iter* vector = t.vector ? b.iter(t.vector->loop) : nullptr;
  const Iter* row = t.row ? b.iter(t.row->loop) : nullptr;
  std::vector<std::string> unrolled;
  for (const Access& a : b.accesses) {
    const Block* padding = a.write ? nullptr : padding_of(s.func(), a.buffer);
    if (!padding) continue;
    const auto* store = padding->body.as<Store>();
    const Expr condition = store->value.as<Select>()->cond;
    bool crosses = false;
    std::vector<std::string> taps;
    for (size_t d = 0; d < a.indices.size(); ++d) {
      const auto* i = store->indices[d].as<VarRef>();
      if (!i || !uses_var(condition, i->var)) continue;
      crosses |= vector && uses_var(a.indices[d], vector->var);
      if (row && uses_var(a.indices[d], row->var))
        for (const Iter* r : b.reduced())
          if (r->extent <= kWidestWindow && uses_var(a.indices[d], r->var)) taps.push_back(r->loop);
    }
    if (crosses || !s.try_step("compute_inline " + padding->id->name)) continue;
    s.because("terms of the padding are zeros");
    s.try_step("skip_zeros " + block);
    unrolled.insert(unrolled.end(), taps.begin(), taps.end());
  }
  return unrolled;
}

void pad_panels(Schedule& s, const BlockInfo& b, const std::vector<std::string>& outer,
                const Target& target) {
  // What windows share is copied again for each panel, in a fourth of the time that it takes through memory.
  constexpr int64_t kMostRepeated = 3;
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
      s.because(
          fmt::format("of the padded copy {:.0f} KiB are used at a time; all of it would go through memory",
                      static_cast<double>(panel) / 1024));
      if (s.try_step(fmt::format("{} = compute_at {} {}.{}", schedules::join(names), name, b.name, loop)))
        vectorize_inside(s, name, target);
      break;
    }
  }
}

}  // namespace nestor::library

// A map's stores wait, one behind the other, for the lines that they go to, where these come from a third
// level that is spread over the chip, or from behind it: the machine foresees what is read in a row, and asks
// for few of the lines that are written. So those are asked for ahead. Then there is no gain in stores past
// the caches either, until so many cores write that memory is what binds.
//
// (Cascade Lake, an element each in and out: 1.2 MB 25 % less time, 4 MB 30 %, 16 MB 34 %, 64 MB 24 %, and by
// stores past the caches 12 %. Distances of 1 to 16 KB are as good, half of it in the second level neither
// gains nor loses.) Rows of a few KB ask inside of each row, if only 1 KB ahead, not for the next one at
// once: that queues for the memory, and what is read behind it (512 gathered rows of 3 KB: 5 to 7 % less
// time).
//
// Rows that are gathered are foreseen by no machine: the next one is asked for while one is copied. (4096
// rows of 3 KB, 94 MB to choose from: 4.2 ms, with the lines that are written asked for 3.2, with both 2.9;
// 5000 rows of 1 KB, 31 MB to choose from: 2.2, 2.0 and 1.0 ms.)
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

constexpr int64_t kAhead = 2 << 10, kLeastAhead = 1 << 10;  // bytes
constexpr int64_t kLargeOutput = 4;                         // second-level caches
constexpr int64_t kLeastRow = 2;                            // lines that lie side by side
constexpr int64_t kLongRow = 8;     // lines: more of a gathered row are asked for one by one
constexpr int64_t kLeastTurns = 3;  // distances: nobody asks for the first

// The innermost loop around the lanes that runs long enough to ask for what is written kAhead bytes later, or
// nearly, and by how many iterations that is.
std::pair<std::string, int64_t> loop_ahead(const Schedule& s, const BlockInfo& b, const std::string& lanes,
                                           int64_t least) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), b.name);
  int64_t bytes = bytes_of(b.output->type.dtype);
  for (size_t i = loops.size(); i-- > 0; bytes *= loops[i].extent) {
    if (loops[i].name == lanes || loops[i].extent == 1) continue;
    const int64_t distance = std::min(ceil_div(kAhead, bytes), loops[i].extent / kLeastTurns);
    if (distance * bytes >= least) return {loops[i].name, distance};
  }
  return {};
}

// The iterator that says which row of an operand is read, where another input says where that one lies; null
// where none does.
const Iter* gathers(const BlockInfo& b, const Access& a, const Iter& lanes) {
  if (a.write || a.stride(lanes) != 1) return nullptr;
  const Iter* row = nullptr;
  for (const Expr& index : a.indices) {
    if (!has_load(index)) continue;
    for (const Iter* i : b.spatial())
      if (!i->loop.empty() && i->extent > 1 && uses_var(index, i->var)) row = i;  // the innermost
  }
  return row;
}

}  // namespace

bool asks_for_output(const BlockInfo& b, const Iter& lanes, const Target& target) {
  const Access& out = *write_of(b);
  const int64_t element = bytes_of(b.output->type.dtype), bytes = element * b.instances();
  if (out.stride(lanes) != 1 || lanes.extent * element < kLeastRow * kLine) return false;
  for (const Access& a : b.accesses)  // what is put together element by element binds, not the stores
    if (!a.write && a.uses(lanes) && a.stride(lanes) != 1) return false;
  return target.far_l3() && b.output_is_param && bytes > target.l2_bytes / 2 * std::max(1, target.cores);
}

void prefetch_map(Schedule& s, const BlockInfo& b, const std::string& lanes, const Target& target) {
  const int64_t bytes = bytes_of(b.output->type.dtype) * b.instances();
  const int64_t least = bytes <= kLargeOutput * target.l2_bytes ? kLeastAhead : kAhead;
  const auto [loop, distance] = loop_ahead(s, b, lanes, least);
  if (loop.empty()) return;
  s.because("the latency of L3 is high: without a prefetch, stores wait for its lines one by one");
  s.try_step(fmt::format("prefetch {}.{} {} distance={}", b.name, loop, b.output->name, distance));
}

void prefetch_gathered(Schedule& s, const BlockInfo& b, const Iter& lanes_iter, const std::string& lanes,
                       const Target& target) {
  for (const Access& a : b.accesses) {
    const int64_t bytes = bytes_of(a.buffer->type.dtype);
    if (a.elements * bytes <= target.l2_bytes || lanes_iter.extent * bytes < kLeastRow * kLine) continue;
    const Iter* row = gathers(b, a, lanes_iter);
    if (!row) continue;
    const std::vector<LoopInfo> loops = loops_of(s.func(), b.name);
    std::string inside;
    for (size_t i = loops.size(); i-- > 0 && loops[i].name != row->loop;)
      if (loops[i].name != lanes && lanes_iter.extent * bytes > kLongRow * kLine)
        inside = " shares=" + loops[i].name;
    s.because(fmt::format("no hardware prefetcher knows which row of {} is next", a.buffer->name));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1{}", b.name, row->loop, a.buffer->name, inside));
  }
}

}  // namespace nestor::library

// A tile with a short sum writes its lines faster than they come from a last cache that is far away. Where
// rows begin at lines the machine foresees them well enough; where they don't, each store waits for two
// lines, and the ones behind it wait with it. So while one tile is computed, the lines that the next one
// writes are asked for (Granite Rapids, 4000x16x1000: 2.9 to 2.1 ms, 2048x32x1003 1.5 to 1.2; rows that begin
// at lines: 5 % gained or lost).
#include <fmt/format.h>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

bool rows_begin_at_lines(const BlockInfo& writer) {
  for (const Access& a : writer.accesses)
    for (const Iter& i : writer.iters)
      if (a.write && i.extent > 1 && a.uses(i) && a.stride(i) != 1 &&
          a.stride(i).value_or(1) * bytes_of(a.buffer->type.dtype) % kLine != 0)
        return false;
  return true;
}

}  // namespace

void prefetch_output(Schedule& s, const std::string& writer, const BlockInfo& b, const std::string& tiles,
                     const Target& target) {
  constexpr int64_t kShortSum = 64;    // FMAs for each vector that is written
  constexpr int64_t kLeastTiles = 4;   // one after the other: nobody asks for the first one
  constexpr int64_t kLeastOutput = 3;  // second-level caches
  const BlockInfo w = analyze(s.func(), writer);
  if (!target.far_l3() || !w.output_is_param || b.reduction_size() > kShortSum) return;
  int64_t bytes = bytes_of(w.output->type.dtype);
  for (const Iter& i : w.iters) bytes *= i.extent;
  if (bytes < kLeastOutput * target.l2_bytes || rows_begin_at_lines(w)) return;
  if (extent_of(s, writer, tiles) < kLeastTiles) return;
  s.because(
      fmt::format("{} KiB of output come from a last cache that is far away, in rows that begin at no line, "
                  "after {} FMAs for each vector",
                  bytes / 1024, b.reduction_size()));
  s.try_step(fmt::format("prefetch {}.{} {} distance=1", writer, tiles, w.output->name));
}

}  // namespace nestor::library

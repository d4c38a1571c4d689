// A row's sum is taken as its elements are made: softmax's exponentials. In a pass of its own, behind, it
// reads them again, from the second-level cache where a row doesn't stay in the first. So the sum is factored
// by what the map makes at a time, and both are one loop over the row.
//
// (Emerald Rapids, softmax: 8 rows of 50257 0.180 to 0.160 ms, 19 of 20011 0.173 to 0.150, 48 of 8191 0.158
// to 0.149; of 4096 and less, which stay, none to 2 % more. Zen 3: 8 rows of 50257 and of 100003 and 40 of
// 10007 2 to 4 % less, 64 of 6500 2 % more.)
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

// The map whose elements the reduction takes one by one in the order in which they lie; else empty.
std::string maker(const PrimFunc& f, const BlockInfo& b) {
  std::string found;
  for (const Access& a : b.accesses) {
    if (a.write || a.buffer == b.output) continue;
    const std::vector<std::string> writers = writers_of(f, a.buffer);
    if (writers.size() != 1 || !found.empty()) return "";
    const BlockInfo map = analyze(f, writers[0]);
    if (map.reduction || a.elements != write_of(map)->elements) return "";
    found = map.name;
  }
  return found;
}

// Unit loops, of one row, and one over the row.
bool is_one_row(const std::vector<LoopInfo>& loops, size_t depth) {
  return std::all_of(loops.begin() + static_cast<long>(depth), loops.end() - 1,
                     [](const LoopInfo& l) { return l.extent == 1; });
}

}  // namespace

void sum_as_made(Schedule& s, const std::string& block, const std::string& rows, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const std::string map = maker(s.func(), b);
  if (map.empty() || b.reduced().size() != 1 || !sums_lanes(s, block)) return;
  const std::vector<LoopInfo> loops = loops_of(s.func(), block), of_map = loops_of(s.func(), map);
  const auto around =
      std::find_if(loops.begin(), loops.end(), [&](const LoopInfo& l) { return l.name == rows; });
  const size_t depth = rows.empty() ? 0 : static_cast<size_t>(around - loops.begin()) + 1;
  const int64_t length = loops.back().extent, width = kVectorsAtOnce * lanes_of(b, target);
  // What the map reads of a row, and what it makes.
  const bool stays = 2 * length * bytes_of(b.output->type.dtype) <= target.l1_bytes;
  if (depth >= loops.size() || of_map.size() != loops.size() || of_map.back().extent != length ||
      !is_one_row(loops, depth) || !is_one_row(of_map, depth) || length <= width || stays)
    return;
  Schedule tried = s;
  const std::string part = block + "_part", k = loops.back().name, i = of_map.back().name;
  try {
    tried.because(fmt::format(
        "{} are summed as they are computed, in {} partial sums: they needn't be read from L2 again", map,
        width));
    const std::string lines = at_lines(analyze(s.func(), map), i, width, target);
    tried(fmt::format("{0}_t {0}_l = split {1}.{0} [_, {2}] tail=peel{3}", k, block, width, lines));
    tried(fmt::format("{} = rfactor {}.{}_l axis={}", part, block, k, b.spatial().size()));
    tried(fmt::format("reorder {} ({}_t {}_l)", part, k, k));
    if (!split_at_lines(tried, fmt::format("{0}_t {0}_l = split {1}.{0} [_, {2}] tail=peel", i, map, width),
                        lines))
      return;
    for (size_t d = depth; d < loops.size(); ++d) {
      const std::string tile = d + 1 == loops.size() ? "_t" : "";
      tried(fmt::format("{0}{1} = merge {2}.{0}{1} {3}.{4}{1}", of_map[d].name, tile, map, part,
                        loops[d].name));
    }
    tried(fmt::format("{0}_init = decompose_reduction {0}.{1}_t", part, i));
    for (const std::string& v : {map + "." + i, part + "." + k, part + "_init." + k})
      tried(fmt::format("vectorize {}_l", v));
  } catch (const ScheduleError&) {
    return;
  }
  s = std::move(tried);
}

}  // namespace nestor::library

// A map: lanes along the dimension that it stores next to each other, everything outside fused and parallel.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"

namespace nestor::library {

namespace {

constexpr int64_t kVectors = 4;  // of a tile: independent work in flight

// The iterator along which most accesses are next to each other, the store above all.
const Iter* choose_lanes(const BlockInfo& b) {
  const Iter* best = nullptr;
  double best_score = 0;
  for (const Iter* i : b.spatial()) {
    if (i->loop.empty() || i->extent < 2) continue;
    double score = 0;
    for (const Access& a : b.accesses) {
      const auto stride = a.stride(*i);
      if (stride == 1) score += a.write ? 2 : 1;
      if (a.uses(*i) && !stride) score -= 0.5;
    }
    if (score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best;
}

}  // namespace

int64_t extent_of(const Schedule& s, const std::string& block, const std::string& loop) {
  for (const LoopInfo& l : loops_of(s.func(), block))
    if (l.name == loop) return l.extent;
  return -1;
}

std::string sample_size(Schedule& s, const std::string& name, std::vector<int64_t> sizes, int64_t size,
                        int64_t extent) {
  sizes.push_back(size);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  sizes.erase(std::remove_if(sizes.begin(), sizes.end(), [&](int64_t n) { return n >= extent; }),
              sizes.end());
  s(fmt::format("{} = sample_choice [{}] -> {}", name, fmt::join(sizes, ", "), size));
  return name;
}

void spread_map(Schedule& s, const std::string& block, const Target& target) {
  if (turn_map(s, block, target)) return;
  const BlockInfo b = analyze(s.func(), block);
  const Iter* lanes_iter = choose_lanes(b);
  std::string lanes;
  if (lanes_iter) {
    lanes = lanes_iter->loop;
    const int64_t width = kVectors * lanes_of(b, target);
    if (lanes_iter->extent > width) {
      const int64_t n = lanes_of(b, target);
      s.because(fmt::format("{} vectors of {} in flight", kVectors, n));
      const std::string size =
          sample_size(s, lanes + "_width", {n, 2 * n, 4 * n, 8 * n, 16 * n}, width, lanes_iter->extent);
      s(fmt::format("{}_tail = sample_choice [peel, mask] -> peel", lanes));
      s(fmt::format("{0}0 {0}1 = split {1}.{0} [_, {2}] tail={0}_tail", lanes, block, size));
      lanes += "1";
    }
    std::string order;
    for (const LoopInfo& l : loops_of(s.func(), block))
      if (l.name != lanes) order += l.name + " ";
    if (!order.empty()) s(fmt::format("reorder {} ({}{})", block, order, lanes));
    s.because(fmt::format("most accesses are next to each other along {}", lanes_iter->loop));
    s(fmt::format("vectorize {}.{}", block, lanes));
    if (wants_streaming(b, *lanes_iter, lanes_of(b, target), streaming_size(target))) {
      s.because(
          fmt::format("the output doesn't stay in the caches ({} KiB at the last level): stores go past them",
                      target.l3_bytes / 1024));
      s(fmt::format("annotate {} streaming=1", block));
    }
  }
  std::vector<std::string> outer;
  for (const LoopInfo& l : loops_of(s.func(), block))
    if (l.name != lanes) outer.push_back(l.name);
  share_loops(s, block, outer, work_of(b, target), target);
}

}  // namespace nestor::library

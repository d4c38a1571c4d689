// Long reductions with few results: a sum of millions of elements, a product of matrices whose common
// dimension is long. Their spatial loops don't keep the cores busy, so the reduction is factored (rfactor):
// each thread reduces a part of it into results of its own, which a last loop adds up.
//
// With P parts there are P times as many parallel iterations, by the model at the head of threads.cpp, and
// the last loop has P times the results to read. P is the divisor of the extent for which that takes the
// least. The order of a sum's terms changes; so a gain of less than 30 % isn't worth it.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr double kGain = 0.7;

// Parallel iterations that the block's results are.
int64_t tiles_of_results(const BlockInfo& b, const Target& target) {
  if (const auto n = pieces_to_fold(b, target)) return *n;
  const Tile t = choose_tile(b, target);
  int64_t n = 1;
  for (const Iter* i : b.spatial()) n *= ceil_div(i->extent, std::max<int64_t>(1, in_tile(t, i)));
  return n;
}

// The time of a loop over so many tiles; of one tile, on one core.
double microseconds_for(const Work& work, int64_t tiles, const Target& target) {
  if (tiles < 2) return work.microseconds();
  return std::min(work.microseconds(), threads_for(work, tiles, target).microseconds);
}

struct Parts {
  const Iter* loop = nullptr;
  int64_t count = 1;
  double microseconds = 0;
};

Parts choose_parts(const BlockInfo& b, const Work& work, int64_t tiles, const Target& target) {
  Parts best{nullptr, 1, microseconds_for(work, tiles, target)};
  const double wanted = best.microseconds * kGain;
  for (const Iter* r : b.reduced())
    for (int64_t parts = 2; !r->loop.empty() && parts <= std::min<int64_t>(4 * target.cores, r->extent / 2);
         ++parts) {
      if (r->extent % parts) continue;
      const Work last = work / (static_cast<double>(b.reduction_size()) / static_cast<double>(parts));
      const double us = microseconds_for(work, tiles * parts, target) + 2 * last.compute;
      if (us < wanted && us < best.microseconds) best = {r, parts, us};
    }
  return best;
}

}  // namespace

void split_reduction(Schedule& s, const std::string& block, const Target& target) {
  const BlockInfo b = analyze(s.func(), block);
  const Work work = work_of(b, target);
  if (target.cores < 2 || !b.affine_loops || work.microseconds() < std::max(target.parallel_us, 1.0)) return;
  const int64_t tiles = tiles_of_results(b, target);
  const Parts parts = choose_parts(b, work, tiles, target);
  if (!parts.loop) return;
  const std::string& k = parts.loop->loop;
  std::vector<std::string> order{k + "0"};
  for (const Iter* i : b.spatial()) order.push_back(i->loop);
  for (const Iter* r : b.reduced()) order.push_back(r == parts.loop ? k + "1" : r->loop);
  Schedule split = s;
  split.because(fmt::format(
      "{} tile{} of results for {} cores: {:.0f} us; as {} partial sums, added at the end, {:.0f} us", tiles,
      tiles > 1 ? "s" : "", target.cores, microseconds_for(work, tiles, target), parts.count,
      parts.microseconds));
  if (!split.try_step(fmt::format("{0}0 {0}1 = split {1}.{0} [{2}, _]", k, block, parts.count)) ||
      !split.try_step(fmt::format("reorder {} ({})", block, schedules::join(order))))
    return;
  split.because("each part has contiguous partial results");
  if (split.try_step(fmt::format("{0}_parts = rfactor {0}.{1}0 axis=0", block, k))) s = split;
}

}  // namespace nestor::library

// Which loops threads share, and whether that pays. On a machine of p cores a parallel loop over work of T
// microseconds takes about
//
//   T / p * (ceil(n / p) * p / n) + w + c p
//
// for n iterations alike: w is what the caller pays to wake threads that fell asleep (a system call, and the
// time until the first of them runs: 3 to 10 us), c what each further thread adds to waking and to the end
// (about 0.3 us: they are woken one after the other, and all of them write one counter). From that follow
//
//  - T below 2 w can't gain: such work stays with the caller (Target::parallel_us).
//  - The best number of threads is sqrt(T / c). A loop wakes no more threads than it has iterations, so that
//    many of them, times four for threads that are slowed by others, are enough.
//  - Half the loss by imbalance is gone whenever n doubles: loops are fused until it is below 5 %. An even
//    number is as good as a large one for two cores; for 64 it takes 640, or a multiple of 64.
//
// Short loops are split statically: what they work on lies in a core's own caches, and is still there when
// the same thread meets it again (softmax of 38 us on two threads: 1.9 times one thread's speed,
// dynamically 1.2). Long ones gain more from evening out threads that others slow down.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr double kGigahertz = 4,
                 kBytesPerNs = 128;  // a core at its best, its operands in the second-level cache
constexpr double kMath = 20;         // operations of an exp and its kin
constexpr double kPerThread = 0.3;   // c above, in microseconds
constexpr int64_t kPerThreadIterations = 4;
constexpr double kBalanced = 0.95;
constexpr double kShort = 100;  // microseconds

double evenness(int64_t iterations, int64_t threads) {
  return static_cast<double>(iterations) / static_cast<double>(ceil_div(iterations, threads) * threads);
}

struct Share {  // loops [first, last) fused
  size_t first = 0, last = 0;
  double evenness = 0;
};

}  // namespace

double microseconds_of(const BlockInfo& b, const Target& target) {
  double instances = 1, bytes = 0;
  for (const Iter& i : b.iters) instances *= static_cast<double>(i.extent);
  for (const Access& a : b.accesses) {
    double touched = 1;
    for (const Iter& i : b.iters)
      if (a.uses(i)) touched *= static_cast<double>(i.extent);
    bytes += std::min(touched, static_cast<double>(a.elements)) * bytes_of(a.buffer->type.dtype);
  }
  const double a_cycle = 2 * static_cast<double>(lanes_of(b, target));
  const double compute = instances * (b.has_math ? kMath : 1) / a_cycle / kGigahertz;
  return std::max(compute, bytes / kBytesPerNs) * 1e-3;
}

void share_loops(Schedule& s, const std::string& block, std::vector<std::string> loops, double microseconds,
                 const Target& target) {
  if (microseconds < target.parallel_us) return;
  std::erase_if(loops, [&](const std::string& l) { return extent_of(s, block, l) <= 1; });
  const int64_t threads = std::max(2, target.cores);
  const auto useful = static_cast<int64_t>(std::ceil(std::sqrt(microseconds / kPerThread)));
  const int64_t wanted = kPerThreadIterations * std::clamp<int64_t>(useful, 2, threads);
  Share best;
  double outside = 1;  // times that the parallel loop is started
  for (size_t first = 0; first < loops.size() && best.evenness < kBalanced; ++first) {
    if (first > 0 && microseconds / outside < std::max(target.parallel_us, 1.0)) break;
    int64_t iterations = 1;
    for (size_t last = first + 1; last <= loops.size(); ++last) {
      iterations *= extent_of(s, block, loops[last - 1]);
      const std::vector<std::string> fused(loops.begin() + static_cast<long>(first),
                                           loops.begin() + static_cast<long>(last));
      Schedule tried = s;  // a ragged tile's loop can't be fused
      if (fused.size() > 1 && !tried.try_step(fmt::format("fuse {} ({})", block, schedules::join(fused))))
        break;
      const double even =
          evenness(iterations, threads) * (iterations < wanted ? 0.9 : 1) * (first > 0 ? 0.85 : 1);
      if (even > best.evenness) best = {first, last, even};
      if (best.evenness >= kBalanced) break;
    }
    outside *= static_cast<double>(extent_of(s, block, loops[first]));
  }
  if (best.last == 0) return;
  Schedule shared = s;
  std::string loop = loops[best.first];
  if (best.last > best.first + 1) {
    const std::vector<std::string> fused(loops.begin() + static_cast<long>(best.first),
                                         loops.begin() + static_cast<long>(best.last));
    shared(fmt::format("g = fuse {} ({})", block, schedules::join(fused)));
    loop = "g";
  }
  shared.because(
      fmt::format("about {:.0f} us are worth threads, {:.0f} us would be, and {} iterations for {} threads",
                  microseconds, target.parallel_us, extent_of(shared, block, loop), threads));
  if (!shared.try_step(fmt::format("parallel {}.{}", block, loop))) return;
  if (microseconds < kShort) {
    shared.because("short loops meet their data in the caches of the thread that had them last time");
    shared(fmt::format("annotate {}.{} split=static", block, loop));
  }
  s = shared;
}

}  // namespace nestor::library

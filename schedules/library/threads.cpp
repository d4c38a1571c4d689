// Which loops threads share, and how many threads that pays for. On p cores a parallel loop of n iterations
// alike takes about
//
//   max(C / p, M / min(p, m)) / e(n, p) + c p
//
//  - C is what the work takes on one core with its operands in caches, which each core has; where they only
//    fit a third level that is far, as fast as a core gets them from there (Cascade Lake: 2.4 MB 90 us). M is
//    what moving them from and to memory takes at one core's speed, 0 where they fit the caches.
//  - m cores use all that the memory gives; more of them don't bring more. A server has a channel of memory
//    for about eight cores. It gives some 38 GB/s, of which a core alone takes 20 to 30 (40 to 48 lines under
//    way, each for 100 ns): a fifth of the cores, but four at least, since one too few costs more than one
//    too many.
//  - e = n / (p ceil(n / p)) is the share of the time in which no core waits for the last one. Half the loss
//    is gone whenever n doubles: an even number is as good as a large one for two cores; for 64 it takes 640,
//    or a multiple of 64. So loops are fused until e is 95 %, or there is no other. Of n < 4 p iterations it
//    is 0.9 of that: they can't even out what others slow down. Of n < 8 p an iteration of which only a part
//    is inside the bounds counts as that part; of more, who is done takes from others.
//  - c is what each further thread adds to waking and to the end (about 0.3 us: all of them write one
//    counter). Without M the best p is sqrt(C / c): 21 cores for 130 us.
//
// From the p on for which that is least more threads would only cost: `threads=p` keeps them out. Work below
// Target::parallel_us stays with the caller: that two threads begin and end, and what one wrote and another
// reads, takes as long. Whether they are awake is nothing to know here: between a model's kernels they are,
// and the pool wakes none for so little. (Zen 5, two threads, 5 instead of 20 us: MobileNetV3 22 % less time,
// regnet_y_400mf 12, EfficientNet-B0 9; 154 works of 1 to 60 us 1.56 times as fast as on one thread, not
// 1.22, none less than 0.94 times; 3 us: no better, two works 0.65 and 0.73 times.) Beside a loop that
// threads share anyway a quarter of that is enough: they are awake, or will be needed (the transforms around
// Winograd's products of 512@7, the padding before convolutions in groups), and what each writes stays in its
// caches (zeros at the end of each line that the other thread wrote: 4x4/4, 4-128@36x7 transposed, 37 us,
// shared 12).
//
// Short loops are split statically: what they work on lies in a core's own caches, and is still there when
// the same thread meets it again (softmax of 38 us on two threads: 1.9 times one thread's speed,
// dynamically 1.2). Long ones gain more from evening out threads that others slow down.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/tails.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

constexpr double kGigahertz = 4,
                 kBytesPerNs = 128;  // a core at its best, its operands in the second-level cache or near
constexpr double kMemoryBytesPerNs = 20;  // a core, from and to memory
constexpr double kMath = 20;              // operations of an exp and its kin
constexpr double kPerThread = 0.3;        // c above, in microseconds
constexpr int64_t kPerThreadIterations = 4, kShared = 8;
constexpr double kEven = 0.95;
constexpr double kShort = 50;    // microseconds on each of the threads
constexpr double kAwake = 0.25;  // of what would be worth threads by itself

// Of `iterations` that do as much as `whole` ones.
double evenness(int64_t iterations, double whole, int64_t threads) {
  return (iterations < kShared * threads ? whole : static_cast<double>(iterations)) /
         static_cast<double>(ceil_div(iterations, threads) * threads);
}

// Iterations of the loop, of the last of which only a part may be inside its iterator's domain: of tiles of
// vectors, so many of these.
double whole_iterations(const Schedule& s, const std::string& block, const LoopInfo& loop, int64_t lanes) {
  auto whole = static_cast<double>(loop.extent);
  for (const IterVar& i : find_block(s.func(), block)->iters) {
    const auto binding = as_affine(i.binding);
    const auto size = as_int(i.extent);
    if (!binding || !size) continue;
    for (const auto& [var, step] : binding->terms) {
      if (var->name != loop.name || step <= 0) continue;
      const int64_t unit = step % lanes == 0 ? lanes : 1;
      whole = std::min(whole, static_cast<double>(ceil_div(*size, unit) * unit) / static_cast<double>(step));
    }
  }
  return whole;
}

struct Share {  // loops [first, last) fused, for so many threads
  size_t first = 0, last = 0;
  int64_t iterations = 0;
  double whole = 0;  // see evenness
  Threads threads;
  double score = 0;                              // what it would take at best / what it takes
  std::optional<Schedule> fused = std::nullopt;  // where there are several
};

// The work is started `outside` times, as often as loops outside of these run.
Share share_of(size_t first, size_t last, int64_t iterations, double whole, const Work& work, double outside,
               const Target& target) {
  Share s{first, last, iterations, whole, threads_for(work / outside, iterations, target, whole), 0};
  s.score = threads_for(work, INT64_MAX, target).microseconds / (outside * s.threads.microseconds) *
            (first > 0 ? 0.85 : 1);
  return s;
}

// Whether the block stands beside a loop that threads share, not inside of it.
bool are_awake(const PrimFunc& f, const std::string& block) {
  for (const LoopInfo& l : loops_of(f, block))
    if (l.kind == ForKind::parallel) return false;
  bool found = false;
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    found |= loop && loop->kind == ForKind::parallel;
  });
  return found;
}

std::string why(const Share& s, const Work& work, double worth, const Target& target) {
  const Threads& t = s.threads;
  const int64_t turns = ceil_div(s.iterations, t.count);
  std::string text = fmt::format(
      "about {:.0f} us of work, and threads pay from {:.0f} us on; {} iterations keep {} threads busy {:.0f} "
      "% of {} round{}",
      work.microseconds(), worth, s.iterations, t.count, 100 * evenness(s.iterations, s.whole, t.count),
      turns, turns > 1 ? "s" : "");
  if (t.count < target.cores)
    text += fmt::format("; more of the {} cores would only cost time: {:.1f} us per thread, {:.0f} us in all",
                        target.cores, kPerThread, t.microseconds);
  if (t.memory_binds)
    text += fmt::format("; memory-bound: {:.0f} cores use its full bandwidth", cores_for_memory(target));
  return text;
}

}  // namespace

double cores_for_memory(const Target& target) {
  return std::max(4, target.cores / 5);
}

Work work_of(const BlockInfo& b, const Target& target) {
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
  const bool far = target.far_l3() && bytes > static_cast<double>(target.l2_bytes);
  const double bytes_per_ns = far ? target.l3_bytes_per_cycle * kGigahertz : kBytesPerNs;
  const bool in_caches = bytes <= static_cast<double>(std::max(target.l2_bytes, target.l3_bytes));
  return {std::max(compute, bytes / bytes_per_ns) * 1e-3, in_caches ? 0 : bytes / kMemoryBytesPerNs * 1e-3};
}

double microseconds_on(const Work& work, int64_t threads, int64_t iterations, const Target& target,
                       std::optional<double> whole) {
  const auto p = static_cast<double>(threads);
  const double of_memory = std::min(p, cores_for_memory(target));
  double even = 1;
  if (iterations < INT64_MAX)
    even = evenness(iterations, whole.value_or(static_cast<double>(iterations)), threads) *
           (iterations < kPerThreadIterations * threads ? 0.9 : 1);
  return std::max(work.compute / p, work.memory / of_memory) / even + (threads > 1 ? kPerThread * p : 0);
}

Threads threads_for(const Work& work, int64_t iterations, const Target& target, std::optional<double> whole) {
  Threads best;
  for (int64_t p = 2; p <= std::max(2, target.cores) && (p == 2 || p <= iterations); ++p) {
    const double us = microseconds_on(work, p, iterations, target, whole);
    if (best.count == 1 || us < best.microseconds) best = {p, us, false};
  }
  const auto p = static_cast<double>(best.count);
  best.memory_binds = work.memory / std::min(p, cores_for_memory(target)) > work.compute / p;
  return best;
}

void share_loops(Schedule& s, const std::string& block, std::vector<std::string> loops, const Work& work,
                 const Target& target) {
  const double microseconds = work.microseconds();
  const double worth = target.parallel_us * (are_awake(s.func(), block) ? kAwake : 1);
  if (microseconds < worth) return;
  std::erase_if(loops, [&](const std::string& l) { return extent_of(s, block, l) <= 1; });
  const int64_t lanes = lanes_of(analyze(s.func(), block), target);
  Share best;
  double outside = 1;  // times that the parallel loop is started
  for (size_t first = 0; first < loops.size() && best.score < kEven; ++first) {
    if (first > 0 && microseconds / outside < std::max(worth, 1.0)) break;
    int64_t iterations = 1;
    double whole = 1;
    for (size_t last = first + 1; last <= loops.size(); ++last) {
      const LoopInfo loop{loops[last - 1], block, extent_of(s, block, loops[last - 1])};
      iterations *= loop.extent;
      whole *= whole_iterations(s, block, loop, lanes);
      const std::vector<std::string> fused(loops.begin() + static_cast<long>(first),
                                           loops.begin() + static_cast<long>(last));
      Share share = share_of(first, last, iterations, whole, work, outside, target);
      if (share.score <= best.score) continue;
      if (fused.size() > 1) {
        share.fused = s;
        const std::string step = fmt::format("g = fuse {} ({})", block, schedules::join(fused));
        const bool ragged = std::any_of(fused.begin(), fused.end(),
                                        [&](const std::string& l) { return has_tail(s.func(), block, l); });
        if (ragged || !share.fused->try_step(step)) break;
      }
      best = std::move(share);
      if (best.score >= kEven) break;
    }
    outside *= static_cast<double>(extent_of(s, block, loops[first]));
  }
  if (best.last == 0) return;
  Schedule shared = best.fused.value_or(s);
  const std::string loop = best.fused ? "g" : loops[best.first];
  shared.because(why(best, work, worth, target));
  if (!shared.try_step(fmt::format("parallel {}.{}", block, loop))) return;
  const int64_t count = best.threads.count;
  if (count < target.cores) shared(fmt::format("annotate {}.{} threads={}", block, loop, count));
  if (microseconds / static_cast<double>(count) < kShort) {
    shared.because("in short loops, a thread finds the data of its last run in its caches");
    shared(fmt::format("annotate {}.{} split=static", block, loop));
  }
  s = std::move(shared);
}

}  // namespace nestor::library

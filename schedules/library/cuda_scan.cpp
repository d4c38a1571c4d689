// A block that reads what it wrote before can't be reordered, so that each loop is tried where it stands:
// from the outermost inward for blocks of threads, from the innermost outward for threads.
#include "schedules/library/cuda_scan.h"

#include <fmt/format.h>

#include "nestor/error.h"
#include "schedules/library/cuda_work.h"

namespace nestor::library {

namespace {

constexpr int64_t kMostThreads = 1024;

// The last loops as one, as far as none of their iterations wait and they are few enough; cut where the last
// alone is too many. Its name, or nothing where all loops are blocks already.
std::string threads_from(Schedule& s, const std::string& block, size_t bound) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  if (loops.size() <= bound) return "";
  size_t first = loops.size() - 1;
  int64_t threads = loops[first].extent;
  if (threads > kMostThreads) {
    s(fmt::format("t0 t1 = split {}.{} [_, {}]", block, loops[first].name, kMostMapThreads));
    return "t1";
  }
  for (; first > bound && threads * loops[first - 1].extent <= kMostThreads; --first) {
    Schedule t = s;
    if (!t.try_step(fmt::format("bind {}.{} threadIdx.x", block, loops[first - 1].name))) break;
    threads *= loops[first - 1].extent;
  }
  std::string names;
  for (size_t k = first; k < loops.size(); ++k) names += (names.empty() ? "" : " ") + loops[k].name;
  s(fmt::format("t = fuse {} ({})", block, names));
  return "t";
}

}  // namespace

bool bind_scan(Schedule& s, const std::string& block) {
  const std::vector<LoopInfo> loops = loops_of(s.func(), block);
  for (const LoopInfo& l : loops)
    if (l.kind != ForKind::serial || l.extent < 1) return false;
  Schedule t = s;
  size_t blocks = 0;
  while (blocks < 3 && blocks + 1 < loops.size() &&
         t.try_step(fmt::format("bind {}.{} blockIdx.{}", block, loops[blocks].name, "xyz"[blocks])))
    ++blocks;
  Schedule u = t;
  bool spread = false;
  try {
    const std::string threads = threads_from(u, block, blocks);
    spread = !threads.empty() && u.try_step(fmt::format("bind {}.{} threadIdx.x", block, threads));
  } catch (const ScheduleError&) {
    spread = false;
  }
  if (spread) t = std::move(u);
  if (!spread && blocks == 0) return false;
  s = std::move(t);
  return true;
}

}  // namespace nestor::library

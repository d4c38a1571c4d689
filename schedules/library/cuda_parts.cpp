// Split-k: few results of long sums are few blocks of threads. Blocks compute parts of each sum, and a second
// kernel adds the parts up in a fixed order, so that a result is the same in every run.
#include <fmt/format.h>

#include "schedules/library/cuda_product.h"
#include "schedules/library/cuda_work.h"
#include "schedules/words.h"

namespace nestor::library {

std::string split_sum(Schedule& s, const std::string& block, const std::string& k, int64_t parts,
                      std::string& reader) {
  const std::string name = block + "_blocks";
  s(fmt::format("part {0}p = split {1}.{0} [{2}, _]", k, block, parts));
  std::vector<std::string> units = {"part"}, others;
  for (const LoopInfo& l : loops_of(s.func(), block))
    if (l.name != "part" && l.name != k + "p") (l.extent == 1 ? units : others).push_back(l.name);
  others.push_back(k + "p");
  s(fmt::format("reorder {} ({} {})", block, schedules::join(units), schedules::join(others)));
  if (units.size() > 1) s(fmt::format("part = fuse {} ({})", block, schedules::join(units)));
  s(fmt::format("{} = rfactor {}.part axis=0", name, block));
  if (reader.empty()) {
    reader = block + "_sums";
    s(fmt::format("{} = cache_write {} local", reader, block));
  }
  return name;
}

void add_parts(Schedule& s, const std::string& sum, const std::string& reader) {
  std::vector<std::string> loops;
  int64_t size = 1;
  for (const LoopInfo& l : loops_of(s.func(), reader)) {
    loops.push_back(l.name);
    size *= l.extent;
  }
  for (const BlockAccess& a : accesses_of(*find_block(s.func(), sum)))
    if (a.write) {
      s(fmt::format("set_scope {} local", a.buffer->name));
      break;
    }
  if (loops.size() > 1) s(fmt::format("g = fuse {} ({})", reader, schedules::join(loops)));
  s(fmt::format("gb gt = split {}.{} [_, {}]", reader, loops.size() > 1 ? "g" : loops[0], threads_for(size)));
  s(fmt::format("compute_at {} {}.gt", sum, reader));
  s(fmt::format("{0}_start = decompose_reduction {0}.part", sum));
  s(fmt::format("bind {}.gb blockIdx.x", reader));
  s(fmt::format("bind {}.gt threadIdx.x", reader));
}

}  // namespace nestor::library

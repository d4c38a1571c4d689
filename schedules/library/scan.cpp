// A running result, each element of which is made from the one before (src/ops/scan.cpp): its loop keeps its
// order.
//
//  - Where other dimensions lie denser, lanes go along these, and the results before stay in the L1 cache.
//    What is wider goes by panels, outside of the scan:
//        outer | panels | the scan | tiles of lanes
//  - Where elements along the scan lie side by side, it goes by chunks. Their inner results (Lanes, Vectors)
//    are computed at the chunk, in registers, and don't wait for those before; elements after the last whole
//    chunk follow one by one:
//        outer | chunks { Lanes; Vectors; results by vectors }
#include "schedules/library/scan.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

// Of results before, which stay in the second-level cache: whole rows follow each other in memory, and are
// read and written as streams, where pieces of rows aren't. (Zen 5, 4096 rows of 16 KB: by pieces of 8 KB 8.1
// ms.)
int64_t panel_bytes(const Target& target) {
  return target.l2_bytes / 8;
}

// The outermost iterator along which the block reads what it wrote before; null where it isn't such a scan.
const Iter* scanned(const BlockInfo& b) {
  const Access *read = nullptr, *write = nullptr;
  for (const Access& a : b.accesses) {
    if (a.write) write = &a;
    if (!a.write && a.buffer == b.output) read = &a;
  }
  if (b.reduction || !read || !write || !b.affine_loops) return nullptr;
  for (const Iter& i : b.iters)
    for (size_t d = 0; d < write->indices.size(); ++d)
      if (!i.loop.empty() && !same_expr(write->indices[d], read->indices[d]) &&
          uses_var(write->indices[d], i.var))
        return &i;
  return nullptr;
}

// Vectors of a reduction's results, each in a register until it is complete, at a loop of what reads them.
void reduce_at(Schedule& s, const std::string& block, const std::string& loop) {
  const BlockInfo b = analyze(s.func(), block);
  const std::string out = block + "_out", term = b.reduced().front()->loop;
  std::vector<std::string> written, summed;
  for (size_t i = 0; i < b.spatial().size(); ++i) {
    written.push_back(fmt::format("w{}", i));
    summed.push_back(fmt::format("s{}", i));
  }
  s(fmt::format("{} = cache_write {} local", out, block));
  s(fmt::format("{} = compute_at {} {}", schedules::join(written), out, loop));
  s(fmt::format("{} = compute_at {} {}.{}", schedules::join(summed), block, out,
                written[written.size() - 2]));
  s(fmt::format("reorder {} ({} {})", block, term, summed.back()));
  s(fmt::format("{0}_init = decompose_reduction {0}.{1}", block, term));
  for (const std::string& lanes :
       {block + "." + summed.back(), block + "_init." + summed.back(), out + "." + written.back()})
    s("vectorize " + lanes);
  s(fmt::format("unroll {}.{}", block, term));
}

void scan_chunks(Schedule& s, const BlockInfo& b, const Iter& chunks, const std::vector<std::string>& inner) {
  const std::string loop = b.name + "." + chunks.loop;
  for (const std::string& block : inner) {
    s.because("the sum of a chunk doesn't depend on the chunk before");
    if (analyze(s.func(), block).reduction) {
      reduce_at(s, block, loop);
    } else {
      s(fmt::format("compute_at {} {}", block, loop));
      s(fmt::format("vectorize {}.{}", block, loops_of(s.func(), block).back().name));
    }
  }
  s(fmt::format("vectorize {}.{}", b.name, b.spatial().back()->loop));
}

void scan_rows(Schedule& s, const BlockInfo& b, const Iter& scan, const Target& target) {
  const std::vector<const Iter*> all = b.spatial();
  const auto at = std::find(all.begin(), all.end(), &scan);
  int64_t row = bytes_of(b.output->type.dtype);
  for (auto i = at + 1; i < all.end(); ++i) row *= (*i)->extent;
  if (row > panel_bytes(target)) {
    std::vector<std::string> order;
    for (auto i = all.begin(); i + 1 < all.end(); ++i)
      if (i != at) order.push_back((*i)->loop);
    std::string last = all.back()->loop;
    const int64_t panel = panel_bytes(target) / bytes_of(b.output->type.dtype);
    if (all.back()->extent > panel) {
      s.because(fmt::format("{} results stay in L2 for the results that depend on them", panel));
      s(fmt::format("{0}p {0}t = split {1}.{0} [_, {2}] tail=peel", last, b.name, panel));
      order.push_back(last + "p");
      last += "t";
    }
    order.insert(order.end(), {scan.loop, last});
    s(fmt::format("reorder {} ({})", b.name, schedules::join(order)));
  }
  if (at + 1 != all.end()) vectorize_inside(s, b.name, target);
}

}  // namespace

bool is_scan(const PrimFunc& f) {
  const std::vector<std::string> blocks = block_names(f);
  return std::any_of(blocks.begin(), blocks.end(),
                     [&](const std::string& b) { return scanned(analyze(f, b)) != nullptr; });
}

void scan(Schedule& s, const Target& target) {
  std::vector<std::string> inner;  // of the block to come, readers first
  for (const std::string& name : block_names(s.func())) {
    const BlockInfo b = analyze(s.func(), name);
    const Iter* along = scanned(b);
    if (!along) {
      inner.insert(inner.begin(), name);
      continue;
    }
    const std::string scan_loop = along->loop;
    const Work work = work_of(b, target);
    if (inner.empty())
      scan_rows(s, b, *along, target);
    else
      scan_chunks(s, b, *along, inner);
    inner.clear();
    std::vector<std::string> outside;
    for (const LoopInfo& l : loops_of(s.func(), name)) {
      if (l.name == scan_loop) break;
      outside.push_back(l.name);
    }
    share_loops(s, name, outside, work, target);
  }
}

}  // namespace nestor::library

// A whole array has one result: as one kernel it is one block of threads on one multiprocessor. Its parts are
// reduced by as many blocks as fill the device, each to a number in device memory, in a fixed order (Harris,
// Optimizing Parallel Reduction in CUDA, 2007). Columns keep neighbouring threads on neighbouring columns, so
// that each row of a tile is one piece of memory.
#include "schedules/library/cuda_reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/analysis.h"
#include "schedules/library/cuda_work.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kWarp = 32;
// Terms of one block's part at least: of many threads, and of a few.
constexpr int64_t kShortest = 2048, kShortestColumn = 64;
constexpr int64_t kMostAside = 16;  // threads that share one column of a tile

struct Reduction {
  BlockInfo info;
  std::vector<std::string> results, terms;  // loops
  int64_t count = 1, length = 1;
  bool along_terms = true;  // neighbours in memory are terms of one result
};

std::optional<Reduction> reduction_of(const PrimFunc& f, const std::string& block) {
  Reduction r{analyze(f, block), {}, {}};
  if (!r.info.reduction || !r.info.affine_loops) return std::nullopt;
  for (const LoopInfo& l : loops_of(f, block)) {
    const Iter* i = r.info.iter(l.name);
    if (!i || l.kind != ForKind::serial || l.extent < 1) return std::nullopt;
    (i->reduce ? r.terms : r.results).push_back(l.name);
    (i->reduce ? r.length : r.count) *= l.extent;
  }
  for (const std::string& other : block_names(f))
    if (other != block && share_a_loop(f, block, other)) return std::nullopt;
  int64_t closest = 0;
  for (const Access& a : r.info.accesses)
    for (const Iter& i : r.info.iters) {
      const auto stride = a.stride(i);
      if (a.write || i.extent == 1 || !stride || *stride == 0 || !a.uses(i)) continue;
      if (closest && std::abs(*stride) >= closest) continue;
      closest = std::abs(*stride);
      r.along_terms = i.reduce;
    }
  if (r.terms.empty()) return std::nullopt;
  return r;
}

}  // namespace

bool split_over_blocks(Schedule& s, const std::string& block) {
  const auto r = reduction_of(s.func(), block);
  if (!r) return false;
  const int64_t shortest = r->along_terms ? kShortest : kShortestColumn;
  const int64_t results = r->along_terms ? r->count : ceil_div(r->count, kWarp);  // blocks without parts
  if (results >= kMultiprocessors) return false;
  int64_t part = r->length;
  for (int64_t parts = 2; ceil_div(part, 2) >= shortest && parts * results <= 4 * kMultiprocessors;
       parts *= 2)
    part = ceil_div(r->length, parts);
  if (part == r->length) return false;
  return s.attempt("parts by different blocks for " + block, [&](Schedule& t) {
    std::vector<std::string> order = r->results;
    order.insert(order.end(), r->terms.begin(), r->terms.end());
    if (order.size() > 1) t(fmt::format("reorder {} ({})", block, join(order)));
    t(fmt::format("gk = fuse {} ({})", block, join(r->terms)));
    t(fmt::format("part gk1 = split {}.gk [_, {}]", block, part));
    order = r->results;
    order.insert(order.begin(), "part");
    order.emplace_back("gk1");
    t(fmt::format("reorder {} ({})", block, join(order)));
    t(fmt::format("{0}_blocks = rfactor {0}.part{1}", block, r->along_terms ? "" : " axis=0"));
  });
}

bool bind_columns(Schedule& s, const std::string& block, const std::string& epilogue) {
  const auto r = reduction_of(s.func(), block);
  if (!r || r->along_terms || r->results.empty() || r->count >= kEnoughThreads || r->length < 4) return false;
  int64_t aside = 2;
  while (aside < kMostAside && aside * 4 <= r->length && r->count * aside < kEnoughThreads) aside *= 2;
  for (int64_t even = aside; 2 * even >= aside && even > 1; --even)
    if (r->length % even == 0) {
      aside = even;
      break;
    }
  return s.attempt("columns side by side for " + block, [&](Schedule& t) {
    std::string reader = epilogue;
    if (reader.empty()) {
      reader = block + "_out";
      t(fmt::format("{} = cache_write {} local", reader, block));
    } else {
      t(fmt::format("set_scope {} local", r->info.output->name));
    }
    std::vector<std::string> order = r->results;
    order.insert(order.end(), r->terms.begin(), r->terms.end());
    t(fmt::format("reorder {} ({})", block, join(order)));
    t(fmt::format("gc = fuse {} ({})", block, join(r->results)));
    t(fmt::format("gk = fuse {} ({})", block, join(r->terms)));
    t(fmt::format("reverse_compute_at {} {}.gc", reader, block));  // before its ragged end
    t(fmt::format("gc0 gc1 = split {}.gc [_, {}]", block, kWarp));
    t(fmt::format("gk0 gk1 = split {}.gk [_, {}]", block, aside));
    t(fmt::format("reorder {} (gk1 gk0)", block));
    t(fmt::format("{0}_part = rfactor {0}.gk1 axis=0", block));
    t(fmt::format("set_scope {}_part shared", block));
    t(fmt::format("{0}_zero = decompose_reduction {0}_part.gk0", block));
    t(fmt::format("{0}_start = decompose_reduction {0}.gk1", block));
    t(fmt::format("bind {}_part.gk1 threadIdx.y", block));
    t(fmt::format("bind {}.gc1 threadIdx.x", block));
    t(fmt::format("bind {}.gc0 blockIdx.x", block));
  });
}

}  // namespace nestor::library

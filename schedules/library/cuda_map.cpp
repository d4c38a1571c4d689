// Threads follow the elements in the order in which they are stored, so that a warp stores, and mostly loads,
// one piece of memory. Where all operands lie that way, a thread has 16 bytes at once, and several of them, a
// block apart: more loads under way for each thread (Volkov, Better performance at lower occupancy, GTC
// 2010).
//
// An operand that lies the other way round goes through a tile in shared memory: fetched along its own rows,
// read along its columns. A row of the tile is one element longer than its 32, so that a column lies in 32
// banks (Ruetsch and Micikevicius, Optimizing Matrix Transpose in CUDA, 2009).
#include "schedules/library/cuda_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/library/analysis.h"
#include "schedules/library/cuda_work.h"
#include "schedules/words.h"

namespace nestor::library {

namespace {

using schedules::join;

constexpr int64_t kVectorBytes = 16, kMostThreads = 1024;
constexpr int64_t kMostVectors = 4;           // of one thread
constexpr int64_t kTile = 32, kTileRows = 8;  // of a transpose; threads of a tile are 32 x 8
constexpr int64_t kShortest = 16;             // of a dimension that is worth a tile

struct Map {
  BlockInfo info;
  std::vector<const Iter*> order;  // loops as the output's elements lie, the closest last
  std::vector<std::string> units;
  int64_t size = 1;
};

std::optional<Map> map_of(const PrimFunc& f, const std::string& block) {
  Map m{analyze(f, block), {}, {}};
  if (m.info.reduction || !m.info.output) return std::nullopt;
  for (const LoopInfo& l : loops_of(f, block)) {
    const Iter* i = m.info.iter(l.name);
    if (l.kind != ForKind::serial || l.extent < 1 || (!i && l.extent > 1)) return std::nullopt;
    if (l.extent == 1)
      m.units.push_back(l.name);
    else
      m.order.push_back(i);
    m.size *= l.extent;
  }
  for (const Iter& i : m.info.iters)
    if (i.extent > 1 && i.loop.empty()) return std::nullopt;
  for (const std::string& other : block_names(f))
    if (other != block && share_a_loop(f, block, other)) return std::nullopt;
  const Access* write = nullptr;
  for (const Access& a : m.info.accesses)
    if (a.write) write = &a;
  if (!write || m.order.empty()) return std::nullopt;
  std::stable_sort(m.order.begin(), m.order.end(), [&](const Iter* a, const Iter* b) {
    return std::abs(write->stride(*a).value_or(0)) > std::abs(write->stride(*b).value_or(0));
  });
  return m;
}

// Elements in one piece for every operand, or one element for all of the piece: along the last loops
// together.
int64_t piece_of(const Map& m) {
  int64_t piece = 1;
  for (size_t k = m.order.size(); k-- > 0;) {
    for (const Access& a : m.info.accesses) {
      const auto stride = a.stride(*m.order[k]);
      const bool stands = stride == 0 && (piece == 1 || a.stride(*m.order.back()) == 0);
      const bool follows = stride == piece && (piece == 1 || a.stride(*m.order.back()) == 1);
      if (!stands && !follows) return piece;
    }
    piece *= m.order[k]->extent;
  }
  return piece;
}

int64_t lanes_of(const Map& m) {
  int bytes = 1;
  for (const Access& a : m.info.accesses) bytes = std::max(bytes, bytes_of(a.buffer->type.dtype));
  int64_t lanes = std::max<int64_t>(1, kVectorBytes / bytes);
  const int64_t piece = piece_of(m);
  while (lanes > 1 && (piece % lanes != 0 || m.size / lanes < kEnoughThreads)) lanes /= 2;
  return lanes;
}

class Steps {
 public:
  explicit Steps(Schedule& s) : schedule(s) {}
  template <class... Args>
  void operator()(const char* format, const Args&... args) {
    schedule(fmt::format(fmt::runtime(format), args...));
  }
  Schedule& schedule;
};

std::vector<std::string> all_loops(const Map& m) {
  std::vector<std::string> out = m.units;
  for (const Iter* i : m.order) out.push_back(i->loop);
  return out;
}

// All elements as one loop.
void in_order(Steps& step, const Map& m) {
  const std::vector<std::string> order = all_loops(m);
  const std::string& b = m.info.name;
  const int64_t lanes = lanes_of(m), threads = threads_for(m.size / lanes);
  int64_t vectors = 1;
  while (vectors < kMostVectors && m.size / lanes / (2 * vectors) >= 4 * kEnoughThreads) vectors *= 2;
  if (order.size() > 1) step("reorder {} ({})", b, join(order));
  step("g = fuse {} ({})", b, join(order));
  if (m.size <= threads) {
    step("bind {}.g threadIdx.x", b);
    return;
  }
  step.schedule.because(
      fmt::format("{} elements, {} at once, for {} multiprocessors", m.size, lanes, kMultiprocessors));
  step("{}_vectors = sample_choice [1, 2, 4] -> {}", b, vectors);
  step("{}_threads = sample_choice [32, 64, 128, 256, 512] -> {}", b, threads);
  step("gb gu gt gv = split {0}.g [_, {0}_vectors, {0}_threads, {1}]", b, lanes);
  if (lanes > 1) step("vectorize {}.gv", b);
  step("unroll {}.gu", b);
  step("bind {}.gt threadIdx.x", b);
  step("bind {}.gb blockIdx.x", b);
}

// The last loops together as the threads of a block, where they are so many already, the others as blocks:
// what a ragged end of all elements makes too hard to see may be plain here.
void by_last_loops(Steps& step, const Map& m) {
  std::vector<std::string> blocks = all_loops(m), threads;
  int64_t count = 1;
  for (size_t k = m.order.size(); k-- > 0 && count * m.order[k]->extent <= kMostThreads;) {
    count *= m.order[k]->extent;
    threads.insert(threads.begin(), m.order[k]->loop);
    blocks.pop_back();
  }
  if (count < kFewestThreads) throw ScheduleError(Diagnostic{"too few threads", {}, {}, ""});
  const std::string& b = m.info.name;
  if (m.order.size() > 1) step("reorder {} ({})", b, join(all_loops(m)));
  step("gt = fuse {} ({})", b, join(threads));
  step("bind {}.gt threadIdx.x", b);
  if (blocks.empty()) return;
  step("gb = fuse {} ({})", b, join(blocks));
  step("bind {}.gb blockIdx.x", b);
}

// An operand whose elements lie along another loop than the output's, and that loop.
struct Turned {
  const Access* operand = nullptr;
  const Iter *own = nullptr, *output = nullptr;  // closest in the operand, and in the output
};

Turned turned_operand(const Map& m) {
  const Iter* last = m.order.back();
  if (last->extent < kShortest) return {};
  for (const Access& a : m.info.accesses) {
    if (a.write || !a.has_plain_indices() || a.stride(*last).value_or(1) <= 1) continue;
    for (const Iter* i : m.order)
      if (i != last && a.stride(*i) == 1 && i->extent >= kShortest) return {&a, i, last};
  }
  return {};
}

// The operand's dimension that the iterator moves in.
size_t dimension(const Access& a, const Iter& i) {
  for (size_t d = 0; d < a.indices.size(); ++d)
    if (uses_var(a.indices[d], i.var)) return d;
  throw InternalError("no dimension moves with " + i.loop);
}

void by_tiles(Steps& step, const Map& m, const Turned& t) {
  const std::string &b = m.info.name, &i = t.own->loop, &j = t.output->loop;
  const std::string tile = t.operand->buffer->name + "_tile";
  step("{} = cache_read {} {} shared", tile, b, t.operand->buffer->name);
  std::vector<std::string> outer = m.units;
  for (const Iter* o : m.order)
    if (o != t.own && o != t.output) outer.push_back(o->loop);
  step("ti ty tr = split {}.{} [_, {}, {}]", b, i, kTileRows, kTile / kTileRows);
  step("tj tx = split {}.{} [_, {}]", b, j, kTile);
  std::vector<std::string> order = outer;
  for (const char* l : {"ti", "tj", "tr", "ty", "tx"}) order.emplace_back(l);
  step("reorder {} ({})", b, join(order));
  step("compute_at {} {}.tj", tile, b);
  // The tile's own loops, of its two dimensions and of others that are one element.
  std::vector<LoopInfo> own;
  const std::vector<LoopInfo> around = loops_of(step.schedule.func(), b);
  for (const LoopInfo& l : loops_of(step.schedule.func(), tile))
    if (std::none_of(around.begin(), around.end(), [&](const LoopInfo& a) { return a.name == l.name; }) &&
        l.extent > 1)
      own.push_back(l);
  if (own.size() != 2) throw ScheduleError(Diagnostic{"a tile of other than two dimensions", {}, {}, ""});
  step("sr sy = split {}.{} [_, {}]", tile, own[0].name, kTileRows);
  step("storage_align {} {} {} 1", tile, dimension(*t.operand, *t.output), kTile);
  step("unroll {}.sr", tile);
  step("unroll {}.tr", b);
  if (!outer.empty()) {
    step("to = fuse {} ({})", b, join(outer));
    step("bind {}.to blockIdx.z", b);
  }
  step("bind {}.ti blockIdx.y", b);
  step("bind {}.tj blockIdx.x", b);
  step("bind {}.sy threadIdx.y", tile);
  step("bind {}.{} threadIdx.x", tile, own[1].name);
  step("bind {}.ty threadIdx.y", b);
  step("bind {}.tx threadIdx.x", b);
}

}  // namespace

bool bind_map(Schedule& s, const std::string& block) {
  const auto m = map_of(s.func(), block);
  if (!m) return false;
  const Turned turned = turned_operand(*m);
  enum class Way : uint8_t { tiles, in_order, last_loops };
  for (const Way way : {Way::tiles, Way::in_order, Way::last_loops}) {
    if (way == Way::tiles && !turned.operand) continue;
    const char* const names[] = {"a tile in shared memory", "all elements as one loop",
                                 "the last loops as threads"};
    const bool done =
        s.attempt(fmt::format("{} for {}", names[static_cast<int>(way)], block), [&](Schedule& t) {
          Steps step(t);
          if (way == Way::tiles) by_tiles(step, *m, turned);
          if (way == Way::in_order) in_order(step, *m);
          if (way == Way::last_loops) by_last_loops(step, *m);
        });
    if (done) return true;
  }
  return false;
}

}  // namespace nestor::library

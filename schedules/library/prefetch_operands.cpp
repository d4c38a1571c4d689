// The operands of two products with rows of scores between them (join_products.cpp) come from far away, and
// in bursts: a few rows with each row tile, and all keys and values with each of the batch. So they are asked
// for in shares, with the tiles of columns, while what came before them is worked at.
#include <fmt/format.h>

#include <algorithm>

#include "nestor/walk.h"
#include "schedules/library/planner.h"
#include "schedules/library/product_chain.h"

namespace nestor::library {

namespace {

// The loop over tiles of columns around `product`, inside of the row tiles; empty where there is one tile.
std::string column_tiles(const Schedule& s, const std::string& product, const std::string& row_tiles) {
  const BlockInfo b = analyze(s.func(), product);
  bool inside = false;
  for (const LoopInfo& l : loops_of(s.func(), product)) {
    const bool reduced = std::any_of(b.iters.begin(), b.iters.end(),
                                     [&](const Iter& i) { return i.reduce && i.loop == l.name; });
    if (inside && l.kind == ForKind::serial && l.extent > 1 && !reduced) return l.name;
    inside |= l.name == row_tiles;
  }
  return "";
}

}  // namespace

// (Granite Rapids: 16x256x128 10 %, 12x512x64 5 % faster.)
void prefetch_next_rows(Schedule& s, const std::string& block, const std::string& row_tiles) {
  const std::string columns = column_tiles(s, block, row_tiles);
  const std::string shares = columns.empty() ? "" : " shares=" + columns;
  const BlockInfo b = analyze(s.func(), block);
  for (const Access& a : b.accesses) {
    if (a.write || !find_param(s.func(), a.buffer)) continue;
    s.because("its next rows have high latency: they are prefetched while these are used");
    s.try_step(fmt::format("prefetch {}.{} {} distance=1{}", block, row_tiles, a.buffer->name, shares));
  }
}

// Where the second-level cache can't hold the input, and shares are of a few hundred lines at most: each line
// is an instruction. (Of 31 queries and 4096 keys a share of two was 2700, which took 5 s to compile.) (Zen
// 5: 16x256x128, 12x512x64 and 8x1024x64 1 to 1.5 % faster; inputs that are in the cache would cost 0.5 %.)
bool prefetch_next_operand(Schedule& s, const std::string& block, const std::string& batch,
                           const std::string& product, const std::string& row_tiles, const Target& target) {
  constexpr int64_t kMostLines = 256;
  const std::string columns = column_tiles(s, product, row_tiles);
  if (batch.empty() || columns.empty()) return true;
  int64_t shares = 1;  // of all batches
  for (const LoopInfo& l : loops_of(s.func(), product)) {
    shares *= l.extent;
    if (l.name == columns) break;
  }
  const BlockInfo b = analyze(s.func(), block);
  for (const Access& a : b.accesses) {
    const int64_t bytes = a.elements * bytes_of(a.buffer->type.dtype);
    if (a.write || !find_param(s.func(), a.buffer) || bytes <= target.l2_bytes) continue;
    if (bytes / kLine > kMostLines * shares) return false;
    s.because(
        fmt::format("{} KiB don't fit in L2: the next are prefetched while these are used", bytes / 1024));
    s.try_step(fmt::format("prefetch {}.{} {} distance=1 shares={}.{}", block, batch, a.buffer->name, product,
                           columns));
  }
  return true;
}

}  // namespace nestor::library

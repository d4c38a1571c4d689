#include "schedules/library/turn_size.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "schedules/library/planner.h"
#include "schedules/library/tile_results.h"

namespace nestor::library {

namespace {

// Whether what is read for neighbouring lanes lies so far apart that few sets of a cache hold it.
bool comes_from_few_sets(const BlockInfo& b, const Iter& lanes) {
  constexpr int64_t kApart = 1024;
  return std::any_of(b.accesses.begin(), b.accesses.end(), [&](const Access& a) {
    return !a.write && a.uses(lanes) &&
           a.stride(lanes).value_or(1) * bytes_of(a.buffer->type.dtype) % kApart == 0;
  });
}

}  // namespace

int64_t side_of(const BlockInfo& b) {
  constexpr int64_t kLongestSide = 16;
  return std::min<int64_t>(kLongestSide, kLine / bytes_of(b.output->type.dtype));
}

bool stores_pairs(const BlockInfo& b, const Iter& lanes, const Target& target) {
  const int64_t bytes = bytes_of(b.output->type.dtype), line = kLine / bytes;
  if (bytes < 4 || lanes.extent < 2 * line) return false;
  return target.far_l3() ||
         (lanes_of(b, target) < line && comes_from_few_sets(b, lanes) && lanes.extent % (2 * line) == 0);
}

int64_t lanes_across(const BlockInfo& b, const Iter& lanes, bool streaming, const Target& target) {
  const int64_t side = side_of(b), bytes = bytes_of(b.output->type.dtype), line = kLine / bytes;
  if (streaming) return stores_pairs(b, lanes, target) ? 2 * line : line;
  return side * bytes <= 16 && lanes_of(b, target) == line && lanes.extent >= line ? line : side;
}

int64_t rows_of(const BlockInfo& b, const Iter& rows, const Target& target) {
  const int64_t side = side_of(b), bytes = bytes_of(b.output->type.dtype);
  if (write_of(b)->elements * bytes > target.l2_bytes) return std::min(side, rows.extent);
  const int64_t pitch = std::abs(write_of(b)->stride(rows).value_or(1)) * bytes;
  const int64_t lines_a_set = 2 * side * std::gcd(pitch, kPage) / kPage;
  const int64_t wanted = 2 * lines_a_set <= target.l1_ways ? 2 * side : side;
  return std::min(wanted, rows.extent);
}

const Iter* fills_lines(const BlockInfo& b, const Iter& lanes, const Iter& rows, const Target& target) {
  const Access& out = *write_of(b);
  const int64_t bytes = bytes_of(b.output->type.dtype);
  const int64_t pitch = std::abs(out.stride(lanes).value_or(0)) * bytes;
  if (out.stride(rows) != 1 || rows.extent * bytes >= kLine || pitch < kLine) return nullptr;
  const int64_t sets = kPage / std::max(kLine, std::gcd(pitch, kPage));
  if (2 * lanes.extent <= sets * target.l1_ways) return nullptr;
  for (const Iter* i : b.spatial())
    if (i != &lanes && i != &rows && !i->loop.empty() && i->extent > 1 && out.stride(*i) == rows.extent)
      return i;
  return nullptr;
}

}  // namespace nestor::library

#include "src/emulate/count.h"

#include <algorithm>

#include "src/emulate/lines.h"

namespace nestor {

namespace {

constexpr size_t kBanks = 32, kWord = 4, kSector = 32;
constexpr unsigned kAllLanes = 0xffffffff;

struct Cost {
  int64_t did = 0, ideal = 0;
};

using Offsets = std::array<uint64_t, kWarpSize>;

// Lanes t and t^by want the same, as far as both take part.
bool in_pairs(const Offsets& at, unsigned lanes, size_t by) {
  for (size_t t = 0; t < kWarpSize; ++t)
    if (lanes >> t & 1 && lanes >> (t ^ by) & 1 && at[t] != at[t ^ by]) return false;
  return true;
}

// The different words of one request in its busiest bank.
int64_t wavefronts(const Offsets& at, unsigned lanes, unsigned bytes) {
  std::vector<uint64_t> words;
  for (size_t t = 0; t < kWarpSize; ++t)
    if (lanes >> t & 1)
      for (uint64_t w = at[t] / kWord; w <= (at[t] + bytes - 1) / kWord; ++w) words.push_back(w);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::array<int64_t, kBanks> of_bank{};
  for (const uint64_t w : words) ++of_bank[w % kBanks];
  return *std::max_element(of_bank.begin(), of_bank.end());
}

Cost shared_cost(const Offsets& at, unsigned lanes, unsigned bytes, bool write) {
  size_t together = bytes > 8 ? 8 : bytes > 4 ? 16 : kWarpSize;  // lanes of a request
  if (together < kWarpSize && !write && (in_pairs(at, lanes, 1) || in_pairs(at, lanes, 2))) together *= 2;
  Cost out;
  for (size_t first = 0; first < kWarpSize; first += together) {
    const unsigned mine = lanes & (kAllLanes >> (kWarpSize - together)) << first;
    if (mine == 0) continue;
    out.did += wavefronts(at, mine, bytes);
    ++out.ideal;
  }
  return out;
}

// Buffers begin with a sector.
Cost global_cost(const Offsets& at, unsigned lanes, unsigned bytes) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (size_t t = 0; t < kWarpSize; ++t)
    if (lanes >> t & 1) ranges.push_back({at[t], at[t] + bytes});
  std::sort(ranges.begin(), ranges.end());
  uint64_t distinct = 0, end = 0, next_sector = 0;
  Cost out;
  for (const auto& [from, to] : ranges) {
    distinct += to - std::min(std::max(from, end), to);
    end = std::max(end, to);
    const uint64_t first = std::max(from / kSector, next_sector), last = (to - 1) / kSector;
    if (last >= first) {
      out.did += static_cast<int64_t>(last - first + 1);
      next_sector = last + 1;
    }
  }
  out.ideal = static_cast<int64_t>((distinct + kSector - 1) / kSector);
  return out;
}

}  // namespace

void MemoryCounter::block_starts(size_t, size_t threads) {
  warps_.resize((threads + kWarpSize - 1) / kWarpSize);
}

void MemoryCounter::access(size_t thread, const MemoryAccess& a) {
  Executions& e = warps_[thread / kWarpSize][{a.site, a.buffer, a.bytes, a.write}];
  const size_t lane = thread % kWarpSize, number = e.done[lane]++;
  if (number >= e.instructions.size()) e.instructions.resize(number + 1);
  e.instructions[number].lanes |= 1u << lane;
  e.instructions[number].at[lane] = a.offset;
  if (a.shared()) return;
  Bytes& b = bytes_[{a.buffer, a.write}];
  b.moved += a.bytes;
  if (b.seen.size() < a.offset + a.bytes) b.seen.resize(a.offset + a.bytes);
  for (uint64_t i = a.offset; i < a.offset + a.bytes; ++i) {
    b.distinct += !b.seen[i];
    b.seen[i] = true;
  }
}

void MemoryCounter::close(std::map<Site, Executions>& warp) {
  for (auto& [site, executions] : warp) {
    Sum& sum = sums_[site];
    for (const Instruction& i : executions.instructions) {
      const Cost c = site.buffer < 0 ? shared_cost(i.at, i.lanes, site.bytes, site.write)
                                     : global_cost(i.at, i.lanes, site.bytes);
      ++sum.instructions;
      sum.did += c.did;
      sum.ideal += c.ideal;
    }
    executions.done = {};
    executions.instructions.clear();
  }
}

// Lanes that don't meet may be at an earlier execution, or a later one: then they are counted apart.
void MemoryCounter::lanes_meet(size_t first_thread, unsigned) {
  close(warps_[first_thread / kWarpSize]);
}

void MemoryCounter::block_meets() {
  for (auto& w : warps_) close(w);
}

MemoryCounts MemoryCounter::counts(int args) const {
  MemoryCounts out;
  out.buffers.resize(static_cast<size_t>(args));
  for (const auto& [key, b] : bytes_) {
    MemoryCounts::Buffer& buffer = out.buffers.at(static_cast<size_t>(key.first));
    (key.second ? buffer.written : buffer.read) = b.moved;
    (key.second ? buffer.distinct_written : buffer.distinct_read) = b.distinct;
  }
  std::vector<const void*> codes;
  for (const auto& [site, sum] : sums_) codes.push_back(site.code);
  const std::vector<int> lines = lines_of(codes);
  size_t number = 0;
  for (const auto& [site, sum] : sums_) {
    const bool shared = site.buffer < 0;
    (shared ? out.wavefronts : out.sectors) += sum.did;
    (shared ? out.ideal_wavefronts : out.ideal_sectors) += sum.ideal;
    out.lines.push_back({lines[number++], shared, site.write, static_cast<int>(site.bytes), sum.instructions,
                         sum.did, sum.ideal});
  }
  std::stable_sort(out.lines.begin(), out.lines.end(),
                   [](const MemoryCounts::Line& a, const MemoryCounts::Line& b) { return a.line < b.line; });
  return out;
}

}  // namespace nestor

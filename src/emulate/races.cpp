#include "src/emulate/races.h"

#include <algorithm>

#include "src/emulate/lines.h"

namespace nestor {

void RaceChecker::block_starts(size_t block, size_t threads) {
  block_ = block;
  threads_ = threads;
  known_.resize(threads);
  block_meets();
}

void RaceChecker::block_meets() {
  ++epoch_;
  for (size_t t = 0; t < known_.size(); ++t) {
    known_[t].fill(0);
    known_[t][t % kWarpSize] = 1;
  }
}

// Each knows what the others knew, and then begins a new time of its own.
void RaceChecker::lanes_meet(size_t first_thread, unsigned mask) {
  Times all{};
  const auto for_each = [&](const auto& f) {
    for (size_t lane = 0; lane < kWarpSize; ++lane)
      if (mask >> lane & 1) f(lane, known_[first_thread + lane]);
  };
  for_each([&](size_t, const Times& t) {
    for (size_t l = 0; l < kWarpSize; ++l) all[l] = std::max(all[l], t[l]);
  });
  for_each([&](size_t lane, Times& t) {
    t = all;
    ++t[lane];
  });
}

RaceChecker::Byte& RaceChecker::byte_at(uint64_t address) {
  const uint64_t number = address / kPage;
  if (!last_ || number != last_page_) {
    std::unique_ptr<Page>& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    last_ = page.get();
    last_page_ = number;
  }
  return (*last_)[address % kPage];
}

uint32_t RaceChecker::number_of(const void* site) {
  const auto [it, fresh] = site_numbers_.try_emplace(site, static_cast<uint32_t>(sites_.size()));
  if (fresh) sites_.push_back(site);
  return it->second;
}

bool RaceChecker::ordered(const Touch& before, const Touch& now) const {
  if (before.epoch == 0 || before.thread == now.thread) return true;
  if (before.thread / threads_ != block_) return false;
  if (before.epoch != now.epoch) return true;
  const size_t other = before.thread % threads_, me = now.thread % threads_;
  return other / kWarpSize == me / kWarpSize && before.time <= known_[me][other % kWarpSize];
}

void RaceChecker::remember(Byte& byte, const Touch& read) const {
  auto& [latest, other, far] = byte.reads;
  const auto warp = [&](const Touch& t) {
    return std::pair(t.thread / threads_, t.thread % threads_ / kWarpSize);
  };
  if (latest.thread != read.thread || latest.epoch == 0) {
    if (latest.epoch != 0 && warp(latest) != warp(read)) far = latest;
    other = latest;
  }
  latest = read;
}

void RaceChecker::access(size_t thread, const MemoryAccess& a) {
  const bool may_be_written = a.shared() || a.buffer >= 64 || kernel_.written >> a.buffer & 1;
  if (!may_be_written || !problem_.empty()) return;
  const Touch now{static_cast<uint32_t>(block_ * threads_ + thread), epoch_,
                  known_[thread][thread % kWarpSize], number_of(a.site)};
  for (uint64_t i = 0; i < a.bytes; ++i) {
    // Each block has shared memory of its own: what another one left isn't there.
    Byte& byte = byte_at(a.address + i);
    if (a.shared() && byte.write.thread / threads_ != block_) byte.write.epoch = 0;
    if (!ordered(byte.write, now)) return report(byte.write, true, now, a);
    for (Touch& read : byte.reads) {
      if (a.shared() && read.thread / threads_ != block_) read.epoch = 0;
      if (a.write && !ordered(read, now)) return report(read, false, now, a);
    }
    if (a.write) {
      byte.write = now;
      byte.reads = {};
    } else {
      remember(byte, now);
    }
  }
}

void RaceChecker::report(const Touch& before, bool wrote, const Touch& now, const MemoryAccess& a) {
  const std::vector<int> lines = lines_of({sites_[before.site], a.site});
  const bool blocks = before.thread / threads_ != block_;
  const auto who = [&](const Touch& t) {
    return "thread " + std::to_string(t.thread % threads_) + " of block " +
           std::to_string(t.thread / threads_);
  };
  const std::string memory = a.shared() ? "shared memory" : "argument " + std::to_string(a.buffer + 1);
  problem_ = "a race in " + memory + ": " + who(before) + (wrote ? " writes" : " reads") + " at " +
             quoted(kernel_, lines[0]) + ", " + who(now) + (a.write ? " writes" : " reads") +
             " the same bytes at " + quoted(kernel_, lines[1]) +
             (blocks ? "; blocks don't wait for each other" : ", and nothing makes one wait for the other");
}

}  // namespace nestor

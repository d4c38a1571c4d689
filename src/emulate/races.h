// Races: two threads touch one byte, one of them writing it, and no barrier or meeting of their warp lies
// between, whatever the order in which the threads of this launch happen to run. Blocks never wait for each
// other.
//
// Each byte of shared memory, and of global memory that the kernel may write, remembers its last write and
// the last reads of three threads: the latest, the latest of another thread, the latest of another warp. A
// lane's time is the number of its meetings since the block's last barrier; meetings join what the lanes know
// of each other's times (vector clocks, of a warp alone). Three reads are exact where all lanes of a warp
// meet; where some do, a race can be missed, and none is made up.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/emulate/emulation.h"
#include "src/emulate/observer.h"

namespace nestor {

class RaceChecker : public LaunchObserver {
 public:
  explicit RaceChecker(const EmulatedKernel& kernel) : kernel_(kernel) {}
  void block_starts(size_t block, size_t threads) override;
  void access(size_t thread, const MemoryAccess& a) override;
  void lanes_meet(size_t first_thread, unsigned mask) override;
  void block_meets() override;
  std::string problem() const override { return problem_; }

 private:
  struct Touch {
    uint32_t thread = 0;  // of the grid
    uint32_t epoch = 0;   // barriers of all blocks so far; 0: none
    uint32_t time = 0;
    uint32_t site = 0;
  };
  struct Byte {
    Touch write;
    std::array<Touch, 3> reads;
  };
  static constexpr size_t kPage = 256;
  using Page = std::array<Byte, kPage>;
  using Times = std::array<uint32_t, kWarpSize>;

  Byte& byte_at(uint64_t address);
  uint32_t number_of(const void* site);
  bool ordered(const Touch& before, const Touch& now) const;
  void remember(Byte& byte, const Touch& read) const;
  void report(const Touch& before, bool wrote, const Touch& now, const MemoryAccess& a);

  const EmulatedKernel& kernel_;
  size_t block_ = 0, threads_ = 0;
  uint32_t epoch_ = 0;
  std::vector<Times> known_;  // by each thread of the block: of its warp's lanes
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_page_ = 0;
  Page* last_ = nullptr;
  std::vector<const void*> sites_;
  std::unordered_map<const void*, uint32_t> site_numbers_;
  std::string problem_;
};

}  // namespace nestor

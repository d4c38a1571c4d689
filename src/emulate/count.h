// Counts what a launch asks of memory, by warp instructions: the k-th execution of one access by the lanes of
// a warp since they last met is one instruction.
//
// Shared memory has 32 banks of 4 bytes; an instruction takes a wavefront for each of the different words
// that its lanes want of the busiest bank. One of 8 or 16 bytes a lane is cut into requests of half and
// quarter warps. A load whose lanes want the same in pairs (t and t^1, or t and t^2) needs half as many
// requests (NVIDIA's forum, "Unexpected shared memory bank conflict"). The ideal is one wavefront a request.
//
// Global memory is moved in sectors of 32 bytes. The ideal of an instruction is its different bytes, packed.
#pragma once

#include <array>
#include <map>
#include <tuple>
#include <unordered_map>

#include "nestor/memory_counts.h"
#include "src/emulate/observer.h"

namespace nestor {

class MemoryCounter : public LaunchObserver {
 public:
  void block_starts(size_t block, size_t threads) override;
  void access(size_t thread, const MemoryAccess& a) override;
  void lanes_meet(size_t first_thread, unsigned mask) override;
  void block_meets() override;

  // args: of the kernel. Lines are those of the library's text.
  MemoryCounts counts(int args) const;

 private:
  struct Site {
    const void* code;
    int buffer;
    unsigned bytes;
    bool write;
    bool operator<(const Site& o) const {
      return std::tie(code, buffer, bytes, write) < std::tie(o.code, o.buffer, o.bytes, o.write);
    }
  };
  struct Instruction {
    unsigned lanes = 0;
    std::array<uint64_t, kWarpSize> at{};  // offsets
  };
  struct Executions {
    std::array<uint32_t, kWarpSize> done{};  // by each lane
    std::vector<Instruction> instructions;
  };
  struct Sum {
    int64_t instructions = 0, did = 0, ideal = 0;
  };
  struct Bytes {
    int64_t moved = 0, distinct = 0;
    std::vector<bool> seen;
  };

  void close(std::map<Site, Executions>& warp);

  std::vector<std::map<Site, Executions>> warps_;
  std::map<Site, Sum> sums_;
  std::map<std::pair<int, bool>, Bytes> bytes_;  // of global memory, by buffer, written or read
};

}  // namespace nestor

// The memory traffic of one kernel launch, counted by the emulator (src/emulate/count.h has the rules).
#pragma once

#include <cstdint>
#include <vector>

namespace nestor {

struct MemoryCounts {
  // Of shared memory: 128 bytes from different banks are one wavefront. ideal: without bank conflicts.
  int64_t wavefronts = 0, ideal_wavefronts = 0;
  // Of global memory: 32 bytes each. ideal: what the instructions want, packed.
  int64_t sectors = 0, ideal_sectors = 0;

  struct Buffer {  // an argument; bytes
    int64_t read = 0, distinct_read = 0, written = 0, distinct_written = 0;
  };
  std::vector<Buffer> buffers;

  struct Line {  // of the text, in its order; wavefronts or sectors
    int line = 0;
    bool shared = false, write = false;
    int bytes = 0;  // a lane
    int64_t instructions = 0, did = 0, ideal = 0;
  };
  std::vector<Line> lines;
};

}  // namespace nestor

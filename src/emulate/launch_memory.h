// The memory that a launch may touch: its arguments', the library's shared memory and the launch's own
// dynamic shared memory.
#pragma once

#include <string>
#include <vector>

#include "src/emulate/blocks.h"

namespace nestor {

class LaunchMemory {
 public:
  LaunchMemory(const EmulatedLibrary& library, const EmulatedKernel& kernel, void** args,
               const EmulatedLaunch& launch);

  char* dynamic_shared() { return dynamic_; }
  void poison();  // shared memory
  // "" where the bytes behind dynamic shared memory are as `poison` left them.
  std::string damage() const;
  // Which memory of the launch an access is of; `buffer` is `unknown` where it is of none.
  MemoryAccess find(const void* at, unsigned bytes, bool write, const void* site) const;
  std::string describe(const MemoryAccess& a) const;  // "16 bytes of argument 2, from byte 8 on"

  static constexpr int unknown = -3, ignored = -4;  // not the launch's; the library's constants

 private:
  struct Range {
    uint64_t begin, end;
    int buffer;
  };
  std::vector<Range> ranges_;
  std::vector<char> memory_;
  char* dynamic_;
  char* static_ = nullptr;
  size_t dynamic_bytes_, static_bytes_ = 0;
};

}  // namespace nestor

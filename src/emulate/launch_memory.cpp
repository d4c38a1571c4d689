#include "src/emulate/launch_memory.h"

#include <algorithm>
#include <cstring>

namespace nestor {

namespace {

constexpr size_t kBehind = 4096;  // dynamic shared memory, where writes are noticed
constexpr size_t kAligned = 1024;
constexpr int kGarbage = 0xff;

uint64_t address_of(const void* p) {
  return reinterpret_cast<uintptr_t>(p);
}

}  // namespace

LaunchMemory::LaunchMemory(const EmulatedLibrary& library, const EmulatedKernel& kernel, void** args,
                           const EmulatedLaunch& launch)
    : memory_(launch.dynamic_shared + kBehind + kAligned), dynamic_bytes_(launch.dynamic_shared) {
  dynamic_ = memory_.data() + (kAligned - address_of(memory_.data()) % kAligned) % kAligned;
  static_bytes_ = library.shared_memory(&static_);
  const auto add = [&](const void* at, size_t bytes, int buffer) {
    ranges_.push_back({address_of(at), address_of(at) + bytes, buffer});
  };
  add(static_, static_bytes_, MemoryAccess::static_shared);
  add(dynamic_, dynamic_bytes_, MemoryAccess::dynamic_shared);
  for (int a = 0; a < kernel.args && a < static_cast<int>(launch.bytes.size()); ++a)
    add(*static_cast<void**>(args[a]), launch.bytes[static_cast<size_t>(a)], a);
  char *begin = nullptr, *end = nullptr;
  library.image(&begin, &end);
  add(begin, static_cast<size_t>(end - begin), ignored);
}

void LaunchMemory::poison() {
  if (static_bytes_ > 0) std::memset(static_, kGarbage, static_bytes_);
  std::memset(memory_.data(), kGarbage, memory_.size());
}

std::string LaunchMemory::damage() const {
  const char* end = dynamic_ + dynamic_bytes_;
  if (std::all_of(end, end + kBehind, [](char c) { return c == static_cast<char>(kGarbage); })) return "";
  return "a thread writes behind the " + std::to_string(dynamic_bytes_) + " bytes of dynamic shared memory";
}

MemoryAccess LaunchMemory::find(const void* at, unsigned bytes, bool write, const void* site) const {
  const uint64_t address = address_of(at);
  MemoryAccess out{unknown, 0, address, bytes, write, site};
  // The library's shared memory is part of its image, and two arguments may point to one place: the first
  // counts.
  for (const Range& r : ranges_) {
    if (address < r.begin || address + bytes > r.end) continue;
    out.buffer = r.buffer;
    out.offset = address - r.begin;
    break;
  }
  return out;
}

std::string LaunchMemory::describe(const MemoryAccess& a) const {
  const std::string bytes = std::to_string(a.bytes) + (a.bytes == 1 ? " byte" : " bytes");
  const auto from = [](uint64_t at) { return ", from byte " + std::to_string(at) + " on"; };
  if (a.buffer == MemoryAccess::static_shared) return bytes + " of shared memory" + from(a.offset);
  if (a.buffer == MemoryAccess::dynamic_shared) return bytes + " of dynamic shared memory" + from(a.offset);
  if (a.buffer >= 0) return bytes + " of argument " + std::to_string(a.buffer + 1) + from(a.offset);
  // Of none: say which is nearest below.
  const Range* nearest = nullptr;
  for (const Range& r : ranges_)
    if (r.buffer != ignored && r.begin <= a.address && (!nearest || r.begin > nearest->begin)) nearest = &r;
  if (!nearest) return bytes + " outside of all its memory";
  MemoryAccess inside = a;
  inside.buffer = nearest->buffer;
  inside.offset = a.address - nearest->begin;
  return describe(inside) + ", of which there are " + std::to_string(nearest->end - nearest->begin);
}

}  // namespace nestor

#include "src/python/bindings/memory.h"

#include <sys/mman.h>

#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace nestor::python {

namespace {

// malloc would keep what was freed below something that lives.
constexpr size_t kLeastMapped = size_t{1} << 20, kMostKept = size_t{64} << 20;
constexpr std::align_val_t kLine{64};

struct Mappings {
  std::mutex mutex;
  std::unordered_map<void*, size_t> bytes;
  std::pair<void*, size_t> kept = {nullptr, 0};
};
Mappings& mappings() {
  static auto* const all = new Mappings;  // outlives the interpreter's end
  return *all;
}

}  // namespace

void* take_memory(size_t bytes) {
  if (bytes < kLeastMapped) return ::operator new(bytes, kLine);
  Mappings& m = mappings();
  const std::lock_guard one(m.mutex);
  void* p = m.kept.second == bytes ? std::exchange(m.kept, {nullptr, 0}).first : nullptr;
  if (!p) p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  m.bytes[p] = bytes;
  return p;
}

void give_memory(void* memory) noexcept {
  Mappings& m = mappings();
  const std::lock_guard one(m.mutex);
  const auto it = m.bytes.find(memory);
  if (it == m.bytes.end()) return ::operator delete(memory, kLine);
  std::pair<void*, size_t> gone = *it;
  m.bytes.erase(it);
  if (gone.second <= kMostKept) std::swap(gone, m.kept);
  if (gone.first) munmap(gone.first, gone.second);
}

}  // namespace nestor::python

// Weights, temporaries and scratch in pages of 2 MB, where the system has them for those who ask (Linux'
// transparent huge pages). A processor keeps some thousand addresses translated, which is 4 to 12 MB of small
// pages: weights that stream through it lose as much time on translations as on their bytes, more so in a
// virtual machine (1x4096x4096: 5.1 ms, in large pages 2.4). Callers' tensors lie where the callers put them.
#include <asm/mman.h>  // MADV_COLLAPSE, which libc does not know yet
#include <sys/mman.h>

#include "nestor/runtime.h"

namespace nestor {

void prefer_large_pages(Tensor& memory) {
  constexpr uintptr_t kSmall = 4096, kLarge = 2 << 20;
  if (!memory.defined() || memory.bytes() < int64_t{2 * kLarge}) return;
  const auto begin = (reinterpret_cast<uintptr_t>(memory.data()) + kSmall - 1) / kSmall * kSmall;
  const auto end =
      (reinterpret_cast<uintptr_t>(memory.data()) + static_cast<uintptr_t>(memory.bytes())) / kSmall * kSmall;
  auto* at = reinterpret_cast<void*>(begin);
  if (madvise(at, end - begin, MADV_HUGEPAGE) != 0) return;  // a system without: small pages do
#ifdef MADV_COLLAPSE
  // What was written already lies in small pages; Linux before 6.1 gathers them by and by.
  (void)madvise(at, end - begin, MADV_COLLAPSE);
#endif
}

}  // namespace nestor

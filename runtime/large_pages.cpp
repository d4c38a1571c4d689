// Weights, temporaries and scratch in pages of 2 MB, where the system has them for those who ask (Linux'
// transparent huge pages). A processor keeps some thousand addresses translated, which is 4 to 12 MB of small
// pages: weights that stream through it lose as much time on translations as on their bytes, more so in a
// virtual machine (1x4096x4096: 5.1 ms, in large pages 2.4). Callers' tensors lie where the callers put them.
//
// Less than that gains too. Its small pages lie anywhere in memory, so that some of a second-level cache's
// sets have more of them to hold than others, and what almost fills the cache doesn't stay there. A large
// page fills all sets evenly. (Cascade Lake, 1 MB of cache, Winograd's 3x3: of 128 channels at 28 and at 14 8
// to 10 % less time, 256 at 14 6.)
#include "runtime/large_pages.h"

#include <asm/mman.h>  // MADV_COLLAPSE, which libc does not know yet
#include <sys/mman.h>

#include "nestor/runtime.h"

namespace nestor {

void prefer_large_pages(Tensor& memory) {
  constexpr uintptr_t kSmall = 4096, kLarge = NESTOR_LARGE_PAGE;
  if (!memory.defined() || memory.bytes() < NESTOR_LEAST_IN_LARGE_PAGES) return;
  uintptr_t begin = reinterpret_cast<uintptr_t>(memory.data()),
            end = begin + static_cast<uintptr_t>(memory.bytes());
  // Raw memory begins with a large page and shares none (tensor.cpp); of other tensors it is what lies
  // inside.
  const uintptr_t page = begin % kLarge == 0 ? kLarge : kSmall;
  begin = (begin + page - 1) / page * page;
  end = page == kLarge ? (end + page - 1) / page * page : end / page * page;
  auto* at = reinterpret_cast<void*>(begin);
  if (madvise(at, end - begin, MADV_HUGEPAGE) != 0) return;  // a system without: small pages do
#ifdef MADV_COLLAPSE
  // What was written already lies in small pages; Linux before 6.1 gathers them by and by.
  (void)madvise(at, end - begin, MADV_COLLAPSE);
#endif
}

}  // namespace nestor

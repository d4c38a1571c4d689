// With NESTOR_TRACED, each access to memory is told to the host. The compiler instruments the text as for
// ThreadSanitizer (-fsanitize=thread), whose functions these are: the text needs no change, and what the
// optimizer keeps in registers isn't told.
#pragma once

#ifdef NESTOR_EMULATED
#ifdef NESTOR_TRACED

// Not of what lies on the stack, which are a thread's registers and local arrays, nor of the indices.
__attribute__((always_inline)) NESTOR_UNTRACED static inline void nestor_access(const void* p, unsigned bytes,
                                                                                bool write,
                                                                                const void* site) {
  const Emulation* e = nestor_emulation;
  const size_t at = (size_t)p, here = (size_t)__builtin_frame_address(0);
  if (at - here < (size_t)e->stack - here || at - (size_t)e < sizeof *e || p == &nestor_emulation) return;
  e->access(e->self, p, bytes, write, site);
}

#define NESTOR_HOOK(name, bytes, write)                                                     \
  NESTOR_UNTRACED __attribute__((visibility("hidden"))) void __tsan_##name(const void* p) { \
    nestor_access(p, bytes, write, __builtin_return_address(0));                            \
  }
extern "C" {
bool nestor_traced = true;
NESTOR_HOOK(read1, 1, false)
NESTOR_HOOK(read2, 2, false)
NESTOR_HOOK(read4, 4, false)
NESTOR_HOOK(read8, 8, false)
NESTOR_HOOK(read16, 16, false)
NESTOR_HOOK(write1, 1, true)
NESTOR_HOOK(write2, 2, true)
NESTOR_HOOK(write4, 4, true)
NESTOR_HOOK(write8, 8, true)
NESTOR_HOOK(write16, 16, true)
NESTOR_HOOK(unaligned_read2, 2, false)
NESTOR_HOOK(unaligned_read4, 4, false)
NESTOR_HOOK(unaligned_read8, 8, false)
NESTOR_HOOK(unaligned_read16, 16, false)
NESTOR_HOOK(unaligned_write2, 2, true)
NESTOR_HOOK(unaligned_write4, 4, true)
NESTOR_HOOK(unaligned_write8, 8, true)
NESTOR_HOOK(unaligned_write16, 16, true)
#define NESTOR_HIDDEN NESTOR_UNTRACED __attribute__((visibility("hidden")))
NESTOR_HIDDEN void __tsan_init() {}
NESTOR_HIDDEN void __tsan_func_entry(void*) {}
NESTOR_HIDDEN void __tsan_func_exit(void*) {}
NESTOR_HIDDEN void __tsan_read_range(const void* p, size_t bytes) {
  nestor_access(p, (unsigned)bytes, false, __builtin_return_address(0));
}
NESTOR_HIDDEN void __tsan_write_range(const void* p, size_t bytes) {
  nestor_access(p, (unsigned)bytes, true, __builtin_return_address(0));
}
// Of the text's own arrays on the stack; what the header copies is told by nestor_copy.
NESTOR_HIDDEN void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  return memcpy(to, from, bytes);
}
NESTOR_HIDDEN void* __tsan_memset(void* to, int value, size_t bytes) {
  return memset(to, value, bytes);
}
}
#endif
#endif

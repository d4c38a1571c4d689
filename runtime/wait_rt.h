/* How threads wait for each other: they spin, then yield, then sleep on a futex. Included by kernel_rt.c
 * only. */
#ifndef NESTOR_WAIT_RT_H
#define NESTOR_WAIT_RT_H

#include <stdatomic.h>
#include <stdint.h>

extern long syscall(long number, ...);
struct seconds_and_nanoseconds {
  long seconds, nanoseconds;
};
extern int clock_gettime(int clock, struct seconds_and_nanoseconds* time);

#if defined(__x86_64__)
enum { FUTEX_CALL = 202, YIELD_CALL = 24 };
static inline void relax(void) {
  __builtin_ia32_pause();
}
#elif defined(__aarch64__)
enum { FUTEX_CALL = 98, YIELD_CALL = 124 };
static inline void relax(void) {
  __asm__ volatile("yield");
}
#else
#error "wait_rt.h knows x86_64 and aarch64 Linux"
#endif

enum {
  FUTEX_WAIT_PRIVATE = 128,
  FUTEX_WAKE_PRIVATE = 129,
  MONOTONIC = 1,  /* clock */
  SPINS = 200,    /* of relax(): 2 to 8 microseconds */
  CROWDED = 20000 /* nanoseconds of a yield: another thread has run */
};

static inline int64_t now(void) { /* nanoseconds */
  struct seconds_and_nanoseconds t = {0, 0};
  clock_gettime(MONOTONIC, &t);
  return (int64_t)t.seconds * 1000000000 + t.nanoseconds;
}

static inline int sleep_on(_Atomic uint32_t* word, uint32_t seen) {
  return syscall(FUTEX_CALL, (uint32_t*)word, FUTEX_WAIT_PRIVATE, seen, (void*)0, (void*)0, 0) == 0;
}

static inline void wake(_Atomic uint32_t* word, int count) {
  syscall(FUTEX_CALL, (uint32_t*)word, FUTEX_WAKE_PRIVATE, count, (void*)0, (void*)0, 0);
}

/* Gives it about `ns` to change, less where others want the processor, and then 1; whether it did the caller
 * asks. */
static inline int linger_on(_Atomic uint32_t* word, uint32_t seen, uint32_t ns) {
  for (int i = 0; i < SPINS; ++i) {
    if (atomic_load_explicit(word, memory_order_acquire) != seen) return 0;
    relax();
  }
  const int64_t start = now();
  for (int64_t before = start, after; before - start < ns; before = after) {
    syscall(YIELD_CALL);
    if (atomic_load_explicit(word, memory_order_acquire) != seen) return 0;
    after = now();
    if (after - before > CROWDED) return 1;
  }
  return 0;
}

/* A lock: 0 free, 1 held, 2 held and waited for. */
static inline void acquire(_Atomic uint32_t* lock) {
  uint32_t seen = 0;
  if (atomic_compare_exchange_strong(lock, &seen, 1)) return;
  while (atomic_exchange(lock, 2) != 0) sleep_on(lock, 2);
}

static inline void release(_Atomic uint32_t* lock) {
  if (atomic_exchange(lock, 0) == 2) wake(lock, 1);
}

#endif

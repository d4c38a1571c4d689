/* The kernels' thread pool (kernel_rt.h). A loop in a kernel takes microseconds, so starting one must cost
 * less than two: workers spin for some microseconds after a loop before they sleep, since waking one takes
 * ten to thirty, longer than the short serial work that stands between loops. After the first few they spin
 * by yielding: on a machine with more to do than processors that lets the thread run for which they wait. The
 * caller never waits for a worker that has nothing to do; it works on the loop itself, and whoever comes late
 * finds no work left.
 *
 * A loop is cut into chunks. `ticket` holds the loop's number (high half) and the next chunk (low half); a
 * chunk is taken by one compare-and-swap. The number keeps a late worker off: it has read the loop's fields,
 * the loop has ended, the fields are being rewritten for the next one, but then the ticket differs from what
 * it saw and its swap fails. For that order the fields are atomic too: whoever sees a new field sees the
 * closed ticket that was stored before it.
 *
 * A static split needs no ticket, which stays closed: each worker has a flag that says its part is there to
 * be taken, by itself or, where it is late, by the caller. Whoever clears the flag runs the part, and the
 * loop can't end before.
 *
 * This file is compiled to bitcode for other architectures without their system headers. So it declares the
 * few C library functions it needs, and sleeps on futexes rather than on pthread's mutexes, whose sizes
 * differ by architecture. */
#include "kernel_rt.h"

#include <stdatomic.h>
#include <stddef.h>

extern void* malloc(size_t size);
extern void free(void* memory);
extern long syscall(long number, ...);
extern int pthread_create(unsigned long* thread, const void* attributes, void* (*start)(void*), void* arg);
extern int pthread_join(unsigned long thread, void** result);
extern int pthread_setaffinity_np(unsigned long thread, size_t size, const void* mask);

#if defined(__x86_64__)
enum { FUTEX_CALL = 202, SET_AFFINITY_CALL = 203, GET_AFFINITY_CALL = 204, YIELD_CALL = 24 };
static void relax(void) {
  __builtin_ia32_pause();
}
#elif defined(__aarch64__)
enum { FUTEX_CALL = 98, SET_AFFINITY_CALL = 122, GET_AFFINITY_CALL = 123, YIELD_CALL = 124 };
static void relax(void) {
  __asm__ volatile("yield");
}
#else
#error "kernel_rt.c knows x86_64 and aarch64 Linux"
#endif

enum {
  FUTEX_WAIT_PRIVATE = 128,
  FUTEX_WAKE_PRIVATE = 129,
  SPINS = 200,           /* of relax(): 2 to 8 microseconds */
  YIELDS = 100,          /* of the processor after that: 15 to 30 microseconds */
  CHUNKS_PER_THREAD = 4, /* evens out threads that are slowed by others */
  MAX_THREADS = 1024,
  MAX_CPUS = 4096
};

struct worker {
  struct nestor_pool* pool;
  unsigned long thread;
  int32_t id;
  int32_t cpu;           /* where it stays, or -1 */
  _Atomic uint32_t part; /* of a static split: 1 until someone takes it */
};

struct nestor_pool {
  int32_t threads;                   /* the caller counts */
  int32_t started;                   /* workers running; under `lock`, as is: */
  int32_t tried;                     /* the workers have been started, as far as that was possible */
  nestor_host_parallel_for host_run; /* null: the workers below */
  void* host;
  _Atomic uint32_t lock; /* of the caller: 0 free, 1 held, 2 held and waited for */

  _Alignas(64) _Atomic uint64_t ticket;
  _Atomic uint32_t chunks;
  _Atomic int64_t n;
  _Atomic(nestor_task) fn;
  _Atomic(void*) ctx;

  _Alignas(64) _Atomic uint32_t unfinished; /* chunks; the caller sleeps on it */
  _Atomic uint32_t caller_sleeps;

  _Alignas(64) _Atomic uint32_t bell; /* rung for every loop; workers sleep on it */
  _Atomic uint32_t sleepers;
  _Atomic uint32_t stop;

  struct worker workers[]; /* threads - 1 */
};

static _Thread_local int inside_loop;

static void sleep_on(_Atomic uint32_t* word, uint32_t seen) {
  syscall(FUTEX_CALL, (uint32_t*)word, FUTEX_WAIT_PRIVATE, seen, (void*)0, (void*)0, 0);
}

static void wake(_Atomic uint32_t* word, int count) {
  syscall(FUTEX_CALL, (uint32_t*)word, FUTEX_WAKE_PRIVATE, count, (void*)0, (void*)0, 0);
}

/* Gives the time in which it may change; whether it did the caller asks. */
static void linger_on(_Atomic uint32_t* word, uint32_t seen) {
  for (int i = 0; i < SPINS && atomic_load_explicit(word, memory_order_acquire) == seen; ++i) relax();
  for (int i = 0; i < YIELDS && atomic_load_explicit(word, memory_order_acquire) == seen; ++i)
    syscall(YIELD_CALL);
}

static void acquire(_Atomic uint32_t* lock) {
  uint32_t seen = 0;
  if (atomic_compare_exchange_strong(lock, &seen, 1)) return;
  while (atomic_exchange(lock, 2) != 0) sleep_on(lock, 2);
}

static void release(_Atomic uint32_t* lock) {
  if (atomic_exchange(lock, 0) == 2) wake(lock, 1);
}

static void run_chunk(struct nestor_pool* p, uint32_t chunk, int32_t worker) {
  const uint32_t chunks = atomic_load_explicit(&p->chunks, memory_order_acquire);
  const int64_t n = atomic_load_explicit(&p->n, memory_order_acquire);
  const nestor_task fn = atomic_load_explicit(&p->fn, memory_order_acquire);
  void* const ctx = atomic_load_explicit(&p->ctx, memory_order_acquire);
  const int64_t share = n / chunks, extra = n % chunks; /* the first `extra` chunks have one more */
  const int64_t begin = chunk * share + (chunk < extra ? chunk : extra);
  const int64_t end = begin + share + (chunk < extra);
  fn(ctx, begin, end, worker);
  if (atomic_fetch_sub(&p->unfinished, 1) == 1 && atomic_load(&p->caller_sleeps)) wake(&p->unfinished, 1);
}

/* Takes chunks of the current loop until there are none. Once a chunk is ours the loop can't end, so its
 * fields stay. */
static void work(struct nestor_pool* p, int32_t id) {
  uint64_t ticket = atomic_load_explicit(&p->ticket, memory_order_acquire);
  for (;;) {
    const uint32_t chunk = (uint32_t)ticket;
    if (chunk >= atomic_load_explicit(&p->chunks, memory_order_acquire)) return;
    if (!atomic_compare_exchange_strong(&p->ticket, &ticket, ticket + 1)) continue;
    ++ticket;
    run_chunk(p, chunk, id);
  }
}

static void take_part(struct nestor_pool* p, int32_t part, int32_t worker) {
  if (atomic_exchange(&p->workers[part - 1].part, 0)) run_chunk(p, (uint32_t)part, worker);
}

enum { LONG_BITS = 8 * sizeof(unsigned long), MASK_LONGS = MAX_CPUS / LONG_BITS };

int nestor_pin_thread(int32_t cpu) {
  unsigned long mask[MASK_LONGS] = {0};
  if (cpu < 0 || cpu >= MAX_CPUS) return -1;
  mask[cpu / LONG_BITS] = 1ul << cpu % LONG_BITS;
  return syscall(SET_AFFINITY_CALL, 0, sizeof mask, mask) < 0 ? -1 : 0;
}

/* By whoever created it: a thread begins where its creator may run, and there it may have to wait for a
 * creator that never pauses. Where it can't be, the system goes on choosing. */
static void pin_worker(const struct worker* w) {
  unsigned long mask[MASK_LONGS] = {0};
  if (w->cpu < 0 || w->cpu >= MAX_CPUS) return;
  mask[w->cpu / LONG_BITS] = 1ul << w->cpu % LONG_BITS;
  pthread_setaffinity_np(w->thread, sizeof mask, mask);
}

int32_t nestor_allowed_cpus(void) {
  unsigned long mask[MASK_LONGS] = {0};
  int32_t count = 0;
  if (syscall(GET_AFFINITY_CALL, 0, sizeof mask, mask) < 0) return 1;
  for (int i = 0; i < MASK_LONGS; ++i) count += __builtin_popcountl(mask[i]);
  return count > 0 ? count : 1;
}

static void* run_worker(void* arg) {
  struct worker* self = arg;
  struct nestor_pool* p = self->pool;
  inside_loop = 1;
  for (;;) {
    const uint32_t seen = atomic_load(&p->bell);
    if (atomic_load(&p->stop)) return NULL;
    take_part(p, self->id, self->id);
    work(p, self->id);
    linger_on(&p->bell, seen);
    if (atomic_load(&p->bell) != seen) continue;
    atomic_fetch_add(&p->sleepers, 1);
    sleep_on(&p->bell, seen); /* returns at once if the bell has been rung meanwhile */
    atomic_fetch_sub(&p->sleepers, 1);
  }
}

static void ring(struct nestor_pool* p, int count) {
  atomic_fetch_add(&p->bell, 1);
  if (atomic_load(&p->sleepers)) wake(&p->bell, count);
}

struct nestor_pool* nestor_pool_create(int32_t threads) {
  if (threads < 1) threads = 1;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  /* malloc aligns to 16 only; the cache lines above matter for speed, so align by hand and keep the block's
   * address. */
  const size_t size = sizeof(struct nestor_pool) + (size_t)threads * sizeof(struct worker);
  char* block = malloc(size + 64 + sizeof(void*));
  if (!block) return NULL;
  char* aligned = block + sizeof(void*);
  aligned += 64 - (uintptr_t)aligned % 64;
  ((void**)aligned)[-1] = block;
  struct nestor_pool* p = (void*)aligned;
  p->threads = threads;
  p->started = p->tried = 0;
  p->host_run = 0;
  p->host = NULL;
  atomic_init(&p->lock, 0);
  atomic_init(&p->ticket, 0);
  atomic_init(&p->chunks, 0);
  atomic_init(&p->n, 0);
  atomic_init(&p->fn, (nestor_task)0);
  atomic_init(&p->ctx, NULL);
  atomic_init(&p->unfinished, 0);
  atomic_init(&p->caller_sleeps, 0);
  atomic_init(&p->bell, 0);
  atomic_init(&p->sleepers, 0);
  atomic_init(&p->stop, 0);
  for (int32_t i = 0; i < threads - 1; ++i) {
    p->workers[i].cpu = -1;
    atomic_init(&p->workers[i].part, 0);
  }
  return p;
}

void nestor_pool_pin(struct nestor_pool* p, const int32_t* cpus) {
  if (!p) return;
  for (int32_t i = 1; i < p->threads; ++i) p->workers[i - 1].cpu = cpus[i];
}

struct nestor_pool* nestor_pool_from_host(int32_t threads, nestor_host_parallel_for run, void* host) {
  struct nestor_pool* p = nestor_pool_create(threads);
  if (!p) return NULL;
  p->host_run = run;
  p->host = host;
  return p;
}

void nestor_pool_destroy(struct nestor_pool* p) {
  if (!p) return;
  atomic_store(&p->stop, 1);
  ring(p, p->started);
  for (int32_t i = 0; i < p->started; ++i) pthread_join(p->workers[i].thread, NULL);
  free(((void**)p)[-1]);
}

int32_t nestor_pool_threads(const struct nestor_pool* p) {
  return p ? p->threads : 1;
}

static void start_workers(struct nestor_pool* p) {
  p->tried = 1;
  while (p->started < p->threads - 1) {
    struct worker* w = &p->workers[p->started];
    w->pool = p;
    w->id = p->started + 1;
    if (pthread_create(&w->thread, NULL, run_worker, w) != 0) return;
    pin_worker(w);
    ++p->started;
  }
}

struct host_call {
  nestor_task fn;
  void* ctx;
};

/* The host's threads aren't ours: they are marked for the time of the call, so that nested loops run
 * serially. */
static void run_for_host(void* arg, int64_t begin, int64_t end, int32_t worker) {
  const struct host_call* call = arg;
  const int before = inside_loop;
  inside_loop = 1;
  call->fn(call->ctx, begin, end, worker);
  inside_loop = before;
}

/* Where no thread of ours is to share the loop: 1, and it has run. */
static int run_elsewhere(struct nestor_pool* p, int64_t n, nestor_task fn, void* ctx) {
  if (n <= 0) return 1;
  if (!p || p->threads == 1 || n == 1 || inside_loop) {
    fn(ctx, 0, n, 0);
    return 1;
  }
  if (!p->host_run) return 0;
  struct host_call call = {fn, ctx};
  p->host_run(p->host, n, run_for_host, &call);
  return 1;
}

/* The loop's fields, its ticket closed: no chunk has this number. Gives the loop's number. */
static uint64_t announce(struct nestor_pool* p, int64_t n, nestor_task fn, void* ctx, uint32_t chunks) {
  const uint64_t loop = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
  atomic_store(&p->ticket, loop << 32 | UINT32_MAX);
  atomic_store_explicit(&p->chunks, chunks, memory_order_release);
  atomic_store_explicit(&p->n, n, memory_order_release);
  atomic_store_explicit(&p->fn, fn, memory_order_release);
  atomic_store_explicit(&p->ctx, ctx, memory_order_release);
  atomic_store(&p->unfinished, chunks);
  return loop;
}

static void wait_for_all(struct nestor_pool* p) {
  for (uint32_t left = atomic_load(&p->unfinished), before = 0; left != before;) {
    before = left;
    linger_on(&p->unfinished, left);
    left = atomic_load(&p->unfinished);
    if (!left) return;
  }
  for (uint32_t left = atomic_load(&p->unfinished); left; left = atomic_load(&p->unfinished)) {
    atomic_store(&p->caller_sleeps, 1);
    sleep_on(&p->unfinished, left);
    atomic_store(&p->caller_sleeps, 0);
  }
}

void nestor_parallel_for(struct nestor_pool* p, int64_t n, nestor_task fn, void* ctx) {
  if (run_elsewhere(p, n, fn, ctx)) return;
  acquire(&p->lock);
  if (!p->tried) start_workers(p);
  const int64_t most = (int64_t)p->threads * CHUNKS_PER_THREAD;
  const uint32_t chunks = (uint32_t)(n < most ? n : most);
  const uint64_t loop = announce(p, n, fn, ctx, chunks);
  atomic_store(&p->ticket, (loop + 1) << 32);
  ring(p, (int)(chunks - 1));

  inside_loop = 1;
  work(p, 0);
  inside_loop = 0;
  wait_for_all(p);
  release(&p->lock);
}

void nestor_parallel_static(struct nestor_pool* p, int64_t n, nestor_task fn, void* ctx) {
  if (run_elsewhere(p, n, fn, ctx)) return;
  acquire(&p->lock);
  if (!p->tried) start_workers(p);
  const int32_t threads = p->started + 1, parts = n < threads ? (int32_t)n : threads;
  announce(p, n, fn, ctx, (uint32_t)parts);
  for (int32_t i = 1; i < parts; ++i) atomic_store(&p->workers[i - 1].part, 1);
  ring(p, p->started);

  inside_loop = 1;
  run_chunk(p, 0, 0);
  for (int32_t i = 1; i < parts; ++i) take_part(p, i, 0);
  inside_loop = 0;
  wait_for_all(p);
  release(&p->lock);
}

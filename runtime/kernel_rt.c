/* The kernels' thread pool (kernel_rt.h). A loop in a kernel takes microseconds, and one on several threads
 * must never cost two more than one on the caller alone.
 *
 * The caller never waits for a worker that has nothing to do. It starts on the loop at once, and takes what
 * nobody else has: whoever comes late finds no work left.
 *
 * Waking a thread that sleeps costs the caller 1 to 8 microseconds (a system call, and on a virtual machine
 * an exit to the host), and the thread begins 3 to 60 later. So
 *
 *  - Workers linger after a loop before they sleep, a few microseconds by spinning, then by yielding: on a
 *    machine with more to do than processors that lets others run. For how long follows from the rests
 *    between the loops so far (pace_rt.h); nothing burns more than LINGER_MOST a loop.
 *  - A worker whose yield takes long shares its processor, and sleeps at once. If that is with the caller or
 *    another worker, it keeps off their processors until it meets a stranger: some systems would leave them
 *    together.
 *  - The pool remembers how long each loop's work is, and how long waking takes. A loop that the caller does
 *    sooner alone wakes nobody, a longer one as many as there is work for.
 *  - The caller wakes one, who wakes two more, and so on.
 *  - There are no more threads than CPUs that the process gets (nestor_allowed_cpus).
 *
 * A loop is cut into chunks, and these into parts, neighbours together, one for each thread: what a thread
 * works on is still in its core's caches when it comes to the same loop again, or to the next one over the
 * same data. A word for each part says which chunks of it are left. Its owner takes from the front; who has
 * done his own takes from the back of others', which evens out threads that are slowed by others. A static
 * split has one chunk a part, which only its owner takes, or the caller, where it is late; where some sleep,
 * anyone. (Two threads that took chunks from one counter met other data in every call: 1x1 2048-512@7 20 %
 * more time, 256^3 6 %, Emerald Rapids.)
 *
 * The words are all empty when a loop begins, and are filled when its fields are written. Whoever takes a
 * chunk has taken it from the loop that its fields are of, even if he read the word when that of an earlier
 * loop looked the same; and that loop can't end before he has run it. The fields are atomic so that no
 * reading of them is a race.
 *
 * This file is compiled to bitcode for other architectures without their system headers. So it declares the
 * few C library functions it needs, and sleeps on futexes rather than on pthread's mutexes, whose sizes
 * differ by architecture. */
#include "runtime/kernel_rt.h"

#include <stddef.h>

#include "runtime/pool_rt.h"
#include "runtime/wait_rt.h"

extern void* calloc(size_t count, size_t size);
extern void free(void* memory);
extern int getpid(void);
extern int sched_getcpu(void);
extern int pthread_create(unsigned long* thread, const void* attributes, void* (*start)(void*), void* arg);
extern int pthread_join(unsigned long thread, void** result);

enum {
  CHUNKS_PER_THREAD = 4, /* evens out threads that are slowed by others */
  MAX_NEIGHBOURS = 64,   /* among whom a worker looks for room */
  MAX_THREADS = 1024
};

_Static_assert(MAX_THREADS* CHUNKS_PER_THREAD <= UINT16_MAX, "a chunk's number has half a word");

static _Thread_local int inside_loop;

struct range {
  int64_t begin, end;
};

/* The i-th of `count` pieces; the first ones are larger by one, where they can't be equal. */
static struct range piece(struct range of, int64_t count, int64_t i) {
  const int64_t share = (of.end - of.begin) / count, extra = (of.end - of.begin) % count;
  const int64_t begin = of.begin + i * share + (i < extra ? i : extra);
  return (struct range){begin, begin + share + (i < extra)};
}

static int64_t chunks_of(struct range part, int64_t most) {
  const int64_t n = part.end - part.begin;
  return n < most ? n : most;
}

static void run_chunk(struct nestor_pool* p, uint32_t chunk, int32_t worker) {
  const int64_t parts = atomic_load_explicit(&p->parts, memory_order_acquire);
  const int64_t most = atomic_load_explicit(&p->chunks, memory_order_acquire);
  const int64_t n = atomic_load_explicit(&p->n, memory_order_acquire);
  const nestor_task fn = atomic_load_explicit(&p->fn, memory_order_acquire);
  void* const ctx = atomic_load_explicit(&p->ctx, memory_order_acquire);
  const struct range part = piece((struct range){0, n}, parts, chunk / most);
  const struct range mine = piece(part, chunks_of(part, most), chunk % most);
  if (p->watch) p->watch(p->watcher, worker, mine.begin, mine.end, 0);
  fn(ctx, mine.begin, mine.end, worker);
  if (p->watch) p->watch(p->watcher, worker, mine.begin, mine.end, 1);
  if (atomic_fetch_sub(&p->unfinished, 1) == 1 && atomic_load(&p->caller_sleeps)) wake(&p->unfinished, 1);
}

static _Atomic uint32_t* part_of(struct nestor_pool* p, int32_t thread) {
  return thread ? &p->workers[thread - 1].part : &p->part;
}

/* Takes the thread's chunks that nobody else takes, and runs them; gives how many. */
static uint32_t work_on(struct nestor_pool* p, int32_t thread, int32_t self) {
  _Atomic uint32_t* part = part_of(p, thread);
  uint32_t left = atomic_load_explicit(part, memory_order_acquire), taken = 0;
  for (;;) {
    const uint32_t next = left >> 16, end = left & UINT16_MAX;
    if (next == end) return taken;
    const uint32_t then = thread == self ? left + (1u << 16) : left - 1;
    if (!atomic_compare_exchange_strong(part, &left, then)) continue;
    run_chunk(p, thread == self ? next : end - 1, self);
    left = atomic_load_explicit(part, memory_order_acquire);
    ++taken;
  }
}

static uint32_t work_on_all(struct nestor_pool* p, int32_t self) {
  uint32_t taken = work_on(p, self, self);
  const int32_t parts = (int32_t)atomic_load_explicit(&p->parts, memory_order_relaxed);
  for (int32_t k = 0; k < parts && (!self || atomic_load(&p->anyone)); ++k)
    taken += work_on(p, (self + k) % parts, self);
  return taken;
}

/* Who has woken up wakes two more, as far as that is still wanted. */
static void hand_on(struct nestor_pool* p) {
  uint32_t left = atomic_load(&p->to_wake);
  while (left) {
    const uint32_t two = left < 2 ? left : 2;
    if (!atomic_compare_exchange_strong(&p->to_wake, &left, left - two)) continue;
    wake(&p->bell, (int)two);
    return;
  }
}

/* A worker that shares its CPU with the caller or another worker leaves theirs. If it is a stranger's, the
 * system may choose among all again: those that it kept off may be free by now. */
static void step_aside(struct nestor_pool* p, struct worker* self) {
  const int32_t here = atomic_load_explicit(&self->at, memory_order_relaxed);
  int32_t taken[MAX_NEIGHBOURS], count = 0, meets = 0;
  if (self->cpu >= 0 || p->threads > MAX_NEIGHBOURS) return;
  taken[count++] = atomic_load_explicit(&p->caller_at, memory_order_relaxed);
  for (int32_t i = 0; i < p->threads - 1; ++i)
    if (&p->workers[i] != self)
      taken[count++] = atomic_load_explicit(&p->workers[i].at, memory_order_relaxed);
  for (int32_t i = 0; i < count; ++i) meets |= taken[i] == here;
  if ((meets || self->keeps_off) && nestor_avoid_cpus(p->allowed, taken, meets ? count : 0) == 0)
    self->keeps_off = meets;
}

static void sleep_until_rung(struct nestor_pool* p, uint32_t seen) {
  atomic_fetch_add(&p->sleepers, 1);
  const int woken = sleep_on(&p->bell, seen); /* not where the bell has been rung meanwhile */
  atomic_fetch_sub(&p->sleepers, 1);
  if (atomic_load(&p->bell) == seen) return;
  if (woken) atomic_store(&p->late, now() - atomic_load(&p->rung));
  hand_on(p);
}

static void* run_worker(void* arg) {
  struct worker* self = arg;
  struct nestor_pool* p = self->pool;
  inside_loop = 1;
  for (;;) {
    const uint32_t seen = atomic_load(&p->bell);
    if (atomic_load(&p->stop)) return NULL;
    work_on_all(p, self->id);
    atomic_store_explicit(&self->at, sched_getcpu(), memory_order_relaxed);
    if (linger_on(&p->bell, seen, atomic_load_explicit(&p->linger, memory_order_relaxed)))
      step_aside(p, self);
    if (atomic_load(&p->bell) == seen) sleep_until_rung(p, seen);
  }
}

struct nestor_pool* nestor_pool_create(int32_t threads) {
  if (threads < 1) threads = 1;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  /* calloc aligns to 16 only; the cache lines above matter for speed, so align by hand and keep the block's
   * address. */
  const size_t size = sizeof(struct nestor_pool) + (size_t)threads * sizeof(struct worker);
  char* block = calloc(1, size + 64 + sizeof(void*)); /* all that isn't said below is 0 */
  if (!block) return NULL;
  char* aligned = block + sizeof(void*);
  aligned += 64 - (uintptr_t)aligned % 64;
  ((void**)aligned)[-1] = block;
  struct nestor_pool* p = (void*)aligned;
  p->threads = threads;
  p->cpus = nestor_allowed_cpus();
  init_pace(&p->pace);
  p->allowed = nestor_current_cpus();
  atomic_init(&p->linger, LINGER_LEAST);
  atomic_init(&p->caller_at, -1);
  for (int32_t i = 0; i < threads - 1; ++i) {
    p->workers[i].cpu = -1;
    atomic_init(&p->workers[i].at, -1);
  }
  return p;
}

void nestor_pool_allow(struct nestor_pool* p, int32_t cpus) {
  if (p) p->cpus = cpus < 1 ? 1 : cpus;
}

void nestor_pool_keep_parts(struct nestor_pool* p) {
  if (p) p->keeps_parts = 1;
}

void nestor_pool_forked(struct nestor_pool* p) {
  if (!p) return;
  p->started = p->tried = 0;
  atomic_store(&p->sleepers, 0);
}

void nestor_pool_watch(struct nestor_pool* p, nestor_watch watch, void* watcher) {
  if (!p) return;
  p->watch = watch;
  p->watcher = watcher;
}

void nestor_pool_pin(struct nestor_pool* p, const int32_t* cpus) {
  if (!p) return;
  int32_t different = 0;
  for (int32_t i = 0; i < p->threads; ++i) {
    int32_t j = 0;
    while (j < i && cpus[j] != cpus[i]) ++j;
    if (j < i) continue;
    if (different > 0) p->workers[different - 1].cpu = cpus[i];
    ++different;
  }
  nestor_pool_allow(p, different);
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
  atomic_fetch_add(&p->bell, 1);
  wake(&p->bell, p->started);
  const int32_t ours = p->process == getpid() ? p->started : 0;
  for (int32_t i = 0; i < ours; ++i) pthread_join(p->workers[i].thread, NULL);
  free(((void**)p)[-1]);
}

int32_t nestor_pool_threads(const struct nestor_pool* p) {
  return p ? p->threads : 1;
}

/* A worker is pinned by whoever creates it: a thread begins where its creator may run, and there it may have
 * to wait for a creator that never pauses. Where it can't be, the system goes on choosing. */
static void start_workers(struct nestor_pool* p) {
  p->tried = 1;
  p->process = getpid();
  while (p->started < p->threads - 1 && p->started < p->cpus - 1) {
    struct worker* w = &p->workers[p->started];
    w->pool = p;
    w->id = p->started + 1;
    if (pthread_create(&w->thread, NULL, run_worker, w) != 0) return;
    if (w->cpu >= 0) nestor_pin_pthread(w->thread, w->cpu);
    ++p->started;
  }
}

struct host_call {
  nestor_task fn;
  void* ctx;
};

/* A thread that isn't ours, the caller's or a host's, is marked for the time of the call, so that nested
 * loops run serially. */
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
  if (!p || p->threads == 1 || inside_loop) {
    fn(ctx, 0, n, 0);
    return 1;
  }
  struct host_call call = {fn, ctx};
  if (n == 1) {
    run_for_host(&call, 0, n, 0);
    return 1;
  }
  if (!p->host_run) return 0;
  p->host_run(p->host, n, run_for_host, &call);
  return 1;
}

/* Holds the lock from here on; 0 where there are no workers, and the loop has run. */
static int begin_loop(struct nestor_pool* p, int64_t n, nestor_task fn, void* ctx) {
  acquire(&p->lock);
  if (!p->tried) start_workers(p);
  if (p->started > 0) return 1;
  inside_loop = 1;
  fn(ctx, 0, n, 0);
  inside_loop = 0;
  release(&p->lock);
  return 0;
}

/* The loop's fields, then its chunks, at most so many in each part; gives how many. The first is the caller's
 * already. */
static uint32_t announce(struct nestor_pool* p, int64_t n, nestor_task fn, void* ctx, uint32_t parts,
                         uint32_t most) {
  uint32_t chunks = 0;
  for (uint32_t i = 0; i < parts; ++i)
    chunks += (uint32_t)chunks_of(piece((struct range){0, n}, parts, i), most);
  atomic_store_explicit(&p->parts, parts, memory_order_release);
  atomic_store_explicit(&p->chunks, most, memory_order_release);
  atomic_store_explicit(&p->n, n, memory_order_release);
  atomic_store_explicit(&p->fn, fn, memory_order_release);
  atomic_store_explicit(&p->ctx, ctx, memory_order_release);
  atomic_store(&p->unfinished, chunks);
  for (uint32_t i = 0; i < parts; ++i) {
    const uint32_t begin = i * most;
    const uint32_t end = begin + (uint32_t)chunks_of(piece((struct range){0, n}, parts, i), most);
    atomic_store_explicit(part_of(p, (int32_t)i), (i ? begin : 1) << 16 | end, memory_order_release);
  }
  return chunks;
}

/* Tells workers of a loop for so many threads, at `start`. Gives when that was done. */
static int64_t ring(struct nestor_pool* p, int64_t n, nestor_task fn, uint32_t threads, int64_t start) {
  atomic_store(&p->to_wake, 0);
  atomic_fetch_add(&p->bell, 1);
  uint32_t count = atomic_load(&p->sleepers);
  if (!count) return start;
  const int64_t late = atomic_exchange(&p->late, 0);
  if (late) learn_waking(&p->pace, late);
  const uint32_t worth = worth_waking(&p->pace, n, fn);
  if (count > threads - 1) count = threads - 1;
  if (count > worth) count = worth;
  if (!count) return start;
  atomic_store(&p->to_wake, count - 1);
  atomic_store(&p->rung, start);
  wake(&p->bell, 1);
  const int64_t end = now();
  learn_call(&p->pace, end - start);
  return end;
}

static void wait_for_all(struct nestor_pool* p) {
  for (uint32_t left = atomic_load(&p->unfinished), before = 0; left != before;) {
    before = left;
    linger_on(&p->unfinished, left, LINGER_MOST);
    left = atomic_load(&p->unfinished);
    if (!left) return;
  }
  for (uint32_t left = atomic_load(&p->unfinished); left; left = atomic_load(&p->unfinished)) {
    atomic_store(&p->caller_sleeps, 1);
    sleep_on(&p->unfinished, left);
    atomic_store(&p->caller_sleeps, 0);
  }
}

/* The caller's share of a loop that is announced, and its end. */
static void share(struct nestor_pool* p, int64_t n, nestor_task fn, uint32_t chunks, uint32_t parts) {
  const int64_t called = now();
  learn_rest(&p->pace, called);
  atomic_store_explicit(&p->linger, (uint32_t)p->pace.linger, memory_order_relaxed);
  atomic_store_explicit(&p->caller_at, sched_getcpu(), memory_order_relaxed);
  const int64_t start = ring(p, n, fn, parts, called);
  inside_loop = 1;
  run_chunk(p, 0, 0);
  const uint32_t mine = 1 + work_on_all(p, 0);
  inside_loop = 0;
  p->pace.rested = now();
  learn_work(&p->pace, n, fn, p->pace.rested - start, mine, chunks);
  wait_for_all(p);
  release(&p->lock);
}

void nestor_parallel(struct nestor_pool* p, int64_t n, nestor_task fn, void* ctx, int32_t threads,
                     int32_t is_static) {
  if (run_elsewhere(p, n, fn, ctx) || !begin_loop(p, n, fn, ctx)) return;
  if (threads < 1 || threads > p->started + 1 || p->keeps_parts) threads = p->started + 1;
  is_static |= p->keeps_parts;
  const uint32_t parts = (uint32_t)(n < threads ? n : threads);
  atomic_store(&p->anyone, !is_static || atomic_load(&p->sleepers) > 0);
  const uint32_t chunks = announce(p, n, fn, ctx, parts, is_static ? 1 : CHUNKS_PER_THREAD);
  share(p, n, fn, chunks, parts);
}

void nestor_parallel_for(struct nestor_pool* p, int64_t n, nestor_task fn, void* ctx) {
  nestor_parallel(p, n, fn, ctx, 0, 0);
}

void nestor_parallel_static(struct nestor_pool* p, int64_t n, nestor_task fn, void* ctx) {
  nestor_parallel(p, n, fn, ctx, 0, 1);
}

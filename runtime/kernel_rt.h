/* The kernels' runtime: a small thread pool in plain C. Compiled into this process and, as bitcode, into
 * every artifact. A loop's iterations may run in any order and on any worker; nested calls run serially. */
#ifndef NESTOR_KERNEL_RT_H
#define NESTOR_KERNEL_RT_H

#include <stdint.h>

#include "runtime/cpus_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nestor_pool;

/* Runs iterations [begin, end); worker is in 0 .. threads-1 and distinct among the calls of one
 * nestor_parallel_for that run at the same time. */
typedef void (*nestor_task)(void* ctx, int64_t begin, int64_t end, int32_t worker);

/* A host's own parallel loop: calls fn over all of [0, n), workers numbered as above, and returns when that
 * is done. */
typedef void (*nestor_host_parallel_for)(void* host, int64_t n, nestor_task fn, void* ctx);

/* Null where memory is short. Its threads start with the first loop; where some can't be started, fewer do
 * the work. Between loops they sleep, but for up to 0.2 ms after one while loops come that often. */
struct nestor_pool* nestor_pool_create(int32_t threads);
struct nestor_pool* nestor_pool_from_host(int32_t threads, nestor_host_parallel_for run, void* host);
/* Null is fine; no loop may be running. In a process forked while none ran the pool has no workers: the
 * caller does all. */
void nestor_pool_destroy(struct nestor_pool* pool);
int32_t nestor_pool_threads(const struct nestor_pool* pool); /* 1 for a null pool */

/* In a process that was forked while no loop ran: the next one starts threads anew. */
void nestor_pool_forked(struct nestor_pool* pool);

/* No more threads work than CPUs that the process gets (nestor_allowed_cpus, when the pool is created); or so
 * many. Before the pool's first loop. */
void nestor_pool_allow(struct nestor_pool* pool, int32_t cpus);

/* Worker i stays on CPU cpus[i] of the system's numbering, for i in 1 .. threads-1; cpus[0] is for the
 * caller, which isn't touched (nestor_pin_thread). Those are then the CPUs that the pool gets: one named
 * again is left out, and later workers move up. Before the pool's first loop; nothing for a host's. */
void nestor_pool_pin(struct nestor_pool* pool, const int32_t* cpus);

/* All loops are split statically from now on: where memory lies near the thread that used it last. */
void nestor_pool_keep_parts(struct nestor_pool* pool);

/* Is told when a worker begins iterations [begin, end) of a loop, and when it has done them (`done` 1). */
typedef void (*nestor_watch)(void* watcher, int32_t worker, int64_t begin, int64_t end, int32_t done);

/* From the next loop on; null: nobody is told. Loops that run on the caller alone are not told of. */
void nestor_pool_watch(struct nestor_pool* pool, nestor_watch watch, void* watcher);

/* Returns when all of [0, n) has run, on so many threads at most (0: all of the pool's). A null pool runs
 * fn(ctx, 0, n, 0), and so does a call from inside a loop. Two threads may use one pool: their loops run one
 * after the other.
 *
 * Whoever is free takes the next few iterations; or, if is_static, there are as many equal parts as threads,
 * the i-th for worker i: from loop to loop a thread meets the data that lie in its caches, or in its memory.
 * A part whose worker is late is done by another. */
void nestor_parallel(struct nestor_pool* pool, int64_t n, nestor_task fn, void* ctx, int32_t threads,
                     int32_t is_static);
void nestor_parallel_for(struct nestor_pool* pool, int64_t n, nestor_task fn, void* ctx); /* all, dynamic */
void nestor_parallel_static(struct nestor_pool* pool, int64_t n, nestor_task fn, void* ctx); /* all, static */

#ifdef __cplusplus
}
#endif
#endif

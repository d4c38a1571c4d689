/* The kernels' runtime: a small thread pool in plain C. Compiled into this process and, as bitcode, into
 * every artifact. A loop's iterations may run in any order and on any worker; nested calls run serially. */
#ifndef NESTOR_KERNEL_RT_H
#define NESTOR_KERNEL_RT_H

#include <stdint.h>

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
 * the work. */
struct nestor_pool* nestor_pool_create(int32_t threads);
struct nestor_pool* nestor_pool_from_host(int32_t threads, nestor_host_parallel_for run, void* host);
void nestor_pool_destroy(struct nestor_pool* pool);          /* null is fine; no loop may be running */
int32_t nestor_pool_threads(const struct nestor_pool* pool); /* 1 for a null pool */

/* Returns when all of [0, n) has run. A null pool runs fn(ctx, 0, n, 0), and so does a call from inside a
 * loop. Two threads may use one pool: their loops run one after the other. */
void nestor_parallel_for(struct nestor_pool* pool, int64_t n, nestor_task fn, void* ctx);

#ifdef __cplusplus
}
#endif
#endif

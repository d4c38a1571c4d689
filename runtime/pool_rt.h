/* The state of a thread pool and its workers. For kernel_rt.c. */
#ifndef NESTOR_POOL_RT_H
#define NESTOR_POOL_RT_H

#include <stdatomic.h>

#include "runtime/kernel_rt.h"
#include "runtime/pace_rt.h"

struct worker {
  _Alignas(64) struct nestor_pool* pool;
  unsigned long thread;
  int32_t id;
  int32_t cpu;        /* where it stays, or -1 */
  int32_t keeps_off;  /* some CPUs; only the worker reads it */
  _Atomic int32_t at; /* the CPU where it last was */
  _Alignas(
      64) _Atomic uint32_t part; /* of the loop's chunks: the first that is left (high half), and the end */
};

struct nestor_pool {
  int32_t threads;     /* the caller counts */
  int32_t cpus;        /* that they get */
  int32_t keeps_parts; /* every split is static */
  int32_t started;     /* workers running; under `lock`, as are: */
  int32_t tried;       /* the workers have been started, as far as that was possible */
  int32_t process;     /* by this one: a fork has no threads but its own */
  struct nestor_cpus allowed;
  struct pace pace;
  nestor_host_parallel_for host_run; /* null: the workers below */
  void* host;
  nestor_watch watch; /* null: nobody */
  void* watcher;
  _Atomic uint32_t lock; /* of the caller: 0 free, 1 held, 2 held and waited for */

  _Alignas(64) _Atomic uint32_t part; /* the caller's; see worker */

  _Alignas(64) _Atomic uint32_t parts;
  _Atomic uint32_t chunks; /* in each, at most */
  _Atomic int64_t n;
  _Atomic(nestor_task) fn;
  _Atomic(void*) ctx;
  _Atomic uint32_t anyone; /* takes chunks of others' parts, not only the caller */

  _Alignas(64) _Atomic uint32_t unfinished; /* chunks; the caller sleeps on it */
  _Atomic uint32_t caller_sleeps;

  _Alignas(64) _Atomic uint32_t bell; /* rung for every loop; workers sleep on it */
  _Atomic uint32_t sleepers;
  _Atomic uint32_t to_wake;  /* of them, by those who wake up */
  _Atomic uint32_t linger;   /* nanoseconds */
  _Atomic int64_t rung;      /* when sleepers were last woken, and */
  _Atomic int64_t late;      /* how much later one of them came, both in nanoseconds; 0: read */
  _Atomic int32_t caller_at; /* the caller's CPU */
  _Atomic uint32_t stop;

  struct worker workers[]; /* threads - 1 */
};

#endif

/* What a pool learns from its loops: how long they take, how long the pauses between them are, and how long
 * waking a worker takes. This decides which workers to wake and how long they wait before they sleep. For
 * kernel_rt.c; all times are in nanoseconds. Nothing here is shared between threads. */
#ifndef NESTOR_PACE_RT_H
#define NESTOR_PACE_RT_H

#include "runtime/kernel_rt.h"

enum {
  LINGER_LEAST = 20000, /* about as long as a wake-up takes: at most twice what is best */
  LINGER_MOST = 200000,
  LATE_FIRST = 50000, /* before it is known */
  LATE_LEAST = 5000,
  LATE_MOST = 100000,
  REMEMBERED = 64 /* loops */
};

struct remembered {
  nestor_task fn;
  int64_t n;
  int64_t work; /* of all of it on one thread */
};

struct pace {
  int64_t rested; /* when the last loop ended */
  int64_t linger;
  int64_t late; /* how long after the beginning of a loop workers come who slept */
  int64_t call; /* what waking one costs the caller */
  struct remembered loops[REMEMBERED];
};

static inline void init_pace(struct pace* p) {
  p->rested = p->call = 0;
  p->linger = LINGER_LEAST;
  p->late = LATE_FIRST;
  for (int i = 0; i < REMEMBERED; ++i) p->loops[i].fn = 0;
}

static inline int64_t within(int64_t least, int64_t x, int64_t most) {
  return x < least ? least : x > most ? most : x;
}

/* A loop begins. Rests that workers can linger through are lingered through from the next on; once they are
 * shorter, or too long, that fades. */
static inline void learn_rest(struct pace* p, int64_t start) {
  const int64_t rest = start - p->rested;
  const int64_t wanted = rest < LINGER_MOST ? 2 * rest : 0;
  const int64_t next = wanted > p->linger ? wanted : p->linger - (p->linger - wanted) / 8;
  p->linger = within(LINGER_LEAST, next, LINGER_MOST);
}

/* By steps, towards the median: a worker that the system kept away for long is no measure. */
static inline void learn_waking(struct pace* p, int64_t late) {
  p->late = within(LATE_LEAST, p->late + (late > p->late ? p->late : -p->late) / 16, LATE_MOST);
}

static inline void learn_call(struct pace* p, int64_t call) {
  p->call += (within(0, call, LATE_MOST) - p->call) / 4;
}

static inline struct remembered* recall(struct pace* p, nestor_task fn) {
  const uintptr_t at = (uintptr_t)fn;
  return &p->loops[(at >> 4 ^ at >> 10) % REMEMBERED];
}

static inline int is_known(const struct remembered* loop, int64_t n, nestor_task fn) {
  return loop->fn == fn && loop->n == n;
}

/* From what the caller did of a loop: `mine` of its chunks in `ns`. */
static inline void learn_work(struct pace* p, int64_t n, nestor_task fn, int64_t ns, uint32_t mine,
                              uint32_t chunks) {
  struct remembered* loop = recall(p, fn);
  if (!mine) return;
  int64_t work = ns * chunks / mine;
  if (is_known(loop, n, fn)) work = (work + loop->work) / 2;
  loop->fn = fn;
  loop->n = n;
  loop->work = work;
}

/* The sleepers worth waking for a loop: one for each time that its work takes longer than waking, all for
 * what isn't known. Who is never woken tells nothing of how long that takes, so the time fades. */
static inline uint32_t worth_waking(struct pace* p, int64_t n, nestor_task fn) {
  const struct remembered* loop = recall(p, fn);
  if (!is_known(loop, n, fn)) return UINT32_MAX;
  if (loop->work >= p->late + p->call) return (uint32_t)(loop->work / (p->late + p->call));
  p->late = within(LATE_LEAST, p->late - p->late / 1024, LATE_MOST);
  return 0;
}

#endif

/* CPUs that a thread pool may use: which ones, how many at a time, and pinning. Compiled, like kernel_rt.c,
 * into this process and into every artifact. */
#ifndef NESTOR_CPUS_RT_H
#define NESTOR_CPUS_RT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CPUs at a time that the calling thread's work gets: those it may run on, or fewer where the process's group
 * has a quota of processor time. More threads would only wait for each other. */
int32_t nestor_allowed_cpus(void);

/* The quota as CPUs, rounded up, of this process's control groups (version 1 or 2) and all above them; 0
 * where there is none. `root` stands before /proc and /sys; "" for the machine's own. */
int32_t nestor_quota_cpus(const char* root);

/* CPUs that the calling thread may run on. */
struct nestor_cpus {
  unsigned long bits[4096 / (8 * sizeof(unsigned long))];
};
struct nestor_cpus nestor_current_cpus(void); /* none where the system doesn't say */

/* 0, or -1 where that can't be. CPUs in the system's numbering. */
int nestor_pin_thread(int32_t cpu); /* the calling thread */
int nestor_pin_pthread(unsigned long thread, int32_t cpu);
int nestor_avoid_cpus(struct nestor_cpus allowed, const int32_t* cpus,
                      int32_t count); /* the calling thread */

#ifdef __cplusplus
}
#endif
#endif

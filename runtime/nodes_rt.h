/* Where memory lies on a machine with several memory nodes (NUMA). The system puts a page on the node of the
 * thread that touches it first, which is often the one that made the model. Compiled, as kernel_rt.c is, into
 * this process and into every artifact. */
#ifndef NESTOR_NODES_RT_H
#define NESTOR_NODES_RT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nestor_placement {
  NESTOR_PLACE_ANYWHERE = 0,
  NESTOR_PLACE_PARTS = 1,     /* in equal parts, the i-th on the node of the i-th CPU */
  NESTOR_PLACE_INTERLEAVE = 2 /* page by page, on the nodes of the CPUs in turn */
};

/* The node of a CPU, in the system's numbering; -1 where it doesn't say. `root` stands before /sys; "" for
 * the machine's own. */
int32_t nestor_node_of_cpu(const char* root, int32_t cpu);

/* Whole pages of the memory, those touched already too. 0, or -1 where the system refuses or doesn't know the
 * nodes of the CPUs; the memory is as it was. */
int nestor_place(void* memory, int64_t bytes, enum nestor_placement how, const int32_t* cpus, int32_t count);

#ifdef __cplusplus
}
#endif
#endif

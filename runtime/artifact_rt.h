/* What every artifact carries besides its kernels: an instance's memory, threads and weights. Compiled to
 * bitcode and linked into each artifact by src/codegen/artifact.cpp, which declares these structs anew in the
 * model's header. */
#ifndef NESTOR_ARTIFACT_RT_H
#define NESTOR_ARTIFACT_RT_H

#include <stdint.h>

#include "runtime/kernel_rt.h"
#include "runtime/nodes_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* <name>_options of the header. All zero is the default. */
struct nestor_options {
  /* More than compiled is taken as that; 0: as compiled, but of the artifact's own no more than CPUs it may
   * run on. */
  int32_t threads;
  int32_t placement;                     /* of its memory, enum nestor_placement; other than 0 needs cpus */
  nestor_host_parallel_for parallel_for; /* the host's own; null: threads of the artifact */
  void* host;                            /* its first argument */
  const char*
      weights_path; /* of weights beside the object; null: the name it was compiled with, beside the object */
  const int32_t* cpus; /* where each of the threads stays; null: wherever the system puts it */
};

/* The emitted <name>_run reads these four by position. */
struct nestor_instance {
  struct nestor_pool* pool;
  void* arena;
  void* workspace;
  const void* weights;
  void* memory; /* arena and workspace as allocated */
  void* placed; /* weights of its own, where memory is placed */
  void* mapped; /* weights file, or null */
  int64_t mapped_bytes;
};

/* weights: in the object, or null with weights_file naming what lies beside it. Null where memory, threads or
 * the weights can't be had, or memory can't be placed. */
struct nestor_instance* nestor_instance_create(const struct nestor_options* options, int64_t arena_bytes,
                                               int64_t workspace_bytes, int32_t threads, const void* weights,
                                               int64_t weights_bytes, const char* weights_file);
void nestor_instance_destroy(struct nestor_instance* instance);

#ifdef __cplusplus
}
#endif
#endif

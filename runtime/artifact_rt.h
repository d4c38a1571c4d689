/* What every artifact carries besides its kernels: an instance's memory, threads and weights. Compiled to
 * bitcode and linked into each artifact by src/codegen/artifact.cpp, which declares these structs anew in the
 * model's header. */
#ifndef NESTOR_ARTIFACT_RT_H
#define NESTOR_ARTIFACT_RT_H

#include <stdint.h>

#include "runtime/features_rt.h"
#include "runtime/kernel_rt.h"
#include "runtime/nodes_rt.h"
#include "runtime/sizes_rt.h"

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
  char* why;           /* room for the reason why there is no instance; may be null */
  int64_t why_bytes;
  int32_t device; /* of artifacts for CUDA: its number; others don't read this */
};

/* Of an object: bytes of it, or a file beside it that has them. The emitted code lays this out. */
struct nestor_weights {
  const void* inside;
  const char* file; /* its name in the object's folder; null: inside, or there are none */
  int64_t bytes;
  uint64_t hash; /* content_hash of them, where they are in a file */
};

struct nestor_instance;

/* What <name>_run returns besides 0. */
enum nestor_result {
  NESTOR_BUSY = 1,
  NESTOR_BAD_INDEX = 2,
  NESTOR_DEVICE_FAILED = 3,
  NESTOR_TOO_MANY_TRIPS = 4,
  NESTOR_BAD_SIZES = 5
};

/* Null where the processor lacks what the code needs, memory, threads or the weights can't be had, memory
 * can't be placed, or an option makes no sense; options say where the reason goes. */
struct nestor_instance* nestor_instance_create(const struct nestor_options* options, int64_t arena_bytes,
                                               int64_t workspace_bytes, int32_t threads,
                                               const struct nestor_weights* weights,
                                               const struct nestor_needs* needs,
                                               const struct nestor_sizes* sizes);
/* Of models whose sizes runs decide (sizes not null): makes ready for inputs of these dimensions, of all
 * inputs one after another, and gives those of the outputs (outputs may be null). NESTOR_BAD_SIZES:
 * nestor_instance_why says why. */
int32_t nestor_instance_fit(struct nestor_instance* instance, const int64_t* dims, int64_t* outputs);
/* From now on runs take their arena and scratch from these bytes of the host's, and none of their own; null:
 * from their own again. The next run needs a fit, which fails where the bytes are too few. */
int32_t nestor_instance_use_memory(struct nestor_instance* instance, void* memory, int64_t bytes);
/* The outputs' dimensions in the last run, one after another. */
void nestor_instance_made(const struct nestor_instance* instance, int64_t* outputs);
const char* nestor_instance_why(const struct nestor_instance* instance);
/* Bytes of an instance's memory for runs of these sizes; -1 where they are bad. */
int64_t nestor_memory_size(const struct nestor_sizes* sizes, const int64_t* dims);
/* The plan's calls, by the one thread that may make them: NESTOR_BUSY where another is at it. */
typedef int32_t (*nestor_calls)(struct nestor_instance* instance, const void* const* inputs,
                                void* const* outputs);
int32_t nestor_instance_run(struct nestor_instance* instance, nestor_calls calls, const void* const* inputs,
                            void* const* outputs);
void nestor_instance_destroy(struct nestor_instance* instance);

/* The calls of a plan of many, which as code would take long to compile, or of one with loops or branches.
 * Each is a word with its kernel in the lower half, or one of these, and with the number of its arguments in
 * the upper; then a word for each argument: where it is in its region, times eight, and the region. Those
 * that are no kernel have one more, PlanCall's bytes (of a copy whose size runs decide -1 less the number
 * that has them), save CHECK; and those that jump another one, the number of the word where the plan goes on.
 * The emitted code lays this out. */
enum {
  NESTOR_CALL_COPY = -1,
  NESTOR_CALL_CHECK = -2,
  NESTOR_CALL_POINT = -3,
  NESTOR_CALL_SKIP = -4,
  NESTOR_CALL_LOOP = -5,
  NESTOR_CALL_NEXT = -6,
  NESTOR_CALL_FOUND = -7 /* PlanCall's bytes are the symbol */
};
enum nestor_region {
  NESTOR_INPUT,
  NESTOR_OUTPUT,
  NESTOR_ARENA,
  NESTOR_WEIGHTS,
  NESTOR_NUMBERS,
  NESTOR_MOVING
};
enum { NESTOR_REGION_BITS = 3, NESTOR_REGION_MASK = 7 };
struct nestor_call_table {
  const nestor_kernel* kernels;
  const int64_t* words;
  int64_t count; /* of words */
};
/* args, moving: room for the arguments of the longest call, and for the pointers that move. */
int32_t nestor_run_table(const struct nestor_instance* instance, const void* const* inputs,
                         void* const* outputs, const struct nestor_call_table* table, void** args,
                         void** moving);

#ifdef __cplusplus
}
#endif
#endif

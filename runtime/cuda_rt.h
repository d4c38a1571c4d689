/* Runs a model on a CUDA device. It is the part of a CUDA artifact that artifact_rt is of others, and it
 * also runs models in this process (cuda_executor.cpp). It uses one module, one stream and one block of
 * device memory: for values between kernels, for weights (uploaded once), and for inputs and outputs that
 * are in host memory. The calls are those of the plan, in order. From the second run with the same
 * addresses on, they are one CUDA graph. */
#ifndef NESTOR_CUDA_RT_H
#define NESTOR_CUDA_RT_H

#include "runtime/artifact_rt.h"
#include "runtime/cuda_driver_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nestor_cuda_kernel {
  const char* name;
  int32_t grid[3], block[3]; /* none is 0 */
  int32_t dynamic_shared;    /* bytes of shared memory that it doesn't declare */
};

/* Machine code runs on devices of its own major version that aren't older; `specific` (sm_90a) on devices of
 * exactly that version. PTX runs on all that aren't older. An emulated device takes `emulated` alone, which
 * is the path of a library. */
enum nestor_cuda_form { NESTOR_CUDA_CODE, NESTOR_CUDA_SPECIFIC_CODE, NESTOR_CUDA_PTX, NESTOR_CUDA_EMULATED };
struct nestor_cuda_image {
  const void* bytes;
  int32_t sm; /* 80 */
  int32_t form;
};

/* The emitted code lays this out. */
struct nestor_cuda_model {
  const struct nestor_cuda_kernel* kernels;
  const struct nestor_cuda_image* images;
  const int64_t* words; /* calls as of nestor_call_table */
  const int64_t *input_bytes, *output_bytes;
  int64_t kernel_count, image_count, calls, inputs, outputs;
  int64_t checks, most_args; /* among the calls */
  int64_t arena_bytes;
  int64_t cuda_version; /* of the compiler that made the images: 13000 is 13.0 */
};

struct nestor_cuda;

/* driver: NULL for libcuda. Null where there is no device, none of the images is for it, or it has too little
 * memory; options say where the reason goes. */
struct nestor_cuda* nestor_cuda_create(const struct nestor_options* options,
                                       const struct nestor_cuda_model* model,
                                       const struct nestor_weights* weights,
                                       const struct nestor_cuda_driver* driver);
/* An enum nestor_result. Each pointer is one to memory of the host or of the device; what is on the device
 * has to be there, and what other streams still do to it isn't waited for. */
int32_t nestor_cuda_run(struct nestor_cuda* instance, const void* const* inputs, void* const* outputs);
/* Of the last run that gave NESTOR_DEVICE_FAILED. */
const char* nestor_cuda_why(const struct nestor_cuda* instance);
/* Which index check of the last run found one out of range; -1: none. */
int64_t nestor_cuda_failed_check(const struct nestor_cuda* instance);
void nestor_cuda_destroy(struct nestor_cuda* instance);

#ifdef __cplusplus
}
#endif
#endif

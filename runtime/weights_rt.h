/* Weights of an artifact: in the object, or in a file that lies beside it; and how an instance says why there
 * is none. */
#ifndef NESTOR_WEIGHTS_RT_H
#define NESTOR_WEIGHTS_RT_H

#include "runtime/artifact_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nestor_found_weights {
  const void* bytes;
  void* mapped; /* their file, or null */
};

/* 0 where there are none to be had; options say where the reason goes. */
int nestor_find_weights(struct nestor_found_weights* found, const struct nestor_options* options,
                        const struct nestor_weights* weights);
void nestor_release_weights(struct nestor_found_weights* found, const struct nestor_weights* weights);

/* Says in the caller's room what went wrong: the texts one after another, up to NULL. Gives 0. */
int nestor_fail(const struct nestor_options* options, const char* const* texts);

#ifdef __cplusplus
}
#endif
#endif

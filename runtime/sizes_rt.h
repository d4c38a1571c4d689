/* Sizes that runs decide. A model with symbolic sizes computes, from the shapes of its inputs, what its
 * kernels are called with, what its tensors take, and where they lie in the arena: once for equal sizes in a
 * row. A "number" is an index into what the plan's kernel computes; a "place" is one into the inputs'
 * dimensions, of all inputs one after another. The emitted code of artifacts lays these structs out. */
#ifndef NESTOR_SIZES_RT_H
#define NESTOR_SIZES_RT_H

#include <stdint.h>

#include "runtime/kernel_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t (*nestor_kernel)(void* const* args, void* workspace, struct nestor_pool* pool);

struct nestor_symbol {
  const char* what;           /* "dimension 1 of input 'x' (seq)" */
  int64_t least, most, place; /* place: -1 where calls find the size out */
};
struct nestor_size_check { /* of a dimension that other inputs or the model say */
  const char* what;
  int64_t place, number;
};
struct nestor_requirement { /* its number must not be 0 */
  const char* text;
  int64_t number, after; /* after: the symbol that is to be found before; -1: none */
};
struct nestor_in_arena {      /* alive from call `first` to `last` */
  int64_t bytes, first, last; /* bytes: a number */
};

struct nestor_sizes {
  nestor_kernel kernel; /* args: the symbols' values, the numbers */
  const struct nestor_symbol* symbols;
  const struct nestor_size_check* checks;
  const struct nestor_requirement* requirements;
  const struct nestor_in_arena* arena;
  const int64_t* workspaces; /* numbers: bytes that kernels need, of which the largest counts */
  const int64_t* outputs;    /* numbers: the outputs' dimensions, one after another, at most */
  const int64_t* made;       /* and what they are after a run */
  int64_t numbers, symbol_count, check_count, requirement_count, arena_count, workspace_count, output_count;
};

/* What they are for the sizes of the last run. */
struct nestor_fit {
  int64_t *symbols, *numbers, *offsets; /* offsets: of what lies in the arena, in bytes */
  int64_t arena_bytes, workspace_bytes; /* -1: nothing was fitted yet */
  char why[512];                        /* of NESTOR_BAD_SIZES */
};

enum nestor_fit_result { NESTOR_SIZES_BAD = -1, NESTOR_SIZES_SAME = 0, NESTOR_SIZES_NEW = 1 };

struct nestor_fit* nestor_fit_create(const struct nestor_sizes* plan); /* null: there isn't enough memory */
void nestor_fit_destroy(struct nestor_fit* fit);
int32_t nestor_fit_sizes(const struct nestor_sizes* plan, struct nestor_fit* fit, const int64_t* dims);
/* A run found that size; SAME: good. */
int32_t nestor_found_size(const struct nestor_sizes* plan, struct nestor_fit* fit, int64_t symbol,
                          int64_t size);

/* Adds to `why` what the sizes are. */
void nestor_add_sizes(const struct nestor_sizes* plan, struct nestor_fit* fit);

/* Offsets such that buffers alive at the same step don't overlap: largest first, each into the smallest gap that
 * holds it. Gives the bytes of all, -1 where there isn't enough memory for the planning itself. */
int64_t nestor_plan_arena(int64_t count, const int64_t* bytes, const int64_t* first, const int64_t* last,
                          int64_t* offsets);

#ifdef __cplusplus
}
#endif
#endif

// The C interface of libnestor_halide.so (src/halide). It is in C, and functions are passed as text, so that
// Halide and its LLVM are never linked with ours. To compile a function with Halide, use nestor/halide.h,
// which loads the library.
#pragma once

#include <cstdint>

extern "C" {

struct nestor_halide_function;

// An unscheduled function, printed, scheduled by one of Halide's autoschedulers: "mullapudi2016",
// "adams2019", or "none", which leaves every stage's loops as they are. Null where it can't be, and *error
// says why; the caller frees it by nestor_halide_free_text.
nestor_halide_function* nestor_halide_compile(const char* func, const char* scheduler, int32_t threads,
                                              char** error);
// args: one pointer per parameter, in order. 0, or 1 with *error set.
int32_t nestor_halide_run(nestor_halide_function* f, void* const* args, char** error);
// What the autoscheduler did, as Halide source.
const char* nestor_halide_schedule(const nestor_halide_function* f);
void nestor_halide_free(nestor_halide_function* f);
void nestor_halide_free_text(char* text);
const char* nestor_halide_version();
}

/* An instance of an artifact: one block of memory for arena and workspace, a thread pool, and the weights
 * if they are in a file beside the object. Instances share nothing, so each may run on its own thread. */
#include "runtime/artifact_rt.h"

#include <stdatomic.h>
#include <stddef.h>

#include "runtime/cpus_rt.h"
#include "runtime/large_pages.h"
#include "runtime/text_rt.h"
#include "runtime/weights_rt.h"

/* Compiled for other architectures without their system headers, as kernel_rt.c is. These are the same on all
 * Linux. */
extern void* malloc(size_t size);
extern void* calloc(size_t count, size_t size);
extern void* aligned_alloc(size_t alignment, size_t size);
extern int madvise(void* memory, size_t size, int advice);
extern void free(void* memory);
extern int snprintf(char* to, size_t size, const char* format, ...);
extern void* memcpy(void* to, const void* from, size_t size);
enum { WANTS_LARGE_PAGES = 14 };

static const char kNoMemory[] = "there isn't enough memory";

/* The emitted calls read the first six by position. */
struct nestor_instance {
  struct nestor_pool* pool;
  void* arena;
  void* workspace;
  const void* weights;
  const int64_t *numbers, *offsets; /* of `fit`; null: all sizes are known */
  void* memory;                     /* arena and workspace: as allocated, or the host's */
  int64_t memory_bytes;
  int host_memory;
  const struct nestor_sizes* sizes;
  struct nestor_fit* fit;
  void* placed; /* weights of its own, where memory is placed */
  struct nestor_found_weights found;
  const struct nestor_weights* found_for;
  atomic_int running;
};

/* In pages of 2 MB, where that is worth one and the system has them: runtime/large_pages.cpp says why. */
static void* allocate(int64_t bytes) {
  if (bytes < NESTOR_LEAST_IN_LARGE_PAGES) return malloc((size_t)bytes);
  const size_t whole = ((size_t)bytes + NESTOR_LARGE_PAGE - 1) / NESTOR_LARGE_PAGE * NESTOR_LARGE_PAGE;
  void* memory = aligned_alloc(NESTOR_LARGE_PAGE, whole);
  if (memory) (void)madvise(memory, whole, WANTS_LARGE_PAGES);
  return memory;
}

/* Whether threads can stay on each of these CPUs: this one tries. */
static int can_pin(const struct nestor_options* options, int32_t count) {
  char text[MAX_PATH];
  const struct nestor_cpus before = nestor_current_cpus();
  if (nestor_avoid_cpus(before, NULL, 0)) return 1; /* it couldn't be put back */
  int32_t i = 0;
  while (i < count && !nestor_pin_thread(options->cpus[i])) ++i;
  nestor_avoid_cpus(before, NULL, 0);
  if (i == count) return 1;
  const int64_t cpu = options->cpus[i];
  append_number(text, 0, cpu < 0 ? -cpu : cpu);
  return nestor_fail(options, (const char*[]){"no thread can stay on CPU ", cpu < 0 ? "-" : "", text,
                                              ", which is among cpus", NULL});
}

static int start_threads(struct nestor_instance* instance, const struct nestor_options* options,
                         int32_t compiled) {
  if (options->threads < 0) return nestor_fail(options, (const char*[]){"threads is negative", NULL});
  const int32_t wanted = options->threads > 0 || options->parallel_for || options->cpus
                             ? options->threads
                             : nestor_allowed_cpus();
  const int32_t threads = wanted > 0 && wanted < compiled ? wanted : compiled;
  if (threads <= 1) return 1;
  if (options->cpus && !options->parallel_for && !can_pin(options, threads)) return 0;
  instance->pool = options->parallel_for
                       ? nestor_pool_from_host(threads, options->parallel_for, options->host)
                       : nestor_pool_create(threads);
  if (options->cpus && !options->parallel_for) nestor_pool_pin(instance->pool, options->cpus);
  return instance->pool || nestor_fail(options, (const char*[]){kNoMemory, NULL});
}

/* Weights, which all threads read, page by page on all nodes: in memory of the instance's own, since the
 * system doesn't place what belongs to a file. */
static int place_memory(struct nestor_instance* instance, const struct nestor_options* options,
                        int64_t memory_bytes, int64_t weights_bytes, int32_t threads) {
  const char* const refused[] = {"memory can't be placed near these CPUs", NULL};
  if (!options->placement) return 1;
  if (!options->cpus || options->parallel_for)
    return nestor_fail(options,
                       (const char*[]){"placement needs cpus, and the artifact's own threads", NULL});
  if (nestor_place(instance->memory, memory_bytes, (enum nestor_placement)options->placement, options->cpus,
                   threads))
    return nestor_fail(options, refused);
  if (options->placement == NESTOR_PLACE_PARTS) nestor_pool_keep_parts(instance->pool);
  if (weights_bytes <= 0) return 1;
  instance->placed = allocate(weights_bytes + 64);
  if (!instance->placed) return nestor_fail(options, (const char*[]){kNoMemory, NULL});
  void* aligned = (void*)(((uintptr_t)instance->placed + 63) & ~(uintptr_t)63);
  memcpy(aligned, instance->weights, (size_t)weights_bytes);
  instance->weights = aligned;
  return !nestor_place(aligned, weights_bytes, NESTOR_PLACE_INTERLEAVE, options->cpus, threads) ||
         nestor_fail(options, refused);
}

static void release_memory(struct nestor_instance* instance) {
  if (!instance->host_memory) free(instance->memory);
  instance->memory = NULL;
  instance->memory_bytes = 0;
  instance->host_memory = 0;
}

/* Memory for so many bytes of either, where there isn't as much already. */
static int take_memory(struct nestor_instance* instance, int64_t arena_bytes, int64_t workspace_bytes) {
  const int64_t needed = arena_bytes + workspace_bytes + 64;
  if (instance->memory_bytes < needed) {
    if (instance->host_memory) return 0;
    release_memory(instance);
    instance->memory = allocate(needed);
    instance->memory_bytes = instance->memory ? needed : 0;
    if (!instance->memory) return 0;
  }
  const uintptr_t aligned = ((uintptr_t)instance->memory + 63) & ~(uintptr_t)63;
  instance->arena = (void*)aligned;
  instance->workspace = (void*)(aligned + (uintptr_t)arena_bytes); /* arena_bytes is a multiple of 64 */
  return 1;
}

struct nestor_instance* nestor_instance_create(const struct nestor_options* options, int64_t arena_bytes,
                                               int64_t workspace_bytes, int32_t threads,
                                               const struct nestor_weights* weights,
                                               const struct nestor_needs* needs, const struct nestor_sizes* sizes) {
  static const struct nestor_options defaults;
  if (!options) options = &defaults;
  const char* missing = nestor_missing_feature(needs->features);
  if (missing) {
    nestor_fail(options, (const char*[]){"this processor has no ", missing, ", which code for ",
                                         needs->target, " uses: compile with another --target", NULL});
    return NULL;
  }
  struct nestor_instance* instance = calloc(1, sizeof *instance);
  int ok = instance && (sizes || take_memory(instance, arena_bytes, workspace_bytes));
  if (ok && sizes) {
    instance->sizes = sizes;
    instance->fit = nestor_fit_create(sizes);
    ok = instance->fit != NULL;
  }
  ok = ok || nestor_fail(options, (const char*[]){kNoMemory, NULL});
  if (ok && sizes) {
    instance->numbers = instance->fit->numbers;
    instance->offsets = instance->fit->offsets;
    ok = !options->placement ||
         nestor_fail(options, (const char*[]){"memory of a size that runs decide can't be placed", NULL});
  }
  if (ok) instance->found_for = weights;
  ok = ok && nestor_find_weights(&instance->found, options, weights);
  if (ok) instance->weights = instance->found.bytes;
  ok = ok && start_threads(instance, options, threads);
  ok = ok && place_memory(instance, options, arena_bytes + workspace_bytes + 64, weights->bytes,
                          nestor_pool_threads(instance->pool));
  if (!ok) {
    nestor_instance_destroy(instance);
    return NULL;
  }
  return instance;
}

static int32_t fit(struct nestor_instance* instance, const int64_t* dims, int64_t* outputs) {
  const struct nestor_sizes* sizes = instance->sizes;
  struct nestor_fit* fit = instance->fit;
  const int32_t result = nestor_fit_sizes(sizes, fit, dims);
  if (result == NESTOR_SIZES_BAD) return NESTOR_BAD_SIZES;
  if (result == NESTOR_SIZES_NEW && !take_memory(instance, fit->arena_bytes, fit->workspace_bytes)) {
    if (instance->host_memory)
      snprintf(fit->why, sizeof fit->why, "these sizes need %lld bytes of memory, the host gave %lld",
               (long long)(fit->arena_bytes + fit->workspace_bytes + 64), (long long)instance->memory_bytes);
    else
      snprintf(fit->why, sizeof fit->why, "%s for %lld bytes", kNoMemory,
               (long long)(fit->arena_bytes + fit->workspace_bytes + 64));
    nestor_add_sizes(sizes, fit);
    fit->arena_bytes = -1;
    return NESTOR_BAD_SIZES;
  }
  for (int64_t i = 0; outputs && i < sizes->output_count; ++i) outputs[i] = fit->numbers[sizes->outputs[i]];
  return 0;
}

int32_t nestor_instance_fit(struct nestor_instance* instance, const int64_t* dims, int64_t* outputs) {
  if (atomic_exchange_explicit(&instance->running, 1, memory_order_acquire)) return NESTOR_BUSY;
  const int32_t result = fit(instance, dims, outputs);
  atomic_store_explicit(&instance->running, 0, memory_order_release);
  return result;
}

int32_t nestor_instance_use_memory(struct nestor_instance* instance, void* memory, int64_t bytes) {
  if (atomic_exchange_explicit(&instance->running, 1, memory_order_acquire)) return NESTOR_BUSY;
  release_memory(instance);
  instance->memory = memory;
  instance->memory_bytes = memory ? bytes : 0;
  instance->host_memory = memory != NULL;
  instance->fit->arena_bytes = -1; /* the next run needs a fit */
  atomic_store_explicit(&instance->running, 0, memory_order_release);
  return 0;
}

void nestor_instance_made(const struct nestor_instance* instance, int64_t* outputs) {
  const struct nestor_sizes* sizes = instance->sizes;
  for (int64_t i = 0; i < sizes->output_count; ++i) outputs[i] = instance->numbers[sizes->made[i]];
}

const char* nestor_instance_why(const struct nestor_instance* instance) {
  return instance->fit->why;
}

int64_t nestor_memory_size(const struct nestor_sizes* sizes, const int64_t* dims) {
  struct nestor_fit* fit = nestor_fit_create(sizes);
  const int good = fit && nestor_fit_sizes(sizes, fit, dims) != NESTOR_SIZES_BAD;
  const int64_t bytes = good ? fit->arena_bytes + fit->workspace_bytes + 64 : -1;
  nestor_fit_destroy(fit);
  return bytes;
}

int32_t nestor_instance_run(struct nestor_instance* instance, nestor_calls calls, const void* const* inputs,
                            void* const* outputs) {
  if (atomic_exchange_explicit(&instance->running, 1, memory_order_acquire)) return NESTOR_BUSY;
  const int fitted = !instance->fit || instance->fit->arena_bytes >= 0;
  static const char kNotFitted[] = "no sizes were fitted before the run";
  if (!fitted) memcpy(instance->fit->why, kNotFitted, sizeof kNotFitted);
  const int32_t result = fitted ? calls(instance, inputs, outputs) : NESTOR_BAD_SIZES;
  atomic_store_explicit(&instance->running, 0, memory_order_release);
  return result;
}

struct places {
  const struct nestor_instance* instance;
  const void* const* inputs;
  void* const* outputs;
  void** moving;
};

static void* address(const struct places* p, int64_t place) {
  const int64_t at = place >> NESTOR_REGION_BITS;
  switch (place & NESTOR_REGION_MASK) {
    case NESTOR_INPUT:
      return (void*)(uintptr_t)p->inputs[at];
    case NESTOR_OUTPUT:
      return p->outputs[at];
    case NESTOR_ARENA:
      return (char*)p->instance->arena + (p->instance->offsets ? p->instance->offsets[at] : at);
    case NESTOR_NUMBERS:
      return (void*)(uintptr_t)(p->instance->numbers + at);
    case NESTOR_MOVING:
      return p->moving[at];
    default:
      return (char*)(uintptr_t)p->instance->weights + at;
  }
}

static int64_t number_at(const void* place) {
  int64_t number;
  memcpy(&number, place, sizeof number);
  return number;
}

/* Whether a loop makes one more iteration after `done` of them. */
static int goes_on(void* const* args, int32_t count, int64_t done) {
  memcpy(args[0], &done, sizeof done);
  return done < number_at(args[1]) && (count < 3 || *(const uint8_t*)args[2]);
}

int32_t nestor_run_table(const struct nestor_instance* instance, const void* const* inputs,
                         void* const* outputs, const struct nestor_call_table* table, void** args,
                         void** moving) {
  const struct places places = {instance, inputs, outputs, moving};
  const int64_t *word = table->words, *const end = word + table->count;
  while (word < end) {
    const int32_t kernel = (int32_t)*word, count = (int32_t)(*word >> 32);
    const int64_t* const place = ++word;
    for (int32_t k = 0; k < count; ++k) args[k] = address(&places, *word++);
    if (kernel >= 0) {
      const int32_t result = table->kernels[kernel](args, instance->workspace, instance->pool);
      if (result) return result;
      continue;
    }
    if (kernel == NESTOR_CALL_CHECK) {
      int32_t found;
      memcpy(&found, args[0], sizeof found);
      if (found) return NESTOR_BAD_INDEX;
      continue;
    }
    const int64_t bytes = *word++;
    int jumps = 0;
    switch (kernel) {
      case NESTOR_CALL_COPY:
        memcpy(args[1], args[0], (size_t)(bytes >= 0 ? bytes : instance->numbers[-1 - bytes]));
        continue;
      case NESTOR_CALL_POINT:
        moving[place[1] >> NESTOR_REGION_BITS] = (char*)args[0] + bytes + (count > 2 ? number_at(args[2]) : 0);
        continue;
      case NESTOR_CALL_FOUND:
        if (nestor_found_size(instance->sizes, instance->fit, bytes, number_at(args[0])) == NESTOR_SIZES_BAD)
          return NESTOR_BAD_SIZES;
        continue;
      case NESTOR_CALL_SKIP:
        jumps = count == 0 || !*(const uint8_t*)args[0];
        break;
      case NESTOR_CALL_LOOP:
        jumps = !goes_on(args, count, 0);
        break;
      default:
        jumps = goes_on(args, count, number_at(args[0]) + 1);
        if (jumps && bytes && number_at(args[0]) >= bytes) return NESTOR_TOO_MANY_TRIPS;
    }
    word = jumps ? table->words + *word : word + 1;
  }
  return 0;
}

void nestor_instance_destroy(struct nestor_instance* instance) {
  if (!instance) return;
  if (instance->pool) nestor_pool_destroy(instance->pool);
  nestor_release_weights(&instance->found, instance->found_for);
  free(instance->placed);
  nestor_fit_destroy(instance->fit);
  release_memory(instance);
  free(instance);
}

/* An instance of an artifact: one block for arena and workspace, a thread pool, and the weights where they
 * lie in a file beside the object. Nothing here is shared between instances, so that each may run on a thread
 * of its own. */
#include "runtime/artifact_rt.h"

#include <stddef.h>

#include "runtime/large_pages.h"

/* Compiled for other architectures without their system headers, as kernel_rt.c is. These are the same on all
 * Linux. */
typedef struct {
  const char* dli_fname;
  void* dli_fbase;
  const char* dli_sname;
  void* dli_saddr;
} Dl_info;
extern int dladdr(const void* address, Dl_info* info);
extern void* malloc(size_t size);
extern void* calloc(size_t count, size_t size);
extern void* aligned_alloc(size_t alignment, size_t size);
extern int madvise(void* memory, size_t size, int advice);
extern void free(void* memory);
extern void* memcpy(void* to, const void* from, size_t size);
extern size_t strlen(const char* text);
extern char* strrchr(const char* text, int c);
extern int open(const char* path, int flags, ...);
extern int close(int fd);
extern long lseek(int fd, long offset, int whence);
extern void* mmap(void* address, size_t size, int protection, int flags, int fd, long offset);
extern int munmap(void* address, size_t size);
enum { O_RDONLY_CLOEXEC = 02000000, SEEK_TO_END = 2, PROT_READ_ONLY = 1, MAP_PRIVATE_COPY = 2 };
#define MAP_FAILURE ((void*)-1)
enum { WANTS_LARGE_PAGES = 14 };

/* In pages of 2 MB, where that is worth one and the system has them: runtime/large_pages.cpp says why. */
static void* allocate(int64_t bytes) {
  if (bytes < NESTOR_LEAST_IN_LARGE_PAGES) return malloc((size_t)bytes);
  const size_t whole = ((size_t)bytes + NESTOR_LARGE_PAGE - 1) / NESTOR_LARGE_PAGE * NESTOR_LARGE_PAGE;
  void* memory = aligned_alloc(NESTOR_LARGE_PAGE, whole);
  if (memory) (void)madvise(memory, whole, WANTS_LARGE_PAGES);
  return memory;
}

static int map_weights(struct nestor_instance* instance, const char* path, int64_t bytes) {
  const int fd = open(path, O_RDONLY_CLOEXEC);
  if (fd < 0) return 0;
  void* mapped = MAP_FAILURE;
  if (lseek(fd, 0, SEEK_TO_END) == bytes)
    mapped = mmap(NULL, (size_t)bytes, PROT_READ_ONLY, MAP_PRIVATE_COPY, fd, 0);
  close(fd);
  if (mapped == MAP_FAILURE) return 0;
  instance->weights = instance->mapped = mapped;
  instance->mapped_bytes = bytes;
  return 1;
}

/* The file in the directory of the object that this code is part of. */
static int map_weights_beside(struct nestor_instance* instance, const char* file, int64_t bytes) {
  Dl_info self;
  const char* slash = NULL;
  if (dladdr((const void*)(uintptr_t)&nestor_instance_create, &self) && self.dli_fname)
    slash = strrchr(self.dli_fname, '/');
  const size_t directory = slash ? (size_t)(slash - self.dli_fname) + 1 : 0;
  const size_t length = strlen(file) + 1;
  char* path = malloc(directory + length);
  if (!path) return 0;
  if (directory) memcpy(path, self.dli_fname, directory);
  memcpy(path + directory, file, length);
  const int mapped = map_weights(instance, path, bytes);
  free(path);
  return mapped;
}

static int start_threads(struct nestor_instance* instance, const struct nestor_options* options,
                         int32_t compiled) {
  const int32_t wanted = options->threads > 0 || options->parallel_for || options->cpus
                             ? options->threads
                             : nestor_allowed_cpus();
  const int32_t threads = wanted > 0 && wanted < compiled ? wanted : compiled;
  if (threads <= 1) return 1;
  instance->pool = options->parallel_for
                       ? nestor_pool_from_host(threads, options->parallel_for, options->host)
                       : nestor_pool_create(threads);
  if (options->cpus && !options->parallel_for) nestor_pool_pin(instance->pool, options->cpus);
  return instance->pool != NULL;
}

/* Weights, which all threads read, page by page on all nodes: in memory of the instance's own, since the
 * system doesn't place what belongs to a file. */
static int place_memory(struct nestor_instance* instance, const struct nestor_options* options,
                        int64_t memory_bytes, int64_t weights_bytes, int32_t threads) {
  if (!options->placement) return 1;
  if (!options->cpus || options->parallel_for) return 0;
  if (nestor_place(instance->memory, memory_bytes, (enum nestor_placement)options->placement, options->cpus,
                   threads))
    return 0;
  if (options->placement == NESTOR_PLACE_PARTS) nestor_pool_keep_parts(instance->pool);
  if (weights_bytes <= 0) return 1;
  instance->placed = allocate(weights_bytes + 64);
  if (!instance->placed) return 0;
  void* aligned = (void*)(((uintptr_t)instance->placed + 63) & ~(uintptr_t)63);
  memcpy(aligned, instance->weights, (size_t)weights_bytes);
  instance->weights = aligned;
  return !nestor_place(aligned, weights_bytes, NESTOR_PLACE_INTERLEAVE, options->cpus, threads);
}

struct nestor_instance* nestor_instance_create(const struct nestor_options* options, int64_t arena_bytes,
                                               int64_t workspace_bytes, int32_t threads, const void* weights,
                                               int64_t weights_bytes, const char* weights_file) {
  static const struct nestor_options defaults;
  if (!options) options = &defaults;
  struct nestor_instance* instance = calloc(1, sizeof *instance);
  if (!instance) return NULL;
  instance->weights = weights;
  instance->memory = allocate(arena_bytes + workspace_bytes + 64);
  int ok = instance->memory != NULL;
  if (ok && !weights && weights_bytes > 0)
    ok = options->weights_path ? map_weights(instance, options->weights_path, weights_bytes)
                               : map_weights_beside(instance, weights_file, weights_bytes);
  ok = ok && start_threads(instance, options, threads);
  ok = ok && place_memory(instance, options, arena_bytes + workspace_bytes + 64, weights_bytes,
                          nestor_pool_threads(instance->pool));
  if (!ok) {
    nestor_instance_destroy(instance);
    return NULL;
  }
  const uintptr_t aligned = ((uintptr_t)instance->memory + 63) & ~(uintptr_t)63;
  instance->arena = (void*)aligned;
  instance->workspace = (void*)(aligned + (uintptr_t)arena_bytes); /* arena_bytes is a multiple of 64 */
  return instance;
}

void nestor_instance_destroy(struct nestor_instance* instance) {
  if (!instance) return;
  if (instance->pool) nestor_pool_destroy(instance->pool);
  if (instance->mapped) munmap(instance->mapped, (size_t)instance->mapped_bytes);
  free(instance->placed);
  free(instance->memory);
  free(instance);
}

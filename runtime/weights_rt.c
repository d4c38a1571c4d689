#include "runtime/weights_rt.h"

#include <stddef.h>

#include "runtime/hash_rt.h"
#include "runtime/text_rt.h"

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
extern void free(void* memory);
extern void* memcpy(void* to, const void* from, size_t size);
extern size_t strlen(const char* text);
extern char* strrchr(const char* text, int c);
extern int* __errno_location(void);
extern char* strerror(int error);
extern long lseek(int fd, long offset, int whence);
extern void* mmap(void* address, size_t size, int protection, int flags, int fd, long offset);
extern int munmap(void* address, size_t size);
enum { SEEK_TO_END = 2, PROT_READ_ONLY = 1, MAP_PRIVATE_COPY = 2 };
#define MAP_FAILURE ((void*)-1)

int nestor_fail(const struct nestor_options* options, const char* const* texts) {
  char text[MAX_PATH];
  size_t at = 0;
  if (!options->why || options->why_bytes <= 0) return 0;
  for (text[0] = 0; *texts; ++texts) at = append_text(text, at, *texts, MAX_PATH);
  if (at >= (size_t)options->why_bytes) at = (size_t)options->why_bytes - 1;
  memcpy(options->why, text, at);
  options->why[at] = 0;
  return 0;
}

static int fail_length(const struct nestor_options* options, const char* path, int64_t is, int64_t wanted) {
  char lengths[MAX_PATH];
  size_t at = append_number(lengths, 0, is);
  at = append_text(lengths, at, " bytes, where the object's weights have ", MAX_PATH);
  append_number(lengths, at, wanted);
  return nestor_fail(options, (const char*[]){path, ": the length is ", lengths, NULL});
}

/* A file of another length or content belongs to another object, or is damaged. */
static int map_weights(struct nestor_found_weights* found, const struct nestor_options* options,
                       const char* path, const struct nestor_weights* weights) {
  const int fd = open(path, READ_ONLY_CLOEXEC);
  const long length = fd < 0 ? -1 : lseek(fd, 0, SEEK_TO_END);
  void* mapped = MAP_FAILURE;
  if (length == weights->bytes) mapped = mmap(NULL, (size_t)length, PROT_READ_ONLY, MAP_PRIVATE_COPY, fd, 0);
  const char* error = strerror(*__errno_location());
  if (fd >= 0) close(fd);
  if (fd >= 0 && length >= 0 && length != weights->bytes)
    return fail_length(options, path, length, weights->bytes);
  if (mapped == MAP_FAILURE)
    return nestor_fail(options, (const char*[]){path, ": the weights can't be mapped: ", error,
                                                "; weights_path in the options names another place", NULL});
  found->bytes = found->mapped = mapped;
  if (content_hash(mapped, (size_t)length) == weights->hash) return 1;
  return nestor_fail(
      options, (const char*[]){path, ": the hash of the content isn't that of the object's weights", NULL});
}

/* The file in the directory of the object that this code is part of. */
static int map_weights_beside(struct nestor_found_weights* found, const struct nestor_options* options,
                              const struct nestor_weights* weights) {
  Dl_info self;
  const char* slash = NULL;
  if (dladdr((const void*)(uintptr_t)&nestor_find_weights, &self) && self.dli_fname)
    slash = strrchr(self.dli_fname, '/');
  const size_t directory = slash ? (size_t)(slash - self.dli_fname) + 1 : 0;
  const size_t length = strlen(weights->file) + 1;
  char* path = malloc(directory + length);
  if (!path) return nestor_fail(options, (const char*[]){"there isn't enough memory", NULL});
  if (directory) memcpy(path, self.dli_fname, directory);
  memcpy(path + directory, weights->file, length);
  const int mapped = map_weights(found, options, path, weights);
  free(path);
  return mapped;
}

int nestor_find_weights(struct nestor_found_weights* found, const struct nestor_options* options,
                        const struct nestor_weights* weights) {
  found->bytes = weights->inside;
  found->mapped = NULL;
  if (!weights->file) return 1;
  return options->weights_path ? map_weights(found, options, options->weights_path, weights)
                               : map_weights_beside(found, options, weights);
}

void nestor_release_weights(struct nestor_found_weights* found, const struct nestor_weights* weights) {
  if (found->mapped) munmap(found->mapped, (size_t)weights->bytes);
  found->mapped = NULL;
}

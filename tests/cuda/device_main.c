/* A program with an artifact for CUDA: two threads, each with an instance of its own, run it several times,
 * on tensors of the host and then on tensors of the device, which must give the same.
 *
 *   device_main m.so NAME FOLDER BYTES_OF_INPUT ... / BYTES_OF_OUTPUT ...
 *
 * The inputs of thread t are FOLDER/in.t, one after another; its outputs are written to FOLDER/out.t. Where
 * something fails, the artifact's words are printed. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 3, MOST = 16 };

/* As NAME.h has it. */
struct options {
  int32_t threads, placement;
  void (*parallel_for)(void);
  void* host;
  const char* weights_path;
  const int32_t* cpus;
  char* why;
  int64_t why_bytes;
  int32_t device;
};
static void* (*create)(const struct options*);
static int32_t (*run)(void*, const void* const*, void* const*);
static const char* (*why_of)(const void*);
static void (*destroy)(void*);
static int (*allocate)(uint64_t*, size_t);
static int (*release)(uint64_t);
static int (*to_device)(uint64_t, const void*, size_t, void*);
static int (*to_host)(void*, uint64_t, size_t, void*);

static size_t bytes[2][MOST]; /* of inputs, of outputs */
static int count[2];
static const char* folder;

struct job {
  int number, failed;
};

static int fail(const char* what) {
  printf("%s\n", what);
  return 1;
}

static int same(char* const* a, char* const* b) {
  for (int i = 0; i < count[1]; ++i)
    if (memcmp(a[i], b[i], bytes[1][i]) != 0) return 0;
  return 1;
}

/* On tensors of the device, `offset` bytes behind where the driver aligns. */
static int run_on_device(void* m, char* const* in, char* const* out, char* const* again, size_t offset) {
  uint64_t device[2][MOST];
  for (int side = 0; side < 2; ++side)
    for (int i = 0; i < count[side]; ++i) {
      allocate(&device[side][i], bytes[side][i] + offset);
      device[side][i] += offset;
    }
  for (int i = 0; i < count[0]; ++i) to_device(device[0][i], in[i], bytes[0][i], NULL);
  for (int r = 0; r < RUNS; ++r) {
    if (run(m, (const void* const*)device[0], (void* const*)device[1]) != 0) return fail(why_of(m));
    for (int i = 0; i < count[1]; ++i) to_host(again[i], device[1][i], bytes[1][i], NULL);
    if (!same(out, again)) return fail("a run on the device's tensors gives something else");
  }
  for (int side = 0; side < 2; ++side)
    for (int i = 0; i < count[side]; ++i) release(device[side][i] - offset);
  return 0;
}

static int run_job(void* m, char* const* in, char* const* out, char* const* again) {
  for (int r = 0; r < RUNS; ++r) {
    char* const* to = r == 0 ? out : again;
    if (run(m, (const void* const*)in, (void* const*)to) != 0) return fail(why_of(m));
    if (r > 0 && !same(out, again)) return fail("a run gives something else than the first");
  }
  return run_on_device(m, in, out, again, 0) || run_on_device(m, in, out, again, 4);
}

static FILE* open_file(const char* name, int number, const char* mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%d", folder, name, number);
  return fopen(path, mode);
}

static void* work(void* argument) {
  struct job* job = argument;
  char *in[MOST], *out[MOST], *again[MOST], why[512] = "";
  FILE* from = open_file("in", job->number, "rb");
  job->failed = !from;
  for (int i = 0; i < count[0]; ++i) {
    in[i] = malloc(bytes[0][i]);
    if (from && fread(in[i], 1, bytes[0][i], from) != bytes[0][i]) job->failed = 1;
  }
  if (from) fclose(from);
  for (int i = 0; i < count[1]; ++i) {
    out[i] = malloc(bytes[1][i]);
    again[i] = malloc(bytes[1][i]);
  }
  struct options options;
  memset(&options, 0, sizeof options);
  options.why = why;
  options.why_bytes = sizeof why;
  void* m = create(&options);
  job->failed = !m ? fail(why) : job->failed || run_job(m, in, out, again);
  destroy(m);
  FILE* to = open_file("out", job->number, "wb");
  for (int i = 0; i < count[1]; ++i) {
    if (!to || fwrite(out[i], 1, bytes[1][i], to) != bytes[1][i]) job->failed = 1;
    free(out[i]);
    free(again[i]);
  }
  if (to) fclose(to);
  for (int i = 0; i < count[0]; ++i) free(in[i]);
  return NULL;
}

static void* symbol(void* library, const char* prefix, const char* name) {
  char text[512];
  snprintf(text, sizeof text, "%s%s", prefix, name);
  return library ? dlsym(library, text) : NULL;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(dlerror());
  *(void**)&create = symbol(library, argv[2], "_create");
  *(void**)&run = symbol(library, argv[2], "_run");
  *(void**)&why_of = symbol(library, argv[2], "_why");
  *(void**)&destroy = symbol(library, argv[2], "_destroy");
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  *(void**)&allocate = symbol(driver, "", "cuMemAlloc_v2");
  *(void**)&release = symbol(driver, "", "cuMemFree_v2");
  *(void**)&to_device = symbol(driver, "", "cuMemcpyHtoDAsync_v2");
  *(void**)&to_host = symbol(driver, "", "cuMemcpyDtoHAsync_v2");
  folder = argv[3];
  for (int i = 4, side = 0; i < argc; ++i) {
    if (argv[i][0] == '/')
      side = 1;
    else if (count[side] < MOST)
      bytes[side][count[side]++] = (size_t)atoll(argv[i]);
  }
  struct job jobs[2];
  pthread_t threads[2];
  for (int t = 0; t < 2; ++t) {
    jobs[t].number = t;
    if (pthread_create(&threads[t], NULL, work, &jobs[t]) != 0) return 2;
  }
  for (int t = 0; t < 2; ++t) pthread_join(threads[t], NULL);
  return jobs[0].failed || jobs[1].failed;
}

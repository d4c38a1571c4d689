#include "runtime/cuda_driver_rt.h"

extern void* dlopen(const char* file, int mode);
extern void* dlsym(void* library, const char* name);
enum { LAZY = 1 };

const char* nestor_find_cuda_driver(struct nestor_cuda_driver* driver) {
  void* library = dlopen("libcuda.so.1", LAZY);
  if (!library) return "there is no NVIDIA driver on this machine (libcuda.so.1)";
  int required = 1, graphs = 1;
#define FIND(member, symbol, parameters, arguments)     \
  *(void**)(&driver->member) = dlsym(library, #symbol); \
  required = required && driver->member;
  NESTOR_CUDA_FUNCTIONS(FIND)
#undef FIND
  if (!required) return "the NVIDIA driver is too old: it lacks functions of CUDA 11";
#define FIND(member, symbol, parameters, arguments)     \
  *(void**)(&driver->member) = dlsym(library, #symbol); \
  graphs = graphs && driver->member;
  NESTOR_CUDA_GRAPH_FUNCTIONS(FIND)
#undef FIND
#define DROP(member, symbol, parameters, arguments) driver->member = NULL;
  if (!graphs) {
    NESTOR_CUDA_GRAPH_FUNCTIONS(DROP)
  }
#undef DROP
  const char* text = NULL;
  const int status = driver->init(0);
  if (status == 0) return NULL;
  driver->error_text(status, &text);
  return text ? text : "the NVIDIA driver doesn't start";
}

int nestor_cuda_capability(const struct nestor_cuda_driver* driver, int device) {
  int major = 0, minor = 0;
  driver->attribute(&major, NESTOR_CUDA_MAJOR, device);
  driver->attribute(&minor, NESTOR_CUDA_MINOR, device);
  return 10 * major + minor;
}

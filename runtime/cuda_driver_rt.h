/* The functions of NVIDIA's driver that we call. They are found at run time in libcuda, which comes with the
 * driver, or are those of an emulated device (src/emulate/). Status codes are int, 0 is success. */
#ifndef NESTOR_CUDA_DRIVER_RT_H
#define NESTOR_CUDA_DRIVER_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef unsigned long long nestor_device_pointer;

/* X(member, symbol, parameters, arguments). "_v2" are the names of the 64-bit interface. */
#define NESTOR_CUDA_FUNCTIONS(X)                                                                            \
  X(init, cuInit, (unsigned flags), (flags))                                                                \
  X(version, cuDriverGetVersion, (int* version), (version))                                                 \
  X(device, cuDeviceGet, (int* device, int number), (device, number))                                       \
  X(device_count, cuDeviceGetCount, (int* count), (count))                                                  \
  X(device_name, cuDeviceGetName, (char* name, int size, int device), (name, size, device))                 \
  X(attribute, cuDeviceGetAttribute, (int* value, int attribute, int device), (value, attribute, device))   \
  X(error_text, cuGetErrorString, (int status, const char** text), (status, text))                          \
  X(retain, cuDevicePrimaryCtxRetain, (void** context, int device), (context, device))                      \
  X(release, cuDevicePrimaryCtxRelease_v2, (int device), (device))                                          \
  X(push, cuCtxPushCurrent_v2, (void* context), (context))                                                  \
  X(pop, cuCtxPopCurrent_v2, (void** context), (context))                                                   \
  X(load, cuModuleLoadData, (void** module, const void* image), (module, image))                            \
  X(unload, cuModuleUnload, (void* module), (module))                                                       \
  X(function, cuModuleGetFunction, (void** function, void* module, const char* name),                       \
    (function, module, name))                                                                               \
  X(set_attribute, cuFuncSetAttribute, (void* function, int attribute, int value),                          \
    (function, attribute, value))                                                                           \
  X(memory, cuMemGetInfo_v2, (size_t * free, size_t * total), (free, total))                                \
  X(allocate, cuMemAlloc_v2, (nestor_device_pointer * memory, size_t bytes), (memory, bytes))               \
  X(free, cuMemFree_v2, (nestor_device_pointer memory), (memory))                                           \
  X(pointer, cuPointerGetAttribute, (void* value, int attribute, nestor_device_pointer pointer),            \
    (value, attribute, pointer))                                                                            \
  X(to_device, cuMemcpyHtoDAsync_v2,                                                                        \
    (nestor_device_pointer to, const void* from, size_t bytes, void* stream), (to, from, bytes, stream))    \
  X(to_host, cuMemcpyDtoHAsync_v2, (void* to, nestor_device_pointer from, size_t bytes, void* stream),      \
    (to, from, bytes, stream))                                                                              \
  X(on_device, cuMemcpyDtoDAsync_v2,                                                                        \
    (nestor_device_pointer to, nestor_device_pointer from, size_t bytes, void* stream),                     \
    (to, from, bytes, stream))                                                                              \
  X(create_stream, cuStreamCreate, (void** stream, unsigned flags), (stream, flags))                        \
  X(destroy_stream, cuStreamDestroy_v2, (void* stream), (stream))                                           \
  X(synchronize, cuStreamSynchronize, (void* stream), (stream))                                             \
  X(launch, cuLaunchKernel,                                                                                 \
    (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared, void* stream, void** args, void** extra),                           \
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, args, extra))

/* Of newer drivers (CUDA 11.4); all of them are null where one is missing. */
#define NESTOR_CUDA_GRAPH_FUNCTIONS(X)                                                                    \
  X(begin_capture, cuStreamBeginCapture_v2, (void* stream, int mode), (stream, mode))                     \
  X(end_capture, cuStreamEndCapture, (void* stream, void** graph), (stream, graph))                       \
  X(instantiate, cuGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags), \
    (executable, graph, flags))                                                                           \
  X(launch_graph, cuGraphLaunch, (void* executable, void* stream), (executable, stream))                  \
  X(destroy_graph, cuGraphDestroy, (void* graph), (graph))                                                \
  X(destroy_executable, cuGraphExecDestroy, (void* executable), (executable))

struct nestor_cuda_driver {
#define NESTOR_MEMBER(member, symbol, parameters, arguments) int(*member) parameters;
  NESTOR_CUDA_FUNCTIONS(NESTOR_MEMBER)
  NESTOR_CUDA_GRAPH_FUNCTIONS(NESTOR_MEMBER)
#undef NESTOR_MEMBER
};

enum {
  NESTOR_CUDA_CLOCK_KHZ = 13, /* attributes of a device */
  NESTOR_CUDA_MULTIPROCESSORS = 16,
  NESTOR_CUDA_MAJOR = 75, /* its compute capability */
  NESTOR_CUDA_MINOR = 76,
  NESTOR_CUDA_DYNAMIC_SHARED = 8, /* an attribute of a function: bytes of shared memory at a launch */
  NESTOR_CUDA_MEMORY_TYPE = 2,    /* an attribute of a pointer, with the value: */
  NESTOR_CUDA_DEVICE_MEMORY = 2,
  NESTOR_CUDA_OUT_OF_MEMORY = 2, /* a status */
  NESTOR_CUDA_CAPTURE_OF_THREAD = 1
};

/* libcuda's functions; NULL, or why they aren't there. The library stays loaded. */
const char* nestor_find_cuda_driver(struct nestor_cuda_driver* driver);

/* major*10 + minor of a device's compute capability; 0 where it can't be told. */
int nestor_cuda_capability(const struct nestor_cuda_driver* driver, int device);

#ifdef __cplusplus
}
#endif
#endif

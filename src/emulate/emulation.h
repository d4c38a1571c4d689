// CUDA's built-ins on a CPU: emitted kernels, unchanged, are compiled as C++ behind this header (with
// NESTOR_EMULATED) and loaded by the host, which runs their threads one after the other (blocks.h): here is
// only what the text refers to.
#pragma once

// One block in flight. The host sets the indices before it lets a thread go on.
struct Emulation {
  struct Index {
    unsigned x, y, z;
  };
  Index block, thread, block_dim, grid_dim;
  void (*wait)(void* self);  // returns when all threads of the block have come
  void* self;
};

// A kernel of the library, by the symbol NAME_emulated.
struct EmulatedKernel {
  void (*thread)(void** args);  // one thread; each argument by its address, as for cuLaunchKernel
  int args;
  bool waits;  // threads of a block for one another
};

#ifdef NESTOR_EMULATED
#include <math.h>
#include <string.h>

#include <utility>

static Emulation* nestor_emulation;

#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __align__(bytes) alignas(bytes)
// All shared memory lies in one section, which the host fills with garbage between blocks.
#define __shared__ static __attribute__((section("nestor_shared")))
#define blockIdx (nestor_emulation->block)
#define threadIdx (nestor_emulation->thread)
#define blockDim (nestor_emulation->block_dim)
#define gridDim (nestor_emulation->grid_dim)
#define __syncthreads() nestor_emulation->wait(nestor_emulation->self)

#define NESTOR_V2(T, n, b)            \
  struct alignas(b) n##2 {            \
    T x, y;                           \
  };                                  \
  inline n##2 make_##n##2(T x, T y) { \
    return {x, y};                    \
  }
#define NESTOR_V4(T, n, b)                      \
  struct alignas(b) n##4 {                      \
    T x, y, z, w;                               \
  };                                            \
  inline n##4 make_##n##4(T x, T y, T z, T w) { \
    return {x, y, z, w};                        \
  }
NESTOR_V2(signed char, char, 2)
NESTOR_V2(unsigned char, uchar, 2)
NESTOR_V2(short, short, 4)
NESTOR_V2(unsigned short, ushort, 4)
NESTOR_V2(int, int, 8)
NESTOR_V2(unsigned, uint, 8)
NESTOR_V2(float, float, 8)
NESTOR_V2(long long, longlong, 16)
NESTOR_V2(double, double, 16)
NESTOR_V4(signed char, char, 4)
NESTOR_V4(unsigned char, uchar, 4)
NESTOR_V4(short, short, 8)
NESTOR_V4(unsigned short, ushort, 8)
NESTOR_V4(int, int, 16)
NESTOR_V4(unsigned, uint, 16)
NESTOR_V4(float, float, 16)
extern "C" {
extern char __start_nestor_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_nestor_shared[] __attribute__((weak, visibility("hidden")));
void nestor_attach(Emulation* e) {
  nestor_emulation = e;
}
void nestor_poison_shared() {
  if (__start_nestor_shared)
    memset(__start_nestor_shared, 0xff, (size_t)(__stop_nestor_shared - __start_nestor_shared));
}
}

template <class To, class From>
inline To nestor_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
inline int __float_as_int(float x) {
  return nestor_bits<int>(x);
}
inline float __int_as_float(int x) {
  return nestor_bits<float>(x);
}
inline long long __double_as_longlong(double x) {
  return nestor_bits<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return nestor_bits<double>(x);
}

template <class... Ps, size_t... Is>
inline void nestor_call(void (*kernel)(Ps...), void** args, std::index_sequence<Is...>) {
  (void)args;
  kernel(*(Ps*)args[Is]...);
}
template <class... Ps>
inline void nestor_call_all(void (*kernel)(Ps...), void** args) {
  nestor_call(kernel, args, std::index_sequence_for<Ps...>());
}
template <class... Ps>
constexpr int nestor_count(void (*)(Ps...)) {
  return sizeof...(Ps);
}
#define NESTOR_EMULATE(kernel, waits)                                                                      \
  extern "C" const EmulatedKernel kernel##_emulated = {[](void** args) { nestor_call_all(kernel, args); }, \
                                                       nestor_count(kernel), waits};
#endif

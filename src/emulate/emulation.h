// CUDA's built-ins on a CPU: emitted kernels, unchanged, are compiled as C++ behind this header (with
// NESTOR_EMULATED) and loaded by the host, which runs their threads one after the other (blocks.h): here is
// only what the text refers to.
#pragma once

// One block in flight. The host sets the indices before it lets a thread go on.
struct Emulation {
  struct Index {
    unsigned x, y, z;
  };
  // What a thread waits for at a line of the text: for all threads of its block, or for those lanes of its
  // warp that the mask names, each of which gets the `bytes` at `value` of all: `values` has room for 32 of
  // them.
  struct Meeting {
    int line;
    bool of_warp;
    unsigned mask;
    const void* value;
    void* values;
    unsigned bytes;
  };
  Index block, thread, block_dim, grid_dim;
  void (*meet)(void* self, const Meeting& meeting);  // returns when all have come
  // Something that a kernel may not do, at a line or an address of its code, where one of them is known.
  void (*report)(void* self, const char* what, int line, const void* site);
  // Each access to memory, where the library is traced: site is an address in its code.
  void (*access)(void* self, const void* at, unsigned bytes, bool write, const void* site);
  void* self;
  char* dynamic_shared;  // as many bytes as the launch says
  void* stack;           // where the thread's begins, to grow downward
};

// A kernel of the library, by the symbol NAME_emulated.
struct EmulatedKernel {
  void (*thread)(void** args);  // one thread; each argument by its address, as for cuLaunchKernel
  int args;
  bool waits;                  // threads of a block for one another
  unsigned long long written;  // bit a: argument a points to memory that isn't const
  const char* text;            // in which lines are counted, from 1
};

#ifdef NESTOR_EMULATED
#include <math.h>
#include <string.h>

#include <type_traits>
#include <utility>

static Emulation* nestor_emulation;

// Of functions that belong to the host: what they access isn't told (emulation_trace.h).
#define NESTOR_UNTRACED __attribute__((no_sanitize("thread")))

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define warpSize 32
// All shared memory lies in one section, which the host fills with garbage between blocks. As in CUDA an
// array is aligned as its elements are and no better: it begins where a vector would be misaligned by chance
// as well.
#define __shared__ static __attribute__((section("nestor_shared"), aligned(1)))
asm(".pushsection nestor_shared,\"aw\"\n.balign 128\n.zero 4\n.popsection");
#define blockIdx (nestor_emulation->block)
#define threadIdx (nestor_emulation->thread)
#define blockDim (nestor_emulation->block_dim)
#define gridDim (nestor_emulation->grid_dim)
#define __syncthreads() nestor_meet({__LINE__, false, 0, nullptr, nullptr, 0})
#define __syncwarp \
  NestorSyncWarp { \
    __LINE__       \
  }
#define __shfl_sync(...) nestor_shuffle(__LINE__, NestorLane::index, __VA_ARGS__)
#define __shfl_up_sync(...) nestor_shuffle(__LINE__, NestorLane::up, __VA_ARGS__)
#define __shfl_down_sync(...) nestor_shuffle(__LINE__, NestorLane::down, __VA_ARGS__)
#define __shfl_xor_sync(...) nestor_shuffle(__LINE__, NestorLane::exclusive_or, __VA_ARGS__)
#define __ballot_sync(mask, predicate) nestor_ballot(__LINE__, mask, predicate)
#define __any_sync(mask, predicate) (nestor_ballot(__LINE__, mask, predicate) != 0)
#define __all_sync(mask, predicate) (nestor_ballot(__LINE__, mask, !(predicate)) == 0)

extern "C" {
extern char __start_nestor_shared[] __attribute__((visibility("hidden")));
extern char __stop_nestor_shared[] __attribute__((visibility("hidden")));
NESTOR_UNTRACED void nestor_attach(Emulation* e) {
  nestor_emulation = e;
}
// Where the shared memory of all kernels lies, and how many bytes it has.
NESTOR_UNTRACED size_t nestor_shared_memory(char** begin) {
  *begin = __start_nestor_shared;
  return (size_t)(__stop_nestor_shared - __start_nestor_shared);
}
extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
// The library's own memory.
NESTOR_UNTRACED void nestor_image(char** begin, char** end) {
  *begin = __ehdr_start;
  *end = _end;
}
}

inline void nestor_meet(const Emulation::Meeting& meeting) {
  nestor_emulation->meet(nestor_emulation->self, meeting);
}
// Its lane of the warp: warps are cut from the block's threads as they are numbered, x first.
inline unsigned nestor_lane() {
  const Emulation& e = *nestor_emulation;
  return (e.thread.x + e.block_dim.x * (e.thread.y + e.block_dim.y * e.thread.z)) % 32;
}
struct NestorSyncWarp {
  int line;
  void operator()(unsigned mask = ~0u) const { nestor_meet({line, true, mask, nullptr, nullptr, 0}); }
};
// values[lane] of each lane that the mask names.
template <class T>
inline void nestor_gather(int line, unsigned mask, const T& value, T (&values)[32]) {
  nestor_meet({line, true, mask, &value, values, sizeof value});
}

enum class NestorLane { index, up, down, exclusive_or };
// As of the CUDA C++ Programming Guide, "Warp Shuffle Functions": groups of `width` lanes, a power of two. A
// lane that would read outside of its group gets its own value.
template <class T>
inline T nestor_shuffle(int line, NestorLane how, unsigned mask, T value, int by, int width = 32) {
  static_assert(sizeof value == 4 || sizeof value == 8, "shuffles are of 4 or 8 bytes");
  T values[32];
  nestor_gather(line, mask, value, values);
  const int lane = (int)nestor_lane(), first = lane / width * width;
  int from = how == NestorLane::index  ? first + (by & (width - 1))
             : how == NestorLane::up   ? lane - by
             : how == NestorLane::down ? lane + by
                                       : lane ^ by;
  if (from < 0 || (how == NestorLane::up && from < first) || from >= first + width) from = lane;
  if ((mask >> from & 1) == 0)
    nestor_emulation->report(nestor_emulation->self, "reads a lane that isn't in the mask", line, nullptr);
  return values[from];
}
inline unsigned nestor_ballot(int line, unsigned mask, int predicate) {
  int values[32];
  nestor_gather(line, mask, predicate, values);
  unsigned out = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1 && values[lane]) out |= 1u << lane;
  return out;
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
NESTOR_UNTRACED inline void nestor_call(void (*kernel)(Ps...), void** args, std::index_sequence<Is...>) {
  (void)args;
  kernel(*(Ps*)args[Is]...);
}
template <class... Ps>
NESTOR_UNTRACED inline void nestor_call_all(void (*kernel)(Ps...), void** args) {
  nestor_call(kernel, args, std::index_sequence_for<Ps...>());
}
template <class... Ps>
constexpr int nestor_count(void (*)(Ps...)) {
  return sizeof...(Ps);
}
template <class P>
constexpr bool nestor_points_to_const = std::is_const<typename std::remove_pointer<P>::type>::value;
template <class... Ps>
constexpr unsigned long long nestor_written(void (*)(Ps...)) {
  unsigned long long out = 0, bit = 1;
  ((out |= nestor_points_to_const<Ps> ? 0 : bit, bit *= 2), ...);
  return out;
}
#define NESTOR_EMULATE(kernel, waits)                                                                  \
  extern "C" const EmulatedKernel kernel##_emulated = {                                                \
      [](void** args) NESTOR_UNTRACED { nestor_call_all(kernel, args); }, nestor_count(kernel), waits, \
      nestor_written(kernel), nestor_text};
#endif

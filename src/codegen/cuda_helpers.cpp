// Functions that CUDA lacks, or that differ from the IR's. Only those that a file uses are written into it.
#include "nestor/instruction.h"
#include "src/codegen/cuda_source.h"

namespace nestor {

namespace {

struct Row {
  const char* name;
  const char* text;
};

constexpr Row kHelpers[] = {
    {"min_of", R"(
// NaN where either is.
template <class T> __device__ inline T min_of(T a, T b) { return a != a || a < b ? a : b; }
)"},
    {"max_of", R"(
// NaN where either is.
template <class T> __device__ inline T max_of(T a, T b) { return a != a || a > b ? a : b; }
)"},
    {"floor_div", R"(
// Division toward minus infinity; 0 where b is 0.
template <class T> __device__ inline T floor_div(T a, T b) {
  if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return b == 0 ? 0 : (T)(0 - (unsigned long long)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
)"},
    {"floor_mod", R"(
// The remainder has the sign of b; 0 where b is 0.
template <class T> __device__ inline T floor_mod(T a, T b) {
  if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
  const T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
)"},
    {"trunc_div", R"(
template <class T> __device__ inline T trunc_div(T a, T b) {
  return b == 0 ? 0 : (T)-1 < 0 && b == (T)-1 ? (T)(0 - (unsigned long long)a) : (T)(a / b);
}
)"},
    {"abs_of", R"(
template <class T> __device__ inline T abs_of(T a) { return a < 0 ? (T)(0 - (unsigned long long)a) : a; }
)"},
    {"prefetch_l2", R"(
// Of device memory, into the cache that all multiprocessors share.
__device__ inline void prefetch_l2(const void* p) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}
)"},
    {"is_nan", R"(
template <class T> __device__ inline bool is_nan(T a) { return a != a; }
)"},
    {"scalef", R"(
// x times 2 to the floor of n; an infinite n decides where x is no number.
__device__ inline float scalef(float x, float n) {
  if (n != n) return n;
  if (fabsf(n) > 3.402823466e+38f) return x != x ? (n > 0 ? n : 0.0f) : x * (n > 0 ? n : 0.0f);
  return ldexpf(x, (int)floorf(n < -400 ? -400.0f : n > 400 ? 400.0f : n));
}
)"},
    {"sigmoid", R"(
__device__ inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }
)"},
    {"half_to_float", R"(
// The value of an f16, of which there are the bits. The device has an instruction.
__device__ inline float half_to_float(unsigned short h) {
#ifdef __CUDA_ARCH__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
#else
  const int e = h >> 10 & 31, m = h & 1023;
  const unsigned s = (unsigned)(h & 0x8000) << 16;
  if (e == 31) return __int_as_float((int)(s | 0x7f800000 | m << 13));
  if (e) return __int_as_float((int)(s | (e + 112) << 23 | m << 13));
  return (s ? -1.0f : 1.0f) * ((float)m * 0x1p-24f);
#endif
}
)"},
    {"float_to_half", R"(
// To nearest, ties to even.
__device__ inline unsigned short float_to_half(float x) {
#ifdef __CUDA_ARCH__
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  const unsigned b = (unsigned)__float_as_int(x), s = b >> 16 & 0x8000, a = b & 0x7fffffff;
  if (a > 0x7f800000) return (unsigned short)(s | 0x7e00);
  if (a >= 0x477ff000) return (unsigned short)(s | 0x7c00);
  if (a < 0x38800000) return (unsigned short)(s | (unsigned)rintf(fabsf(x) * 0x1p24f));
  return (unsigned short)(s | (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13);
#endif
}
)"},
    {"bfloat_to_float", R"(
// The value of a bf16, of which there are the bits.
__device__ inline float bfloat_to_float(unsigned short h) { return __int_as_float((int)((unsigned)h << 16)); }
)"},
    {"float_to_bfloat", R"(
// To nearest, ties to even.
__device__ inline unsigned short float_to_bfloat(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  const unsigned b = (unsigned)__float_as_int(x);
  if ((b & 0x7fffffff) > 0x7f800000) return (unsigned short)(b >> 16 & 0x8000 | 0x7fc0);
  return (unsigned short)(b + 0x7fff + (b >> 16 & 1) >> 16);
#endif
}
)"},
    {"to_i64", R"(
// Truncates and saturates; NaN gives 0. So do the next ones.
__device__ inline long long to_i64(double x) {
  return x != x ? 0 : x <= -0x1p63 ? -0x7fffffffffffffffLL - 1 : x >= 0x1p63 ? 0x7fffffffffffffffLL : (long long)x;
}
)"},
    {"to_i32", R"(
__device__ inline int to_i32(double x) {
  return x != x ? 0 : x <= -2147483648.0 ? -2147483647 - 1 : x >= 2147483647.0 ? 2147483647 : (int)x;
}
)"},
    {"to_i16", R"(
__device__ inline short to_i16(double x) { return x != x ? 0 : x <= -32768 ? -32768 : x >= 32767 ? 32767 : (short)x; }
)"},
    {"to_i8", R"(
__device__ inline signed char to_i8(double x) { return x != x ? 0 : x <= -128 ? -128 : x >= 127 ? 127 : (signed char)x; }
)"},
    {"to_u64", R"(
__device__ inline unsigned long long to_u64(double x) {
  return !(x > 0) ? 0 : x >= 0x1p64 ? ~0ULL : (unsigned long long)x;
}
)"},
    {"to_u32", R"(
__device__ inline unsigned to_u32(double x) { return !(x > 0) ? 0 : x >= 4294967295.0 ? ~0u : (unsigned)x; }
)"},
    {"to_u16", R"(
__device__ inline unsigned short to_u16(double x) { return !(x > 0) ? 0 : x >= 65535 ? 65535 : (unsigned short)x; }
)"},
    {"to_u8", R"(
__device__ inline unsigned char to_u8(double x) { return x != x ? 0 : x <= 0 ? 0 : x >= 255 ? 255 : (unsigned char)x; }
)"},
};

}  // namespace

std::string helper_text(const CudaHelpers& used) {
  std::string out;
  CudaHelpers rest = used;
  for (const Row& r : kHelpers)
    if (rest.erase(r.name)) out += r.text;
  for (const std::string& instruction : rest) out += "\n" + text_of(instruction, TargetKind::cuda);
  return out;
}

}  // namespace nestor

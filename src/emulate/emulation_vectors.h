// CUDA's vector types, each with its alignment. An access that isn't aligned stops a real kernel: here it is
// reported.
#pragma once

#ifdef NESTOR_EMULATED

// The compiler, which knows that a V is aligned, would leave a plain test away.
template <class V>
inline bool nestor_is_aligned(const V* p) {
  const void* address = p;
  asm("" : "+r"(address));
  return (size_t)address % alignof(V) == 0;
}
#ifdef NESTOR_TRACED
#define NESTOR_COPY NESTOR_UNTRACED __attribute__((noinline))
#else
#define NESTOR_COPY inline
#endif
// One access of each side, which the compiler may not cut in pieces or leave out.
template <class V>
NESTOR_COPY V& nestor_copy(V& to, const V& from) {
  const void* site = nullptr;
#ifdef NESTOR_TRACED
  site = __builtin_return_address(0);
  nestor_access(&from, sizeof(V), false, site);
  nestor_access(&to, sizeof(V), true, site);
#endif
  if (!nestor_is_aligned(&to) || !nestor_is_aligned(&from))
    nestor_emulation->report(nestor_emulation->self,
                             alignof(V) == 16  ? "accesses 16 bytes at an address that is no multiple of 16"
                             : alignof(V) == 8 ? "accesses 8 bytes at an address that is no multiple of 8"
                                               : "accesses a vector that isn't aligned",
                             0, site);
  const void* source = &from;
  void* target = &to;
  asm("" : "+r"(source), "+r"(target));
  memcpy(target, source, sizeof(V));
  return to;
}

template <class T, int bytes>
struct alignas(bytes) NestorVector2 {
  T x, y;
  NestorVector2() = default;
  NestorVector2(T a, T b) : x(a), y(b) {}
  NestorVector2(const NestorVector2& from) { nestor_copy(*this, from); }
  NestorVector2& operator=(const NestorVector2& from) { return nestor_copy(*this, from); }
};
template <class T, int bytes>
struct alignas(bytes) NestorVector4 {
  T x, y, z, w;
  NestorVector4() = default;
  NestorVector4(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  NestorVector4(const NestorVector4& from) { nestor_copy(*this, from); }
  NestorVector4& operator=(const NestorVector4& from) { return nestor_copy(*this, from); }
};

#define NESTOR_VECTOR2(T, name, bytes)      \
  using name##2 = NestorVector2<T, bytes>;  \
  inline name##2 make_##name##2(T x, T y) { \
    return {x, y};                          \
  }
#define NESTOR_VECTOR4(T, name, bytes)                \
  using name##4 = NestorVector4<T, bytes>;            \
  inline name##4 make_##name##4(T x, T y, T z, T w) { \
    return {x, y, z, w};                              \
  }
NESTOR_VECTOR2(signed char, char, 2)
NESTOR_VECTOR2(unsigned char, uchar, 2)
NESTOR_VECTOR2(short, short, 4)
NESTOR_VECTOR2(unsigned short, ushort, 4)
NESTOR_VECTOR2(int, int, 8)
NESTOR_VECTOR2(unsigned, uint, 8)
NESTOR_VECTOR2(float, float, 8)
NESTOR_VECTOR2(long long, longlong, 16)
NESTOR_VECTOR2(unsigned long long, ulonglong, 16)
NESTOR_VECTOR2(double, double, 16)
NESTOR_VECTOR4(signed char, char, 4)
NESTOR_VECTOR4(unsigned char, uchar, 4)
NESTOR_VECTOR4(short, short, 8)
NESTOR_VECTOR4(unsigned short, ushort, 8)
NESTOR_VECTOR4(int, int, 16)
NESTOR_VECTOR4(unsigned, uint, 16)
NESTOR_VECTOR4(float, float, 16)
#endif

/* What this processor can do (features_rt.h). Compiled for other architectures without their system headers,
 * as kernel_rt.c is. */
#include "runtime/features_rt.h"

#include <stddef.h>

#if defined(__x86_64__)
#define FEATURES nestor_x86_64_features

struct registers {
  uint32_t at[4];
};

static struct registers cpuid(uint32_t leaf, uint32_t subleaf) {
  struct registers r;
  __asm__("cpuid" : "=a"(r.at[0]), "=b"(r.at[1]), "=c"(r.at[2]), "=d"(r.at[3]) : "a"(leaf), "c"(subleaf));
  return r;
}

/* Whether the system keeps the registers that AVX, or AVX-512, has. */
static int keeps_registers(int avx512) {
  uint32_t low, high;
  if (!(cpuid(1, 0).at[2] >> 27 & 1)) return 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const uint32_t wanted = avx512 ? 0xe6 : 0x6;
  return (low & wanted) == wanted;
}

static int has(const struct nestor_feature* f) {
  const int nested = f->group < 0x80000000 && f->group > 0xffff;
  const uint32_t leaf = nested ? f->group >> 16 : f->group, subleaf = nested ? f->group & 0xffff : 0;
  if (cpuid(leaf & 0x80000000, 0).at[0] < leaf) return 0;
  if (subleaf > 0 && cpuid(leaf, 0).at[0] < subleaf) return 0;
  if (!(cpuid(leaf, subleaf).at[f->index] >> f->bit & 1)) return 0;
  const char* n = f->name;
  const int avx = n[0] == 'a' && n[1] == 'v' && n[2] == 'x';
  return !avx || keeps_registers(n[3] == '5');
}
#elif defined(__aarch64__)
#define FEATURES nestor_aarch64_features

extern unsigned long getauxval(unsigned long type);

static int has(const struct nestor_feature* f) {
  return (int)(getauxval(f->group) >> f->bit & 1);
}
#else
#error "features_rt.c knows x86_64 and aarch64 Linux"
#endif

const char* nestor_missing_feature(uint64_t features) {
  for (size_t i = 0; i < sizeof FEATURES / sizeof *FEATURES; ++i)
    if (features >> i & 1 && !has(&FEATURES[i])) return FEATURES[i].name;
  return NULL;
}

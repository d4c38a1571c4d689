/* The instructions that an artifact's code uses, checked where it starts: without the check a processor that
 * lacks one ends the program. Compiled, as kernel_rt.c is, into every artifact. */
#ifndef NESTOR_FEATURES_RT_H
#define NESTOR_FEATURES_RT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A feature that compilers use without being told to, by LLVM's name. x86-64: the CPUID leaf (0x70001 is
 * subleaf 1 of leaf 7), its register (0 to 3: EAX, EBX, ECX, EDX) and the bit there. AArch64: the number of
 * an entry of the auxiliary vector, 0, and the bit there (Linux's asm/hwcap.h). */
struct nestor_feature {
  const char* name;
  uint32_t group;
  int32_t index, bit;
};
static const struct nestor_feature nestor_x86_64_features[] = {
    {"sse3", 1, 2, 0},          {"ssse3", 1, 2, 9},         {"fma", 1, 2, 12},
    {"sse4.1", 1, 2, 19},       {"sse4.2", 1, 2, 20},       {"movbe", 1, 2, 22},
    {"popcnt", 1, 2, 23},       {"avx", 1, 2, 28},          {"f16c", 1, 2, 29},
    {"bmi", 7, 1, 3},           {"avx2", 7, 1, 5},          {"bmi2", 7, 1, 8},
    {"avx512f", 7, 1, 16},      {"avx512dq", 7, 1, 17},     {"avx512ifma", 7, 1, 21},
    {"avx512cd", 7, 1, 28},     {"avx512bw", 7, 1, 30},     {"avx512vl", 7, 1, 31},
    {"avx512vbmi", 7, 2, 1},    {"avx512vbmi2", 7, 2, 6},   {"gfni", 7, 2, 8},
    {"avx512vnni", 7, 2, 11},   {"avx512bitalg", 7, 2, 12}, {"avx512vpopcntdq", 7, 2, 14},
    {"avx512fp16", 7, 3, 23},   {"avxvnni", 0x70001, 0, 4}, {"avx512bf16", 0x70001, 0, 5},
    {"lzcnt", 0x80000001, 2, 5}};
static const struct nestor_feature nestor_aarch64_features[] = {
    {"crc", 16, 0, 7},   {"lse", 16, 0, 8},      {"fullfp16", 16, 0, 10}, {"rdm", 16, 0, 12},
    {"rcpc", 16, 0, 15}, {"dotprod", 16, 0, 20}, {"sve", 16, 0, 22},      {"fp16fml", 16, 0, 23},
    {"sve2", 26, 0, 1},  {"i8mm", 26, 0, 13},    {"bf16", 26, 0, 14}};

/* Of an artifact: bit i stands for row i of its architecture. The emitted code lays this out. */
struct nestor_needs {
  uint64_t features;
  const char* target; /* as --target had it */
};

/* The name of a feature that this processor, or its system, lacks; null where there is none. */
const char* nestor_missing_feature(uint64_t features);

#ifdef __cplusplus
}
#endif
#endif

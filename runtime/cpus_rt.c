/* CPUs and their quota (cpus_rt.h). Compiled for other architectures without their system headers, as
 * kernel_rt.c is, so it declares the few C library functions that it needs. */
#include "runtime/cpus_rt.h"

#include <stddef.h>

#include "runtime/text_rt.h"

extern long syscall(long number, ...);
extern int pthread_setaffinity_np(unsigned long thread, size_t size, const void* mask);

#if defined(__x86_64__)
enum { SET_AFFINITY_CALL = 203, GET_AFFINITY_CALL = 204 };
#elif defined(__aarch64__)
enum { SET_AFFINITY_CALL = 122, GET_AFFINITY_CALL = 123 };
#else
#error "cpus_rt.c knows x86_64 and aarch64 Linux"
#endif

enum {
  LONG_BITS = 8 * sizeof(unsigned long),
  MASK_LONGS = sizeof(struct nestor_cpus) / sizeof(unsigned long),
  MAX_CPUS = MASK_LONGS * LONG_BITS
};

static int only(int32_t cpu, struct nestor_cpus* cpus) {
  if (cpu < 0 || cpu >= MAX_CPUS) return -1;
  *cpus = (struct nestor_cpus){{0}};
  cpus->bits[cpu / LONG_BITS] = 1ul << cpu % LONG_BITS;
  return 0;
}

static int set_own(struct nestor_cpus cpus) {
  return syscall(SET_AFFINITY_CALL, 0, sizeof cpus, &cpus) < 0 ? -1 : 0;
}

int nestor_pin_thread(int32_t cpu) {
  struct nestor_cpus cpus;
  return only(cpu, &cpus) ? -1 : set_own(cpus);
}

int nestor_pin_pthread(unsigned long thread, int32_t cpu) {
  struct nestor_cpus cpus;
  return !only(cpu, &cpus) && pthread_setaffinity_np(thread, sizeof cpus, &cpus) == 0 ? 0 : -1;
}

int nestor_avoid_cpus(struct nestor_cpus allowed, const int32_t* cpus, int32_t count) {
  unsigned long left = 0;
  for (int32_t i = 0; i < count; ++i)
    if (cpus[i] >= 0 && cpus[i] < MAX_CPUS)
      allowed.bits[cpus[i] / LONG_BITS] &= ~(1ul << cpus[i] % LONG_BITS);
  for (int i = 0; i < MASK_LONGS; ++i) left |= allowed.bits[i];
  return left ? set_own(allowed) : -1;
}

struct nestor_cpus nestor_current_cpus(void) {
  struct nestor_cpus cpus = {{0}};
  syscall(GET_AFFINITY_CALL, 0, sizeof cpus, &cpus);
  return cpus;
}

/* CPUs of the quota in the directory, 0 where there is none. Version 2 has "QUOTA PERIOD" in one file. */
static int32_t quota_in(char* directory, size_t length, int version) {
  char text[64], period_text[64];
  const char *at = text, *period_at = period_text;
  int64_t quota = -1, period = -1;
  append_text(directory, length, version == 2 ? "/cpu.max" : "/cpu.cfs_quota_us", MAX_PATH);
  if (read_text(directory, text, sizeof text) > 0) quota = read_number(&at);
  if (version == 2) {
    period = read_number(&at);
  } else {
    append_text(directory, length, "/cpu.cfs_period_us", MAX_PATH);
    if (read_text(directory, period_text, sizeof period_text) > 0) period = read_number(&period_at);
  }
  directory[length] = 0;
  if (quota <= 0 || period <= 0) return 0;
  const int64_t cpus = (quota + period - 1) / period;
  return cpus < MAX_CPUS ? (int32_t)cpus : 0;
}

/* The least quota of the group and of those above it. */
static int32_t quota_of(const char* root, const char* mount, const char* group, size_t group_length,
                        int version) {
  char directory[MAX_PATH + 64];
  size_t top = append_text(directory, 0, root, MAX_PATH);
  top = append_text(directory, top, mount, MAX_PATH);
  int32_t least = quota_in(directory, top, version);
  for (size_t i = 1; i <= group_length; ++i) {
    if (i < group_length && group[i] != '/') continue;
    const int32_t here = quota_in(directory, append_text(directory, top, group, i), version);
    if (here && (!least || here < least)) least = here;
  }
  return least;
}

/* Whether the comma-separated list in [begin, end) has the controller "cpu". */
static int has_cpu(const char* begin, const char* end) {
  for (const char* word = begin; word < end;) {
    const char* stop = word;
    while (stop < end && *stop != ',') ++stop;
    if (stop - word == 3 && word[0] == 'c' && word[1] == 'p' && word[2] == 'u') return 1;
    word = stop + 1;
  }
  return 0;
}

int32_t nestor_quota_cpus(const char* root) {
  char path[MAX_PATH + 64], groups[4096];
  append_text(path, append_text(path, 0, root, MAX_PATH), "/proc/self/cgroup", MAX_PATH);
  if (read_text(path, groups, sizeof groups) <= 0) return 0;
  int32_t least = 0;
  for (const char* line = groups; *line;) { /* number:controllers:group */
    const char *end = line, *controllers = NULL, *group = NULL;
    for (; *end && *end != '\n'; ++end)
      if (*end == ':') {
        if (!controllers)
          controllers = end + 1;
        else if (!group)
          group = end + 1;
      }
    if (group) {
      const int version = group - controllers == 1 ? 2 : 1;
      int32_t here = 0;
      if (version == 2)
        here = quota_of(root, "/sys/fs/cgroup", group, (size_t)(end - group), 2);
      else if (has_cpu(controllers, group - 1))
        here = quota_of(root, "/sys/fs/cgroup/cpu", group, (size_t)(end - group), 1);
      if (here && (!least || here < least)) least = here;
    }
    line = *end ? end + 1 : end;
  }
  return least;
}

int32_t nestor_allowed_cpus(void) {
  const struct nestor_cpus cpus = nestor_current_cpus();
  int32_t count = 0;
  for (int i = 0; i < MASK_LONGS; ++i) count += __builtin_popcountl(cpus.bits[i]);
  const int32_t quota = nestor_quota_cpus("");
  if (quota > 0 && quota < count) count = quota;
  return count > 0 ? count : 1;
}

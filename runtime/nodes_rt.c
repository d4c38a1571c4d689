/* Memory nodes (nodes_rt.h). Compiled for other architectures without their system headers, as kernel_rt.c
 * is. */
#include "runtime/nodes_rt.h"

#include <stddef.h>

#include "runtime/text_rt.h"

extern long syscall(long number, ...);

#if defined(__x86_64__)
enum { MBIND_CALL = 237, PAGE = 4096 };
#elif defined(__aarch64__)
enum { MBIND_CALL = 235, PAGE = 65536 }; /* the largest that there is: a whole number of any */
#else
#error "nodes_rt.c knows x86_64 and aarch64 Linux"
#endif

enum { PREFERRED = 1, INTERLEAVE = 3, MOVE = 2, LONG_BITS = 8 * sizeof(unsigned long), MAX_NODES = 1024 };

struct nodes {
  unsigned long bits[MAX_NODES / LONG_BITS];
};

static void add_node(struct nodes* n, int32_t node) {
  n->bits[node / LONG_BITS] |= 1ul << node % LONG_BITS;
}

/* Whether a list as "0-3,8,10-11" has the number. */
static int in_list(const char* text, int64_t wanted) {
  while (*text >= '0' && *text <= '9') {
    const int64_t first = read_number(&text);
    int64_t last = first;
    if (*text == '-') {
      ++text;
      last = read_number(&text);
    }
    if (wanted >= first && wanted <= last) return 1;
    if (*text == ',') ++text;
  }
  return 0;
}

int32_t nestor_node_of_cpu(const char* root, int32_t cpu) {
  char path[MAX_PATH], online[4096], list[4096];
  size_t at = append_text(path, 0, root, MAX_PATH);
  at = append_text(path, at, "/sys/devices/system/node/", MAX_PATH);
  append_text(path, at, "online", MAX_PATH);
  if (cpu < 0 || read_text(path, online, sizeof online) <= 0) return -1;
  for (int32_t node = 0; node < MAX_NODES; ++node) {
    if (!in_list(online, node)) continue;
    append_text(path, append_number(path, append_text(path, at, "node", MAX_PATH), node), "/cpulist",
                MAX_PATH);
    if (read_text(path, list, sizeof list) > 0 && in_list(list, cpu)) return node;
  }
  return -1;
}

static int bind(uintptr_t begin, uintptr_t end, int mode, const struct nodes* nodes) {
  begin = (begin + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
  end &= ~(uintptr_t)(PAGE - 1);
  if (begin >= end) return 0; /* less than a page */
  return syscall(MBIND_CALL, begin, end - begin, mode, nodes->bits, (unsigned long)MAX_NODES + 1, MOVE) < 0
             ? -1
             : 0;
}

int nestor_place(void* memory, int64_t bytes, enum nestor_placement how, const int32_t* cpus, int32_t count) {
  struct nodes all = {{0}};
  const uintptr_t begin = (uintptr_t)memory;
  if (how == NESTOR_PLACE_ANYWHERE || bytes <= 0 || count < 1) return 0;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t node = nestor_node_of_cpu("", cpus[i]);
    if (node < 0) return -1;
    add_node(&all, node);
  }
  if (how == NESTOR_PLACE_INTERLEAVE) return bind(begin, begin + (uintptr_t)bytes, INTERLEAVE, &all);
  const uintptr_t end = begin + (uintptr_t)bytes, part = (uintptr_t)(bytes / count);
  for (int32_t i = 0; i < count; ++i) {
    struct nodes one = {{0}};
    add_node(&one, nestor_node_of_cpu("", cpus[i]));
    uintptr_t last =
        i + 1 < count ? begin + part * (uintptr_t)(i + 1) + PAGE - 1 : end; /* a page that two share */
    if (last > end) last = end;
    if (bind(begin + part * (uintptr_t)i, last, PREFERRED, &one)) return -1;
  }
  return 0;
}

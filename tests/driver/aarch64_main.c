/* A program for aarch64 that runs an artifact under an emulator, linked with no more than the C library's
 * shared object. Its model is called m: in any artifact, inputs and outputs are structs of pointers. Standard
 * input: the numbers of inputs and of outputs, of each its bytes, then the inputs' data, all counts as int64.
 * Standard output: the outputs. */
#include <stdint.h>

typedef struct m m;
extern m* m_create(const void* options);
extern int32_t m_run(m* instance, const void* const* inputs, void* const* outputs);
extern void m_destroy(m* instance);
extern void* malloc(uint64_t size);
extern long read(int file, void* data, uint64_t bytes);
extern long write(int file, const void* data, uint64_t bytes);
extern void exit(int code);
extern int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void),
                             void (*fini)(void), void (*rtld_fini)(void), void* stack_end);

enum { MOST = 16 };

static void get(void* to, int64_t bytes) {
  for (char* at = to; bytes > 0;) {
    const long done = read(0, at, (uint64_t)bytes);
    if (done <= 0) exit(2);
    at += done;
    bytes -= done;
  }
}

static int run(int argc, char** argv, char** environment) {
  (void)argc, (void)argv, (void)environment;
  int64_t counts[2], bytes[2 * MOST];
  void* data[2][MOST];
  get(counts, sizeof counts);
  if (counts[0] > MOST || counts[1] > MOST) return 3;
  get(bytes, (counts[0] + counts[1]) * (int64_t)sizeof *bytes);
  for (int side = 0, next = 0; side < 2; ++side)
    for (int64_t i = 0; i < counts[side]; ++i, ++next) {
      data[side][i] = malloc((uint64_t)bytes[next]);
      if (side == 0) get(data[0][i], bytes[next]);
    }
  m* instance = m_create(0);
  if (!instance) return 4;
  int32_t code = 0;
  for (int times = 0; times < 3; ++times) code |= m_run(instance, (const void* const*)data[0], data[1]);
  m_destroy(instance);
  for (int64_t i = 0; i < counts[1]; ++i) {
    const char* at = data[1][i];
    for (int64_t left = bytes[counts[0] + i]; left > 0;) {
      const long done = write(1, at, (uint64_t)left);
      if (done <= 0) return 5;
      at += done;
      left -= done;
    }
  }
  return code;
}

__attribute__((used)) void begin(long* stack) {
  exit(__libc_start_main(run, (int)stack[0], (char**)(stack + 1), 0, 0, 0, stack));
}

__asm__(".globl _start\n_start:\n  mov x29, #0\n  mov x30, #0\n  mov x0, sp\n  bl begin\n");

/* The program of aarch64_test.cpp: it has no C library and runs one kernel under an emulator. Standard
 * input: the number of arguments, then for each its size in bytes and its data, then the size of the
 * workspace; all counts are int64. Standard output: the data of the arguments afterwards. */
#include <stdint.h>

extern int32_t kernel(void* const* args, void* workspace, void* pool) __asm__("kernel.kernel");

static long call(long number, long a, const void* b, long c) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register const void* x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}

enum { READ = 63, WRITE = 64, EXIT = 93 };

static void move(long number, long file, char* data, int64_t bytes) {
  while (bytes > 0) {
    const long done = call(number, file, data, bytes);
    if (done <= 0) call(EXIT, 2, 0, 0);
    data += done;
    bytes -= done;
  }
}

static int64_t read_count(void) {
  int64_t n = 0;
  move(READ, 0, (char*)&n, sizeof n);
  return n;
}

/* In two halves, the later one first: no order is promised. */
void nestor_parallel(void* pool, int64_t n, void (*fn)(void*, int64_t, int64_t, int32_t), void* ctx,
                     int32_t threads, int32_t is_static) {
  (void)pool, (void)threads, (void)is_static;
  if (n > 1) fn(ctx, n / 2, n, 1);
  if (n > 0) fn(ctx, 0, n > 1 ? n / 2 : n, 0);
}

static _Alignas(64) char memory[32 << 20];
static void* args[64];
static int64_t sizes[64];

__attribute__((used)) void start(void) {
  char* next = memory;
  const int64_t count = read_count();
  for (int64_t i = 0; i < count; ++i) {
    args[i] = next;
    sizes[i] = read_count();
    move(READ, 0, next, sizes[i]);
    next += (sizes[i] + 127) / 64 * 64;
  }
  const int64_t workspace = read_count();
  if (next + workspace > memory + sizeof memory) call(EXIT, 3, 0, 0);
  for (int64_t i = 0; i < workspace; ++i) next[i] = (char)0xff;
  const int32_t result = kernel(args, next, (void*)1);
  for (int64_t i = 0; i < count; ++i) move(WRITE, 1, args[i], sizes[i]);
  call(EXIT, result, 0, 0);
}

__asm__(".globl _start\n_start:\n  bl start\n");

/* Paths and short files, for runtime code that is compiled without system headers. */
#ifndef NESTOR_TEXT_RT_H
#define NESTOR_TEXT_RT_H

#include <stddef.h>
#include <stdint.h>

extern int open(const char* path, int flags, ...);
extern long read(int fd, void* to, size_t size);
extern int close(int fd);

enum { READ_ONLY_CLOEXEC = 02000000, MAX_PATH = 1024 };

/* `length` characters of `more` at most, behind text[at] in MAX_PATH of them; gives where the text ends. */
static inline size_t append_text(char* text, size_t at, const char* more, size_t length) {
  for (size_t i = 0; i < length && more[i] && at + 1 < MAX_PATH; ++i) text[at++] = more[i];
  text[at] = 0;
  return at;
}

static inline size_t append_number(char* text, size_t at, int64_t n) { /* not negative */
  char digits[20];
  size_t first = sizeof digits - 1;
  digits[first] = 0;
  do digits[--first] = (char)('0' + n % 10);
  while (n /= 10);
  return append_text(text, at, digits + first, MAX_PATH);
}

static inline int64_t read_number(const char** at) { /* -1 where there is none */
  int64_t n = 0;
  while (**at == ' ') ++*at;
  if (**at < '0' || **at > '9') return -1;
  for (; **at >= '0' && **at <= '9'; ++*at) n = n * 10 + (**at - '0');
  return n;
}

/* The file's beginning, ended by 0; gives its length, -1 (and an empty text) where it can't be read. */
static inline long read_text(const char* path, char* to, size_t size) {
  const int fd = open(path, READ_ONLY_CLOEXEC);
  to[0] = 0;
  if (fd < 0) return -1;
  const long got = read(fd, to, size - 1);
  close(fd);
  to[got > 0 ? got : 0] = 0;
  return got;
}

#endif

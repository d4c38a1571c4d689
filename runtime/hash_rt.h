/* XXH64 by Yann Collet (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md) with seed 0, for runtime
 * code that is compiled without system headers. It detects weights of another object and damaged ones. It
 * doesn't protect against files that somebody made on purpose. */
#ifndef NESTOR_HASH_RT_H
#define NESTOR_HASH_RT_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t hash_load(const unsigned char* at,
                                 size_t bytes) { /* little endian, as all targets are */
  uint64_t word = 0;
  __builtin_memcpy(&word, at, bytes);
  return word;
}

static inline uint64_t hash_rotate(uint64_t x, int by) {
  return x << by | x >> (64 - by);
}

static inline uint64_t content_hash(const void* data, size_t size) {
  const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                 P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;
  const unsigned char* at = (const unsigned char*)data;
  const unsigned char* const end = at + size;
  uint64_t hash = P5;
  if (size >= 32) {
    uint64_t lanes[4] = {P1 + P2, P2, 0, 0 - P1};
    for (; end - at >= 32; at += 32)
      for (int i = 0; i < 4; ++i) lanes[i] = hash_rotate(lanes[i] + hash_load(at + 8 * i, 8) * P2, 31) * P1;
    hash = hash_rotate(lanes[0], 1) + hash_rotate(lanes[1], 7) + hash_rotate(lanes[2], 12) +
           hash_rotate(lanes[3], 18);
    for (int i = 0; i < 4; ++i) hash = (hash ^ hash_rotate(lanes[i] * P2, 31) * P1) * P1 + P4;
  }
  hash += size;
  for (; end - at >= 8; at += 8)
    hash = hash_rotate(hash ^ hash_rotate(hash_load(at, 8) * P2, 31) * P1, 27) * P1 + P4;
  if (end - at >= 4) {
    hash = hash_rotate(hash ^ hash_load(at, 4) * P1, 23) * P2 + P3;
    at += 4;
  }
  for (; at < end; ++at) hash = hash_rotate(hash ^ *at * P5, 11) * P1;
  hash = (hash ^ hash >> 33) * P2;
  hash = (hash ^ hash >> 29) * P3;
  return hash ^ hash >> 32;
}

#endif

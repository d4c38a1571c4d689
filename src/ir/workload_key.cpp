// The key of the tuning database: 128 bits over the canonical text. Text, since it is the same on every
// platform and can be printed when two keys ought to agree and don't. Block and loop names stay in it,
// because traces refer to them; all other names say nothing about the work. The hash is MurmurHash3 x64 128
// (Austin Appleby, public domain), reading bytes in little-endian order anywhere.
#include <bit>

#include "src/ir/printer.h"

namespace nestor {

namespace {

uint64_t mix(uint64_t k) {
  k = (k ^ (k >> 33)) * 0xff51afd7ed558ccdULL;
  k = (k ^ (k >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return k ^ (k >> 33);
}

uint64_t word_at(std::string_view bytes, size_t from) {
  uint64_t word = 0;
  for (size_t i = 0; i < 8 && from + i < bytes.size(); ++i)
    word |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[from + i])) << (8 * i);
  return word;
}

std::string hash_128(std::string_view bytes) {
  constexpr uint64_t c1 = 0x87c37b91114253d5ULL, c2 = 0x4cf5ad432745937fULL;
  const auto scramble1 = [](uint64_t k) { return std::rotl(k * c1, 31) * c2; };
  const auto scramble2 = [](uint64_t k) { return std::rotl(k * c2, 33) * c1; };
  uint64_t h1 = 0, h2 = 0;
  size_t at = 0;
  for (; at + 16 <= bytes.size(); at += 16) {
    h1 = (std::rotl(h1 ^ scramble1(word_at(bytes, at)), 27) + h2) * 5 + 0x52dce729;
    h2 = (std::rotl(h2 ^ scramble2(word_at(bytes, at + 8)), 31) + h1) * 5 + 0x38495ab5;
  }
  h2 ^= scramble2(word_at(bytes, at + 8));
  h1 ^= scramble1(word_at(bytes, at));
  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  h1 = mix(h1);
  h2 = mix(h2);
  h1 += h2;
  h2 += h1;
  static constexpr char hex[] = "0123456789abcdef";
  std::string out;
  for (const uint64_t h : {h1, h2})
    for (int shift = 60; shift >= 0; shift -= 4) out += hex[(h >> shift) & 15];
  return out;
}

}  // namespace

std::string workload_key(const PrimFunc& f) {
  Printer p({.canonical = true});
  p.func(f);
  return hash_128(p.take_text());
}

}  // namespace nestor

// What libFuzzer calls for each mutation: a third of them are its own.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tests/fuzz/inputs/mutate.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  nestor::fuzz::Random rng(seed);
  rng.discard(4);  // seeds that lie near each other begin alike
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (rng() % 3 == 0) return LLVMFuzzerMutate(data, size, most);
  const bool text = std::none_of(input.begin(), input.end(), [](char c) { return c == 0; });
  const std::string made =
      text ? nestor::fuzz::mutate_tokens(input, rng) : nestor::fuzz::mutate_model(input, rng);
  if (made.empty() || made.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, made.data(), made.size());
  return made.size();
}

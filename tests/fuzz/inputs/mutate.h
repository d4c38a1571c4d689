// Structured mutations for libFuzzer. Its own mutations change bytes, and most of the texts and messages they
// make are refused in the first line. The mutations of run.py know operators and attributes, but not which
// code an input reached.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace nestor::fuzz {

using Random = std::minstd_rand;

// A word, number, string, sign or line is another of the same text, comes twice, or goes.
std::string mutate_tokens(std::string_view text, Random& rng);

// Bytes of an ONNX model, with a field that is another of the same message, comes twice, goes, or has another
// value; nothing where they are none.
std::string mutate_model(std::string_view bytes, Random& rng);

}  // namespace nestor::fuzz

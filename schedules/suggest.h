// Alternatives to a refused step: similar steps with one thing changed, which were tried.
#pragma once

#include <string>
#include <vector>

#include "schedules/primitive.h"

namespace nestor::schedules {

// Those of the candidates that would be accepted, as text, in their order: at most `most`, and of the first
// `tries` only.
std::vector<std::string> legal_steps(const PrimFunc& f, const Decisions& decisions,
                                     const std::vector<Step>& candidates, size_t most = 4, size_t tries = 48);

// The words that could stand for an argument of this kind, those nearest to `now` first.
struct ArgInPlace {
  const ArgSpec* spec;
  std::vector<std::string> now;  // its words in the step; none where it is missing
};
std::vector<std::vector<std::string>> other_words(const PrimFunc& f, const Step& step, const ArgInPlace& arg);

// The words that a row allows: "global|shared|local".
std::vector<std::string> words_of_spec(const std::string& name);

}  // namespace nestor::schedules

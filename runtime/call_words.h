// The calls of a plan as the words that runtime code in C follows (struct nestor_call_table).
#pragma once

#include <cstdint>
#include <vector>

#include "nestor/runtime.h"

namespace nestor {

std::vector<int64_t> call_words(const Plan& plan);
int64_t most_args(const Plan& plan);  // of one call, at least 1
bool has_jumps(const Plan& plan);
int64_t count_checks(const Plan& plan);
std::vector<int64_t> bytes_of_all(const std::vector<PlanTensor>& tensors);

}  // namespace nestor

// What input may ask for. Each limit is far above what models and schedules need, and far below what would
// exhaust the stack: code that walks nested input recursively relies on it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nestor {

constexpr size_t kMostDims = 64;   // of a tensor; NumPy's limit, too
constexpr int kDeepestJson = 100;  // lists and objects in one another; protobuf's limit, too

constexpr int64_t kMostBytes = int64_t{1} << 46;  // of a tensor

}  // namespace nestor

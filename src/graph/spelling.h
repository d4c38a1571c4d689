// Hints for misspelled names.
#pragma once

#include <string>
#include <vector>

namespace nestor {

// The candidate spelled most like `name`, or "" where none is near.
std::string closest(const std::string& name, const std::vector<std::string>& candidates);
// "did you mean `strides`?", or "".
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace nestor

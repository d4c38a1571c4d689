// Finds the known name whose spelling is closest to an unknown one, for hints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nestor {

// Edits (insert, delete, replace, swap of neighbours) that turn a into b. Case is ignored.
int edit_distance(std::string_view a, std::string_view b);

// The candidates that `name` may be a misspelling of, nearest first: at most a third of the letters differ,
// or one, and not all of them.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& candidates);

// The first of these, or "" where none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// "did you mean `softmax`?", or "" where none is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace nestor

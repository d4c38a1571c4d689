// The known name spelled most like an unknown one, for hints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nestor {

// Edits (insert, delete, replace, swap of neighbours) that turn a into b. Case is ignored.
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, or "" where none is near: at most a third of the letters may differ
// (always one). Among equals the first.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace nestor

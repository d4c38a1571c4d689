// A line diff for showing what a step changed.
#pragma once

#include <string>

namespace nestor::cli {

// `after` with new lines marked "+ ", removed lines shown as "- ", and long unchanged stretches cut. Coloured if asked.
std::string diff_lines(const std::string& before, const std::string& after, bool color);

}  // namespace nestor::cli

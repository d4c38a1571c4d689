// The page around a report's data: HTML, style and scripts, which are files of their own in page/ and part of
// the program (nestor/embedded.h).
#pragma once

#include <string>

namespace nestor::report {

std::string page(const std::string& title, const std::string& json);

}  // namespace nestor::report

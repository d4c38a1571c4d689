// The page around a report's data: HTML, style and scripts, which are files of their own in page/ and part of
// the program (cmake/page.cmake).
#pragma once

#include <string>
#include <string_view>

namespace nestor::report {

std::string page(const std::string& title, const std::string& json);

// The bytes of page/NAME.
std::string_view page_file(std::string_view name);

}  // namespace nestor::report

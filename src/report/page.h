// The page around a report's data: HTML, style and scripts, which are files of their own in page/ and part of
// the program (nestor/embedded.h).
#pragma once

#include <string>

namespace nestor::report {

std::string page(const std::string& title, const std::string& json);
// One without scripts around a body of HTML.
std::string still_page(const std::string& title, const std::string& body);

// Text as HTML, in an element or in the quotes of an attribute: names come from models.
std::string escaped(const std::string& text);

}  // namespace nestor::report

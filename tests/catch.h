// Catch2, whichever major version is installed.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
namespace Catch::Matchers {  // the name that version 3 has
inline auto ContainsSubstring(const std::string& part) {
  return Catch::Contains(part);
}
}  // namespace Catch::Matchers
#endif

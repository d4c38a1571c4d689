// Commands that tests run.
#pragma once

#include <array>
#include <cstdio>
#include <string>

#include "catch.h"

namespace nestor::testing {

// What a command prints; fails the test where it fails.
inline std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::array<char, 4096> chunk;
  while (size_t n = fread(chunk.data(), 1, chunk.size(), pipe)) text.append(chunk.data(), n);
  INFO(command << "\n" << text);
  REQUIRE(pclose(pipe) == 0);
  return text;
}

}  // namespace nestor::testing

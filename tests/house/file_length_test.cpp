// A file is as long as one sitting reads.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "catch.h"

namespace fs = std::filesystem;

TEST_CASE("no source file has more than 400 lines") {
  const fs::path root = NESTOR_SOURCE_DIR;
  int checked = 0;
  for (const char* top : {"include", "src", "schedules", "tuner", "runtime", "tests", "bench"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".h" && extension != ".c") continue;
      std::ifstream file(entry.path());
      const auto lines =
          std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n');
      ++checked;
      INFO(fs::relative(entry.path(), root).string() << " has " << lines);
      CHECK(lines <= 400);
    }
  }
  CHECK(checked > 100);
}

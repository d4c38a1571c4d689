// docs/nest.md describes the whole language of text functions: every intrinsic, type and reserved word.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "nestor/expr.h"
#include "src/ir/printer.h"

using namespace nestor;

namespace {

// The text from one `## ` heading to the next.
std::string section(const std::string& heading) {
  std::ifstream in(std::filesystem::path(NESTOR_SOURCE_DIR) / "docs/nest.md");
  std::ostringstream text;
  text << in.rdbuf();
  const size_t at = text.str().find("\n## " + heading + "\n");
  REQUIRE(at != std::string::npos);
  return text.str().substr(at, text.str().find("\n## ", at + 1) - at);
}

}  // namespace

TEST_CASE("docs/nest.md lists every intrinsic") {
  const std::string text = section("Intrinsics");
  for (int i = 0; i <= static_cast<int>(Intrinsic::instruction); ++i) {
    const std::string name = info(static_cast<Intrinsic>(i)).name;
    INFO(name);
    CHECK(text.find("`" + name + "(") != std::string::npos);
  }
  for (const ReduceOp op : {ReduceOp::add, ReduceOp::mul, ReduceOp::max, ReduceOp::min})
    CHECK(text.find(std::string("`reduce_") + word_of(op) + "(") != std::string::npos);
}

TEST_CASE("docs/nest.md lists every type and reserved word") {
  const std::string types = section("Types and literals");
  for (const DTypeRow& row : kDTypes) {
    const std::string_view name = row.name;
    INFO(name);
    CHECK(types.find("`" + std::string(name) + "`") != std::string::npos);
  }
  std::istringstream grammar(section("Grammar"));
  std::string line;
  while (std::getline(grammar, line) && !line.starts_with("The words `")) {
  }
  std::istringstream words(line.substr(11, line.find('`', 11) - 11));
  int count = 0;
  for (std::string word; words >> word; ++count) {
    INFO(word);
    CHECK(is_reserved_word(word));
  }
  CHECK(count == 16);
}

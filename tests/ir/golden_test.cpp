// The text form's golden cases, and the runner's own test.
#include "golden.h"

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/print.h"

using namespace nestor;

TEST_CASE("golden: parse and print") {
  run_golden_dir("ir/parse", [](const GoldenCase& c) {
    std::string out;
    for (const PrimFunc& f : parse_funcs(c.text("input"), "input")) out += print(f);
    return out;
  });
}

TEST_CASE("a golden file reads into cases and sections, and writes back") {
  const std::string text =
      "# about\n=== case a b\n--- input\nx\n--- pass simplify\n--- expect error\ny\n\n=== case c\n--- "
      "expect\n";
  const auto cases = parse_golden(text, "t.test");
  REQUIRE(cases.size() == 2);
  CHECK(cases[0].name == "a b");
  CHECK(cases[0].line == 2);
  CHECK(cases[0].text("input") == "x\n");
  CHECK(cases[0].find("pass")->argument == "simplify");
  CHECK(cases[0].text("expect error") == "y\n");
  CHECK(cases[0].find("expect") == nullptr);
  CHECK(cases[1].find("expect")->line == 10);
  CHECK(print_golden("# about\n", cases) == text);
  CHECK_THROWS(parse_golden("=== case a\n--- expetc\n", "t.test"));
  CHECK_THROWS(parse_golden("--- input\n", "t.test"));
}

#include "src/report/diff.h"

#include "catch.h"

using namespace nestor::report;

namespace {

std::string marks(const Lines& before, const Lines& after) {
  std::string out;
  for (const Edit& e : diff(before, after)) out += e.mark + e.line + "|";
  return out;
}

}  // namespace

TEST_CASE("a line that only moved inward is marked as such") {
  CHECK(marks({"a {", "  b", "}"}, {"a {", "  new {", "    b", "  }", "}"}) ==
        " a {|+  new {|~    b|+  }| }|");
}

TEST_CASE("what changed its text is gone and new, gone first") {
  CHECK(marks({"a", "b", "c"}, {"a", "x", "c"}) == " a|-b|+x| c|");
}

TEST_CASE("braces don't decide which lines are paired") {
  CHECK(marks({"}", "}", "xy"}, {"xy", "}", "}"}) == "-}|-}| xy|+}|+}|");
}

TEST_CASE("a block that moves takes its brace along") {
  CHECK(marks({"for i, j {", "  x {", "    y", "  }", "}"},
              {"for i {", "  for j {", "    x {", "      y", "    }", "  }", "}"}) ==
        "-for i, j {|+for i {|+  for j {|~    x {|~      y|~    }|+  }| }|");
  CHECK(marks({"for i {", "  y", "}"}, {"for i0, i1 {", "  y", "}"}) == "-for i {|+for i0, i1 {|   y| }|");
}

TEST_CASE("applying a diff gives the new text, leaving out what is gone the old one") {
  const Lines a = split_lines("f {\n  p\n  q {\n    r\n  }\n}\n"),
              b = split_lines("f {\n  q {\n    s\n      r\n  }\n  t\n}\n");
  Lines kept;
  for (const Edit& e : diff(a, b))
    if (e.mark != '-') kept.push_back(e.line);
  CHECK(kept == b);
  size_t old = 0;
  for (const Edit& e : diff(a, b)) old += e.mark != '+';
  CHECK(old == a.size());
}

TEST_CASE("long unchanged stretches are cut to three lines around a change") {
  Lines a;
  for (int i = 0; i < 20; ++i) a.push_back("line " + std::to_string(i));
  Lines b = a;
  b[10] = "other";
  const std::string shown = show_diff(diff(a, b), false);
  CHECK(shown ==
        "    ...\n  line 7\n  line 8\n  line 9\n- line 10\n+ other\n  line 11\n  line 12\n  line 13\n    "
        "...\n");
  CHECK(show_diff(diff(a, b), true).find("\033[31m- line 10\033[0m\n") != std::string::npos);
}

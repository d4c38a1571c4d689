// docs/schedules.md ends with what the table of primitives says; NESTOR_UPDATE=1 writes it anew. Its pictures
// are examples that run.
#include "schedules/manual.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/parse.h"
#include "schedules/guide.h"
#include "tests/fuzz/equivalence.h"

using namespace nestor;

namespace {

const char* const kMarker = "<!-- From here on: written by the tests from the table of primitives. -->\n";

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("docs/schedules.md says what the table of primitives says") {
  const std::filesystem::path path = std::filesystem::path(NESTOR_SOURCE_DIR) / "docs/schedules.md";
  const std::string text = read(path);
  const size_t at = text.find(kMarker);
  REQUIRE(at != std::string::npos);
  const std::string wanted = text.substr(0, at) + kMarker + "\n" + schedules::manual();
  const char* update = std::getenv("NESTOR_UPDATE");
  if (update && std::string(update) == "1" && text != wanted) std::ofstream(path) << wanted;
  INFO("NESTOR_UPDATE=1 test_schedules writes it anew");
  CHECK(read(path) == wanted);
}

TEST_CASE("the guide has each primitive once, with advice") {
  std::multiset<std::string> advised, known;
  for (const schedules::Group& g : schedules::guide())
    for (const schedules::Advice& a : g.primitives) {
      advised.insert(a.primitive);
      CHECK(std::string(a.when) != "");
    }
  for (const schedules::Primitive& p : schedules::primitives()) known.insert(p.name);
  CHECK(advised == known);
  CHECK_THAT(schedules::plain_text(*schedules::find_primitive("split")),
             Catch::Contains("When\n") && Catch::Contains("TVM: `split`"));
}

TEST_CASE("the example of each primitive runs, uses it, and keeps the result") {
  for (const schedules::Primitive& p : schedules::primitives()) {
    INFO(p.name);
    const PrimFunc before = parse_func(p.example.func);
    Schedule s(before);
    bool uses = false;
    for (const Step& step : parse_trace(p.example.steps).steps) {
      s.step(step);
      uses = uses || step.primitive == p.name;
    }
    CHECK(uses);
    check_well_formed(s.func());
    const Agreement c = compare_runs(s.func(), run_original(before, 3), 3);
    CHECK(c.why == "");
    for (const schedules::OptionSpec& o : p.options) CHECK(std::string(o.meaning) != "");
  }
}

// Which requirements keep a wrong step out, and which a meaningless one? The list stands in requirements.txt,
// so that a change shows in review (NESTOR_UPDATE=1 rewrites it). The golden refusals of the semantic ones
// are the proof: with the requirement waived at least one of them goes through, and then computes something
// else, races, or reads what nothing wrote.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "golden.h"
#include "nestor/check.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/target.h"
#include "schedules/primitive.h"
#include "tests/fuzz/equivalence.h"

using namespace nestor;

namespace {

const std::filesystem::path kSource = NESTOR_SOURCE_DIR;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<GoldenCase> refusals_of(const std::string& primitive, size_t requirement) {
  const std::string wanted = "breaks requirement " + std::to_string(requirement) + " of " + primitive + ":";
  std::vector<GoldenCase> out;
  const std::string file = primitive + ".test";
  for (GoldenCase& c : parse_golden(read(kSource / "tests/golden/schedules" / file), file))
    if (c.text("expect error").find(wanted) != std::string::npos) out.push_back(std::move(c));
  return out;
}

struct Waived {
  Waived(const std::string& primitive, size_t requirement) {
    schedules::waive({{primitive, static_cast<int>(requirement)}});
  }
  ~Waived() { schedules::waive({}); }
};

// Of a case's function and what the steps make of it. Throws UserError where a step is refused.
bool computes_something_else(const GoldenCase& c) {
  const PrimFunc before = parse_func(c.text("input"));
  const PrimFunc after = apply(before, parse_trace(c.text("schedule"), "steps"));
  check_well_formed(after);
  const std::vector<Tensor> expected = run_original(before, 7);
  if (!compare_runs(after, expected, 7).same) return true;
  // A layout shows only where memory is flat.
  const PrimFunc flat = lower(after, Target{});
  return !compare_runs(flat, expected, 7).same;
}

}  // namespace

TEST_CASE("the requirements and their kinds are those of the list") {
  std::string list;
  for (const schedules::CommonRequirement& c : schedules::common_requirements())
    list += std::string("every step ") + c.letter +
            (c.requirement.semantic ? " semantic: " : " structural: ") + c.requirement.text + "\n";
  for (const schedules::Primitive& p : schedules::primitives())
    for (size_t i = 0; i < p.requirements.size(); ++i)
      list += std::string(p.name) + " " + std::to_string(i + 1) +
              (p.requirements[i].semantic ? " semantic: " : " structural: ") + p.requirements[i].text + "\n";
  const std::filesystem::path path = kSource / "tests/schedules/requirements.txt";
  const char* update = std::getenv("NESTOR_UPDATE");
  if (update && std::string(update) == "1" && read(path) != list) std::ofstream(path) << list;
  CHECK(read(path) == list);
}

TEST_CASE("a semantic requirement keeps out steps that can be made and are wrong") {
  for (const schedules::Primitive& p : schedules::primitives())
    for (size_t i = 1; i <= p.requirements.size(); ++i) {
      if (!p.requirements[i - 1].semantic) continue;
      INFO("requirement " << i << " of " << p.name << ": " << p.requirements[i - 1].text);
      const Waived off(p.name, i);
      int harmful = 0;
      for (const GoldenCase& c : refusals_of(p.name, i)) {
        try {
          harmful += computes_something_else(c);
        } catch (const UserError& e) {  // other requirements refuse it too, or it has no result to compare
          UNSCOPED_INFO(c.name << ": " << e.what());
        }
      }
      CHECK(harmful > 0);
    }
}

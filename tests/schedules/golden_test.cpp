// Golden cases of the primitives: the function before, the steps, and the function after or the refusal.
// Where steps are taken, the interpreter and the proof must agree; and every requirement of every primitive
// must be seen refusing.
#include "golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "nestor/schedule.h"
#include "schedules/primitive.h"
#include "tests/fuzz/equivalence.h"

using namespace nestor;

TEST_CASE("golden cases of the primitives") {
  run_golden_dir("schedules", [](const GoldenCase& c) {
    const PrimFunc before = parse_func(c.text("input"));
    const PrimFunc after = apply(before, parse_trace(c.text("schedule"), "steps"));
    check_well_formed(after);
    for (const int64_t size : {1, 2, 7, 9}) {
      const std::vector<int64_t> dims(before.dims.size(), size);
      const Agreement same = compare_runs(at_sizes(after, dims), run_original(at_sizes(before, dims), 7), 7);
      if (!same.same) throw InternalError(same.why);
      if (dims.empty()) break;
    }
    const Proof proof = verify_schedule(before, after);
    const bool of_given_sizes = !before.dims.empty() && proof.verdict == Verdict::unproved;
    if (!proof.ok() && !of_given_sizes) throw InternalError("the proof says " + describe(proof));
    return print(after);
  });
}

TEST_CASE("every requirement of every primitive is seen refusing") {
  std::string all;
  const std::filesystem::path root = std::filesystem::path(NESTOR_SOURCE_DIR) / "tests/golden/schedules";
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    std::ifstream in(entry.path());
    std::ostringstream text;
    text << in.rdbuf();
    all += text.str();
  }
  for (const schedules::Primitive& p : schedules::primitives())
    for (size_t i = 1; i <= p.requirements.size(); ++i) {
      const std::string wanted = "breaks requirement " + std::to_string(i) + " of " + p.name + ":";
      INFO(wanted);
      CHECK(all.find(wanted) != std::string::npos);
    }
}

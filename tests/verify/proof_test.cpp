// The proof: planted errors with their witnesses, equal functions written differently, and what the
// primitives' own golden cases lead to.
#include "nestor/proof.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "golden.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"

using namespace nestor;

TEST_CASE("golden cases of the proof") {
  run_golden_dir("proof", [](const GoldenCase& c) {
    const Proof p =
        verify_schedule(parse_func(c.text("input")), parse_func(c.text("after")), {.seconds = 60});
    if (p.ok())
      return std::string("proved") + (p.reassociated ? ", up to the order of reductions" : "") +
             (p.assumes_finite ? ", where what is multiplied by 0 is finite" : "") + "\n";
    return describe(p) + "\n";
  });
}

TEST_CASE("golden cases of the primitives are proved") {
  int proved = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(NESTOR_SOURCE_DIR) /
                                                               "tests/golden/schedules")) {
    std::ifstream in(entry.path());
    std::ostringstream text;
    text << in.rdbuf();
    for (const GoldenCase& c : parse_golden(text.str(), entry.path().string())) {
      if (c.find("expect error")) continue;
      INFO(c.file << ": " << c.name);
      const PrimFunc before = parse_func(c.text("input"));
      const Proof p =
          verify_schedule(before, apply(before, parse_trace(c.text("schedule"))), {.seconds = 60});
      INFO(describe(p));
      CHECK(p.ok());
      proved += p.ok();
    }
  }
  CHECK(proved >= 30);
}

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
#include "nestor/walk.h"

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
      // Quotients by symbolic sizes are proved for given ones only.
      CHECK((p.ok() || (!before.dims.empty() && p.verdict == Verdict::unproved)));
      proved += p.ok();
    }
  }
  CHECK(proved >= 30);
}

namespace {

// All loads of T are one node.
struct OneLoad : Rewriter {
  Expr expr(const Expr& e) override {
    const auto* l = e.as<Load>();
    if (!l || l->buffer->name != "T") return children(e);
    return first ? first : first = e;
  }
  Expr first;
};

}  // namespace

// Conditions that are linear in part are taken apart into selects that nobody holds; another one at the same
// address is another one.
TEST_CASE("What is proved of an expression isn't claimed of a later one at its address") {
  const auto pick = [](const char* least) {
    return std::string("(if vi < 5 && X[vi] > ") + least + " then A[vi] else B[vi])";
  };
  const auto nest = [](const std::string& output, const std::string& value) {
    return "  for i in 8 {\n    block " + output + "(vi: S 8 = i) {\n      " + output + "[vi] = " + value +
           "\n    }\n  }\n";
  };
  const std::string head = "func f(in X: f32[8], in A: f32[8], in B: f32[8], out Y: f32[8]) {\n";
  for (int terms = 1; terms < 60; terms += 3) {
    std::string before = pick("0.0f32"), after = "T[vi]";
    for (int i = 0; i < terms; ++i) before += " - " + pick("0.0f32"), after += " - T[vi]";
    before += " - " + pick("1.0f32");
    after += " - T[vi]";
    const PrimFunc b = parse_func(head + nest("Y", before) + "}\n");
    PrimFunc a =
        parse_func(head + "  alloc T: f32[8]\n" + nest("T", pick("0.0f32")) + nest("Y", after) + "}\n");
    a.body = OneLoad().stmt(a.body);
    INFO(terms);
    CHECK_FALSE(verify_schedule(b, a, {.seconds = 60}).ok());
  }
}

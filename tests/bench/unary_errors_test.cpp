// Unary operators are within the errors that docs/numerics.md lists (./dev bench errors takes all 2^32
// floats).
#include "bench/unary_errors.h"

#include "tests/catch.h"

using namespace nestor;

TEST_CASE("unary operators are within their stated error") {
  const Target target = parse_target(GENERATE("x86-64-v4", "x86-64-v3", "x86-64-v2"));
  const uint64_t stride = runs_here(target) ? 16381 : 131071;
  for (const UnaryOperator& op : unary_operators()) {
    const WorstError w = worst_error(op, target, stride);
    INFO("for " << target.name << ", " << op.name << op.attrs << ": " << op.name << "(" << w.x
                << ") = " << w.got << " is off by " << w.ulps << " ulp");
    CHECK(w.inputs > (1 << 14));
    CHECK(w.ulps <= op.ulps);
  }
}

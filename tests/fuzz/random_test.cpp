// Random legal traces keep the interpreter's result. NESTOR_SEED=n replays a run, NESTOR_TRACES=n sets their
// number.
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "schedules/primitive.h"
#include "tests/fuzz/equivalence.h"
#include "tests/fuzz/functions.h"
#include "tests/fuzz/random_trace.h"

using namespace nestor;

namespace {

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// The first step of a trace after which the result differs, for the report.
std::string first_bad_step(const FuzzFunction& f, const Trace& trace, const std::vector<Tensor>& expected,
                           uint64_t seed) {
  Schedule s(f.func);
  for (const Step& step : trace.steps) {
    s.step(step);
    const Comparison c = compare_runs(s.func(), expected, seed, f.tolerance);
    if (!c.same) return print(step) + "\n" + c.why + "\n" + print(s.func());
  }
  return "no single step: the last comparison passes now";
}

}  // namespace

TEST_CASE("random legal traces keep the interpreter's result") {
  const uint64_t seed = number_from("NESTOR_SEED", 20261120), count = number_from("NESTOR_TRACES", 2000);
  TraceCounts counts;
  std::vector<size_t> lengths;
  int64_t failures = 0, ragged_traces = 0;
  for (uint64_t i = 0; i < count && failures < 3; ++i) {
    std::mt19937_64 rng(seed * 1000003 + i);
    const uint64_t kinds = static_cast<uint64_t>(fuzz_function_count());
    const bool ragged = i / kinds % 2 == 0;
    const FuzzFunction f = fuzz_function(static_cast<int>(i % kinds), ragged, rng);
    ragged_traces += ragged;
    const std::vector<Tensor> expected = run_original(f.func, seed + i);
    const Schedule s = random_schedule(f.func, 5 + static_cast<int>(rng() % 8), rng, counts);
    lengths.push_back(s.trace().steps.size());
    check_well_formed(s.func());
    const Comparison c = compare_runs(s.func(), expected, seed + i, f.tolerance);
    if (!c.same) {
      ++failures;
      FAIL_CHECK("NESTOR_SEED=" << seed << " trace " << i << " of " << f.name << "\n"
                                << print(s.trace())
                                << "after: " << first_bad_step(f, s.trace(), expected, seed + i));
    }
    // The text of the trace replays to the same function.
    const PrimFunc replayed = apply(f.func, parse_trace(print(s.trace())));
    if (!structural_equal(replayed, s.func(), true)) FAIL_CHECK("trace " << i << " replays differently");
  }
  std::sort(lengths.begin(), lengths.end());
  std::cout << "random traces: " << lengths.size() << " over " << fuzz_function_count() << " functions, "
            << ragged_traces << " at ragged sizes, median length " << lengths[lengths.size() / 2]
            << ", NESTOR_SEED=" << seed << "\n"
            << print(counts);
  if (count < 2000 || failures) return;
  CHECK(lengths[lengths.size() / 2] >= 6);
  CHECK(2 * ragged_traces >= static_cast<int64_t>(count));
  CHECK(counts.rows.size() == schedules::primitives().size());
  for (const auto& [primitive, row] : counts.rows) {
    INFO(primitive);
    CHECK(row.accepted >= 100);
  }
}

// Decisions: found in a trace, drawn, changed, replayed; and what schedulers ask about a function.
#include <set>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "nestor/walk.h"

using namespace nestor;

namespace {

PrimFunc matmul() {
  return parse_func(
      "func matmul(in A: f32[37,64], const B: f32[64,48], out T: f32[37,48]) {\n"
      "  for i in 37, j in 48, k in 64 {\n"
      "    block T(vi: S 37 = i, vj: S 48 = j, vk: R 64 = k) {\n"
      "      init { T[vi,vj] = 0.0f32 }\n"
      "      T[vi,vj] += A[vi,vk] * B[vk,vj]\n    }\n  }\n}\n");
}

const char* const kOpen =
    "a0 a1 = sample_factors T.i parts=2 max=14\n"
    "i0 i1 = split T.i [a0, a1]\n"
    "b0 b1 b2 = sample_factors T.j parts=3 max=16\n"
    "j0 j1 j2 = split T.j [b0, b1, b2]\n"
    "t = sample_choice [guard, peel]\n"
    "k0 k1 = split T.k [_, 5] tail=t\n"
    "c0 c1 = sample_factors T.j1 parts=2\n"
    "reorder T (i0 j0 k0 k1 i1 j1 j2)\n";

}  // namespace

TEST_CASE("open decisions are found, refused in a replay, and drawn") {
  const Trace open = parse_trace(kOpen);
  CHECK_THROWS_AS(apply(matmul(), open), ScheduleError);
  const std::vector<DecisionSite> sites = decision_sites(matmul(), open);
  REQUIRE(sites.size() == 4);
  CHECK(sites[0].extent == 37);
  CHECK(sites[0].max == 14);
  CHECK(sites[1].parts == 3);
  CHECK(sites[2].candidates == std::vector<std::string>{"guard", "peel"});
  CHECK(sites[3].step == 6);

  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 rng(seed), again(seed);
    const Trace drawn = sample_decisions(matmul(), open, rng);
    CHECK(print(drawn) == print(sample_decisions(matmul(), open, again)));
    CHECK_NOTHROW(apply(matmul(), drawn));
    CHECK(print(parse_trace(print(drawn))) == print(drawn));
    seen.insert(print(drawn));
  }
  CHECK(seen.size() > 25);
}

TEST_CASE("a mutation changes one decision and refits the later ones") {
  std::mt19937_64 rng(3);
  Trace trace = sample_decisions(matmul(), parse_trace(kOpen), rng);
  int changed = 0;
  for (int i = 0; i < 40; ++i) {
    const Trace next = mutate_decision(matmul(), trace, rng);
    CHECK_NOTHROW(apply(matmul(), next));
    changed += print(next) != print(trace);
    trace = next;
  }
  CHECK(changed > 30);
}

TEST_CASE("decisions are put in by hand") {
  const Trace t = with_decisions(parse_trace(kOpen), {{"3", "13"}, {"1", "3", "16"}, {"peel"}, {}});
  CHECK(print(t.steps[0]) == "a0 a1 = sample_factors T.i parts=2 max=14 -> [3, 13]");
  CHECK(print(t.steps[4]) == "t = sample_choice [guard, peel] -> peel");
  CHECK(decision_sites(matmul(), t)[3].decision.empty());
  CHECK(decision_sites(matmul(), t)[3].extent == 3);
}

TEST_CASE("a schedule in C++ records its steps and stays as it was where one is refused") {
  Schedule s(matmul());
  s("i0 i1 = split T.i [_, 14]")("f g = sample_factors T.j parts=2 max=16 -> [3, 16]")(
      "j0 j1 = split T.j [f, g]");
  const std::string before = print(s.func());
  CHECK_FALSE(s.try_step("vectorize T.k"));
  CHECK(print(s.func()) == before);
  CHECK(s.trace().steps.size() == 3);
  CHECK(structural_equal(apply(matmul(), s.trace()), s.func(), true));

  CHECK(block_names(s.func()) == std::vector<std::string>{"T"});
  const auto loops = loops_of(s.func(), "T");
  REQUIRE(loops.size() == 5);
  CHECK(loops[1].name == "i1");
  CHECK(loops[1].extent == 14);
  CHECK(find_block(s.func(), "U") == nullptr);
  const auto accesses = accesses_of(*find_block(s.func(), "T"));
  REQUIRE(accesses.size() == 4);
  CHECK((accesses[0].write && !accesses[0].read));  // init
  CHECK((accesses[3].write && accesses[3].read));   // the update itself
}

TEST_CASE("a place to compute a block at is a decision among those that are legal") {
  const PrimFunc f = parse_func(
      "func f(in X: f32[12], out Y: f32[12]) {\n  alloc T: f32[12]\n"
      "  for i in 12 {\n    block T(vi: S 12 = i) {\n      T[vi] = X[vi] * 2.0f32\n    }\n  }\n"
      "  for i in 12 {\n    block Y(vi: S 12 = i) {\n      Y[vi] = T[vi] + 1.0f32\n    }\n  }\n}\n");
  const Trace open = parse_trace(
      "i0 i1 = split Y.i [_, 5]\nl = sample_location T\ncompute_at T l\n"
      "m = sample_location Y by=reverse_compute_at\n");
  const std::vector<DecisionSite> sites = decision_sites(f, open);
  REQUIRE(sites.size() == 2);
  CHECK(sites[0].candidates == std::vector<std::string>{"root", "inline", "Y.i0", "Y.i1"});
  CHECK(sites[1].candidates == std::vector<std::string>{"root", "inline", "T.i"});
  std::set<std::string> drawn, mutated;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 rng(seed);
    const Trace t = sample_decisions(f, open, rng);
    CHECK_NOTHROW(apply(f, t));
    drawn.insert(print(t.steps[1]));
    const Trace next = mutate_decision(f, t, rng);
    CHECK_NOTHROW(apply(f, next));
    if (print(next.steps[1]) != print(t.steps[1])) mutated.insert(print(next.steps[1]));
  }
  CHECK(drawn.size() == 4);
  CHECK(drawn.count("l = sample_location T -> Y.i1"));
  CHECK(mutated.size() == 4);
}

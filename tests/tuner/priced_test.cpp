// Bad schedules for a GPU get better by the price, and what is taken has been emulated.
#include "tuner/priced.h"

#include "catch.h"
#include "nestor/error.h"
#include "nestor/parse.h"

using namespace nestor;

namespace {

const char* const kSums = R"(func sums(in X: f32[256,512], out Y: f32[256]) {
  for i in 256, j in 512 {
    block Y(vi: S 256 = i, vj: R 512 = j) {
      init { Y[vi] = 0.0f32 }
      Y[vi] += X[vi,vj]
    }
  }
})";
const char* const kMap = R"(func map(in X: f32[256,512], out Y: f32[256,512]) {
  for i in 256, j in 512 {
    block Y(vi: S 256 = i, vj: S 512 = j) {
      Y[vi,vj] = X[vi,vj] + 1.0f32
    }
  }
})";
const char* const kTransposed = R"(func transposed(in X: f32[256,512], out Y: f32[512,256]) {
  for i in 512, j in 256 {
    block Y(vi: S 512 = i, vj: S 256 = j) {
      Y[vi,vj] = X[vj,vi]
    }
  }
})";

PricedResult tuned(const char* func, const char* start, int64_t trials = 30) {
  PricedOptions options;
  options.target = parse_target("cuda:sm_80");
  options.trials = trials;
  return tune_by_price(parse_func(func), parse_trace(start), options);
}

}  // namespace

TEST_CASE("three bad starts for a GPU get better, and each that is taken agrees when emulated") {
  const PricedResult results[] = {tuned(kSums, "bind Y.i threadIdx.x\n"),
                                  tuned(kMap, "reorder Y (j i)\nbind Y.j blockIdx.x\nbind Y.i threadIdx.x\n"),
                                  tuned(kTransposed, "bind Y.i threadIdx.x\n")};
  for (const PricedResult& r : results) {
    INFO(print(r.trace));
    CHECK(r.best > 0);
    CHECK(r.best * 1.1 < r.start);
    CHECK(r.emulated >= 2);
    CHECK(r.wrong.empty());
  }
}

TEST_CASE("decisions of a schedule of one's own are searched") {
  const PricedResult r = tuned(kSums,
                               "threads = sample_choice [2, 32, 128] -> 2\nk0 k1 = split Y.j [_, threads]\n"
                               "reorder Y (k1 k0)\nY_part = reduce_threads Y.k1\nbind Y_part.i blockIdx.x\n");
  CHECK(r.best < r.start);
  CHECK(r.priced >= 4);
}

TEST_CASE("a start whose steps are refused is the user's to see") {
  CHECK_THROWS_AS(tuned(kSums, "bind Y.j threadIdx.x\n"), ScheduleError);
}

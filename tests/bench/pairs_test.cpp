// What the benchmarks compute from their samples, and that every work of the list is one operator with data.
#include "bench/cpu/pairs.h"

#include <chrono>
#include <fstream>
#include <numeric>
#include <thread>

#include "bench/cpu/work.h"
#include "catch.h"
#include "nestor/error.h"
#include "tests/own_file.h"

using namespace nestor;
using namespace nestor::bench;

TEST_CASE("the median's interval is of order statistics") {
  std::vector<double> samples(101);
  std::iota(samples.begin(), samples.end(), 0);
  const bench::Interval i = median_interval(samples);
  CHECK(i.median == 50);
  CHECK(i.low == 40);  // 50 - 0.98 * sqrt(101)
  CHECK(i.high == 60);
  samples.push_back(1e9);  // an outlier moves nothing
  CHECK(median_interval(samples).high <= 62);
  CHECK(median_interval({3}).low == 3);
  CHECK(median_interval({}).median == 0);
}

TEST_CASE("ratios are of the same round") {
  const bench::Interval r = ratio({10, 200, 3000}, {5, 100, 1500});
  CHECK(r.low == 2);
  CHECK(r.median == 2);
  CHECK(r.high == 2);
}

TEST_CASE("contestants run in every round") {
  int first = 0, second = 0;
  const auto times = time_rounds({[&] { ++first; }, [&] { ++second; }}, 0, 7);
  REQUIRE(times.size() == 2);
  CHECK(times[0].size() == 7);
  CHECK(times[1].size() == 7);
  CHECK(first >= 9);  // two calls to size the groups
  CHECK(second >= 9);
  const int before = first;
  CHECK(time_rounds({[&] { ++first; }}, 0, 7, 0, 1e-6)[0].size() == 7);
  CHECK(first - before == 16);  // each round's after one that isn't timed
  const auto wait = [&] { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
  int calls = 0;
  time_rounds({[&] { ++calls, wait(); }}, 0, 7, 0, 1000);
  CHECK(calls > 2 + 7 * 2);  // as many as take a millisecond
}

TEST_CASE("a work that can't be read is an error with its line") {
  const std::string path = own_file("works_without_operator.txt");
  std::ofstream(path) << "# comment\nmatmul 64^3\n";
  CHECK_THROWS_WITH(read_works(path),
                    Catch::Matchers::Contains(path + ":2: expected `family name operator`"));
}

TEST_CASE("every work of the list is one operator") {
  const auto works = read_works(NESTOR_SOURCE_DIR "/bench/cpu/works.txt");
  CHECK(works.size() >= 40);
  for (const Work& w : works) {
    INFO(w.spec);
    const Problem p = make_problem(w.spec);
    CHECK(p.output.size() > 0);
    CHECK(p.bytes >= static_cast<double>(p.output.bytes()));
    if (w.family == "matmul" || w.family == "conv") CHECK(p.flops > 0);
  }
}

TEST_CASE("products of small types are counted as those of floats") {
  for (const char* spec : {"MatMul(f32[3,5], const f32[5,7])", "MatMulInteger(u8[3,5], const i8[5,7])",
                           "MatMul(bf16[3,5], const bf16[5,7])"})
    CHECK(make_problem(spec).flops == 2 * 3 * 5 * 7);
}

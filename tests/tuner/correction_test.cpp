#include "tuner/correction.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace nestor;

namespace {

Cost drawn(std::mt19937_64& rng) {
  std::uniform_real_distribution<double> cycles(1e3, 1e5);
  Cost c;
  c.arithmetic = cycles(rng);
  c.loads = cycles(rng);
  c.total = c.arithmetic;  // it doesn't know that loads take time
  return c;
}
double truth(const Cost& c) {
  return (c.arithmetic + 5 * c.loads) / 4;
}

// Of pairs, how many are in the right order.
double pairs_right(const Correction& correction, const std::vector<Cost>& costs) {
  const std::vector<double> order = correction.order(costs);
  int right = 0, all = 0;
  for (size_t i = 0; i < costs.size(); ++i)
    for (size_t k = 0; k < i; ++k, ++all)
      right += (order[i] < order[k]) == (truth(costs[i]) < truth(costs[k]));
  return static_cast<double>(right) / all;
}

}  // namespace

TEST_CASE("a price is corrected by what was measured") {
  std::mt19937_64 rng(7);
  std::vector<Cost> others;
  for (int i = 0; i < 100; ++i) others.push_back(drawn(rng));
  Correction correction;
  CHECK(pairs_right(correction, others) < 0.7);
  for (int i = 0; i < 64; ++i) {
    const Cost c = drawn(rng);
    correction.learn("trace " + std::to_string(i), c, truth(c));
  }
  CHECK(pairs_right(correction, others) > 0.85);
}

TEST_CASE("what was learned in another order says the same") {
  std::mt19937_64 rng(8);
  std::vector<Cost> costs;
  for (int i = 0; i < 40; ++i) costs.push_back(drawn(rng));
  Correction forward, backward;
  for (size_t i = 0; i < costs.size(); ++i) {
    const size_t k = costs.size() - 1 - i;
    forward.learn(std::to_string(i), costs[i], truth(costs[i]));
    backward.learn(std::to_string(k), costs[k], truth(costs[k]));
  }
  CHECK(forward.order(costs) == backward.order(costs));
}

TEST_CASE("a few measurements leave the price as it is") {
  std::mt19937_64 rng(9);
  Correction correction;
  const Cost a = drawn(rng), b = drawn(rng);
  correction.learn("a", a, 1e9);
  const std::vector<double> order = correction.order({a, b});
  CHECK((order[0] < order[1]) == (a.total < b.total));
}

#include <algorithm>
#include <random>

#include "catch.h"
#include "nestor/runtime.h"

using namespace nestor;

namespace {

bool collide(const std::vector<Lifetime>& lives, const ArenaLayout& layout) {
  for (size_t a = 0; a < lives.size(); ++a)
    for (size_t b = a + 1; b < lives.size(); ++b) {
      const bool time = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
      const bool space = layout.offsets[a] < layout.offsets[b] + lives[b].bytes &&
                         layout.offsets[b] < layout.offsets[a] + lives[a].bytes;
      if (time && space) return true;
    }
  return false;
}

// The largest sum of buffers alive at one step: no layout can be smaller.
int64_t lower_bound_of(const std::vector<Lifetime>& lives, int steps) {
  int64_t bound = 0;
  for (int t = 0; t < steps; ++t) {
    int64_t sum = 0;
    for (const Lifetime& l : lives)
      if (l.first <= t && t <= l.last) sum += align_up(l.bytes);
    bound = std::max(bound, sum);
  }
  return bound;
}

}  // namespace

TEST_CASE("a chain of values needs two buffers, whatever its length") {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({4096, i, i + 1});
  const ArenaLayout layout = plan_arena(chain);
  CHECK(layout.bytes == 2 * 4096);
  CHECK_FALSE(collide(chain, layout));
}

TEST_CASE("a small buffer goes into the smallest gap that holds it") {
  // At step 1 only the 300 and the 100 live beside the long ones: gaps of 320 and 128 bytes.
  const std::vector<Lifetime> lives = {{640, 0, 3}, {300, 0, 0}, {512, 0, 3}, {100, 0, 0}, {90, 1, 1}};
  const ArenaLayout layout = plan_arena(lives);
  CHECK_FALSE(collide(lives, layout));
  CHECK(layout.bytes == lower_bound_of(lives, 4));
}

TEST_CASE("random lifetimes never collide, are aligned, and stay near the lower bound") {
  std::mt19937 rng(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(rng() % 40);
      lives.push_back({static_cast<int64_t>(rng() % 5000), first, first + static_cast<int>(rng() % 4)});
    }
    const ArenaLayout layout = plan_arena(lives);
    REQUIRE_FALSE(collide(lives, layout));
    for (int64_t offset : layout.offsets) REQUIRE(offset % kAlignment == 0);
    REQUIRE(layout.bytes <= 2 * lower_bound_of(lives, 44));
    REQUIRE(layout.offsets == plan_arena(lives).offsets);
  }
}

TEST_CASE("zero-sized buffers take no room") {
  CHECK(plan_arena({{0, 0, 5}, {0, 1, 2}}).bytes == 0);
  CHECK(plan_arena({}).bytes == 0);
}

// The classes of a transposed window's outputs, beside what each input element and tap adds to.
#include <map>
#include <random>
#include <set>

#include "catch.h"
#include "src/ops/transposed.h"

using namespace nestor::ops;

namespace {

using Terms = std::set<std::pair<int64_t, int64_t>>;  // input element, tap

std::map<int64_t, Terms> expected(const TransposedShape& s) {
  std::map<int64_t, Terms> out;
  for (int64_t o = 0; o < s.output[0]; ++o) out[o];
  for (int64_t i = 0; i < s.input[0]; ++i)
    for (int64_t r = 0; r < s.kernel[0]; ++r)
      if (const int64_t o = s.stride[0] * i + s.dilation[0] * r - s.pad[0]; o >= 0 && o < s.output[0])
        out[o].insert({i, r});
  return out;
}

std::map<int64_t, Terms> by_classes(const TransposedShape& s) {
  std::map<int64_t, Terms> out;
  for (const ResidueClasses& classes : classes_of(s)) {
    const ResidueClass& c = classes.at(0);
    for (int64_t a = 0; a < c.count; ++a)
      for (int64_t j = 0; j < c.residues; ++j) {
        const auto [at, fresh] = out.try_emplace(c.first + c.stride * a + c.apart * j);
        CHECK(fresh);
        for (int64_t t = 0; t < c.taps; ++t) {
          const int64_t i = a + c.from + t * c.input_step;
          if (i >= 0 && i < s.input[0]) at->second.insert({i, c.tap + j - t * c.tap_step});
        }
      }
  }
  return out;
}

}  // namespace

TEST_CASE("classes of a transposed window are all outputs, each once, of the terms that reach it") {
  std::mt19937 rng(20261123);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(rng);
  };
  for (int k = 0; k < 5000; ++k) {
    TransposedShape s{1, 1, 1, 1, false, {draw(1, 9)}, {draw(1, 9)}, {draw(1, 12)}, {draw(1, 12)}, {}, {}};
    const int64_t whole = s.stride[0] * (s.input[0] - 1) + s.dilation[0] * (s.kernel[0] - 1) + 1 +
                          draw(0, std::max(s.stride[0], s.dilation[0]) - 1);
    s.pad = {draw(0, whole)};
    s.output = {draw(0, whole - s.pad[0])};
    INFO("input " << s.input[0] << ", kernel " << s.kernel[0] << ", stride " << s.stride[0] << ", dilation "
                  << s.dilation[0] << ", pad " << s.pad[0] << ", output " << s.output[0]);
    REQUIRE(by_classes(s) == expected(s));
  }
}

TEST_CASE("residues of equally many taps run as long as taps reach, where there are enough of them") {
  // Reached classes, and those that are filled.
  const auto count = [](int64_t kernel, int64_t stride, int64_t more) {
    TransposedShape s{1, 1, 1, 1, false, {16}, {kernel}, {stride}, {1}, {0}, {15 * stride + kernel + more}};
    std::pair<int, int> n{0, 0};
    for (const ResidueClasses& c : classes_of(s)) ++(c.at(0).taps > 0 ? n.first : n.second);
    return n;
  };
  CHECK(count(4, 4, 0) == std::pair{1, 0});
  CHECK(count(4, 4, 3) == std::pair{1, 1});  // behind the last input nothing is
  CHECK(count(3, 4, 2) == std::pair{1, 2});  // and the fourth residue
  CHECK(count(8, 4, 1) == std::pair{1, 1});
  CHECK(count(5, 4, 3) == std::pair{2, 0});  // two classes anyway
  CHECK(count(2, 2, 1) == std::pair{2, 0});  // few residues
}

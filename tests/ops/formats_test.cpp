// Floats of 8 bits and less from f32 and back, and integers of few bits.
#include "src/ops/formats.h"

#include <algorithm>

#include "tests/ops/run_op.h"

using namespace nestor;
using ops::Format;
using ops::kFormats;

namespace {

OpCase from(const Format& f, int64_t count) {
  return OpCase("FromFormat", 1, "nestor").input(DType::u8, {count}).attr("format", int64_t{f.code});
}

Values encoded(const Format& f, const Values& x, int64_t saturate = 1, const char* mode = "up") {
  const auto n = static_cast<int64_t>(x.size());
  return run(OpCase("ToFormat", 1, "nestor")
                 .input(f.exponent > 0 ? DType::f32 : DType::i32, {n})
                 .attr("format", int64_t{f.code})
                 .attr("saturate", saturate)
                 .attr("round_mode", std::string(mode)),
             {x});
}

double value(const Format& f, double code) {
  return run(from(f, 1), {{code}})[0];
}

}  // namespace

TEST_CASE("Every code of a small float is a number that has this code") {
  for (const Format& f : kFormats) {
    if (f.exponent == 0) continue;
    INFO(f.name);
    const Values codes = iota(int64_t{1} << f.bits), numbers = run(from(f, int64_t{1} << f.bits), {codes});
    const Values back = encoded(f, numbers, 0, "down");
    for (size_t c = 0; c < codes.size(); ++c)
      if (!std::isnan(numbers[c])) CHECK(back[c] == codes[c]);
    CHECK(std::count_if(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); }) ==
          (f.nan < 0                       ? 0
           : f.one_zero || f.mantissa == 0 ? 1
           : f.infinity >= 0               ? 6
                                           : 2));
  }
}

TEST_CASE("Between two numbers the nearest is taken, and of two as near the one with an even code") {
  for (const Format& f : kFormats) {
    if (f.mantissa == 0) continue;
    INFO(f.name);
    for (int c = 0; c < f.greatest; ++c) {
      const double low = value(f, c), high = value(f, c + 1), middle = (low + high) / 2;
      const float below = std::nextafter(static_cast<float>(middle), 0.0F),
                  above = std::nextafter(static_cast<float>(middle), 1e9F);
      CHECK(encoded(f, {below, middle, above, -above})[0] == c);
      CHECK(encoded(f, {middle})[0] == c + c % 2);
      CHECK(encoded(f, {above})[0] == c + 1);
      CHECK(encoded(f, {-above})[0] == (c + 1 | 1 << (f.bits - 1)));
    }
  }
}

TEST_CASE(
    "What is beyond the greatest number is that number, or an infinity or NaN where it doesn't saturate") {
  const auto ends = [](int code, int64_t saturate) {
    return encoded(*ops::format_of(code), {1e9, kInf, -kInf, kNaN}, saturate);
  };
  CHECK(ends(17, 1) == Values{0x7e, 0x7e, 0xfe, 0x7f});
  CHECK(ends(17, 0) == Values{0x7f, 0x7f, 0xff, 0x7f});
  CHECK(ends(18, 1) == Values{0x7f, 0x7f, 0xff, 0x80});
  CHECK(ends(18, 0) == Values{0x80, 0x80, 0x80, 0x80});
  CHECK(ends(19, 1) == Values{0x7b, 0x7b, 0xfb, 0x7e});
  CHECK(ends(19, 0) == Values{0x7c, 0x7c, 0xfc, 0x7e});
  CHECK(ends(20, 0) == Values{0x80, 0x80, 0x80, 0x80});
  CHECK(ends(23, 1) == Values{0x7, 0x7, 0xf, 0x8});
  CHECK(ends(24, 1) == Values{157, 255, 255, 255});
}

TEST_CASE("A power of two is rounded as it is said") {
  const Format& f = *ops::format_of(24);
  const Values x = {1, 1.25, 1.5, 1.75, 2};
  CHECK(encoded(f, x, 1, "up") == Values{127, 128, 128, 128, 128});
  CHECK(encoded(f, x, 1, "down") == Values{127, 127, 127, 127, 128});
  CHECK(encoded(f, x, 1, "nearest") == Values{127, 127, 128, 128, 128});
}

TEST_CASE("Integers keep their lowest bits") {
  const Values x = {-9, -8, -1, 0, 7, 8, 16};
  CHECK(encoded(*ops::format_of(22), x) == Values{7, -8, -1, 0, 7, -8, 0});
  CHECK(encoded(*ops::format_of(21), x) == Values{7, 8, 15, 0, 7, 8, 0});
  CHECK(encoded(*ops::format_of(26), x) == Values{-1, 0, -1, 0, -1, 0, 0});
  CHECK(encoded(*ops::format_of(25), x) == Values{3, 0, 3, 0, 3, 0, 0});
}

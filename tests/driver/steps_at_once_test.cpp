// How far the loop of a product is unrolled along k.
#include "catch.h"
#include "nestor/library.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

Target wide_of_16_registers() {
  Target target = with_l2("x86-64-v3", 512 << 10);
  target.l1_bytes = 32 << 10;
  target.issue_width = 6;
  return target;
}

}  // namespace

TEST_CASE("a wide core with 16 registers takes four steps of a product at once") {
  Target target = wide_of_16_registers();
  const std::string four = "ks = split Y.k [_, 4] tail=peel\n";
  CHECK(default_has("MatMul(f32[64,64], const f32[64,64])", four, target));
  CHECK(default_has("MatMul(f32[64,67], const f32[67,64])", four, target));
  CHECK(default_has("MatMul(f32[1024,1024], const f32[1024,1024])", "k1s = split Y.k1 [_, 4] tail=peel\n",
                    target));
  CHECK_FALSE(default_has("MatMul(f32[64,20], const f32[20,64])", four, target));    // few steps
  CHECK_FALSE(default_has("MatMul(f32[128,768], const f32[768,8])", four, target));  // a tile of one vector
  CHECK_FALSE(default_has("MatMul(f32[64,64], const f32[64,64])", four, parse_target("x86-64-v4")));
  target.issue_width = 4;
  CHECK(default_has("MatMul(f32[64,64], const f32[64,64])", "ks = split Y.k [_, 2] tail=peel\n", target));
}

TEST_CASE("of 16 registers a wide core takes 4 x 3 vectors where rows stream past many columns") {
  const Target target = wide_of_16_registers();
  CHECK(default_has("MatMul(f32[1024,1024], const f32[1024,1024])", "32] -> 24\n", target));
  CHECK(default_has("MatMul(f32[512,512], const f32[512,512])", "32] -> 16\n", target));  // few columns
  CHECK(default_has("MatMul(f32[64,64], const f32[64,1024])", "32] -> 16\n", target));    // rows that stay
}

TEST_CASE("rows far apart that aren't packed are two steps, those of one set of the cache one") {
  const Target target = wide_of_16_registers();
  const auto takes = [&](const char* spec, const char* steps) {
    return default_has(spec, std::string("s = split Y.k [_, ") + steps + "] tail=peel\n", target);
  };
  CHECK(takes("MatMul(f32[24,256], f32[256,512])", "4"));
  CHECK(takes("MatMul(f32[24,256], f32[256,600])", "2"));
  CHECK_FALSE(default_has("MatMul(f32[24,256], f32[256,1024])", "kp ks = split Y.k ", target));
  CHECK(
      default_has("MatMul(f32[24,256], const f32[256,600])", "k1s = split Y.k1 [_, 4] tail=peel\n", target));
}

TEST_CASE("a block of channels is one body of a wide core, or four steps each where windows slide") {
  Target target = wide_of_16_registers();
  const std::string whole = "unroll Y.cl\n", four = "cls = split Y.cl [_, 4] tail=peel\n";
  const char* pointwise = "Conv(f32[1,64,28,28], const f32[128,64,1,1])";
  const char* deep = "Conv(f32[1,2048,7,7], const f32[512,2048,1,1])";
  const char* strided = "Conv(f32[1,64,30,30], const f32[64,64,3,3]; strides=[2,2])";
  CHECK(default_has(pointwise, whole, target));
  CHECK(default_has("Conv(f32[1,256,14,14], const f32[8,256,1,1])", whole, target));  // tiles of one vector
  CHECK(default_has(deep, "unroll Y_part.cl\n", target));
  CHECK(default_has(strided, four, target));
  CHECK(default_has("Conv(f32[1,256,14,14], const f32[256,256,3,3]; pads=[1,1,1,1])",
                    "cls = split Y_part.cl [_, 4] tail=peel\n", target, true));
  CHECK(
      default_has("Conv(f32[1,256,14,14], const f32[256,256,3,3]; pads=[1,1,1,1])", "unroll M.cl\n", target));
  // Where the five taps of a line are written out, and would be four times.
  CHECK(default_has("Conv(f32[1,64,28,28], const f32[64,64,5,5]; pads=[2,2,2,2])", "cl [_, 2] tail=peel\n",
                    target));
  const std::string some =
      "c1s = split Y.c1 [_, 4] tail=peel\n";  // channels that don't fill their last block
  CHECK(default_has("Conv(f32[1,45,30,30], const f32[64,45,3,3]; strides=[2,2])", some, target));
  CHECK_FALSE(default_has("Conv(f32[1,14,30,30], const f32[64,14,3,3]; strides=[2,2])", some, target));
  target.issue_width = 4;
  CHECK_FALSE(default_has(pointwise, whole, target));
  CHECK_FALSE(default_has(strided, four, target));
}

TEST_CASE("few channels are one body inside of the taps of a wide core with 16 registers") {
  Target target = wide_of_16_registers();
  const auto whole = [&](const char* spec) { return default_has(spec, "unroll Y.c\n", target); };
  const char* first = "Conv(f32[1,3,56,56], const f32[32,3,3,3]; pads=[1,1,1,1])";
  CHECK(whole(first));
  CHECK(default_has(first, "x0 s r c x1", target));
  CHECK(whole("Conv(f32[1,3,64,64], const f32[32,3,3,3])"));
  CHECK(whole("Conv(f32[1,3,224,224], const f32[64,3,7,7]; strides=[2,2], pads=[3,3,3,3])"));
  CHECK(whole("Conv(f32[1,4,60,60], const f32[64,4,5,5]; pads=[2,2,2,2])"));
  CHECK_FALSE(whole("Conv(f32[1,6,60,60], const f32[64,6,5,5]; pads=[2,2,2,2])"));  // would spill
  CHECK_FALSE(whole("Conv(f32[4,2,300], const f32[64,2,5]; pads=[2,2])"));          // directly inside of taps
  target.issue_width = 4;
  CHECK_FALSE(whole(first));
}

TEST_CASE("steps at once are right at ragged sizes") {
  Target target = wide_of_16_registers();
  for (const char* spec : {"MatMul(f32[13,67], const f32[67,41])", "MatMul(f32[13,67], f32[67,600])",
                           "MatMul(f32[9,70], f32[70,309])"})
    check_scheduled_for(spec, target);
  for (const char* spec : {"Conv(f32[1,45,9,7], const f32[19,45,1,1])",
                           "Conv(f32[1,45,9,7], const f32[19,45,3,3]; pads=[1,1,1,1])",
                           "Conv(f32[2,43,11,9], const f32[23,43,3,3]; strides=[2,2], pads=[1,1,1,1])",
                           "Conv(f32[1,3,9,13], const f32[19,3,3,3]; pads=[1,1,1,1])",
                           "Conv(f32[2,2,9,13], const f32[17,2,5,5]; strides=[2,2], pads=[2,1,2,3])",
                           "Conv(f32[1,4,13,15], const f32[17,4,7,7]; pads=[3,3,3,3])"})
    check_default(spec, target, true);
  target.l2_bytes = 16 << 10;
  check_default("Conv(f32[1,150,5,7], const f32[40,150,3,3]; strides=[2,2], pads=[1,1,1,1])", target, true);
}

// Work shared by threads where one writes what others read, and where iterations take different times.
#include "catch.h"
#include "compiled.h"

using namespace nestor;

namespace {

Target two_threads() {
  Target t = with_far_l3("x86-64-v4", 2 << 20);
  t.cores = 2;
  return t;
}

}  // namespace

TEST_CASE("threads share lines of an image, and of its padded copy the same ones") {
  const Target two = two_threads();
  const std::string plain = "ConvInteger(u8[1,32,40,24], const i8[64,32,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(plain, "yp yl = split Y.y [_, 5] tail=peel", two));
  CHECK(default_has(plain, "parallel Y.yp", two));
  CHECK(default_has(plain, "hp hl = split P.h [_, 5] tail=peel", two));  // 42 lines, in planes of blocks
  CHECK(default_has(plain, "parallel P.hp", two));
  const std::string wide = "Conv(f32[1,2,123,123], const f32[17,2,7,7]; pads=[3,3,3,3])";
  CHECK(default_has(wide, "parallel Y.yp", two));
  CHECK(default_has(wide, "parallel P.hp", two));
  const auto none = [](const std::string& spec, const Target& t) {
    return !default_has(spec, "split P.h", t) && !default_has(spec, "yp yl", t);
  };
  Target one = two;
  one.cores = 1;
  CHECK(none(plain, one));
  CHECK(none("ConvInteger(u8[1,32,12,80], const i8[64,32,3,3]; pads=[1,1,1,1])", two));     // few lines
  CHECK(none("ConvInteger(u8[1,512,40,24], const i8[512,512,3,3]; pads=[1,1,1,1])", two));  // many weights
  CHECK(none("Conv(f32[1,64,56,56], const f32[64,64,3,3]; strides=[2,2], pads=[1,1,1,1])", two));  // no copy
}

TEST_CASE("what stays as it is: small copies, threads that share something else") {
  const Target two = two_threads();
  const auto lines = [](const std::string& spec, const Target& t) {
    return default_has(spec, "parallel P.", t) && default_has(spec, "parallel Y.", t);
  };
  CHECK_FALSE(lines("Conv(f32[1,1,16,16], const f32[1024,1,7,7]; pads=[3,3,3,3])", two));
  // Planes of 10 can't be shared evenly; what is shared goes through all of them for each filter.
  CHECK_FALSE(lines("Conv(f32[1,2,10,20,12], const f32[20,2,3,3,3]; pads=[1,1,1,1,1,1])", two));
  // Two tiles of channels by 12 lines, fused: each thread reads all lines.
  const std::string fused = "ConvInteger(u8[1,64,24,80], const i8[64,64,3,3]; strides=[2,2], pads=[1,1,1,1])";
  CHECK(default_has(fused, "g = fuse Y (ob0 y)", two));
  CHECK_FALSE(default_has(fused, "parallel P.h", two));
  // As many threads as the reader has, and the same parts.
  Target many = two;
  many.cores = 7;
  const std::string conv = "ConvInteger(u8[1,64,56,56], const i8[64,64,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(conv, "annotate Y.yp split=static", many));
  CHECK(default_has(conv, "annotate P.hp split=static", many));
}

TEST_CASE("lines that threads share are right, ragged parts too") {
  // Instructions are the target's own.
  Target target = runs_here(two_threads()) ? two_threads() : with_far_l3("x86-64-v3", 2 << 20);
  target.parallel_us = 0;
  for (const int cores : {2, 3}) {
    target.cores = cores;
    for (const char* spec :
         {"ConvInteger(u8[1,19,53,19], const i8[80,19,3,3]; pads=[1,1,1,1])",
          "ConvInteger(u8[1,40,74,21], const i8[100,40,3,3]; pads=[2,2,2,2], dilations=[2,2])",
          "Conv(f32[1,2,107,67], const f32[17,2,7,7]; pads=[3,3,3,3])"}) {
      INFO(spec << " on " << cores);
      CHECK(default_has(spec, "yp yl = split Y.y", target));
      CHECK(default_has(spec, "parallel Y.yp", target));
      CHECK(default_has(spec, "parallel P.h", target));
      check_default(spec, target, true);
    }
    check_default("ConvTranspose(f32[1,24,36,16], const f32[24,21,3,3]; group=3, strides=[2,2])", target);
  }
}

TEST_CASE("an iteration that is partly outside of the bounds counts as less") {
  const Target two = two_threads();
  // 7 blocks of channels by 2: of 4 iterations the last one is half of one, and they can't be fused.
  CHECK(default_has("Conv(f32[1,1,114,114], const f32[103,1,7,7]; pads=[3,3,3,3])", "parallel Y.y", two));
  CHECK(
      default_has("Conv(f32[1,1,114,114], const f32[128,1,7,7]; pads=[3,3,3,3])", "g = fuse Y (ob0 y)", two));
}

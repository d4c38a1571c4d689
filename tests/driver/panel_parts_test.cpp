// Convolutions of many channels with few outputs and a high L3 latency: k-blocking.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

Target far_target(int64_t l2_bytes) {
  Target t = parse_target("x86-64-v4");
  t.l1_bytes = 32 << 10;
  t.l1_ways = 8;
  t.l2_bytes = l2_bytes;
  t.l3_bytes = 36 << 20;
  t.l3_bytes_per_cycle = 9;
  t.cores = 1;
  return t;
}

bool has(const std::string& spec, const std::string& step, const Target& target) {
  return default_has(spec, step, target, true);
}

}  // namespace

TEST_CASE("panels of weights larger than half of the second-level cache go in parts of their channels") {
  Target target = far_target(1 << 20);
  const std::string deep = "Conv(f32[1,512,7,7], const f32[512,512,3,3]; pads=[1,1,1,1])";
  CHECK(has(deep, "Y_part = rfactor Y.cb0 axis=0", target));
  CHECK(has(deep, "prefetch Y_part.cb0 W distance=1 shares=", target));
  CHECK(!has("Conv(f32[1,128,28,28], const f32[128,128,3,3]; pads=[1,1,1,1])", "rfactor", target));  // fits
  CHECK(
      !has("Conv(f32[1,512,56,56], const f32[512,512,3,3]; pads=[1,1,1,1])", "rfactor", target));  // results
  // As many columns as leave none over and fit the registers beside their rows.
  target.issue_width = 4;
  CHECK(has(deep, "ob_columns = sample_choice [1, 2, 3, 4] -> 4", target));
  CHECK(has(deep, "cb0 cb1 = split Y.cb [8, _]", target));
  CHECK(has("Conv(f32[1,2048,7,7], const f32[512,2048,1,1])", "Y_part = rfactor", target));
  const std::string prime = "Conv(f32[1,46,15,15], const f32[112,46,7,7]; pads=[3,3,3,3])";
  CHECK(!has(prime, "rfactor", target));  // of 7 columns only 1 at a time would leave none over
  CHECK(has(prime, "ob_columns = sample_choice [1, 2, 3, 4] -> 3", target));
  target.cores = 2;
  CHECK(has(deep, "parallel Y.ob0", target));
  CHECK(has(deep, "rfactor", target));
  target.cores = 3;  // 8 tiles of columns aren't shared evenly
  CHECK(!has(deep, "rfactor", target));
  target = far_target(1 << 20);
  target.l3_bytes_per_cycle = 16;
  CHECK(!has(deep, "rfactor", target));
  target.l2_bytes = 512 << 10;  // a near third level, a small second one
  CHECK(has(deep, "Y_part = rfactor Y.cb0 axis=0", target));
}

TEST_CASE("near the third level panels go in parts which a large second one doesn't hold alone") {
  const Target near = with_l2("x86-64-v4", 1 << 20);
  const auto parts = [&](const char* weights, const char* image) {
    return has(fmt::format("Conv({}, const {}; pads=[3,3,3,3], strides=[2,2])", image, weights), "rfactor",
               near);
  };
  CHECK(parts("f32[48,320,7,7]", "f32[1,320,19,19]"));
  CHECK(parts("f32[80,512,7,7]", "f32[4,512,7,31]"));
  const char* first = "Conv(f32[1,2048,14,14], const f32[128,2048,3,3]; strides=[2,2], pads=[1,1,1,1])";
  CHECK(default_says(first, "don't fit in the first-level cache", near));
  CHECK_FALSE(parts("f32[48,80,7,7]", "f32[1,80,19,19]"));    // 735 KiB
  CHECK_FALSE(parts("f32[48,320,7,7]", "f32[1,320,19,63]"));  // rows of 32
}

TEST_CASE(
    "parts of a single tile of columns, whose lines threads share, and tiles of one column of more rows") {
  Target target = far_target(2 << 20);
  const std::string single = "Conv(f32[1,320,28,28], const f32[40,320,7,7]; pads=[3,3,3,3])";
  const std::string fifths = "Conv(f32[1,480,30,30], const f32[80,480,7,7]; pads=[3,3,3,3], strides=[2,2])";
  CHECK(has(single, "rfactor", target));
  CHECK(has(single, "ob0 ob1 = split Y.ob [_, 3]", target));
  CHECK(has(fifths, "ob0 ob1 = split Y.ob [_, ob_columns]", target));
  CHECK(has(fifths, "ob_columns = sample_choice [1, 2, 3, 4] -> 1", target));
  CHECK(!has(fifths, "x0 x1 = split", target));  // 15 rows, all of a line
  target.issue_width = 4;
  CHECK(!has(fifths, "rfactor", target));
  target.issue_width = 6;
  target.cores = 2;
  CHECK(has(single, "parallel Y.y", target));
  target.cores = 10;  // 28 lines are too few
  CHECK(!has(single, "rfactor", target));
}

TEST_CASE("a part of an image that doesn't stay is asked for where the third level is near") {
  Target target = with_l2("x86-64-v3", 512 << 10);
  target.issue_width = 6;
  target.cores = 1;
  const std::string ask = "prefetch Y_part.cb1 X distance=1", strided = "; strides=[2,2], pads=[1,1,1,1])";
  const std::string large = "Conv(f32[1,400,54,54], const f32[48,400,3,3]" + strided;
  CHECK(has(large, ask, target));                                                       // 4.6 MB of image
  CHECK(!has("Conv(f32[1,512,28,28], const f32[512,512,3,3]" + strided, ask, target));  // 1.6
  target.cores = 2;  // which share lines, 472 KiB of each
  CHECK(has(large, ask, target));
  target.cores = 4;
  CHECK(!has(large, ask, target));
  target.cores = 1;
  target.l2_bytes = 128 << 10;
  const std::string ragged = "Conv(f32[1,128,40,41], const f32[16,128,3,3]; strides=[3,3], pads=[1,1,1,1])";
  CHECK(has(ragged, ask, target));
  check_default(ragged, target, true);
}

TEST_CASE("an image beside which panels wouldn't stay goes in parts of its channels, outermost") {
  Target target = parse_target("x86-64-v3");
  target.issue_width = 6;
  target.cores = 1;
  const std::string outermost = "reorder Y (cb0 ob0 yx0 ";
  const std::string deep = "Conv(f32[1,2048,7,7], const f32[512,2048,1,1])";
  CHECK(has(deep, outermost, target));
  CHECK(has(deep, "cb0 cb1 = split Y.cb [8, _]", target));  // 16 KB of a panel, half of the first level
  CHECK(has(deep, "prefetch Y_part.ob0 W distance=1 shares=yx0", target));
  CHECK(!has("Conv(f32[1,512,7,7], const f32[512,512,1,1])", "rfactor", target));    // 98 KB of image
  CHECK(!has("Conv(f32[1,512,14,14], const f32[512,512,1,1])", "rfactor", target));  // results
  CHECK(!has("Conv(f32[1,144,14,14], const f32[144,144,3,3]; pads=[1,1,1,1])", outermost, target));  // taps
  // Parts of the image that would stay are of too few channels.
  CHECK(!has("Conv(f32[1,512,28,28], const f32[32,512,1,1])", "rfactor", target));
  CHECK(has("Conv(f32[1,2048,20,20], const f32[64,2048,1,1])", "cb0 cb1 = split Y.cb [_, 22]", target));
  target.l2_bytes = 1 << 20;
  CHECK(!has(deep, "rfactor", target));
}

TEST_CASE(
    "a panel stays in the first-level cache where the third is near, unless threads would meet too often") {
  Target target = with_l2("x86-64-v3", 512 << 10);
  target.issue_width = 6;
  target.l1_bytes = 32 << 10;
  target.cores = 1;
  const std::string middle = "Conv(f32[1,128,56,56], const f32[128,128,3,3]; strides=[2,2], pads=[1,1,1,1])";
  CHECK(has(middle, "cb0 cb1 = split Y.cb [_, 3] tail=peel", target));  // 13.5 KB of 32
  CHECK(has(middle, "Y_init = decompose_reduction Y.cb0", target));
  target.cores = 2;  // 8 tiles of columns
  CHECK(has(middle, "cb0 cb1 = split Y.cb [_, 3] tail=peel", target));
  target.cores = 3;
  CHECK(!has(middle, "rfactor", target));  // 72 KB, which stay in the second level
  CHECK(!has("Conv(f32[1,64,28,28], const f32[128,64,3,3]; strides=[2,2], pads=[1,1,1,1])", "rfactor",
             target));  // 36
}

TEST_CASE("parts are of whole blocks of channels, the last has what is left") {
  for (const int cores : {1, 2})
    for (const bool far : {false, true})
      for (const char* spec :
           {"Conv(f32[1,342,9,5,4], const f32[32,342,2,2,2]; pads=[2,2,2,2,2,2], dilations=[2,2,2])",
            "Conv(f32[1,150,19,7], const f32[64,150,5,5], const f32[64]; strides=[2,2], pads=[2,2,2,2])",
            "Conv(f32[2,276,7,9], const f32[64,276,3,3]; dilations=[2,2], pads=[2,2,2,2])"}) {
        Target target = far ? far_target(512 << 10) : with_l2("x86-64-v3", 512 << 10);
        target.issue_width = 6;
        target.l1_bytes = 32 << 10;
        target.cores = cores;
        target.parallel_us = 0;
        INFO(spec << " on " << cores << ", the third level " << (far ? "far" : "near"));
        CHECK(has(spec, "_part = rfactor ", target));
        CHECK(has(spec, "_part.c1 [_, " + std::to_string(target.lanes(4)) + "]", target));
        check_default(spec, target, true);
      }
}

TEST_CASE("tiles of one column of more rows are right") {
  for (const int cores : {1, 2}) {
    Target target = far_target(256 << 10);
    target.cores = cores;
    target.parallel_us = 0;
    const std::string spec = "Conv(f32[1,64,15,14], const f32[80,64,5,5]; pads=[2,2,2,2])";
    CHECK(has(spec, "rfactor", target));
    CHECK(has(spec, "-> 1", target));
    check_default(spec, target, true);
  }
}

TEST_CASE("convolutions in outermost parts of their channels are right") {
  for (const int cores : {1, 2})
    for (const char* spec : {"Conv(f32[1,1024,7,7], const f32[64,1024,1,1], const f32[64])",
                             "Conv(f32[2,832,5,7], const f32[128,832,1,1])",
                             "Conv(f32[1,1024,13,9], const f32[64,1024,1,1]; strides=[2,2])"}) {
      Target target = parse_target("x86-64-v3");
      target.issue_width = 6;
      target.l2_bytes = 256 << 10;
      target.cores = cores;
      target.parallel_us = 0;
      INFO(spec << " on " << cores);
      CHECK(has(spec, " (cb0 ob0 ", target));
      CHECK(has(spec, "rfactor", target));
      check_default(spec, target, true);
    }
}

TEST_CASE("convolutions in parts of their channels are right") {
  for (const int issue_width : {4, 6})
    for (const int cores : {1, 2})
      for (const char* spec :
           {"Conv(f32[1,128,7,7], const f32[128,128,3,3], const f32[128]; pads=[1,1,1,1])",  // an epilogue
            "Conv(f32[2,128,5,4], const f32[128,128,3,3]; pads=[1,0,0,2], strides=[2,1])",
            "Conv(f32[1,1024,5,7], const f32[128,1024,1,1])",
            "Conv(f32[1,128,7,9], const f32[192,128,3,3]; pads=[2,2,2,2], dilations=[2,2])",
            "Conv(f32[1,128,8,9], const f32[40,128,3,3], const f32[40]; pads=[2,2,2,2], dilations=[2,2])"}) {
        Target target = far_target(256 << 10);
        target.issue_width = issue_width;
        target.cores = cores;
        target.parallel_us = 0;
        INFO(spec << " by " << issue_width << " on " << cores);
        CHECK(has(spec, "rfactor", target));
        CompileOptions options = checking_options(target);
        options.blocked_io = true;
        options.exact_conv = true;
        for (const CompiledFunction& f : compile_model(spec, options).funcs) {
          check_proof(f);
          check_results(f, target);
        }
      }
}

// Which images are prefetched while others are computed; results stay the same.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/library.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

bool asks(const std::string& spec, const Target& target, const std::string& step, bool blocked_io = true) {
  return default_text(spec, target, blocked_io).find("prefetch " + step) != std::string::npos;
}

}  // namespace

TEST_CASE("while images are computed, the next are asked for") {
  const Target near = with_l2("x86-64-v4", 1 << 20);
  const auto images = [](int64_t n, int64_t channels, int64_t filters, int64_t size, int64_t window) {
    return fmt::format("Conv(f32[{0},{1},{3},{3}], const f32[{2},{1},{4},{4}]; strides=[2,2])", n, channels,
                       filters, size, window);
  };
  const std::string two = "Y.n0 X distance=1 shares=c";
  CHECK(asks(images(64, 46, 7, 32, 5), near, two));
  CHECK_FALSE(asks(images(4, 46, 7, 32, 5), near, two));     // they stay in the cache
  CHECK_FALSE(asks(images(64, 92, 7, 40, 5), near, "Y.n"));  // which doesn't hold the next beside them
  CHECK_FALSE(asks(images(64, 46, 7, 32, 5), with_far_l3("x86-64-v4", 1 << 20), two));
  CHECK(asks("Conv(f32[111,128,19,19], const f32[58,128,1,1])", near, "Y.n X distance=1 shares=cb"));
  CHECK_FALSE(asks("Conv(f32[128,320,4,4], const f32[13,320,1,1])", near, "Y.n"));  // little to do for a line
  const Target short_vectors = with_l2("x86-64-v3", 1 << 20);
  CHECK_FALSE(asks("Conv(f32[47,448,4,8], const f32[448,1,5,5]; group=448, pads=[2,2,2,2])", short_vectors,
                   "Y.n"));  // several steps for each line
}

TEST_CASE("of taps outside of the steps over channels, not each asks for them") {
  const std::string spec =
      "Conv(f32[7,35,111,39], const f32[4,35,7,3]; strides=[2,2], pads=[12,0,0,4], dilations=[4,4])";
  const Target near = with_l2("x86-64-v4", 1 << 20);
  CHECK(asks(spec, near, "Y.y X distance=1 shares=c"));
  CHECK_FALSE(asks(spec, near, "Y.c X"));
}

TEST_CASE("the next row of windows is asked for while this one is computed") {
  const Target near = with_l2("x86-64-v4", 1 << 20);
  const auto windows = [](int64_t channels, int64_t filters, int64_t size, const std::string& window) {
    return fmt::format("Conv(f32[1,{0},{2},{2}], const f32[{1},{0},{3}]; strides=[2,2])", channels, filters,
                       size, window);
  };
  CHECK(asks(windows(128, 16, 71, "3,3"), near, "Y.y X distance=1 shares=r"));
  CHECK_FALSE(asks(windows(128, 16, 71, "3,3"), with_far_l3("x86-64-v4", 1 << 20), "Y.y"));
  CHECK_FALSE(asks(windows(128, 16, 71, "3,1"), near, "Y.y"));   // little is computed of a line
  CHECK_FALSE(asks(windows(1024, 16, 71, "3,3"), near, "Y.y"));  // much of the cache
  CHECK(asks("Conv(f32[8,128,19,64], const f32[13,128,5,1]; pads=[4,0,2,0])", near,
             "Y.y X distance=1 shares=r"));  // of which most lines were the last row's, too
  const std::string groups = "Conv(f32[1,224,98,98], const f32[224,16,3,3]; group=14, strides=[2,2])";
  CHECK(asks(groups, with_l2("x86-64-v3", 1 << 20), "Y.y X distance=1 shares=r"));
  // 180 lines in 64 x 2 x 5 rows of taps, not in 4 times as many taps; of planes by plane and channel.
  CHECK(asks("Conv(f32[1,64,12,20,33], const f32[8,64,2,5,4]; strides=[1,1,3])", near,
             "Y.g X distance=1 shares=r", false));
  CHECK(asks("Conv(f32[2,64,33,12,20], const f32[4,64,5,5,3]; strides=[1,1,3], dilations=[1,2,2])", near,
             "Y.y X distance=1 shares=q", false));
  // 38 lines, not in 3 steps.
  Target pumped = near;
  pumped.double_pumped = true;
  CHECK(asks("ConvTranspose(f32[2,32,33,20,20], const f32[32,8,3,1,2]; strides=[1,2,1])", pumped,
             "T.y X distance=1 shares=c"));
}

TEST_CASE("what a tile writes is asked for where much passes through a near last cache after short sums") {
  const Target near = with_l2("x86-64-v4", 1 << 20);
  const auto filters = [](int64_t n, int64_t channels, int64_t count) {
    return fmt::format("Conv(f32[{},{},90,90], const f32[{},{},1,1])", n, channels, count, channels);
  };
  const std::string shares = "Y_out.yx0 Y distance=1 shares=Y.c";
  CHECK(asks(filters(1, 4, 400), near, shares));
  CHECK(asks(filters(4, 17, 96), near, shares + "1"));  // the channels of a block, and one left over
  CHECK(asks("Conv(f32[1,320,97,97], const f32[320,1,5,5]; group=320, pads=[2,2,2,2])", near,
             "Y_out.x0 Y distance=1 shares=Y.r"));
  CHECK_FALSE(asks(filters(1, 4, 160), near, "Y_out"));   // a smaller part
  CHECK_FALSE(asks(filters(1, 80, 400), near, "Y_out"));  // time enough to write a line
  Target far = with_far_l3("x86-64-v4", 1 << 20);
  far.l3_bytes = near.l3_bytes;
  CHECK_FALSE(asks(filters(1, 4, 400), far, "Y_out"));
  CHECK_FALSE(asks(filters(1, 4, 400), with_l2("x86-64-v3", 1 << 20), "Y_out"));

  Target tiny = with_l2("x86-64-v4", 16 << 10);
  tiny.l3_bytes = 64 << 10;
  for (const char* spec :
       {"Conv(f32[2,4,15,17], const f32[48,4,1,1])", "Conv(f32[2,17,15,17], const f32[48,17,1,1])",
        "Conv(f32[1,40,19,17], const f32[40,1,5,5]; group=40, pads=[2,2,2,2])"}) {
    CHECK(asks(spec, tiny, "Y_out"));
    check_default(spec, tiny, true);
  }
}

TEST_CASE("what asks for images is right") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const Target tiny = with_l2(name, 64 << 10);
    for (const char* spec : {"Conv(f32[18,4,20,20], const f32[7,4,5,5]; strides=[2,2], pads=[1,1,1,1])",
                             "Conv(f32[9,16,15,14], const f32[36,16,3,1]; pads=[1,0,1,0])"}) {
      INFO(default_text(spec, tiny, true));
      CHECK(asks(spec, tiny, "Y.n"));
      check_default(spec, tiny, true);
    }
  }
}

// Convolutions without a padded copy of their image.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/target.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

const char* few =
    "Conv(f32[1,15,47,139], const f32[6,15,1,7]; strides=[3,3], pads=[0,0,0,6], dilations=[2,2])";

Target with_width(const std::string& name, int issue_width) {
  Target target = parse_target(name);
  target.issue_width = issue_width;
  return target;
}

}  // namespace

TEST_CASE("few products of each element don't pay for a padded copy along the lanes") {
  const auto masks = [](const std::string& spec, const Target& target) {
    return default_has(spec, "skip_zeros Y masks=x\n", target);
  };
  const Target wide = with_width("x86-64-v4", 6);
  // Along a line alone there is nothing else to skip.
  CHECK(default_has(few, "compute_inline P\n", wide));
  CHECK_FALSE(masks(few, wide));
  CHECK(default_says(few, "each copied element would be used only 4 times", wide));
  const char* both = "Conv(f32[3,3,61,96], const f32[2,3,3,3]; strides=[2,2], pads=[1,1,0,0])";
  CHECK(masks(both, wide));
  CHECK(masks("Conv(f32[1,36,41,39], const f32[36,6,3,3]; group=6, pads=[1,1,1,1])", wide));
  // Many products, or a window too wide to be written out.
  CHECK_FALSE(
      default_has("Conv(f32[1,15,47,39], const f32[9,15,3,3]; pads=[1,1,1,1])", "compute_inline P\n", wide));
  CHECK_FALSE(
      default_has("Conv(f32[1,15,47,39], const f32[2,15,1,9]; pads=[0,4,0,4])", "compute_inline P\n", wide));
  // Loads of parts are branches, or the cores haven't been measured.
  CHECK_FALSE(masks(both, with_width("x86-64-v2", 6)));
  CHECK_FALSE(masks(both, with_width("aarch64", 6)));
  CHECK_FALSE(masks(both, with_width("x86-64-v4", 4)));
  Target halves = wide;
  halves.features += ",+avx512bf16";
  CHECK(default_has("Conv(bf16[1,3,61,96], const bf16[2,3,3,3]; pads=[1,1,1,1])", "masks=", halves));
  CHECK(default_has("Conv(f32[1,3,61,96], const f32[2,3,3,3]; pads=[1,1,1,1])",
                    "masks=", with_width("x86-64-v3", 6)));
}

TEST_CASE("up to eleven taps know which of a tile's rows they reach") {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    const Target target = with_width(cpu, 6);
    const auto unrolled = [&](const char* weights, const char* pads) {
      return default_has(fmt::format("Conv(f32[2,5,13,37], const f32[{}]; pads=[{}])", weights, pads),
                         "unroll Y.s\n", target);
    };
    CHECK(unrolled("27,5,1,9", "0,4,0,4"));
    CHECK(unrolled("27,5,2,11", "0,5,0,5"));
    CHECK_FALSE(unrolled("27,5,1,13", "0,6,0,6"));
    check_default("Conv(f32[2,5,6,37], const f32[27,5,2,11]; pads=[0,9,1,2])", target, true);
    check_default("Conv(f32[1,17,5,12], const f32[33,17,9,9]; pads=[4,8,4,8], strides=[2,1])", target, true);
  }
}

TEST_CASE("a strided load that all channels of a group share is no reason to take few of them for lanes") {
  const Target wide = with_width("x86-64-v4", 6);
  const std::string along_lines = "vectorize Y.x", strided = "strides=[2,2], pads=[1,1,1,1])";
  CHECK(default_has("Conv(f32[1,64,100,100], const f32[64,8,3,3]; group=8, " + strided, along_lines, wide));
  CHECK_FALSE(
      default_has("Conv(f32[1,64,100,100], const f32[64,16,3,3]; group=4, " + strided, along_lines, wide));
}

TEST_CASE("taps that are turned in registers go last, and are as many as lanes") {
  const Target short_vectors = with_width("x86-64-v3", 6);
  const char* few_taps =
      "Conv(f32[1,64,86,86], const f32[64,4,5,5]; group=16, strides=[2,2], pads=[2,2,2,2])";
  CHECK_FALSE(default_has(few_taps, "vectorize Y.og", short_vectors));
  // But for those that no windows share, and a product's steps.
  CHECK(
      default_has("Conv(f32[1,1,112,112], const f32[1,1,7,7]; strides=[7,7])", "unroll Y.s", short_vectors));
  CHECK(default_has("MatMul(f32[5000,6], const f32[6])", "unroll Y.k", short_vectors));
  const char* many = "Conv(f32[1,64,86,86], const f32[64,4,3,9]; group=16, strides=[2,2], pads=[1,4,1,4])";
  CHECK(default_has(many, "vectorize Y.og", short_vectors));
  CHECK_FALSE(default_has(many, "compute_inline P", short_vectors));
  CHECK(default_has(many, "unroll Y.s", short_vectors));
  check_default(many, short_vectors);
}

TEST_CASE("lanes along a line leave out rows of padding as lanes of filters do") {
  const std::string padded_below =
      "Conv(f32[1,35,40,64], const f32[4,35,7,3]; strides=[3,3], pads=[0,4,24,4], dilations=[4,4])";
  CHECK(default_has(padded_below, "vectorize Y.x", with_width("x86-64-v4", 6)));
  CHECK(default_has(padded_below, "vectorize Y.o", with_width("x86-64-v4", 4)));  // they would have a copy
}

TEST_CASE("parts of vectors are loaded right at the image's borders") {
  const std::string column =
      "Conv(f32[1,4,15,30], const f32[4,2,5,5]; group=2, strides=[2,2], pads=[2,2,2,2])";
  CHECK(default_says(column, "for each kernel element it is known which rows of the tile it contributes to",
                     with_width("x86-64-v4", 6)));
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const std::string& spec : {
             std::string(few),
             column,
             // One vector, several, tiles of several, and all of it padding.
             std::string(
                 "Conv(f32[2,5,11,12], const f32[1,5,7,3]; strides=[3,3], pads=[0,4,24,4], dilations=[4,4])"),
             std::string("Conv(f32[1,3,9,53], const f32[2,3,3,3], const f32[2]; pads=[1,1,1,1])"),
             std::string("Conv(f32[2,3,7,143], const f32[2,3,3,3]; pads=[2,2,2,2], dilations=[2,2])"),
             std::string("Conv(f32[1,2,3,3], const f32[2,2,3,3]; pads=[6,6,6,6])"),
             std::string("Conv(f32[1,6,350], const f32[6,6,5]; strides=[3], pads=[2,3])"),
             std::string("Conv(f32[1,3,4,5,35], const f32[2,3,3,1,3]; pads=[1,0,1,1,0,2])"),
             std::string("ConvTranspose(f32[1,8,7,44], const f32[8,5,2,2]; group=2, strides=[2,2], "
                         "output_padding=[1,1])"),
             std::string("ConvTranspose(f32[1,6,8,30], const f32[6,3,5,5]; group=2, dilations=[2,2])"),
         })
      check_default(spec, with_width(name, 6));
}

TEST_CASE("a padded copy that a tile copies into its own layout stays a copy") {
  Target near = with_l2("x86-64-v3", 512 << 10);
  near.issue_width = 6;
  near.cores = 2;
  const std::string trace = default_text(
      "ConvTranspose(f32[1,418,16,31], const f32[418,128,2,2]; strides=[2,2], output_padding=[1,1])", near,
      false);
  INFO(trace);
  CHECK(trace.find("P2_packed = cache_read T2 P2") != std::string::npos);
  for (const char* block : {"T", "T1", "T2", "T3"})  // each has a tile
    CHECK(trace.find(std::string(block) + "_init = decompose_reduction " + block + ".") != std::string::npos);
}

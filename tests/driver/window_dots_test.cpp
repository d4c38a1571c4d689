// Few filters over an image in blocks of channels: where their results are dot products along channels, and
// that they are right.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/library.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

using Ints = std::vector<int64_t>;

const char* const kDots = "_lanes = rfactor ";

}  // namespace

TEST_CASE("results of few filters under strided windows are dot products along channels") {
  for (const char* spec :
       {"Conv(f32[1,128,15,17], const f32[7,128,1,1]; strides=[2,2])",
        "Conv(f32[2,64,17,17], const f32[5,64,3,3]; strides=[2,2], pads=[1,1,1,1])",
        "Conv(f32[1,70,20,11], const f32[2,70,3,3]; strides=[3,2], pads=[0,1,2,1])",  // the last block torn
        "Conv(f32[1,100,1,40], const f32[3,100,1,7]; strides=[1,2])",  // two loops that run once
        "Conv(f32[16,80,5,5], const f32[4,80,3,3]; strides=[2,2])",    // rows are images
        "Conv(f32[1,96,41], const f32[6,96,5]; strides=[2], pads=[2,2])",
        "Conv(f32[1,64,5,6,7], const f32[3,64,2,3,3]; strides=[1,2,2], pads=[0,1,1,1,0,1])",
        "Conv(f32[1,64,19,19], const f32[4,64,3,3]; strides=[2,2], dilations=[2,2], pads=[2,2,2,2])",
        "Conv(f32[1,64,13,13], const f32[7,64,5,5], const f32[7]; strides=[2,2], pads=[2,2,2,2])"}) {
    INFO(spec);
    CHECK(default_has(spec, kDots, parse_target("x86-64-v4")));
    for (const Target& target : shared_targets()) check_default(spec, target, true);
  }
  for (const Target& target : shared_targets())  // a block of a single channel
    check_default("Conv(f32[1,65,9,9], const f32[3,65,2,2]; strides=[2,2])", target, true);
  CHECK(default_has("Conv(f32[1,64,17,17], const f32[3,64,3,3]; strides=[2,2])", kDots,
                    parse_target("x86-64-v3")));
  CHECK_FALSE(default_has("Conv(f32[1,16,17,17], const f32[3,16,3,3]; strides=[2,2])", kDots,
                          parse_target("x86-64-v4")));
}

TEST_CASE("few taps that share vectors of rows are innermost, and tiles leave registers for them") {
  const Target target = parse_target("x86-64-v4");
  const char* four = "Conv(f32[1,128,40,40], const f32[4,128,3,3]; strides=[2,2], pads=[1,1,1,1])";
  CHECK(default_has(four, "reorder Y_lanes (cb r s lx lo lcl)", target));
  CHECK(default_has(four, "x_rows = sample_choice [1, 2, 3, 4, 6, 8, 16] -> 4", target));
  const char* six = "Conv(f32[1,128,40,40], const f32[6,128,3,3]; strides=[2,2], pads=[1,1,1,1])";
  CHECK(default_has(six, "reorder Y_lanes (s cb r lx lo lcl)", target));
}

TEST_CASE("lines of blocks of channels are asked for as far ahead as they come from") {
  const Target near = with_l2("x86-64-v4", 1 << 20);
  const auto conv = [](int images, int channels, int size, const std::string& more) {
    return fmt::format("Conv(f32[{0},{1},{2},{2}], const f32[5,{1},3,3]; strides=[{3}])", images, channels,
                       size, more);
  };
  const std::string large = conv(4, 256, 41, "2,2");  // 6.9 MB
  CHECK(default_has(large, "prefetch Y_lanes.cb X distance=2\n", near));
  CHECK(default_says(large, "2 steps of 108 cycles cover the latency of 110", near));
  CHECK_FALSE(default_has(large, "prefetch Y_lanes.x0", near));
  CHECK(default_says(large, "2 steps of 108 cycles cover the latency of 200",
                     with_far_l3("x86-64-v4", 1 << 20)));
  CHECK_FALSE(default_has(large, "prefetch", with_l2("x86-64-v4", 2 << 20)));
  CHECK(default_has(conv(12, 256, 41, "2,2"), "prefetch Y_lanes.x0 X distance=1\n", near));
  CHECK_FALSE(default_has(conv(4, 256, 41, "4,4"), "prefetch Y_lanes.x0", near));
  const char* few_blocks = "Conv(f32[2,64,115,115], const f32[2,64,1,1]; strides=[1,2])";
  const Target smaller = with_l2("x86-64-v4", 768 << 10);
  CHECK_FALSE(default_has(few_blocks, "prefetch Y_lanes.cb", smaller));
  CHECK(default_has(few_blocks, "prefetch Y_lanes.x0 X distance=1\n", smaller));
  for (const int64_t l3 : {1, 32}) {
    Target small = with_l2("x86-64-v4", 4 << 10);
    small.l3_bytes = l3 << 20;
    check_default("Conv(f32[2,256,21,23], const f32[3,256,3,3]; strides=[2,2], pads=[1,1,1,1])", small, true);
  }
}

TEST_CASE("what follows dot products along channels goes by lines of results, in vectors") {
  const auto compiled_before_sigmoid = [](const Ints& shape, const Target& target) {
    Model m;
    m.opsets[""] = 17;
    m.inputs.push_back({"x", DType::f32, {}});
    for (const int64_t n : shape) m.inputs.back().shape.push_back({n, ""});
    m.outputs.push_back({"y", DType::f32, {}, false, false});
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {5, shape[1], 3, 3}, 1));
    m.nodes.push_back({"Conv", "", "", {"x", "w"}, {"a"}, {{"strides", Ints{2, 2}}}, {}});
    m.nodes.push_back({"Sigmoid", "", "", {"a"}, {"y"}, {}, {}});
    CompileOptions options = checking_options(target);
    options.blocked_io = true;
    return compile_model({build_graph(m), std::nullopt}, options);
  };
  for (const Target& target : shared_targets())
    for (const Ints& shape : {Ints{2, 96, 15, 43}, Ints{16, 96, 5, 5}}) {  // the rows are images there
      const CompiledModel m = compiled_before_sigmoid(shape, target);
      REQUIRE(m.funcs.size() == 1);
      check_results(m.funcs[0], target);
    }
  const Target target = parse_target("x86-64-v4");
  const CompiledModel m = compiled_before_sigmoid({2, 96, 15, 43}, target);
  const std::string text = print(default_schedule(m.funcs[0].func, target));
  CHECK(text.find("reverse_compute_at Y T.y") != std::string::npos);
  CHECK(text.find("vectorize Y.") != std::string::npos);
}

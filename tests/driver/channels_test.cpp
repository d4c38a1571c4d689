// Sums over windows of channels: proved, right at borders and where blocks of channels don't divide them, and
// no short loop innermost.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "tests/driver/compiled.h"

using namespace nestor;

TEST_CASE("windows of channels that go by blocks are right at borders and ragged sizes") {
  for (const Target& target : shared_targets())
    for (const char* spec :
         {"Conv(f32[1,37,6,7], const f32[48,37,3,3]; pads=[1,1,1,1])",
          "Conv(f32[1,66,6,5], const f32[32,66,3,3], const f32[32]; pads=[1,0,2,1], strides=[2,2])",
          "Conv(f32[1,48,5,6], const f32[48,24,3,3]; group=2, pads=[1,1,1,1])"})
      check_default(spec, target);
}

TEST_CASE("the innermost loop of a window's sum is the longest, by as many channels as stay in a cache") {
  const auto steps_of = [](const std::string& spec) {
    const PrimFunc f = partition(load(spec).graph).funcs.at(0);
    Target target = parse_target("x86-64-v4");
    target.issue_width = 4;
    return print(default_schedule(f, target));
  };
  const auto check = [&](const char* spec, const char* step) {
    const std::string steps = steps_of(spec);
    INFO(spec << "\n" << steps);
    CHECK(steps.find(step) != std::string::npos);
  };
  check("Conv(f32[1,72,18,18], const f32[72,24,3,3]; group=3, pads=[1,1,1,1])", " r s c x1 o)");
  // Few channels: a window's rows are longer.
  check("Conv(f32[1,3,64,64], const f32[64,3,7,7]; strides=[2,2], pads=[3,3,3,3])", " s c r x1 o");
  check("Conv(f32[1,128,28,28], const f32[64,128,3,3]; pads=[1,1,1,1], strides=[2,2])",
        "c0 c1 = split Y.c [_, 16]");
  check("Conv(f32[1,128,28,28], const f32[64,128,3,3]; pads=[1,1,1,1], strides=[2,2])", " c0 r s c1 x o1)");
  check("Conv(f32[1,493,30,30], const f32[48,493,5,5]; pads=[2,2,2,2], strides=[2,2])",
        "c0 c1 = split Y.c [_, 16] tail=peel");
  // Blocks of which none is left over, where the channels have some.
  check("Conv(f32[1,130,30,30], const f32[48,130,5,5]; pads=[2,2,2,2], strides=[2,2])",
        "c0 c1 = split Y.c [_, 13]");
}

TEST_CASE("channels of a group lie in blocks behind those of other groups") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.blocked_io = true;
  const auto steps_of = [&](const std::string& spec) {
    return print(default_schedule(partition_model(load(spec, options), options).partition.funcs.at(0),
                                  options.target));
  };
  for (const char* spec : {"Conv(f32[1,64,9,9], const f32[32,32,3,3]; group=2, pads=[1,1,1,1])",
                           "ConvTranspose(f32[1,64,9,9], const f32[64,16,3,3]; group=2, strides=[2,2])"}) {
    INFO(spec);
    const std::string steps = steps_of(spec);
    INFO(steps);
    CHECK(steps.find(".c [_, 16]") != std::string::npos);
  }
  for (const Target& target : shared_targets())
    check_default("Conv(f32[1,64,5,6], const f32[32,32,3,3]; group=2, pads=[1,1,1,1])", target, true);
}

TEST_CASE("groups of half a vector go by half vectors where a core passes vectors in halves") {
  Target target = parse_target("x86-64-v4");
  const char* eights = "Conv(f32[1,80,9,9], const f32[80,8,3,3]; group=10, strides=[2,2], pads=[1,1,1,1])";
  CHECK_FALSE(default_has(eights, "split Y.ol", target));
  target.double_pumped = true;
  CHECK(default_has(eights, "ol0 ol1 = split Y.ol [_, ol_width]", target));
  CHECK(default_has(eights, "ol_width = sample_choice [8] -> 8", target));
  // Rows of the image that would fill the lanes: blocks as well, where nothing is blended.
  const char* wide = "Conv(f32[1,32,48,48], const f32[32,8,3,3]; group=4, strides=[2,2], pads=[1,1,1,1])";
  CHECK(default_has(wide, "ol0 ol1 = split Y.ol [_, ol_width]", target));
  target.double_pumped = false;
  CHECK_FALSE(default_has(wide, "Y.ol", target));
  target.double_pumped = true;
  // The channels of a group are broadcast: no worse lanes are looked for elsewhere.
  const char* few = "ConvTranspose(f32[1,64,10,6], const f32[64,8,3,3]; group=8, strides=[2,2])";
  CHECK(default_has(few, "vectorize T.ol", target));
  CHECK_FALSE(default_has(few, "vectorize T.ob", target));
  // Groups of a whole vector, of a quarter, and none.
  for (const char* spec : {"Conv(f32[1,96,9,9], const f32[96,16,3,3]; group=6, pads=[1,1,1,1])",
                           "Conv(f32[1,96,9,9], const f32[96,4,3,3]; group=24, pads=[1,1,1,1])",
                           "Conv(f32[1,64,9,9], const f32[96,64,3,3]; pads=[1,1,1,1], strides=[2,2])"})
    CHECK_FALSE(default_has(spec, "split Y.ol", target));
  Target halves = host_target();
  halves.double_pumped = true;
  for (const char* spec :
       {eights, "Conv(f32[1,24,6,7], const f32[24,8,5,5], const f32[24]; group=3, pads=[2,2,2,2])",
        "ConvTranspose(f32[1,16,5,5], const f32[16,8,3,3]; group=2, strides=[2,2])"})
    check_default(spec, halves, true);
}

TEST_CASE("strided groups of half vectors are row major where blocks would be half empty, by filters there") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.target.double_pumped = true;
  options.blocked_io = true;
  const auto lanes = [&](int64_t channels, int64_t groups, int stride) {
    const CompiledModel m = compile_model(
        fmt::format("Conv(f32[1,{0},55,55], const f32[{0},{1},3,3]; group={2}, strides=[{3},{3}])", channels,
                    channels / groups, groups, stride),
        options);
    const std::string text = print(default_schedule(m.partition.funcs[0], m.target));
    const size_t at = text.find("vectorize Y.");
    return at == std::string::npos ? "" : text.substr(at + 12, text.find('\n', at) - at - 12);
  };
  CHECK(lanes(40, 5, 2) == "o");
  CHECK(lanes(56, 7, 3) == "o");
  CHECK(lanes(48, 6, 2) == "ol1");  // full
  CHECK(lanes(56, 7, 1) == "ol1");  // neighbouring windows share what they read
  CHECK(lanes(12, 2, 2) == "o");    // elements that lie apart pass where FMAs do
  options.target.double_pumped = false;
  CHECK(lanes(12, 2, 2) == "x");
  Target halves = host_target();
  halves.double_pumped = true;
  for (const char* spec :
       {"Conv(f32[1,24,9,15], const f32[24,8,3,3]; group=3, strides=[2,2], pads=[1,1,1,1])",
        "Conv(f32[2,40,8,7], const f32[40,8,5,2]; group=5, strides=[3,2], pads=[2,0,1,1])",
        "Conv(f32[1,12,7,19], const f32[12,6,3,3]; group=2, strides=[2,2])"})
    check_default(spec, halves, true);
}

TEST_CASE("groups that share a block lie row major where pixels of a row fill more of the lanes") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.blocked_io = true;
  const auto by_channels = [&](const std::string& spec) {
    const CompiledModel m = compile_model(spec, options);
    return print(default_schedule(m.partition.funcs[0], m.target)).find("vectorize Y.ol\n") !=
           std::string::npos;
  };
  CHECK_FALSE(by_channels("Conv(f32[1,24,30,30], const f32[24,8,3,3]; group=3, pads=[1,1,1,1])"));
  CHECK_FALSE(by_channels("Conv(f32[1,8,30,30], const f32[8,4,3,3]; group=2, pads=[1,1,1,1])"));
  CHECK(by_channels("Conv(f32[1,24,18,18], const f32[24,8,3,3]; group=3, pads=[1,1,1,1])"));
  CHECK(by_channels("Conv(f32[1,32,30,30], const f32[32,8,3,3]; group=4, pads=[1,1,1,1])"));
  CHECK(by_channels("Conv(f32[1,24,30,30], const f32[24,1,3,3]; group=24, pads=[1,1,1,1])"));
  // Windows of one element: rows are of whole images.
  CHECK_FALSE(by_channels("Conv(f32[1,128,14,14], const f32[128,8,1,1]; group=16)"));
  CHECK_FALSE(by_channels("Conv(f32[1,128,14,14], const f32[128,8,1,1]; group=16, strides=[2,2])"));
  CHECK(by_channels("Conv(f32[1,128,14,14], const f32[128,16,1,1]; group=8)"));
  for (const Target& host : shared_targets())
    for (const char* spec : {"Conv(f32[1,24,6,15], const f32[24,8,3,3]; group=3, pads=[1,1,1,1])",
                             "Conv(f32[2,12,5,16], const f32[12,4,3,3]; group=3, strides=[1,2])",
                             "Conv(f32[1,32,5,6], const f32[32,4,1,1]; group=8, strides=[2,2])"})
      check_default(spec, host, true);
}

TEST_CASE("channels are the lanes where most of a window's terms are padding that they meet together") {
  const char *padded = "Conv(f32[1,5,6,13], const f32[28,5,5,5]; pads=[8,8,8,8], dilations=[4,4])",
             *filled = "Conv(f32[1,5,22,29], const f32[28,5,5,5]; dilations=[4,4])";
  const auto along = [](const char* spec, const std::string& lanes) {
    const CompiledModel m = compiled(spec, parse_target("x86-64-v4"));
    return print(default_schedule(m.funcs[0].func, m.target)).find("vectorize " + lanes + "\n") !=
           std::string::npos;
  };
  CHECK(along(padded, "Y.o"));
  CHECK(along(filled, "Y.x"));
  for (const Target& target : shared_targets()) check_default(padded, target);
}

TEST_CASE("half a vector of results takes half of the time where a core passes vectors in halves") {
  const char* six = "Conv(f32[1,12,20,20], const f32[12,6,3,3]; group=2, strides=[2,2], pads=[1,1,1,1])";
  Target target = parse_target("x86-64-v4");
  const auto along = [&](const std::string& lanes) {
    const CompiledModel m = compiled(six, target);
    return print(default_schedule(m.funcs[0].func, m.target)).find("vectorize " + lanes + "\n") !=
           std::string::npos;
  };
  CHECK_FALSE(along("Y.o"));
  target.double_pumped = true;
  CHECK(along("Y.o"));
  Target halves = host_target();
  halves.double_pumped = true;
  check_default(six, halves);
}

TEST_CASE("an image of many channels lies in blocks under strided windows of few filters") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.blocked_io = true;
  const auto in_blocks = [&](const std::string& conv) {
    const CompiledModel m = partition_model(load(conv, options), options);
    CHECK_FALSE(m.partition.blocked.count(m.graph.outputs[0]));
    return m.partition.blocked.count(m.graph.inputs[0]) > 0;
  };
  for (const char* few : {"Conv(f32[2,64,17,17], const f32[5,64,3,3]; strides=[2,2])",
                          "Conv(f32[2,64,65,65], const f32[2,64,3,3]; strides=[2,2])",
                          "Conv(f32[1,430,20,20], const f32[7,430,1,1]; strides=[3,3])",
                          "Conv(f32[1,70,9,64,17], const f32[5,70,3,3,3]; strides=[1,2,2])",
                          "Conv(f32[1,128,200,200], const f32[5,128,3,3]; strides=[2,2])"})
    CHECK(in_blocks(few));
  for (const char* other :
       {"Conv(f32[2,64,10,10], const f32[5,64,3,3])",                 // pixels side by side
        "Conv(f32[2,60,17,17], const f32[5,60,1,1]; strides=[2,2])",  // few steps
        "Conv(f32[2,65,17,17], const f32[5,65,3,3]; strides=[2,2])",  // the last block a single channel
        "Conv(f32[1,64,60,60], const f32[5,64,3,3]; strides=[2,2], pads=[1,1,1,1])",  // rows of 30
        "Conv(f32[2,35,17,17], const f32[5,35,3,3]; strides=[2,2])",      // the last block mostly empty
        "Conv(f32[1,112,200,200], const f32[5,112,3,3]; strides=[2,2])",  // few for what comes from memory
        "Conv(f32[2,64,5,5], const f32[1,64,3,3]; strides=[2,2])",        // nothing to share
        "Conv(f32[2,128,17,17], const f32[4,64,3,3]; group=2, strides=[2,2])"}) {
    INFO(other);
    CHECK_FALSE(in_blocks(other));
  }
  options.target = parse_target("x86-64-v3");
  CHECK(in_blocks("Conv(f32[2,64,17,17], const f32[3,64,3,3]; strides=[2,2])"));
  options.blocked_io = false;
  CHECK_FALSE(in_blocks("Conv(f32[2,64,17,17], const f32[3,64,3,3]; strides=[2,2])"));
}

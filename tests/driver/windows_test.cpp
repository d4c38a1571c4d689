// Windows of channels with a filter each, in blocks of channels: proved, right at borders and sizes that fill
// no tile, and tiled where windows share what they read.
#include <regex>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

std::string steps_of(const std::string& spec, const char* target) {
  CompileOptions options = checking_options(parse_target(target));
  options.blocked_io = true;
  const CompiledModel m = compile_model(spec, options);
  REQUIRE(m.funcs.size() == 1);
  return print(default_schedule(m.funcs[0].func, options.target));
}

}  // namespace

TEST_CASE("windows of channels with a filter each are right at borders and ragged sizes") {
  for (const Target& target : shared_targets())
    for (const char* spec :
         {"Conv(f32[1,16,8,9], const f32[16,1,3,3]; group=16, pads=[1,1,1,1])",
          "Conv(f32[2,21,9,6], const f32[21,1,3,3], const f32[21]; group=21, pads=[1,0,2,1])",
          "Conv(f32[1,16,8,3], f32[16,1,3,3]; group=16, pads=[1,1,1,1])",
          "Conv(f32[1,17,8,12], const f32[17,1,3,3]; group=17, dilations=[2,2], pads=[2,2,2,2])",
          "Conv(f32[1,32,7,15], const f32[32,1,2,5]; group=32)"})
      check_default(spec, target, true);
}

TEST_CASE("tiles of windows share what they read where their weights fit the registers") {
  const auto tiled = [](const char* spec, const char* target) {
    const std::string steps = steps_of(spec, target);
    INFO(spec << "\n" << steps);
    return steps.find("unroll Y.y1\n") != std::string::npos &&
           steps.find("unroll Y.x1\n") != std::string::npos;
  };
  CHECK(tiled("Conv(f32[1,32,16,28], const f32[32,1,3,3]; group=32, pads=[1,1,1,1])", "x86-64-v4"));
  CHECK(tiled("Conv(f32[1,32,18,28], const f32[32,1,3,3]; group=32)", "x86-64-v4"));
  // Weights don't fit; windows don't overlap; too few taps; rows leave a rest; all channels meet.
  CHECK_FALSE(tiled("Conv(f32[1,32,16,28], const f32[32,1,3,3]; group=32, pads=[1,1,1,1])", "x86-64-v3"));
  CHECK_FALSE(tiled("Conv(f32[1,32,16,28], const f32[32,1,5,5]; group=32, pads=[2,2,2,2])", "x86-64-v4"));
  CHECK_FALSE(tiled("Conv(f32[1,32,48,48], const f32[32,1,3,3]; group=32, strides=[3,3])", "x86-64-v4"));
  CHECK_FALSE(tiled("Conv(f32[1,32,17,29], const f32[32,1,2,2]; group=32)", "x86-64-v4"));
  CHECK_FALSE(tiled("Conv(f32[1,32,7,28], const f32[32,1,3,3]; group=32, pads=[1,1,1,1])", "x86-64-v4"));
  CHECK_FALSE(tiled("Conv(f32[1,32,16,28], const f32[32,32,3,3]; pads=[1,1,1,1])", "x86-64-v4"));
}

TEST_CASE("a mask of the last lanes has a register beside the tile's where it needs one") {
  const auto rows_are = [](const char* spec, const char* rows) {
    const std::string steps = steps_of(spec, "x86-64-v3");
    INFO(spec << "\n" << steps);
    return steps.find("o_rows = sample_choice ") != std::string::npos &&
           steps.find(std::string("] -> ") + rows + "\n") != std::string::npos;
  };
  const char* torn = "Conv(f32[2,5,6,24], const f32[17,5,5,3]; pads=[2,0,2,1])";  // 23 = 8 + 8 + 7
  CHECK(rows_are(torn, "3"));
  CHECK(rows_are("Conv(f32[2,5,6,24], const f32[17,5,5,3]; pads=[2,1,2,1])", "4"));
  CHECK(rows_are("Conv(f32[2,5,6,21], const f32[17,5,5,3]; pads=[2,0,2,1])", "4"));  // 8 + 8 + 4
  for (const char* target : {"x86-64-v3", "x86-64-v4"}) check_default(torn, parse_target(target));
  // No accumulator waits in memory.
  CompileOptions options = checking_options(parse_target("x86-64-v3"));
  options.blocked_io = true;
  const std::string assembly = emit_asm(compile_model(torn, options).lowered(), options.target);
  CHECK(assembly.find("vmaskmovps") != std::string::npos);
  CHECK_FALSE(std::regex_search(assembly, std::regex(R"(vmov[au]ps\s+-?\d*\(%rsp\), %ymm)")));
}

// Results whose lanes aren't dense in the output reach it through a panel, by whole lines.
#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/library.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

std::string panel_of(const std::string& spec) {
  const std::string schedule = default_text(spec, parse_target("x86-64-v4"), false);
  const size_t at = schedule.find("_panel = cache_read");
  return at == std::string::npos ? "" : schedule.substr(0, at);
}

}  // namespace

TEST_CASE("results go through a panel where a tile's rows are few or ragged, or phases interleave") {
  CHECK(panel_of("Conv(f32[1,2,96,96], const f32[74,2,5,5]; strides=[2,2], pads=[2,2,2,2])") != "");
  CHECK(panel_of("Conv(f32[1,64,56,56], const f32[24,64,1,1]; strides=[2,2])") != "");
  CHECK(panel_of("ConvTranspose(f32[1,16,8,8,4], const f32[16,64,4,4,4]; strides=[4,4,4])") != "");
  CHECK(panel_of("ConvTranspose(f32[1,128,28,28], const f32[128,64,2,2]; strides=[2,2])") != "");
  // Registers of many rows are turned where they are; lanes along the line need no panel; nor do blocks.
  CHECK(panel_of("Conv(f32[1,3,65,65], const f32[64,3,3,3]; strides=[2,2], pads=[1,1,1,1])") == "");
  CHECK(panel_of("Conv(f32[1,4,60,60], const f32[48,4,5,5]; pads=[2,2,2,2])") == "");
  CHECK(panel_of("ConvTranspose(f32[1,16,16,16], const f32[16,64,4,4]; strides=[4,4])") == "");
}

TEST_CASE("lanes lie along a line with gaps rather than across lines, where neither is dense") {
  for (const char* spec : {"ConvTranspose(f32[1,32,128], const f32[32,48,8]; strides=[4], pads=[2,2])",
                           "ConvTranspose(f32[1,12,2176], const f32[12,64,4]; strides=[2])"}) {
    INFO(spec);
    const std::string schedule = default_text(spec, parse_target("x86-64-v4"), false);
    CHECK(schedule.find("vectorize T.x") != std::string::npos);
  }
}

TEST_CASE("a panel leaves blocks of lines to the cores, and takes a name that is free") {
  Target two = parse_target("x86-64-v4");
  two.cores = 2;
  for (const char* spec : {"Conv(f32[1,256,57,57], const f32[520,256,1,1]; strides=[2,2])",
                           "Conv(f32[1,128,60,61], const f32[270,128,2,2]; strides=[2,2])"}) {
    INFO(spec);
    const std::string schedule = default_text(spec, two, false);
    CHECK(schedule.find("parallel ") != std::string::npos);
  }
  const PrimFunc f = parse_func(R"(func f(in X: f32[2,49,49], const W: f32[37,2,5,5], out Y: f32[37,23,23]) {
  alloc T: f32[37,23,23]
  for o in 37, y in 23, x in 23, c in 2, r in 5, s in 5 {
    block T(vo: S 37 = o, vy: S 23 = y, vx: S 23 = x, vc: R 2 = c, vr: R 5 = r, vs: R 5 = s) {
      init { T[vo,vy,vx] = 0.0f32 }
      T[vo,vy,vx] += X[vc,vy*2+vr,vx*2+vs] * W[vo,vc,vr,vs]
    }
  }
  for line in 37, y in 23, x in 23 {
    block Y(vl: S 37 = line, vy: S 23 = y, vx: S 23 = x) {
      Y[vl,vy,vx] = max(T[vl,vy,vx], 0.0f32)
    }
  }
})",
                                "f");
  const std::string schedule = print(default_schedule(f, parse_target("x86-64-v4")));
  INFO(schedule);
  CHECK(schedule.find("_panel = cache_read") != std::string::npos);
}

TEST_CASE("a panel's lines go by as many as divide those of a tile") {
  const auto lines = [](const char* spec, const std::string& size) {
    Target target = parse_target("x86-64-v3");
    target.cores = 1;
    const std::string schedule = default_text(spec, target, false);
    INFO(schedule);
    return schedule.find("wo0 wo1 = split Y_out.wo [_, " + size + "]") != std::string::npos;
  };
  CHECK(lines("Conv(f32[1,7,27,27], const f32[150,7,3,3]; strides=[2,2], pads=[1,1,1,1])", "8"));    // of 24
  CHECK(lines("Conv(f32[1,3,112,112], const f32[23,3,3,3]; strides=[2,2], pads=[1,1,1,1])", "16"));  // of all
}

TEST_CASE("a panel of three loops is written by whole lines of two") {
  const std::string spec = "ConvTranspose(f32[1,16,8,16], const f32[16,155,3,3]; strides=[3,3])";
  Target target = parse_target("x86-64-v3");
  target.cores = 1;
  const std::string schedule = default_text(spec, target, false);
  CHECK(schedule.find("line = fuse Y (wx wpx)\n") != std::string::npos);
  CHECK(schedule.find("vectorize T.o1\n") != std::string::npos);
  check_default(spec, target);
}

TEST_CASE("what goes through a panel isn't scattered") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.schedules = default_schedules();
  for (const char* spec : {"Conv(f32[1,2,96,96], const f32[74,2,5,5]; strides=[2,2], pads=[2,2,2,2])",
                           "ConvTranspose(f32[1,32,40,40], const f32[32,32,3,3]; strides=[3,3])",
                           "ConvTranspose(f32[1,16,8,8,4], const f32[16,64,4,4,4]; strides=[4,4,4])"}) {
    INFO(spec);
    const std::string assembly = emit_asm(compile_model(spec, options).lowered(), options.target);
    CHECK(assembly.find("vscatter") == std::string::npos);
  }
}

TEST_CASE("panels of ragged tiles, images, batches and groups, with epilogues") {
  for (const Target& target : shared_targets())
    for (const char* spec :
         {"Conv(f32[2,3,23,19], const f32[37,3,3,3], const f32[37]; strides=[2,2], pads=[1,1,1,1])",
          "Conv(f32[1,2,11,43], const f32[21,2,5,5]; strides=[2,2], pads=[2,2,2,2])",
          "Conv(f32[2,12,13,13], const f32[42,6,3,3]; group=2, strides=[2,2])",
          "Conv(f32[1,5,131], const f32[19,5,5]; strides=[3])",
          "Conv(f32[1,40,9,300], const f32[20,40,1,1]; strides=[2,2])",
          "ConvTranspose(f32[2,16,7,9], const f32[16,33,3,3], const f32[33]; strides=[3,3])",
          "ConvTranspose(f32[1,8,5,5], const f32[8,22,2,2]; strides=[2,2])",
          "ConvTranspose(f32[1,8,3,2,5], const f32[8,20,4,2,3]; strides=[4,2,3])",
          "ConvTranspose(f32[1,16,6,7], const f32[16,9,2,2]; group=2, strides=[2,2])"})
      check_default(spec, target);
}

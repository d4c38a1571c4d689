// What the machine code of default tiles looks like: accumulators in registers.
#include <sstream>

#include "catch.h"
#include "nestor/codegen.h"
#include "tests/driver/compiled.h"

using namespace nestor;

TEST_CASE("default tiles of AVX2 keep their accumulators in registers") {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.schedules = default_schedules();
  for (const char* spec :
       {"MatMul(f32[1024,1024], const f32[1024,1024])", "MatMul(f32[1009,1009], const f32[1009,1009])",
        "Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])",
        "Conv(f32[1,64,56,56], const f32[256,64,1,1])"}) {
    INFO(spec);
    const std::string assembly = emit_asm(compile_model(spec, options).lowered(), options.target);
    std::istringstream lines(assembly);
    int fmas = 0;
    for (std::string line; std::getline(lines, line);) {
      fmas += line.find("vfmadd") != std::string::npos;
      const bool spills = line.find("%ymm") != std::string::npos && line.find("(%rsp)") != std::string::npos;
      CHECK(!spills);
    }
    CHECK(fmas >= 12);
  }
}

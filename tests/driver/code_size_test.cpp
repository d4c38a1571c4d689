// How much code LLVM is given for operators whose loop nests are long to begin with.
#include <algorithm>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/driver.h"

using namespace nestor;

TEST_CASE("Elements picked by a grid are a vector of places at a time, not a tile turned in registers") {
  for (const char* name : {"x86-64-v4", "x86-64-v3", "aarch64"})
    for (const char* shapes : {"f32[1,16,32,32], f32[1,24,24,2]", "f32[1,8,8,8,8], f32[1,6,6,6,3]"})
      for (const char* mode : {"nearest", "linear"})
        for (const char* padding : {"zeros", "border", "reflection"}) {
          CompileOptions options;
          options.target = parse_target(name);
          options.schedules = default_schedules();
          const std::string spec = std::string("GridSample(") + shapes + "; mode=\"" + mode +
                                   "\", padding_mode=\"" + padding + "\")";
          const CompiledModel m = compile_model(spec, options);
          const std::string code = emit_llvm_ir(m.lowered(), options.target);
          INFO(name << " " << spec);
          CHECK(std::count(code.begin(), code.end(), '\n') < 1500);
        }
}

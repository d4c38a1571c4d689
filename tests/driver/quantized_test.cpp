// Products of bytes with zero points of every form: what is accepted is right on the machine, what isn't is
// told.
#include "catch.h"
#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/library.h"

using namespace nestor;

TEST_CASE("zero points that are known at run time only may be scalars, of grouped convolutions too") {
  CompileOptions options;
  options.schedules = default_schedules();
  options.lowering.check = true;
  for (const char* spec : {"ConvInteger(u8[1,2,9,9], const i8[8,1,3,3], u8[]; group=2)",
                           "ConvInteger(u8[1,3,5,5], i8[0,3,3,3], u8[], i8[])",
                           "MatMulInteger(u8[2,3,4], i8[4,3], u8[2,3,1], i8[1,3])",
                           "MatMulInteger(u8[2,3,4], i8[4,5], u8[3,1], i8[5])"}) {
    INFO(spec);
    const CompiledModel m = compile_model(spec, options);
    for (const CompiledFunction& f : m.funcs)
      for (const OutputCheck& c : check_function(f, Against::lowered, options.target))
        CHECK(c.comparison.ok());
  }
}

TEST_CASE("zero points stand for rows of the first operand and columns of the second") {
  for (const char* spec :
       {"MatMulInteger(u8[3,4], i8[4,3], u8[1,3])", "MatMulInteger(u8[3,4], i8[4,3], u8[], i8[3,1])",
        "MatMulInteger(u8[2,3,4], i8[4,5], u8[6,1,1])", "MatMulInteger(u8[2,3,4], i8[4,5], u8[6])"}) {
    INFO(spec);
    CHECK_THROWS_AS(compile_model(spec, CompileOptions()), UserError);
  }
}

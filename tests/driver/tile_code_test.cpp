// Machine code of default tiles: accumulators in registers, rows at offsets from one pointer, and
// multiply-adds that are one micro-operation.
#include <regex>
#include <set>
#include <sstream>

#include "catch.h"
#include "nestor/codegen.h"
#include "tests/driver/compiled.h"

using namespace nestor;

TEST_CASE("default tiles of AVX2 keep their accumulators in registers") {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.target.l2_bytes = 1 << 20;  // holds padded copies whole
  options.target.l3_bytes = 1 << 20;  // rows are too far to come twice: no columns are dot products
  options.schedules = default_schedules();
  for (const char* spec :
       {"MatMul(f32[1024,1024], const f32[1024,1024])", "MatMul(f32[1009,1009], const f32[1009,1009])",
        "Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])",
        "Conv(f32[1,64,56,56], const f32[256,64,1,1])", "MatMul(f32[873,17], f32[17,23])"}) {
    INFO(spec);
    const std::string assembly = emit_asm(compile_model(spec, options).lowered(), options.target);
    std::istringstream lines(assembly);
    int fmas = 0;
    for (std::string line; std::getline(lines, line);) {
      fmas += line.find("vfmadd") != std::string::npos;
      const bool spills = line.find("%ymm") != std::string::npos && line.find("(%rsp)") != std::string::npos;
      CHECK(!spills);
    }
    CHECK(fmas >= 9);
  }
}

TEST_CASE("a tile's rows are offsets from one pointer, however many loops stand around it") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.schedules = default_schedules();
  options.exact_conv = options.blocked_io = true;
  for (const char* spec :
       {"Conv(f32[1,64,58,58], const f32[64,64,3,3])", "Conv(f32[2,32,30,16], const f32[32,32,3,3])"}) {
    INFO(spec);
    const std::string assembly = emit_asm(compile_model(spec, options).lowered(), options.target);
    const std::regex broadcast(R"(vbroadcastss\s+-?\d*\((%r\w+),)");
    std::set<std::string> pointers;
    int rows = 0;
    for (std::sregex_iterator i(assembly.begin(), assembly.end(), broadcast); i != std::sregex_iterator();
         ++i, ++rows)
      pointers.insert((*i)[1]);
    CHECK(rows >= 12);
    CHECK(pointers.size() == 1);
  }
}

TEST_CASE("loops of taps one behind another have no pointers that wait in memory") {
  CompileOptions options;
  options.schedules = default_schedules();
  options.exact_conv = options.blocked_io = true;
  for (const char* target : {"x86-64-v3", "x86-64-v4"})
    for (const char* spec : {"Conv(f32[1,32,8,28,28], const f32[32,32,3,3,3]; pads=[1,1,1,1,1,1])",
                             "Conv(f32[1,16,16,56,56], const f32[32,16,3,3,3]; strides=[2,2,2], "
                             "pads=[1,1,1,1,1,1])"}) {
      INFO(spec << " for " << target);
      options.target = parse_target(target);
      const std::string assembly = emit_asm(compile_model(spec, options).lowered(), options.target);
      const std::regex moved(R"(addq\s+\$-?\d+, -?\d*\(%rsp\))");
      CHECK(std::distance(std::sregex_iterator(assembly.begin(), assembly.end(), moved),
                          std::sregex_iterator()) <= 8);
    }
}

TEST_CASE("a sum of 125 places has one pointer for those at constant distances, not each one in memory") {
  CompileOptions options;
  options.schedules = default_schedules();
  for (const char* target : {"x86-64-v3", "x86-64-v4"}) {
    INFO(target);
    options.target = parse_target(target);
    const CompiledModel model = compile_model(
        "Col2Im(f32[1,750,256], const i64[3]{23,23,15}, const i64[3]{5,5,5}; strides=[2,2,2], "
        "dilations=[2,2,2])",
        options);
    const std::string assembly = emit_asm(model.lowered(), options.target);
    const std::regex in_memory(R"(\(%rsp\))");
    CHECK(std::distance(std::sregex_iterator(assembly.begin(), assembly.end(), in_memory),
                        std::sregex_iterator()) < 100);  // 540 where each had a pointer
  }
}

TEST_CASE("a multiply-add with an operand in memory reaches it by one register") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.schedules = default_schedules();
  // Weights go by the same step: a counter is there anyway.
  const char* depthwise = "Conv(f32[1,40,54,54], const f32[40,1,3,3]; group=40, pads=[1,1,1,1])";
  const std::string by_counter = emit_asm(compile_model(depthwise, options).lowered(), options.target);
  CHECK(std::regex_search(by_counter, std::regex(R"(vfmadd\w+\s+-?\d*\(%r\w+,)")));
  options.exact_conv = options.blocked_io = true;
  for (const char* spec :
       {"Conv(f32[1,62,56,56], const f32[16,62,7,7]; strides=[2,2], pads=[3,3,3,3])",
        "Conv(f32[1,64,20,20], const f32[16,64,3,3]; pads=[1,1,1,1])",
        "Conv(f32[1,128,20,20], const f32[128,16,3,3]; group=8, strides=[2,2], pads=[1,1,1,1])"}) {
    INFO(spec);
    const std::string assembly = emit_asm(compile_model(spec, options).lowered(), options.target);
    const auto count = [&](const char* operand) {
      const std::regex pattern(operand);
      return std::distance(std::sregex_iterator(assembly.begin(), assembly.end(), pattern),
                           std::sregex_iterator());
    };
    CHECK(count(R"(vfmadd\w+\s+-?\d*\(%r\w+\))") >= 8);
    CHECK(count(R"(vfmadd\w+\s+-?\d*\(%r\w+,)") == 0);
  }
}

TEST_CASE("where micro-operations are few, some rows' multiply-adds broadcast by themselves") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.schedules = default_schedules();
  options.exact_conv = options.blocked_io = true;
  for (const char* spec : {"MatMul(f32[64,64], const f32[64,64])", "MatMul(f32[512,512], const f32[512,512])",
                           "Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])"}) {
    INFO(spec);
    const auto count = [&](const char* cpu, const char* instruction) {
      options.target.cpu = cpu;
      options.target.issue_width = issue_width(options.target.triple, cpu);
      const std::string assembly = emit_asm(compile_model(spec, options).lowered(), options.target);
      const std::regex pattern(instruction);
      return std::distance(std::sregex_iterator(assembly.begin(), assembly.end(), pattern),
                           std::sregex_iterator());
    };
    const char *alone = R"(vbroadcastss\s+-?\d*\(%)", *inside = R"(vfmadd\w+\s+-?\d*\(%r\w+\)\{1to16\})";
    CHECK(count("cascadelake", inside) >= 4);
    CHECK(count("cascadelake", alone) > 0);
    CHECK(count("cascadelake", R"(vfmadd\w+\s+-?\d*\(%r\w+,)") == 0);
    // The pointer that ends the loop is moved once, also where its element isn't the first.
    CHECK(count("cascadelake", R"(cmpq\s+%r\w+, %r\w+\s+movq\s+%r\w+, %r\w+\s+jne)") == 0);
    CHECK(count("sapphirerapids", R"(\{1to16\})") == 0);
  }
  // Rows of elements that lie a line or more apart would wait for each load.
  options.target.cpu = "cascadelake";
  options.target.issue_width = 4;
  const char* spec = "Gemm(f32[256,784], const f32[256,128]; transA=1)";
  CHECK(emit_asm(compile_model(spec, options).lowered(), options.target).find("{1to16}") ==
        std::string::npos);
}

TEST_CASE("masked results that rows are added to one after the other wait in registers") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.schedules = default_schedules();
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceSumSquare"}) {
    const std::string spec =
        std::string(op) + "(f32[32,72,71], const i64[1]{1})";  // 9 times 8 rows of 64 + 7
    INFO(spec);
    const std::string assembly = emit_asm(compile_model(spec, options).lowered(), options.target);
    const std::regex store(R"(vmovups\s+%[yz]mm\d+, -?\d*\(.*\) \{%k\d\})");
    const std::sregex_iterator first(assembly.begin(), assembly.end(), store), none;
    CHECK(std::distance(first, none) >= 1);
    CHECK(std::distance(first, none) <= 3);  // at first, and for each eight rows; there were eight
    check_default(spec, options.target);
  }
}

TEST_CASE("multiply-adds add constants from memory where they can't broadcast one") {
  const auto folded = [](const std::string& spec, const std::string& target) {
    const std::string assembly =
        emit_asm(compiled(spec, parse_target(target)).lowered(), parse_target(target));
    INFO(assembly);
    const std::regex whole(R"(vfmadd213ps\s+\.Lconstants[.\d]*\(%rip\), %ymm)");
    return std::distance(std::sregex_iterator(assembly.begin(), assembly.end(), whole), {});
  };
  for (const char* spec : {"Exp(f32[300])", "Erf(f32[300])", "Gelu(f32[3,100])", "Tanh(f32[77])"}) {
    INFO(spec);
    if (spec != std::string("Exp(f32[300])"))  // its two addends stay in registers
      CHECK(folded(spec, "x86-64-v3") >= 2);
    CHECK(folded(spec, "x86-64-v4") == 0);
    check_default(spec, parse_target("x86-64-v3"));
  }
}

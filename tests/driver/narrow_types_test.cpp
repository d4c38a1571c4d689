// Products of bytes and of floats of 16 bits: by the target's instructions, in blocks of channels between
// convolutions, and right at sizes that fill neither.
#include <array>

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "tests/driver/compiled.h"

using namespace nestor;

TEST_CASE("default schedules of products of bytes, and of 16 bits") {
  const std::string scales = ", const f32[1]{0.02}, const u8[1]{3}, const i8";
  const std::string result = ", const f32[1]{0.02}, const i8[1]{0}, const f32[1]{0.5}, const u8[1]{7}";
  std::vector<std::string> specs = {
      "QLinearMatMul(u8[14,16]" + scales + "[16,32]" + result + ")",
      "QLinearConv(u8[1,8,9,9]" + scales + "[16,8,3,3]" + result + "; pads=[1,1,1,1])",
      "ConvInteger(u8[1,8,9,9], const i8[16,8,3,3]; pads=[1,1,1,1])",
      "ConvInteger(u8[2,3,11,9], const i8[20,3,3,3], const u8[1]{7}; strides=[2,2], pads=[1,1,1,1])",
      "Conv(bf16[1,12,9,9], const bf16[20,12,3,3], const bf16[20]; pads=[1,1,1,1])",
      "Conv(f16[1,12,9,9], const f16[20,12,3,3]; strides=[2,2])",
      "Gemm(bf16[7,20], const bf16[33,20], const bf16[33]; transB=1)"};
  for (const auto& [m, n, k] : std::vector<std::array<int, 3>>{{1, 16, 4},
                                                               {14, 64, 64},
                                                               {13, 1, 3},
                                                               {5, 8, 9},
                                                               {29, 33, 7},
                                                               {3, 65, 18},
                                                               {30, 13, 6},
                                                               {2, 40, 1},
                                                               {20, 97, 8},
                                                               {3, 193, 6}}) {
    const auto matrices = [&](const std::string& a, const std::string& b) {
      return "(" + a + "[" + std::to_string(m) + "," + std::to_string(k) + "], " + b + "[" +
             std::to_string(k) + "," + std::to_string(n) + "])";
    };
    for (const char* a : {"u8", "i8"})
      for (const char* b : {"const i8", "u8"}) specs.push_back("MatMulInteger" + matrices(a, b));
    for (const char* t : {"bf16", "f16"})
      for (const char* weights : {"const ", ""})
        specs.push_back("MatMul" + matrices(t, weights + std::string(t)));
  }
  for (const Target& target : shared_targets())
    for (const std::string& spec : specs) check_default(spec, target);
}

TEST_CASE("products of bytes and of bf16 are made of the target's instructions, and proved") {
  Target vnni = parse_target("x86-64-v4"), half = parse_target("x86-64-v3");
  vnni.features += ",+avx512vnni,+avx512bf16";
  half.features += ",+avxvnni";
  const auto instruction_of = [](const std::string& spec, const Target& target) {
    CompileOptions options;
    options.target = target;
    options.schedules = default_schedules();
    std::string found;
    const CompiledModel model = partition_model(load(spec, options), options);
    for (const PrimFunc& f : model.partition.funcs) {
      const Trace trace = default_schedule(f, target);
      const PrimFunc scheduled = apply(f, trace);
      INFO(print(scheduled));
      CHECK(verify_schedule(f, scheduled, {.seconds = 60}).ok());
      lower(scheduled, target);
      for (const Step& s : trace.steps)
        if (s.primitive == "tensorize") found = s.args[1];
    }
    return found;
  };
  const std::string bytes = "MatMulInteger(u8[30,67], const i8[67,50])";
  CHECK(instruction_of(bytes, vnni) == "vpdpbusd");
  CHECK(instruction_of(bytes, half) == "vpdpbusd8");
  CHECK(instruction_of(bytes, parse_target("x86-64-v4")) == "vpdpbusd");
  CHECK(instruction_of(bytes, parse_target("x86-64-v3")) == "vpdpbusd8");
  CHECK(instruction_of(bytes, parse_target("x86-64-v2")).empty());
  CHECK(instruction_of("MatMulInteger(i8[2,30,67], const u8[67,50])", vnni) == "vpdpbusd");
  CHECK(instruction_of("MatMulInteger(u8[300,67], i8[67,50])", vnni) == "vpdpbusd");
  CHECK(instruction_of("MatMulInteger(u8[3,67], i8[67,50])", vnni).empty());  // a copy wouldn't pay
  CHECK(instruction_of("ConvInteger(u8[1,3,9,9], const i8[20,3,3,3]; pads=[1,1,1,1])", vnni) == "vpdpbusd");
  CHECK(instruction_of("MatMul(bf16[30,67], const bf16[67,50])", vnni) == "vdpbf16ps");
  CHECK(instruction_of("Conv(bf16[1,8,9,9], const bf16[32,8,1,1])", vnni) == "vdpbf16ps");
  CHECK(instruction_of("MatMul(f32[30,67], const f32[67,50])", vnni).empty());
}

TEST_CASE("in blocks of channels, an instruction takes its steps from one block, as they lie") {
  Target target = parse_target("x86-64-v4");
  target.features += ",+avx512vnni,+avx512bf16";
  const auto steps = [&](const std::string& spec) {
    CompileOptions options;
    options.target = target;
    options.blocked_io = true;
    const PrimFunc f = partition_model(load(spec, options), options).partition.funcs.at(0);
    const Trace trace = default_schedule(f, target);
    CHECK(verify_schedule(f, apply(f, trace), {.seconds = 60}).ok());
    return print(trace);
  };
  for (const auto& [spec, split] : std::vector<std::array<std::string, 2>>{
           {"ConvInteger(u8[1,64,9,9], const i8[32,64,3,3]; pads=[1,1,1,1])", "split Y.cl [_, 4]"},
           {"ConvInteger(u8[1,64,14,14], const i8[48,64,1,1])", "split Y.cl [_, 4]"},
           {"ConvInteger(u8[1,64,9,9], const i8[64,16,3,3]; group=4)", "split Y.c [_, 4]"},
           {"Conv(bf16[1,32,14,14], const bf16[32,32,1,1])", "split T.cl [_, 2]"}}) {
    const std::string made = steps(spec);
    INFO(spec << "\n" << made);
    CHECK(made.find(split) != std::string::npos);
    CHECK(made.find("tensorize") != std::string::npos);
    CHECK(made.find("X_packed") == std::string::npos);
  }
  // Fewer steps are made of 20 channels, turned, than of windows 3 wide.
  CHECK(steps("Conv(bf16[1,20,30,30], const bf16[24,20,3,3])").find("split T.c [_, 2]") != std::string::npos);
}

namespace {

// Steps of the default schedule in blocks of channels, proved and lowered.
std::string proved_steps(const std::string& spec, const Target& target) {
  CompileOptions options;
  options.target = target;
  options.blocked_io = true;
  const PrimFunc f = partition_model(load(spec, options), options).partition.funcs.at(0);
  const Trace trace = default_schedule(f, target);
  const PrimFunc scheduled = apply(f, trace);
  INFO(print(trace));
  CHECK(verify_schedule(f, scheduled, {.seconds = 60}).ok());
  lower(scheduled, target);
  return print(trace);
}

bool has(const std::string& steps, const std::string& step) {
  return steps.find(step) != std::string::npos;
}

}  // namespace

TEST_CASE("an instruction's lanes are those beside each other in the output, however many blocks there are") {
  Target target = parse_target("x86-64-v4");
  target.features += ",+avx512vnni";
  for (const char* filters : {"256", "512"})  // 16 and 32 blocks of 16
    CHECK(
        has(proved_steps("ConvInteger(u8[1,64,7,7], const i8[" + std::string(filters) + ",64,1,1])", target),
            "tensorize Y.ol vpdpbusd"));
}

TEST_CASE("a narrow core writes out an instruction's few steps between taps, and pairs those of a product") {
  Target target = parse_target("x86-64-v4");
  target.features += ",+avx512vnni,+avx512bf16";
  const std::string window = "ConvInteger(u8[1,64,9,9], const i8[64,64,3,3]; pads=[1,1,1,1])";
  CHECK_FALSE(has(proved_steps(window, target), "unroll Y.cl0"));
  target.issue_width = 4;
  CHECK(has(proved_steps(window, target), "unroll Y.cl0"));
  // Not the taps themselves, where these are innermost: what neighbours read alike would fill the registers.
  CHECK_FALSE(has(proved_steps("ConvInteger(u8[1,61,9,9], const i8[10,61,3,3])", target), "unroll Y.s"));
  CHECK_FALSE(has(proved_steps("ConvInteger(u8[1,64,7,7], const i8[256,64,1,1])", target), "unroll Y.cl0"));
  CHECK_FALSE(has(proved_steps("Conv(bf16[1,32,14,14], const bf16[32,32,1,1])", target), "unroll T.cl0"));
  CHECK(has(proved_steps("MatMulInteger(u8[64,512], const i8[512,64])", target), "unroll Y.k0s"));
  CHECK(has(proved_steps("MatMulInteger(u8[64,511], const i8[511,64])", target), "tensorize"));
}

TEST_CASE("terms of a padding are left out where elements are widened, too") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.blocked_io = options.exact_conv = true;
  for (const char* spec : {"Conv(bf16[1,64,9,9], const bf16[64,64,3,3]; pads=[1,1,1,1])",
                           "Conv(f16[1,64,9,9], const f16[64,64,3,3]; pads=[1,1,1,1])"}) {
    const PrimFunc f = partition_model(load(spec, options), options).partition.funcs.back();
    const Trace trace = default_schedule(f, options.target);
    INFO(print(trace));
    CHECK(print(trace).find("skip_zeros") != std::string::npos);
    CHECK(verify_schedule(f, apply(f, trace), {.seconds = 60}).ok());
  }
}

TEST_CASE("default schedules of narrow types with channels in blocks") {
  const std::string scales = ", const f32[1]{0.02}, const u8[1]{3}, const i8";
  const std::string result = ", const f32[1]{0.02}, const i8[1]{0}, const f32[1]{0.5}, const u8[1]{7}";
  for (const Target& target : shared_targets())
    for (const std::string& spec :
         {std::string("ConvInteger(u8[1,32,9,9], const i8[48,32,3,3]; pads=[1,1,1,1])"),
          std::string("ConvInteger(i8[2,16,7,5], const i8[32,16,1,1])"),
          std::string("ConvInteger(u8[1,64,9,9], const i8[64,16,3,3]; group=4, strides=[2,2])"),
          std::string("Conv(bf16[1,16,9,9], const bf16[32,16,3,3], const bf16[32]; pads=[1,1,1,1])"),
          std::string("Conv(f16[1,16,9,9], const f16[16,16,3,3])"),
          "QLinearConv(u8[1,16,9,9]" + scales + "[32,16,3,3]" + result + "; pads=[1,1,1,1])"})
      check_default(spec, target, true);
}

// Tensorized blocks through the machine: they compute what their loops mean, and by the instruction.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <regex>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/instruction.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

// Bytes of all values; f32 in small steps, so that sums are exact.
std::vector<Tensor> arguments(const PrimFunc& f) {
  std::mt19937_64 rng(11);
  std::vector<Tensor> args = random_args(f, 3);
  for (Tensor& t : args)
    for (int64_t i = 0; i < t.size(); ++i) {
      const auto v = static_cast<int64_t>(rng() % 256);
      if (is_float(t.dtype()))
        t.set(i, static_cast<double>(v - 128) / 8);
      else
        t.set_int(i, t.dtype() == DType::u8 ? v : v - 128);
    }
  return args;
}

struct Run {
  std::string lowered, assembly, difference;
};

const std::string kFile = std::string(NESTOR_SOURCE_DIR) + "/tests/driver/own.sched";

Run run(const std::string& text, const std::string& schedule, const Target& target = host_target(),
        const std::string& file = kFile) {
  const PrimFunc before = parse_func(text), after = apply(before, parse_trace(schedule, file));
  LowerOptions options;
  options.check = true;
  const PrimFunc lowered = lower(after, target, options);
  std::vector<Tensor> expected = arguments(before), got;
  for (size_t p = 0; p < expected.size(); ++p) got.push_back(pack(expected[p].clone(), after.params[p].decl));
  interpret(before, expected);
  std::vector<Tensor> meant = arguments(before);
  interpret(after, meant);  // the schedule's own meaning
  const auto module = JitModule::compile({lowered}, target);
  std::vector<void*> pointers;
  for (Tensor& t : got) pointers.push_back(t.data());
  Tensor workspace(DType::u8, {workspace_bytes(lowered, 1) + 64});
  CHECK(module->lookup(lowered.name)(pointers.data(), workspace.data(), nullptr) == 0);
  Run r{print(lowered), emit_asm({lowered}, target), ""};
  const size_t out = expected.size() - 1;
  for (int64_t i = 0; i < expected[out].size() && r.difference.empty(); ++i)
    if (expected[out].get(i) != got[out].get(i) || expected[out].get(i) != meant[out].get(i))
      r.difference = "element " + std::to_string(i) + " is " + std::to_string(got[out].get(i)) +
                     " instead of " + std::to_string(expected[out].get(i));
  return r;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

bool has(const std::string& instruction) {
  for (const InstructionLowering& l : find_instruction(instruction)->lowerings)
    if (meets(host_target(), l)) return true;
  WARN("SKIPPED: this machine has no " << instruction);
  return false;
}

const char* const kBytes = R"(func mm(in A: u8[64,64], const B: i8[64,64], out T: i32[64,64]) {
  for i in 64, j in 64, k in 64 {
    block T(vi: S 64 = i, vj: S 64 = j, vk: R 64 = k) {
      init { T[vi,vj] = 5i32 }
      T[vi,vj] += i32(A[vi,vk]) * i32(B[vk,vj])
    }
  }
}
)";

const char* const kFloats = R"(func mm(in A: f32[12,20], in B: f32[20,32], out T: f32[12,32]) {
  for i in 12, j in 32, k in 20 {
    block T(vi: S 12 = i, vj: S 32 = j, vk: R 20 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
}
)";

const std::string kOwn = "from=\"dot4.nest\"";  // beside kFile

}  // namespace

TEST_CASE("an int8 product of 64x64x64 by VNNI is bit for bit what its loops mean") {
  if (!has("vpdpbusd")) return;
  const Run r = run(kBytes, R"(
    transform_layout B (k, j) -> (k/4, j/16, j%16, k%4)
    i0 i1 = split T.i [_, 4]
    j0 j1 = split T.j [_, 16]
    k0 k1 = split T.k [_, 4]
    reorder T (i0 j0 k0 i1 j1 k1)
    C = cache_write T local
    reverse_compute_at C T.j0
    vectorize C.j
    unroll C.i
    decompose_reduction T.k0
    vectorize T_init.j1
    unroll T_init.i1
    tensorize T.j1 vpdpbusd
    unroll T_o.i1
    parallel T_o.i0)");
  INFO(r.lowered << r.assembly);
  CHECK(r.difference == "");
  CHECK(count(r.assembly, "vpdpbusd") == 4);  // the register tile's rows
  CHECK(count(r.assembly, "gather") == 0);
  CHECK_FALSE(
      std::regex_search(r.assembly, std::regex("vpdpbusd\\S*\\s+[^\\n]*rsp")));  // sums stay in registers
}

TEST_CASE("without VNNI a few instructions, which a text defines, give the same sums") {
  for (const auto& [name, lanes, callee] :
       {std::tuple{"x86-64-v3", "8", "vpdpbusd8"}, {"x86-64-v4", "16", "vpdpbusd"}}) {
    const Target target = parse_target(name);
    if (!runs_here(target)) {
      WARN("SKIPPED: this machine can't run " << name);
      continue;
    }
    const Run r = run(kBytes,
                      fmt::format(R"(
    transform_layout B (k, j) -> (k/4, j/{0}, j%{0}, k%4)
    i0 i1 = split T.i [_, 4]
    j0 j1 = split T.j [_, {0}]
    k0 k1 = split T.k [_, 4]
    reorder T (i0 j0 k0 i1 j1 k1)
    decompose_reduction T.k0
    tensorize T.j1 {1})",
                                  lanes, callee),
                      target);
    INFO(r.lowered << r.assembly);
    CHECK(r.difference == "");  // 2 * 255 * 127 doesn't saturate
    CHECK(count(r.assembly, "vpmaddwd") >= 2);
    CHECK(count(r.assembly, "nestor_dot4") == 0);  // inlined
    CHECK(default_has("MatMulInteger(u8[48,96], const i8[96,64])", std::string(callee) + "\n", target));
    check_default("MatMulInteger(u8[37,70], const i8[70,50])", target);
    check_default("MatMulInteger(u8[1,64], const i8[64,300])",
                  target);  // one row: no more than a few vectors
    // A group that is never full costs as much as a full one.
    CHECK_FALSE(
        default_has("ConvInteger(u8[1,3,9,9], const i8[20,3,3,3])", std::string(callee) + "\n", target));
  }
}

TEST_CASE("a text that defines nothing to call is an error of its writer") {
  const auto error = [](const std::string& name, const std::string& ir) -> std::string {
    const std::string path = "text_" + name + ".nest";
    const std::unique_ptr<const std::string, void (*)(const std::string*)> removed(
        &path, [](const std::string* p) { std::filesystem::remove(*p); });
    std::ofstream(path)
        << "func " << name << R"((in A: f32[1], in B: f32[8], out C: f32[8]) {
  for j in 8 {
    block C(vj: S 8 = j) {
      C[vj] += A[0] * B[vj]
    }
  }
}
lower )" << name
        << " for llvm {\n  call \"my_" << name
        << "\" (A, B, C)\n  A[1] = (r) -> (r)\n  B[8] = (r) -> (r)\n  C[8] = (r) -> (r)\n  text {{{\n"
        << ir << "\n}}}\n}\n";
    try {
      run(kFloats,
          "j0 j1 = split T.j [_, 8]\n reorder T (i j0 k j1)\n decompose_reduction T.k\n tensorize T.j1 " +
              name + " from=\"" + path + "\"",
          host_target(), "in this folder");
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  CHECK_THAT(error("broken", "define nonsense"),
             Catch::Contains("the text of the instruction my_broken, line 1: "));
  const std::string head = "define <8 x float> @my_";
  const std::string args = "(<8 x float> %a, <8 x float> %b, <8 x float> %c) {\n";
  CHECK_THAT(error("untyped", head + "untyped" + args + "  ret float 0.0\n}"),
             Catch::Contains("the text of the instruction my_untyped"));
  CHECK_THAT(error("narrow", "define float @my_narrow" + args + "  ret float 0.0\n}"),
             Catch::Contains("my_narrow gives 32 bits, and 256 are wanted"));
  CHECK(error("helped", "define <8 x float> @mm(<8 x float> %x) {\n  ret <8 x float> %x\n}\n" + head +
                            "helped" + args + R"(  %p = fmul <8 x float> %a, %b
  %s = fadd <8 x float> %c, %p
  %r = call <8 x float> @mm(<8 x float> %s)
  ret <8 x float> %r
})") == "");  // `mm` is the kernel's name too
  CHECK_THAT(error("strange", "declare void @nowhere()\n" + head + "strange" + args +
                                  "  call void @nowhere()\n  ret <8 x float> %a\n}"),
             Catch::Contains("calls @nowhere, which it doesn't define"));
  CHECK_THAT(
      error("again", head + "again" + args +
                         "  %r = call <8 x float> @my_again(<8 x float> %a, <8 x float> %b, <8 x float> "
                         "%c)\n  ret <8 x float> %r\n}"),
      Catch::Contains("calls itself"));
  CHECK(error("hidden",
              "define internal <8 x float> @my_hidden(<8 x float> %a, <8 x float> %b, <8 x float> %c) "
              "noinline {\n  %r = call <8 x float> @llvm.fma.v8f32(<8 x float> %a, <8 x float> %b, <8 x "
              "float> %c)\n  ret <8 x float> %r\n}\ndeclare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 "
              "x float>, <8 x float>)") == "");
  CHECK_THAT(error("other", "declare void @other()"),
             Catch::Contains("the text of the instruction my_other doesn't define it"));
}

TEST_CASE("operands that don't lie dense are gathered, and still right") {
  if (!has("vpdpbusd")) return;
  const Run r = run(kBytes, R"(
    j0 j1 = split T.j [_, 16]
    k0 k1 = split T.k [_, 4]
    reorder T (i j0 k0 j1 k1)
    decompose_reduction T.k0
    tensorize T.j1 vpdpbusd)");
  INFO(r.lowered);
  CHECK(r.difference == "");
  CHECK(count(r.assembly, "vpdpbusd") == 1);
}

TEST_CASE("sizes that don't divide are padded, then tensorized") {
  if (!has("vpdpbusd")) return;
  std::string text = kBytes;
  for (const auto& [from, to] : {std::pair{"[64,64], const", "[5,10], const"},
                                 {"i8[64,64]", "i8[10,20]"},
                                 {"i32[64,64]", "i32[5,20]"},
                                 {"i in 64, j in 64, k in 64", "i in 5, j in 20, k in 10"},
                                 {"S 64 = i", "S 5 = i"},
                                 {"S 64 = j", "S 20 = j"},
                                 {"R 64 = k", "R 10 = k"}})
    text.replace(text.find(from), std::string(from).size(), to);
  const Run r = run(text, R"(
    pad_einsum T [1, 16, 4]
    transform_layout B_pad (k, j) -> (k/4, j/16, j%16, k%4)
    j0 j1 = split T.j [_, 16]
    k0 k1 = split T.k [_, 4]
    reorder T (i j0 k0 j1 k1)
    decompose_reduction T.k0
    tensorize T.j1 vpdpbusd)");
  INFO(r.lowered);
  CHECK(r.difference == "");
  CHECK(count(r.assembly, "vpdpbusd") == 1);
}

TEST_CASE("a last tile that hangs over reads and writes nothing outside") {
  if (!has("vpdpbusd")) return;
  for (const char* step : {"transform_layout B (k, j) -> (k/4, j/16, j%16, k%4)\n", ""})  // padded, or not
    for (const auto& [j, k] : {std::pair{"20", "10"}, {"33", "5"}, {"24", "7"}, {"13", "8"}}) {
      std::string text = kBytes;
      for (const auto& [from, to] : {std::pair{"[64,64], const", "[5,K], const"},
                                     {"i8[64,64]", "i8[K,J]"},
                                     {"i32[64,64]", "i32[5,J]"},
                                     {"i in 64, j in 64, k in 64", "i in 5, j in J, k in K"},
                                     {"S 64 = i", "S 5 = i"},
                                     {"S 64 = j", "S J = j"},
                                     {"R 64 = k", "R K = k"}})
        text.replace(text.find(from), std::string(from).size(), to);
      text = std::regex_replace(std::regex_replace(text, std::regex("\\bJ\\b"), j), std::regex("\\bK\\b"), k);
      const Run r = run(text, step + std::string(R"(j0 j1 = split T.j [_, 16]
    k0 k1 = split T.k [_, 4] tail=peel
    reorder T (j0 k0 i j1 k1)
    decompose_reduction T.k0
    tensorize T.j1 vpdpbusd)"));
      INFO(text << r.lowered);
      CHECK(r.difference == "");
      CHECK(count(r.assembly, "vpdpbusd") >= 1);
    }
}

TEST_CASE("what hangs over the end of a reduction must add nothing") {
  PrimFunc f = parse_func(R"(func mm(in A: f32[12,18], in B: f32[18,32], out T: f32[12,32]) {
  for i in 12, j in 32, k in 18 {
    block T(vi: S 12 = i, vj: S 32 = j, vk: R 18 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += A[vi,vk] + B[vk,vj]
    }
  }
}
)");
  f = apply(f, parse_trace(R"(
    j0 j1 = split T.j [_, 8]
    k0 k1 = split T.k [_, 4]
    reorder T (i j0 k0 j1 k1)
    decompose_reduction T.k0)"));
  CHECK_THROWS_WITH(apply(f, parse_trace("tensorize T.j1 sums4 " + kOwn, kFile)),
                    Catch::Contains("the last tile is partial") &&
                        Catch::Contains("the instruction isn't a sum of products"));
}

TEST_CASE("an outer product of f32 by rows") {
  if (!has("fma_row16")) return;
  const Run r = run(kFloats, R"(
    j0 j1 = split T.j [_, 16]
    reorder T (i j0 k j1)
    decompose_reduction T.k
    tensorize T.j1 fma_row16)");
  INFO(r.lowered);
  CHECK(r.difference == "");
  CHECK(count(r.assembly, "vfmadd") >= 1);
}

TEST_CASE("a user's own instructions: an expansion, and LLVM's intrinsic by name") {
  const Run expanded = run(kFloats, R"(
    j0 j1 = split T.j [_, 8]
    k0 k1 = split T.k [_, 4]
    reorder T (i j0 k0 k1 j1)
    decompose_reduction T.k0
    tensorize T.k1 dot4 )" + kOwn);
  INFO(expanded.lowered);
  CHECK(expanded.difference == "");
  CHECK(count(expanded.lowered, "fma(") == 4);  // the four terms, side by side
  const Run row = run(kFloats, R"(
    j0 j1 = split T.j [_, 8]
    reorder T (i j0 k j1)
    decompose_reduction T.k
    tensorize T.j1 row8 )" + kOwn);
  INFO(row.lowered);
  CHECK(row.difference == "");
  CHECK(count(row.lowered, "llvm.fma.v8f32") == 1);
}

TEST_CASE("loops around a tile may have any name") {
  if (!has("fma_row16")) return;
  const Run run_r = run(kFloats, R"(
    r lane = split T.j [_, 16]
    reorder T (i r k lane)
    decompose_reduction T.k
    tensorize T.lane fma_row16)");
  CHECK(run_r.difference == "");
}

TEST_CASE("beside the lowered function interpreted, an instruction is what its block says") {
  if (!has("fma_row16")) return;
  ScheduleChoice choice;
  choice.trace = parse_trace(R"(
    j0 j1 = split T.j [_, 16]
    reorder T (i j0 k j1)
    decompose_reduction T.k
    tensorize T.j1 fma_row16)");
  const CompiledFunction f = compile_function(parse_func(kFloats), choice, host_target());
  for (const OutputCheck& c : check_function(f, Against::lowered, host_target(), 1)) CHECK(c.comparison.ok());
}

TEST_CASE("what a target can't do is said, with what it can") {
  const PrimFunc f = apply(parse_func(kBytes), parse_trace(R"(
    j0 j1 = split T.j [_, 16]
    k0 k1 = split T.k [_, 4]
    reorder T (i j0 k0 j1 k1)
    decompose_reduction T.k0
    tensorize T.j1 vpdpbusd)"));
  CHECK_THROWS_WITH(lower(f, parse_target("x86-64-v3")),
                    Catch::Contains("`vpdpbusd` can't be used for x86-64-v3") &&
                        Catch::Contains("it needs avx512vnni, avx512bw") && Catch::Contains("vpdpbusd8"));
  CHECK_THROWS_WITH(lower(f, parse_target("cuda:sm_90")),
                    Catch::Contains("it is a CPU's") && Catch::Contains("mma_m16n8k16"));
  // What was changed inside afterwards is no longer the instruction.
  const PrimFunc changed = apply(f, parse_trace("split T.j1 [_, 8]"));
  CHECK_THROWS_WITH(lower(changed, host_target()),
                    Catch::Contains("no longer is: the instruction has 2 loops"));
}

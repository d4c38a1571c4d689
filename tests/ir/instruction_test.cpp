// Files of instructions: what is read, and how each mistake is shown.
#include "nestor/instruction.h"

#include <fstream>

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "tests/own_file.h"

using namespace nestor;

namespace {

const std::string kMeaning = R"(func dot(in A: u8[4], in B: i8[2,4], out C: i32[2]) {
  for j in 2, k in 4 {
    block C(vj: S 2 = j, vk: R 4 = k) {
      C[vj] += i32(A[vk]) * i32(B[vj,vk])
    }
  }
}
)";

std::string error_of(const std::string& lines) {
  try {
    parse_instructions(kMeaning + lines, "my.nest");
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

std::string lowering(const std::string& line) {
  return "lower dot for llvm needs avx512vnni {\n  call \"x\" (C, A, B)\n  A[4] = (r) -> (r)\n  " + line +
         "\n  C[2] = (r) -> (r)\n}\n";
}

}  // namespace

TEST_CASE("an instruction is its meaning and its lowerings") {
  const auto all =
      parse_instructions("# one\n" + kMeaning + lowering("B[8] = (r) -> (r/4, r%4)  # dense"), "my.nest");
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "dot");
  CHECK(all[0].loops().size() == 2);
  CHECK(all[0].out() == 2);
  REQUIRE(all[0].lowerings.size() == 1);
  const InstructionLowering& l = all[0].lowerings[0];
  CHECK(l.callee == "x");
  CHECK(l.needs == std::vector<std::string>{"avx512vnni"});
  CHECK(l.operands.size() == 3);
  CHECK(l.fragments[1].places == 8);
}

TEST_CASE("each mistake in a lowering is shown where it stands") {
  CHECK(error_of(lowering("B[8] = (r) -> (r/4, r%4)")) == "");
  CHECK_THAT(error_of(lowering("B[8] = (r) -> (r/4, r%8)")),
             Catch::Contains("my.nest:11:3: error: place 4 is outside of B: index 4 in dimension 1") &&
                 Catch::Contains("    B[8] = (r) -> (r/4, r%8)\n    ^"));
  CHECK_THAT(error_of(lowering("B[4] = (r) -> (r/4, r%4)")),
             Catch::Contains("4 of the 8 elements of B are in a register"));
  CHECK_THAT(error_of(lowering("B[8] = (r) -> (r/4)")),
             Catch::Contains("B has 2 dimensions, here are 1 indices"));
  CHECK_THAT(error_of(lowering("B[8] = (t, r) -> (r/4, r%4)")),
             Catch::Contains("the places of one thread are (r)"));
  CHECK_THAT(error_of(lowering("B[8] = (r) -> (r/4, q%4)")),
             Catch::Contains("`q%4`: ") || Catch::Contains("` q%4`: "));
  CHECK_THAT(error_of(lowering("D[8] = (r) -> (r/4, r%4)")), Catch::Contains("`D` isn't a parameter of dot"));
  CHECK_THAT(error_of(lowering("A[4] = (r) -> (r)")), Catch::Contains("`A` occurs twice"));
  CHECK_THAT(error_of(lowering("")), Catch::Contains("nothing says where B lies"));
  CHECK_THAT(
      error_of("lower dott for llvm {\n}\n"),
      Catch::Contains("no function `dott` precedes its lowering") && Catch::Contains("did you mean `dot`?"));
  CHECK_THAT(error_of("lower dot for arm {\n}\n"),
             Catch::Contains("my.nest:8:15: error: expected llvm or cuda"));
  CHECK_THAT(error_of("lower dot for cuda needs sm_80 {\n  threads 64\n}\n"),
             Catch::Contains("`threads 32`, a warp"));
  CHECK_THAT(error_of(lowering("registers 99999999999999999999")),
             Catch::Contains("too large for a number of registers"));
  CHECK_THAT(error_of(lowering("registers 0")),
             Catch::Contains("`registers` of an operand, for llvm, is 1 or more"));
  CHECK_THAT(error_of("lower dot for llvm {\n  call \"llvm.x\" (C)\n  text {{{\n}\n}}}\n}\n"),
             Catch::Contains("`llvm.x` is LLVM's own; a function that a text defines has another name"));
  CHECK_THAT(error_of("lower dot for llvm {\n  call f (C)\n}\n"),
             Catch::Contains("expected a name in quotes"));
  CHECK_THAT(error_of("lower dot for llvm {\n"), Catch::Contains("a lowering has no end"));
  CHECK_THAT(error_of("nonsense\n"), Catch::Contains("my.nest:8:1: error: expected `func` or `lower`"));
  CHECK_THAT(error_of(kMeaning), Catch::Contains("`dot` occurs twice"));
}

TEST_CASE("a function that is no tile is no instruction") {
  const auto error = [](const std::string& text) -> std::string {
    try {
      parse_instructions(text, "my.nest");
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kMeaning;
    return text.replace(text.find(from), from.size(), to);
  };
  CHECK_THAT(error(with("C[vj] += ", "init { C[vj] = 0i32 }\n      C[vj] += ")),
             Catch::Contains("has an init"));
  CHECK_THAT(error(with("A[vk]", "A[3-vk]")), Catch::Contains("A is accessed at something other"));
  CHECK_THAT(error(with("A: u8[4]", "A: u8[8]")),
             Catch::Contains("an index of A doesn't run over the whole dimension"));
  CHECK_THAT(error(with("in A", "out A")), Catch::Contains("2 `out` parameters"));
  CHECK_THAT(error(with("in A", "in Unused: f32[2], in A")),
             Catch::Contains("nothing reads its parameter Unused"));
  CHECK_THAT(error(with("= k)", "= 3-k)")), Catch::Contains("iterator vk isn't bound to loop k"));
}

TEST_CASE("the built-in instructions are read") {
  for (const char* name : {"vpdpbusd", "fma_row16", "mma_m16n8k16"}) {
    REQUIRE(find_instruction(name));
    CHECK_FALSE(find_instruction(name)->lowerings.empty());
  }
}

TEST_CASE("what is called has one text, whoever calls it") {
  std::string text = kMeaning + lowering("B[8] = (r) -> (r/4, r%4)\n  text {{{\n; nothing\n}}}");
  text.replace(text.find("\"x\""), 3, "\"nestor_dot4_256\"");
  const std::string path = own_file("another_text.nest");
  std::ofstream(path) << text;
  CHECK_THROWS_WITH(read_instructions(path),
                    Catch::Contains("another_text.nest:8:1: error: `nestor_dot4_256` has a text already"));
}

TEST_CASE("a call of an instruction prints and parses") {
  const std::string text =
      "func f(in A: i32[16], out C: i32[16]) {\n"
      "  C[ramp(0, 1, 16)] = instruction(\"llvm.x86.some\", i32x16, A[ramp(0, 1, 16)], 3)\n"
      "  instruction(\"mma\", i32, A[0])\n}\n";
  CHECK(print(parse_func(text)) == text);
}

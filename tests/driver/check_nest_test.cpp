// What is wrong with a function that was read from text is said when it is read.
#include <fstream>

#include "catch.h"
#include "nestor/driver.h"
#include "nestor/nest_file.h"
#include "nestor/parse.h"
#include "nestor/walk.h"
#include "tests/own_file.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Reading {
  std::string error, notes;
};

Reading read(const std::string& text) {
  const std::string path = own_file("check_nest.nest");
  std::ofstream(path) << text;
  Reading out;
  CompileOptions options;
  options.note = [&](const std::string& note) { out.notes += note; };
  try {
    load(path, options);
  } catch (const UserError& e) {
    out.error = e.what();
  }
  return out;
}

std::string one_block(const std::string& block, const std::string& loop = "for i in 4") {
  return "func f(in X: f32[4], in I: i64[4], out Y: f32[4]) {\n  " + loop + " {\n    block B" + block +
         "\n  }\n}\n";
}

void refused(const std::string& text, const std::vector<std::string>& says) {
  const Reading r = read(text);
  INFO(text);
  for (const std::string& s : says) CHECK_THAT(r.error, ContainsSubstring(s));
}

void accepted(const std::string& text) {
  const Reading r = read(text);
  INFO(text);
  CHECK(r.error == "");
  CHECK(r.notes == "");
}

}  // namespace

TEST_CASE("Accesses outside of a buffer are refused with an instance and its element") {
  refused(one_block("(v: S 4 = i) { Y[v] = X[v+1] }"),
          {"block B reads outside of X", "block B at i=3 reads X[4], and X is [4]", "X[v+1]\n", "^~~"});
  refused(one_block("(v: S 4 = i) { Y[v+100000000] = X[v] }"),
          {"block B writes outside of Y", "Y[100000000]"});
  refused(one_block("(v: S 4 = i) { Y[v] = X[v*4611686018427387904] }"), {"reads outside of X", "at i=1"});
  refused(one_block("(v: S 4 = i) { Y[v] = if v < 3 then X[v+2] else 0.0f32 }"), {"at i=2 reads X[4]"});
  accepted(one_block("(v: S 4 = i) { Y[v] = if v < 3 then X[v+1] else 0.0f32 }"));
  refused(R"(func stencil(in X: f32[1026,1026], out Y: f32[1024,1024]) {
  for i in 1024, j in 1024 {
    block Y(vi: S 1024 = i, vj: S 1024 = j) { Y[vi,vj] = X[vi+1,vj+1] + X[vi+3,vj+1] }
  }
})",
          {"block Y at i=1023,j=0 reads X[1026,1], and X is [1026,1026]"});
}

TEST_CASE("Elements of outputs that nothing writes are refused") {
  refused(one_block("(v: S 4 = i) { Y[v] = X[v] }", "for i in 0"),
          {"elements of Y are left unwritten", "nothing writes Y[0]"});
  refused(one_block("(v: S 4 = i) { Y[v] = X[v] }", "for i in 3"), {"nothing writes Y[3]"});
  refused(one_block("(v: S 4 = i) where v < 2 { Y[v] = X[v] }"), {"nothing writes Y[2]"});
  refused("func f(in X: f32[4], out Y: f32[4]) { }", {"nothing writes Y[0]"});
  refused(one_block("(v: S 4 = i) { X[v] = 1.0f32 }"), {"parameter `X` is written, but is not `out`"});
  refused(
      R"(func f(in X: f32[4], out Y: f32[4]) {
  alloc T: f32[4]
  for i in 3 { block T(v: S 3 = i) { T[v] = X[v] } }
  for i in 4 { block Y(v: S 4 = i) { Y[v] = T[v] } }
})",
      {"Y reads elements of T that nothing has written before", "at i=3 reads T[3], which nothing writes"});
}

TEST_CASE("Parallel loops that race are refused") {
  const std::string sum =
      "func f(in X: f32[4], out Y: f32[1]) {\n  parallel i in 4 {\n    block B(v: S 1 = 0, r: R 4 = i) {\n"
      "      init { Y[v] = 0.0f32 }\n      Y[v] += X[r]\n    }\n  }\n}\n";
  refused(sum, {"two iterations of the parallel loop i access the same element of Y"});
  refused(one_block("(v: S 4 = i, w: S 2 = j) { Y[v] = X[v] }", "parallel i in 4, j in 2"),
          {"two iterations of the parallel loop j",
           "block B at i=0,j=0 writes Y[0], block B at i=0,j=1 writes it"});
  accepted(one_block("(v: S 4 = i) { Y[v] = X[v] }", "parallel i in 4"));
}

TEST_CASE("What depends on data is taken where it is kept inside, and said where it isn't") {
  const Reading r = read(one_block("(v: S 4 = i) { Y[v] = X[I[v]] }"));
  CHECK(r.error == "");
  CHECK_THAT(r.notes, ContainsSubstring("block B reads X at I[v]") && ContainsSubstring("hint: clamp"));
  accepted(one_block("(v: S 4 = i) { Y[v] = X[min(max(I[v],0),3)] }"));
  accepted(one_block("(v: S 4 = i) { Y[v] = if 0 <= I[v] && I[v] < 4 then X[I[v]] else 0.0f32 }"));
  accepted(one_block("(v: S 4 = i) { Y[v] = let k = min(max(I[v],0),3) in X[k] }"));
}

TEST_CASE("What the proof has no terms for is interpreted, and that is said") {
  const std::string scatter =
      "func f(in X: f32[4], in I: i64[4], out Y: f32[5]) {\n"
      "  for i in 5 { block Z(v: S 5 = i) { Y[v] = 0.0f32 } }\n"
      "  for i in 4 { block Y(v: R 4 = i) { Y[min(max(I[v],0),%)] = X[v] } }\n}\n";
  const auto with = [&](const std::string& last) {
    std::string text = scatter;
    return text.replace(text.find('%'), 1, last);
  };
  const Reading fine = read(with("4"));
  CHECK(fine.error == "");
  CHECK_THAT(fine.notes, ContainsSubstring("isn't linear") && ContainsSubstring("interpreter found nothing"));
  refused(
      "func f(in X: f32[16], out Y: f32[4]) {\n  for i in 4, j in 4 { block Y(v: S 4 = i, w: S 4 = j) { "
      "Y[v] = X[v*w+7] } }\n}\n",
      {"index 16 in dimension 0 is outside of X[16]"});
  refused(
      "func f(in X: f32[16], out Y: f32[5]) {\n  for i in 4, j in 4 { block Y(v: S 4 = i, w: S 4 = j) { "
      "Y[v] = X[v*w] } }\n}\n",
      {"nothing writes Y[4]"});
}

TEST_CASE("An operator from a file is checked at the sizes that a node has") {
  const std::string path = own_file("shift_by_two.nest");
  std::ofstream(path)
      << "func ShiftByTwo[N](in X: f32[N], out Y: f32[N-2]) {\n  for i in N-2 {\n    block Y(v: S N-2 "
         "= i) { Y[v] = X[v+2] + X[6] }\n  }\n}\n";
  register_nest_file(path, [&](const PrimFunc& f) { check_nest(f, path); });
  CHECK_NOTHROW(partition_model(load("ShiftByTwo(f32[8])"), {}));
  CHECK_THROWS_WITH(
      partition_model(load("ShiftByTwo(f32[5])"), {}),
      ContainsSubstring("block Y reads outside of X") && ContainsSubstring("reads X[6], and X is [5]"));
}

TEST_CASE("Instructions and vectors of a lowered function are said not to be proved") {
  const Reading r = read(one_block("(v: S 4 = i) { Y[v] = instruction(\"llvm.sqrt\", f32, X[v]) }"));
  CHECK(r.error == "");
  accepted(one_block("(v: S 4 = i) { Y[v] = X[3-v] }"));
  refused("func f(in X: f32[16], out Y: f32[16]) {\n  Y[ramp(1, 1, 16)] = X[ramp(0, 1, 16)]\n}\n",
          {"index 16 in dimension 0 is outside of Y[16]"});
}

namespace {

// A function without blocks, as lowering leaves it: statements read what others, or they themselves at
// another iteration, have written.
std::string bare(const std::string& statements, const std::string& params) {
  return "func f(" + params + ") {\n" + statements + "\n}\n";
}
const std::string kRow = "in X: f32[8], out Y: f32[8]", kSquare = "in X: f32[6,6], out Y: f32[6,6]";

}  // namespace

TEST_CASE("Recurrences outside of blocks are proved by the order of their instances") {
  // Forward, backward, with a stride, in tiles.
  accepted(bare("Y[0] = X[0] for i in 7 { Y[i+1] = Y[i] + X[i+1] }", kRow));
  accepted(bare("for i in 8 { Y[i] = if i == 0 then X[0] else Y[i-1] + X[i] }", kRow));
  accepted(bare("for i in 8 { if i == 0 { Y[i] = X[i] } else { Y[i] = Y[i-1] + X[i] } }", kRow));
  accepted(bare("Y[7] = X[7] for i in 7 { Y[6-i] = Y[7-i] + X[6-i] }", kRow));
  accepted(bare("for i in 2 { Y[i] = X[i] } for i in 3, j in 2 { Y[2*i+j+2] = Y[2*i+j] + X[i] }", kRow));
  accepted(
      bare("for i in 4 { Y[2*i] = if i == 0 then X[0] else Y[2*i-2] + X[2*i] Y[2*i+1] = Y[2*i] }", kRow));
  accepted(
      bare("for b in 2, i in 4 { Y[b*4+i] = if b*4+i == 0 then X[0] else Y[b*4+i-1] + X[b*4+i] }", kRow));
  accepted(bare("for i in 8 { Y[i/4*4+3-i%4] = if i < 4 then X[i] else Y[3-i%4] + X[i] }", kRow));
  // Along one axis, along the other one, along both.
  accepted(bare("for i in 6 { Y[i,0] = X[i,0] for j in 5 { Y[i,j+1] = Y[i,j] + X[i,j+1] } }", kSquare));
  accepted(bare("for i in 6, j in 6 { Y[i,j] = if i == 0 then X[i,j] else Y[i-1,j] + X[i,j] }", kSquare));
  accepted(
      bare("for i in 6, j in 6 { Y[i,j] = if i == 0 || j == 0 then X[i,j] else Y[i-1,j] + Y[i,j-1] + "
           "Y[i-1,j-1] }",
           kSquare));
  accepted(bare("for i in 6, j in 6 { Y[i,j] = if i == 0 || j == 5 then X[i,j] else Y[i-1,j+1] }", kSquare));
  // A running sum in one element, for each row anew.
  accepted(bare(
      "for i in 6 { alloc S: f32[1] { S[0] = 0.0f32 for j in 6 { S[0] = S[0] + X[i,j] Y[i,j] = S[0] } } }",
      kSquare));
  // A block around the loops of a recurrence.
  accepted(
      bare("for i in 6 { block Y(vi: S 6 = i) { for j in 6 { Y[vi,j] = if j == 0 then X[vi,j] else "
           "Y[vi,j-1] + X[vi,j] } } }",
           kSquare));
}

TEST_CASE("Recurrences that read what is written later, or never, are refused with a witness") {
  refused(bare("for i in 7 { Y[i] = Y[i+1] + X[i] } Y[7] = X[7]", kRow),
          {"Y reads elements of Y that nothing has written before",
           "Y at i=0 reads Y[1] before Y at i=1 writes it"});
  refused(bare("for i in 8 { Y[7-i] = if i < 7 then Y[6-i] else X[0] }", kRow),
          {"Y at i=0 reads Y[6] before Y at i=1 writes it"});
  refused(bare("for i in 7 { Y[i+1] = Y[i] + X[i+1] }", kRow), {"Y at i=0 reads Y[0], which nothing writes"});
  refused(bare("for i in 4 { Y[2*i] = if i == 0 then X[0] else Y[2*i-1] Y[2*i+1] = Y[2*i] + X[i] } ",
               "in X: f32[8], out Y: f32[9]"),
          {"nothing writes Y[8]"});
  refused(bare("for i in 8 { Y[i] = if i < 4 then X[i] else Y[2*i-7] }", kRow),
          {"Y at i=7 reads Y[7] before Y at i=7 writes it"});
  refused(bare("for j in 6, i in 6 { Y[i,j] = if i == 0 || j == 5 then X[i,j] else Y[i-1,j+1] }", kSquare),
          {"Y at j=0,i=1 reads Y[0,1] before Y at j=1,i=0 writes it"});
  refused(bare("for i in 6, j in 6 { Y[i,j] = if i == 0 then X[i,j] else Y[i-1,j] + Y[i,5-j] }", kSquare),
          {"Y at i=1,j=0 reads Y[1,5] before Y at i=1,j=5 writes it"});
  refused(bare("for i in 6 { parallel j in 6 { Y[i,j] = if j == 0 then X[i,j] else Y[i,j-1] } }", kSquare),
          {"two iterations of the parallel loop j access the same element of Y"});
  refused(bare("for i in 6 { alloc S: f32[1] { for j in 6 { Y[i,j] = S[0] S[0] = X[i,j] } } }", kSquare),
          {"Y at i=0,j=0 reads S[0] before S at i=0,j=0 writes it"});
}

TEST_CASE("A reduction that is written out is read as one") {
  const std::string head =
      "func f(in X: f32[4,8], out Y: f32[4]) {\n  for i in 4, k in 8 {\n    block Y(vi: S 4 "
      "= i, vk: R 8 = k) {\n      init { Y[vi] = 0.0f32 }\n      ";
  const auto reads_as = [&](const std::string& statement, const std::string& update) {
    INFO(statement);
    const PrimFunc got = read_updates(parse_func(head + statement + "\n    }\n  }\n}\n"));
    CHECK(structural_equal(got, parse_func(head + update + "\n    }\n  }\n}\n")));
  };
  reads_as("Y[vi] = Y[vi] + X[vi,vk]", "Y[vi] += X[vi,vk]");
  reads_as("Y[vi] = X[vi,vk] + Y[vi]", "Y[vi] += X[vi,vk]");
  reads_as("Y[vi] = max(Y[vi], X[vi,vk])", "Y[vi] max= X[vi,vk]");
  reads_as("Y[vi] = min(X[vi,vk], Y[vi])", "Y[vi] min= X[vi,vk]");
  reads_as("Y[vi] = Y[vi] * X[vi,vk]", "Y[vi] *= X[vi,vk]");
  reads_as("Y[vi] = Y[vi] + X[vi,vk] * Y[vi]", "Y[vi] = Y[vi] + X[vi,vk] * Y[vi]");
  reads_as("Y[vi] = Y[vi] - X[vi,vk]", "Y[vi] = Y[vi] - X[vi,vk]");
  reads_as("Y[vi] = Y[3-vi] + X[vi,vk]", "Y[vi] = Y[3-vi] + X[vi,vk]");
}

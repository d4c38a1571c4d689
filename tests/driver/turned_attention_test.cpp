// Attention of few queries with transposed scores: the lanes are queries.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "tests/driver/attention_model.h"
#include "tests/driver/compiled.h"
#include "tests/graph/files.h"

using namespace nestor;

namespace {

std::string steps_of(const CompiledModel& m, const Target& target) {
  REQUIRE(m.funcs.size() == 1);
  return print(default_schedule(m.funcs[0].func, target));
}

bool takes(const std::string& steps, const std::string& step) {
  UNSCOPED_INFO(steps << "\n" << step);
  return steps.find(step) != std::string::npos;
}

}  // namespace

TEST_CASE("few queries are turned by blocks, proved, and agree with interpreter and oracle") {
  const Folder folder;
  const std::vector<std::pair<AttentionShape, std::string>> cases = {
      {{"2,3,", 16, 40, 8, 64}, ""},    {{"1,2,", 48, 33, 20, 24}, "1,1,1,33"},
      {{"4,", 96, 17, 40, 80}, "17"},   {{"", 64, 50, 16, 33}, "1,50"},
      {{"1,1,", 112, 130, 64, 16}, ""}, {{"3,1,", 32, 36, 8, 16}, "3,1,32,1"}};
  for (const auto& [shape, mask] : cases)
    for (const char* name : {"native", "x86-64-v3", "x86-64-v2"}) {
      const Target target = parse_target(name);
      const CompiledModel m = compiled(folder.write("a.json", attention_model(shape, mask)), target);
      INFO(name << " " << shape.batch << " " << shape.queries << " " << shape.keys);
      const std::string steps = steps_of(m, target);
      for (const char* step : {"compute_inline transpose", "T_across = cache_read T A",
                               "decompose_reduction Max.r", "decompose_reduction Sum.e"})
        CHECK(takes(steps, step));
      check_results(m.funcs[0], target);
      check_proof(m.funcs[0]);
    }
}

TEST_CASE("queries that are many or don't fill vectors, masks of both and few keys leave scores as rows") {
  const Folder folder;
  Target target = parse_target("x86-64-v4");
  target.cores = 1;
  const auto turned = [&](const AttentionShape& shape, const std::string& mask) {
    const CompiledModel m = compiled(folder.write("b.json", attention_model(shape, mask)), target);
    const bool across = takes(steps_of(m, target), "T_across");
    if (!across) check_proof(m.funcs[0]);
    return across;
  };
  CHECK(turned({"1,2,", 128, 40, 8, 16}, ""));
  CHECK_FALSE(turned({"1,2,", 144, 40, 8, 16}, ""));
  CHECK_FALSE(turned({"1,2,", 40, 40, 8, 16}, ""));
  CHECK(turned({"1,2,", 32, 40, 8, 16}, "1,1,1,40"));
  CHECK_FALSE(turned({"1,2,", 32, 40, 8, 16}, "1,1,32,40"));
  CHECK_FALSE(turned({"1,2,", 32, 12, 8, 16}, ""));  // in one tile
  CHECK_FALSE(turned({"", 32, 40, 8, 16}, ""));      // one block and no loop around it
  CHECK(turned({"1,1,", 32, 40, 8, 16}, ""));
  target.cores = 2;
  CHECK_FALSE(turned({"1,1,", 32, 40, 8, 16}, ""));  // one block, nothing for the other thread
  CHECK(turned({"1,2,", 32, 40, 8, 16}, ""));
  CHECK(turned({"1,1,", 64, 40, 8, 16}, ""));
}

TEST_CASE("few queries whose heads lie between rows and columns are turned from there, values in panels") {
  const Folder folder;
  for (const auto& [rows, heads, depth] :
       {std::array{32, 3, 40}, std::array{48, 1, 33}, std::array{16, 2, 16}})
    for (const char* name : {"native", "x86-64-v3"}) {
      const std::string text = attention_of_heads_between(rows, heads, depth);
      const Target target = parse_target(name);
      const CompiledModel m = compiled(folder.write("c.json", text), target);
      INFO(name << " " << rows << " " << heads << " " << depth);
      const std::string steps = steps_of(m, target);
      CHECK(takes(steps, "= merge T_out."));              // no map writes the scores
      CHECK(takes(steps, "cache_read") == (heads == 1));  // then it lies in rows as it is
      check_results(m.funcs[0], target);
      check_proof(m.funcs[0]);
    }
}

TEST_CASE("keys and values that the cache doesn't hold are asked for ahead of few queries") {
  const Folder folder;
  Target target = parse_target("x86-64-v4");
  target.l2_bytes = 1 << 20;
  for (const int64_t heads : {4, 40}) {
    const AttentionShape shape{fmt::format("1,{},", heads), 32, 130, 64, 64};
    const CompiledModel m = compiled(folder.write("d.json", attention_model(shape, "")), target);
    const std::string steps = steps_of(m, target);
    for (const char* step : {"prefetch T.r2 X distance=1", "prefetch T1.b1 B distance=1 shares=T.r2"})
      CHECK(takes(steps, step) == (heads == 40));
    check_results(m.funcs[0], target);
    check_proof(m.funcs[0]);
  }
}

TEST_CASE("queries that are keys too are copied by blocks, keys read where they lie") {
  const Folder folder;
  const std::string text = R"({"name": "a", "opset": 17, "inputs": [
    {"name": "q", "dtype": "f32", "shape": [2,96,20]}, {"name": "v", "dtype": "f32", "shape": [2,96,24]}],
    "outputs": ["y"], "nodes": [
    {"op": "Transpose", "inputs": ["q"], "outputs": ["kt"], "attrs": {"perm": [0,2,1]}},
    {"op": "MatMul", "inputs": ["q", "kt"], "outputs": ["s"]},
    {"op": "Softmax", "inputs": ["s"], "outputs": ["p"]},
    {"op": "MatMul", "inputs": ["p", "v"], "outputs": ["y"]}]})";
  const Target target = parse_target("x86-64-v3");
  const CompiledModel m = compiled(folder.write("e.json", text), target);
  REQUIRE(m.funcs.size() == 1);
  CHECK(takes(steps_of(m, target), "T_across"));
  CHECK(print(m.funcs[0].lowered).find("alloc T_across: f32[320]") != std::string::npos);  // 16 of 20
  check_results(m.funcs[0], target);
  check_proof(m.funcs[0]);
}

TEST_CASE("exponentials that take the largest score of another query leave scores as rows") {
  const Folder folder;
  const Target target = parse_target("native");
  const AttentionShape shape{"1,2,", 32, 40, 16, 24};
  std::string text =
      print(compiled(folder.write("f.json", attention_model(shape, "")), target).funcs[0].func);
  const std::string own = "- Max[vn,vc,vh]";
  const size_t at = text.find(own);
  REQUIRE(at != std::string::npos);
  text.replace(at, own.size(), "- Max[vn,vc,31-vh]");
  const CompiledModel m = compiled(folder.write("f.nest", text), target);
  CHECK_FALSE(takes(steps_of(m, target), "T_across"));
}

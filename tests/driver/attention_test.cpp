// Attention: found in the graph, scheduled by tiles of rows, the same as its operators one by one. Sizes that
// fill no tile, masks of every shape, several queries to a key.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "tests/driver/attention_model.h"
#include "tests/driver/compiled.h"
#include "tests/graph/files.h"

using namespace nestor;

TEST_CASE("attention is one function by tiles of rows, proved, and agrees with interpreter and oracle") {
  const Folder folder;
  const std::vector<std::pair<AttentionShape, std::string>> cases = {
      {{"2,3,", 17, 40, 8, 64}, ""},       {{"2,3,", 30, 33, 5, 20}, "2,1,1,33"},
      {{"1,2,", 15, 70, 16, 65}, "15,70"}, {{"4,", 29, 17, 3, 33}, "29,17"},
      {{"", 50, 64, 16, 32}, ""},          {{"1,1,", 27, 130, 4, 16}, "1,1,27,130"}};
  for (const auto& [shape, mask] : cases)
    for (const char* name : {"native", "x86-64-v3"}) {
      const Target target = parse_target(name);
      const CompiledModel m = compiled(folder.write("a.json", attention_model(shape, mask)), target);
      INFO(name << " " << shape.batch << " " << shape.queries << " " << shape.keys);
      REQUIRE(m.funcs.size() == 1);
      const CompiledFunction& f = m.funcs[0];
      CHECK(f.func.name == (mask.empty() ? "matmul_transpose_mul_softmax_matmul"
                                         : "matmul_transpose_mul_add_softmax_matmul"));
      const std::string steps = print(default_schedule(f.func, target));
      INFO(steps);
      CHECK(steps.find("compute_at Max Y.") != std::string::npos);
      CHECK(steps.find("T_across") == std::string::npos);  // turned_attention_test.cpp
      check_results(f, target);
      check_proof(f);
    }
}

TEST_CASE("a few queries read keys and values where they lie, by vectors") {
  const Folder folder;
  for (const int64_t queries : {1, 2, 3})
    for (const char* name : {"native", "x86-64-v3"}) {
      const Target target = parse_target(name);
      const CompiledModel m =
          compiled(folder.write("f.json", attention_model({"1,4,", queries, 70, 37, 72}, "")), target);
      INFO(name << " " << queries);
      REQUIRE(m.funcs.size() == 1);
      const CompiledFunction& f = m.funcs[0];
      const std::string steps = print(default_schedule(f.func, target));
      INFO(steps);
      for (const char* step : {"compute_inline transpose", "vectorize T.k", "unroll T1.k1", "vectorize T1.j"})
        CHECK(steps.find(step) != std::string::npos);
      // Several read each key and value once for them all.
      for (const char* step : {"reorder T (j i k)", "unroll T.i", "reorder T1 (k0 i "})
        CHECK((steps.find(step) != std::string::npos) == (queries > 1));
      check_results(f, target);
      check_proof(f);
    }
}

TEST_CASE("attention turns its own operands, as heads lie between rows and columns") {
  const Folder folder;
  for (const auto& [rows, heads, depth] :
       {std::array{30, 3, 20}, std::array{17, 1, 33}, std::array{40, 2, 16}})
    for (const char* name : {"native", "x86-64-v3"}) {
      const std::string text = attention_of_heads_between(rows, heads, depth);
      const Target target = parse_target(name);
      const CompiledModel m = compiled(folder.write("c.json", text), target);
      INFO(name << " " << rows << " " << heads << " " << depth);
      REQUIRE(m.funcs.size() == 1);
      const CompiledFunction& f = m.funcs[0];
      INFO(print(default_schedule(f.func, target)));
      check_results(f, target);
      check_proof(f);
    }
}

TEST_CASE("operands that are scaled apart are made where they are read, values far apart in panels") {
  const Folder folder;
  for (const auto& [queries, keys, depth, width] :
       {std::array{30, 50, 20, 16}, std::array{112, 200, 16, 128}, std::array{3, 40, 16, 48}})
    for (const char* name : {"native", "x86-64-v3"}) {
      const std::string text = fmt::format(R"({{"name": "a", "opset": 17, "inputs": [
        {{"name": "q", "dtype": "f32", "shape": [2,{0},{2}]}}, {{"name": "k", "dtype": "f32", "shape": [2,{1},{2}]}},
        {{"name": "v", "dtype": "f32", "shape": [2,{1},{3}]}}, {{"name": "b", "dtype": "f32", "shape": [{2}]}}],
        "outputs": ["y"], "nodes": [
        {{"op": "Add", "inputs": ["q", "b"], "outputs": ["qb"]}},
        {{"op": "Mul", "inputs": ["qb", "root"], "outputs": ["qs"]}},
        {{"op": "Transpose", "inputs": ["k"], "outputs": ["kt"], "attrs": {{"perm": [0,2,1]}}}},
        {{"op": "Mul", "inputs": ["kt", "root"], "outputs": ["ks"]}},
        {{"op": "MatMul", "inputs": ["qs", "ks"], "outputs": ["s"]}},
        {{"op": "Softmax", "inputs": ["s"], "outputs": ["p"]}},
        {{"op": "MatMul", "inputs": ["p", "v"], "outputs": ["y"]}}],
        "weights": {{"root": {{"dtype": "f32", "shape": [], "data": [0.5]}}}}}})",
                                           queries, keys, depth, width);
      Target target = parse_target(name);
      target.l3_bytes_per_cycle = 9;
      const CompiledModel m = compiled(folder.write("d.json", text), target);
      INFO(name << " " << queries);
      REQUIRE(m.funcs.size() == 1);
      const CompiledFunction& f = m.funcs[0];
      const std::string steps = print(default_schedule(f.func, target));
      INFO(steps);
      CHECK((steps.find("compute_at mul Y.i") != std::string::npos) == (queries > 3));
      CHECK((steps.find("T1_panels = cache_read T1") != std::string::npos) == (keys == 200));
      check_results(f, target);
      check_proof(f);
    }
}

TEST_CASE("attention's tiles, copies and prefetches are chosen by its sizes") {
  const Folder folder;
  const auto steps = [&](const AttentionShape& shape, double l3_bytes_per_cycle = 16) {
    Target target = parse_target("x86-64-v4");
    target.l2_bytes = 1 << 20;
    target.l3_bytes_per_cycle = l3_bytes_per_cycle;
    const CompiledModel m = compiled(folder.write("g.json", attention_model(shape, "")), target);
    REQUIRE(m.funcs.size() == 1);
    return print(default_schedule(m.funcs[0].func, target));
  };
  const auto takes = [](const std::string& trace, const std::string& step) {
    UNSCOPED_INFO(trace << "\n" << step);
    return trace.find(step) != std::string::npos;
  };
  // As few tiles as there can be, of one size, but none of a single row.
  CHECK(takes(steps({"1,3,", 143, 128, 64, 64}), "split Y.i [_, 13]"));
  CHECK(takes(steps({"1,3,", 256, 128, 64, 64}), "split Y.i [_, 14]"));
  CHECK(takes(steps({"1,3,", 197, 128, 64, 64}), "split Y.i [_, 12]"));
  // Short rows fold their lanes together.
  CHECK(takes(steps({"1,3,", 60, 128, 64, 64}), "vectorize Sum.sh"));
  CHECK_FALSE(takes(steps({"1,3,", 60, 197, 64, 64}), "vectorize Sum.sh"));
  // Values are copied for many tiles of rows, or where all that isn't near is very far.
  CHECK_FALSE(takes(steps({"1,3,", 256, 256, 64, 128}), "T1_panels"));
  CHECK(takes(steps({"1,3,", 256, 256, 64, 128}, 9), "T1_panels"));
  CHECK_FALSE(takes(steps({"1,3,", 98, 256, 64, 128}, 9), "T1_panels"));  // 7 tiles
  CHECK(takes(steps({"1,3,", 700, 256, 64, 128}), "T1_panels"));
  // The next keys and values are asked for where they don't stay in the cache.
  const std::string small = steps({"1,8,", 256, 256, 64, 64}), large = steps({"1,17,", 256, 256, 64, 64});
  for (const char* step :
       {"prefetch transpose.b1 X distance=1 shares=T.sw0", "prefetch T1.b1 B distance=1 shares=T1.j0"}) {
    CHECK_FALSE(takes(small, step));
    CHECK(takes(large, step));
  }
  // With a product's tiles of columns where these are enough: a share is a few hundred lines at most.
  CHECK(takes(steps({"1,8,", 30, 2048, 64, 64}), "prefetch T1.b1 B distance=1 shares=T.sw0"));
}

TEST_CASE("row tiles share panels of operands that come from far away each time") {
  const Folder folder;
  const auto block = [&](int64_t keys, double l3_bytes_per_cycle) {
    Target target = parse_target("x86-64-v4");
    target.l2_bytes = 32 << 10;
    target.l3_bytes_per_cycle = l3_bytes_per_cycle;
    target.cores = 1;
    const CompiledModel m =
        compiled(folder.write("r.json", attention_model({"1,2,", 185, keys, 64, 72}, "")), target);
    REQUIRE(m.funcs.size() == 1);
    const std::string steps = print(default_schedule(m.funcs[0].func, target));
    INFO(steps);
    const bool found = steps.find("split Y.i0 [_, 3]") != std::string::npos;
    CHECK(found == (steps.find("compute_at Max Y.ib") != std::string::npos));
    if (found) {
      check_results(m.funcs[0], target);
      check_proof(m.funcs[0]);
    }
    return found;
  };
  CHECK(block(60, 9));
  CHECK_FALSE(block(60, 16));
  CHECK_FALSE(block(30, 9));  // they stay in the cache
}

TEST_CASE("on a core that takes up 4 micro-operations a cycle, attention's tiles are wider") {
  const Folder folder;
  const auto tile = [&](int64_t queries, int64_t keys, int64_t width, int rows, int columns) {
    Target target = parse_target("x86-64-v4");
    target.issue_width = 4;
    const CompiledModel m =
        compiled(folder.write("n.json", attention_model({"1,3,", queries, keys, 24, width}, "")), target);
    REQUIRE(m.funcs.size() == 1);
    const std::string steps = print(default_schedule(m.funcs[0].func, target));
    INFO(steps);
    if (queries == rows)
      CHECK(steps.find("split Y.i [") == std::string::npos);
    else
      CHECK(steps.find(fmt::format("split Y.i [_, {}]", rows)) != std::string::npos);
    CHECK(steps.find(fmt::format("split mul.sw [_, {}]", columns)) != std::string::npos);
    check_results(m.funcs[0], target);
    check_proof(m.funcs[0]);
  };
  tile(130, 170, 32, 13, 32);
  tile(130, 170, 64, 6, 64);
  tile(130, 240, 80, 8, 48);
  tile(130, 240, 72, 6, 64);
  tile(130, 77, 64, 6, 64);
  tile(9, 240, 96, 9, 48);  // all rows at once
  tile(10, 77, 64, 5, 64);
}

TEST_CASE("a narrow core counts once for two steps of attention's products, where registers are left") {
  const Folder folder;
  const auto pairs = [&](const AttentionShape& shape, int issue_width) {
    Target target = parse_target("x86-64-v4");
    target.issue_width = issue_width;
    target.l2_bytes = 1 << 14;  // the next values are asked for
    const CompiledModel m = compiled(folder.write("p.json", attention_model(shape, "")), target);
    REQUIRE(m.funcs.size() == 1);
    const std::string steps = print(default_schedule(m.funcs[0].func, target));
    INFO(steps);
    CHECK(steps.find("shares=T1.k") == std::string::npos);  // but not in each step
    check_results(m.funcs[0], target);
    check_proof(m.funcs[0]);
    return std::pair{steps.find("unroll T.ks") != std::string::npos,
                     steps.find("unroll T1.ks") != std::string::npos};
  };
  CHECK(pairs({"1,3,", 30, 133, 64, 64}, 4) == std::pair{true, true});
  CHECK(pairs({"1,3,", 30, 133, 24, 64}, 4) == std::pair{false, true});  // few steps of the first
  CHECK(pairs({"1,3,", 30, 40, 64, 64}, 4) == std::pair{false, true});   // part of a vector beside whole ones
  CHECK(pairs({"1,3,", 30, 133, 64, 64}, 6) == std::pair{false, false});
}

TEST_CASE("keys that all heads share are scaled once, not for each head") {
  const Folder folder;
  const std::string text = R"({"name": "a", "opset": 17, "inputs": [
    {"name": "q", "dtype": "f32", "shape": [3,20,8]}, {"name": "k", "dtype": "f32", "shape": [1,8,40]},
    {"name": "v", "dtype": "f32", "shape": [3,40,16]}], "outputs": ["y"], "nodes": [
    {"op": "Exp", "inputs": ["k"], "outputs": ["ks"]}, {"op": "MatMul", "inputs": ["q", "ks"], "outputs": ["s"]},
    {"op": "Softmax", "inputs": ["s"], "outputs": ["p"]},
    {"op": "MatMul", "inputs": ["p", "v"], "outputs": ["y"]}]})";
  const CompiledModel m = compiled(folder.write("e.json", text), host_target());
  REQUIRE(m.funcs.size() == 2);
  for (const CompiledFunction& f : m.funcs) check_results(f, host_target());
}

TEST_CASE("scores that something else reads, or that aren't rows of a product, stay by themselves") {
  const Folder folder;
  const auto functions = [&](const char* outputs, const char* softmax) {
    const std::string text = fmt::format(R"({{"name": "a", "opset": 17,
      "inputs": [{{"name": "q", "dtype": "f32", "shape": [6, 20]}}, {{"name": "v", "dtype": "f32", "shape": [20, 20]}}],
      "outputs": [{}], "nodes": [{{"op": "MatMul", "inputs": ["q", "v"], "outputs": ["s"]}},
      {{"op": "Softmax", "inputs": ["s"], "outputs": ["p"] {}}},
      {{"op": "MatMul", "inputs": ["p", "v"], "outputs": ["y"]}}]}})",
                                         outputs, softmax);
    return compiled(folder.write("b.json", text), host_target()).partition.calls.size();
  };
  CHECK(functions(R"("y")", "") == 1);
  CHECK(functions(R"("y", "s")", "") == 3);
  CHECK(functions(R"("y", "p")", "") == 3);
  CHECK(functions(R"("y")", R"(, "attrs": {"axis": 0})") == 3);
}

TEST_CASE("weights guarded against NaN are used as they come; rows without weights are 0") {
  const Folder folder;
  constexpr int64_t kQueries = 30, kKeys = 40;
  const std::string path =
      folder.write("n.json", attention_model({"1,2,", kQueries, kKeys, 16, 64}, "1,1,30,40", true));
  for (const char* name : {"native", "x86-64-v3"}) {
    const Target target = parse_target(name);
    const CompiledModel m = compiled(path, target);
    INFO(name);
    REQUIRE(m.funcs.size() == 1);
    const std::string blocks = fmt::format("{}", fmt::join(block_names(m.funcs[0].func), " "));
    CHECK(blocks == "transpose T mul add Max Exp Sum T1 Y");
    check_results(m.funcs[0], target);
    check_proof(m.funcs[0]);
  }

  std::string others = attention_model({"1,2,", kQueries, kKeys, 16, 64}, "1,1,30,40", true);
  others.replace(others.find("[0]}"), 3, "[1]");  // rows of NaN become 1
  const std::vector<std::string> kept =
      block_names(compiled(folder.write("o.json", others), parse_target("native")).funcs[0].func);
  CHECK(std::count(kept.begin(), kept.end(), "where") == 1);

  CompileOptions options = checking_options(parse_target("native"));
  const CompiledModel m = compile_model(path, options);
  options.fuse = false;
  const CompiledModel apart = compile_model(path, options);
  NamedTensors in;
  for (const PlanTensor& t : m.plan->inputs) in[t.name] = Tensor::random(t.dtype, t.shape, 7);
  for (int64_t k = 0; k < kKeys; ++k) {
    in["m"].set(3 * kKeys + k, -INFINITY);               // no key
    in["m"].set(4 * kKeys + k, k == 5 ? 0 : -INFINITY);  // one
  }
  in["m"].set(6 * kKeys + 1, NAN);
  in["m"].set(7 * kKeys + 1, INFINITY);
  const Tensor got = make_executor(m)->run(in).at("y"), want = make_executor(apart)->run(in).at("y");
  for (int64_t i = 0; i < got.size(); ++i) {
    const int64_t query = i / 64 % kQueries;
    INFO(query);
    CHECK(std::abs(got.get(i) - want.get(i)) < 1e-5);
    if (query == 3 || query == 6 || query == 7) CHECK(got.get(i) == 0);
  }
}

TEST_CASE("ONNX's own Attention is the same function, and so are products that Einsum writes") {
  const std::string heads = "f32[1,3,17,24]", keys = "f32[1,3,40,24]";
  for (const char* attrs : {"", "; is_causal=1", "; softcap=5"}) {
    const CompiledModel m =
        compiled(fmt::format("Attention({}, {}, {}{})", heads, keys, keys, attrs), parse_target("native"));
    INFO(attrs);
    REQUIRE(m.funcs.size() == 1);
    check_results(m.funcs[0], parse_target("native"));
    check_proof(m.funcs[0]);
  }
  const CompiledModel m = compiled(
      "Attention(f32[2,17,48], f32[2,20,24], f32[2,20,24], f32[17,20]; q_num_heads=4, kv_num_heads=2)",
      parse_target("native"));
  CHECK(std::count_if(m.funcs.begin(), m.funcs.end(), [](const CompiledFunction& f) {
          return f.func.name.starts_with("matmul");
        }) == 1);
}

// What Winograd's transformed weights may add to a model.
#include "catch.h"
#include "nestor/driver.h"

using namespace nestor;

TEST_CASE("Winograd's weights keep to a budget, which goes where a byte gains most") {
  const std::string large = "Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])",
                    small = "Conv(f32[1,128,28,28], const f32[128,128,3,3]; pads=[1,1,1,1])";
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  const auto bytes_of = [&](const std::string& spec, int64_t budget) {
    options.winograd_budget = budget;
    return winograd_bytes(partition_model(load(spec, options), options).graph);
  };
  for (const std::string& layer : {large, small}) {
    const WinogradBytes all = bytes_of(layer, -1);
    CHECK(all.convolutions == 1);
    CHECK(all.over_budget == 0);
    CHECK(bytes_of(layer, all.added).added == all.added);
    const WinogradBytes none = bytes_of(layer, all.added - 1);
    CHECK(none.added == 0);
    CHECK(none.convolutions == 0);
    CHECK(none.over_budget == 1);
  }
}

TEST_CASE("Of two Winograd convolutions, the budget's is the one that gains more for each byte") {
  Model m;
  m.opsets[""] = 17;
  ModelValue x, y;
  x.name = "x";
  y.name = "y";
  for (const int64_t n : {1, 64, 56, 56}) x.shape.push_back({n, ""});
  y.typed = y.ranked = false;
  m.inputs = {x};
  m.outputs = {y};
  m.initializers = {{"w", Tensor::random(DType::f32, {64, 64, 3, 3}, 1)},
                    {"v", Tensor::random(DType::f32, {256, 64, 3, 3}, 2)}};
  const auto add = [&](const char* op, const char* name, std::vector<std::string> inputs, const char* output,
                       Attrs attrs) {
    ModelNode n;
    n.op = op;
    n.name = name;
    n.inputs = std::move(inputs);
    n.outputs = {output};
    n.attrs = std::move(attrs);
    m.nodes.push_back(std::move(n));
  };
  const Attrs same{{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  add("Conv", "first", {"x", "w"}, "a", same);
  add("MaxPool", "", {"a"}, "b",
      {{"kernel_shape", std::vector<int64_t>{4, 4}}, {"strides", std::vector<int64_t>{4, 4}}});
  add("Conv", "second", {"b", "v"}, "y", same);
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.winograd_budget = 64 * 64 * 4 * 27;  // F(4x4) of the first, and less than any of the second
  const CompiledModel c = partition_model({build_graph(m), std::nullopt}, options);
  for (const Node& n : c.graph.nodes) {
    if (n.name == "first") CHECK(n.op == "WinogradConv");
    if (n.name == "second") CHECK(n.op == "Conv");
  }
}

// Branches, functions and refusals of a model, as build_graph sees them.
#include "catch.h"
#include "nestor/graph.h"
#include "src/graph/control_flow.h"
#include "tests/graph/files.h"
#include "tests/graph/run.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

ModelNode node(const std::string& op, std::vector<std::string> in, std::vector<std::string> out) {
  return {op, "", "", std::move(in), std::move(out), {}, {}};
}
ModelValue named(const std::string& name) {
  return {name, DType::f32, {}, false, false};
}
Tensor truth(bool value) {
  Tensor t(DType::boolean, {});
  t.set_int(0, value);
  return t;
}

// x: f32[3] and the nodes; its output is y.
Model model(std::vector<ModelNode> nodes) {
  Model m;
  m.file = "m.onnx";
  m.opsets[""] = 17;
  m.inputs = {{"x", DType::f32, {{3, ""}}}};
  m.outputs = {named("y")};
  m.nodes = std::move(nodes);
  return m;
}
std::shared_ptr<ModelGraph> branch(std::vector<ModelNode> nodes, const std::string& output) {
  auto g = std::make_shared<ModelGraph>();
  g->nodes = std::move(nodes);
  g->outputs = {named(output)};
  return g;
}
ModelNode choice(const std::string& condition, std::shared_ptr<ModelGraph> taken,
                 std::shared_ptr<ModelGraph> other) {
  ModelNode n = node("If", {condition}, {"y"});
  n.graphs = {{"then_branch", std::move(taken)}, {"else_branch", std::move(other)}};
  return n;
}

}  // namespace

TEST_CASE("An If of a known condition is its branch, and nothing is refused of the other") {
  Model m =
      model({node("NonZero", {"x"}, {"places"}), choice("c", branch({node("Relu", {"x"}, {"t"})}, "t"),
                                                        branch({node("Loop", {"places"}, {"t"})}, "t"))});
  m.initializers.emplace_back("c", truth(true));
  const Graph g = build_graph(m);
  REQUIRE(count(g, "Relu") == 1);
  CHECK(count(g, "NonZero") + count(g, "If") == 0);
  m.initializers[0].second = truth(false);
  const std::string e = error_of([&] { build_graph(m); });
  CHECK_THAT(e, ContainsSubstring("Loop node that makes `y.t`"));
}

TEST_CASE("A branch reads what is outside of it, and hides it by its own names") {
  Model m = model({node("Neg", {"x"}, {"t"}), choice("c", branch({node("Relu", {"x"}, {"u"})}, "u"), nullptr),
                   node("Add", {"y", "t"}, {"z"})});
  m.nodes[1].graphs["else_branch"] = branch({node("Abs", {"x"}, {"t"}), node("Mul", {"t", "x"}, {"u"})}, "u");
  m.outputs.push_back(named("z"));
  m.initializers.emplace_back("c", truth(false));
  const Graph g = build_graph(m);
  Tensor x(DType::f32, {3});
  for (int64_t i = 0; i < 3; ++i) x.set(i, static_cast<double>(i) - 1.5);
  const Values out = run_unfused(g, {{"x", x}});
  for (int64_t i = 0; i < 3; ++i) {
    const double v = x.get(i);
    CHECK(out.at("y").get(i) == std::abs(v) * v);
    CHECK(out.at("z").get(i) == std::abs(v) * v - v);
  }
}

TEST_CASE("An If of an input is a node, whose branches read what is around them") {
  Model m = model({choice("c", branch({node("Relu", {"x"}, {"t"})}, "t"), branch({}, "x"))});
  m.inputs.push_back({"c", DType::boolean, {}});
  const Graph g = build_graph(m);
  REQUIRE(g.nodes.size() == 1);
  const Node& n = g.nodes[0];
  CHECK(is_branch(n));
  REQUIRE(n.bodies.size() == 2);
  CHECK(n.bodies[0]->nodes.size() == 1);
  CHECK(n.bodies[1]->nodes.empty());
  CHECK(n.inputs == std::vector<ValueId>{g.inputs[1], g.inputs[0], g.inputs[0]});
  ModelNode longer = node("Concat", {"x", "x"}, {"t"});
  longer.attrs["axis"] = int64_t{0};
  m.nodes[0].graphs["else_branch"] = branch({longer}, "t");
  CHECK_THAT(error_of([&] { build_graph(m); }),
             ContainsSubstring("`y` is f32[3] if the condition holds and f32[6] if not") &&
                 ContainsSubstring("--const c=VALUE"));
}

TEST_CASE("An If of an input says which one to bind, for a target without control flow") {
  Model m = model({choice("c", branch({node("Relu", {"x"}, {"t"})}, "t"), branch({}, "x"))});
  m.inputs.push_back({"c", DType::boolean, {}});
  BuildOptions options;
  options.control_flow = false;
  CHECK_THAT(
      error_of([&] { build_graph(m, options); }),
      ContainsSubstring("control flow isn't supported on this target if the condition, `c`, is computed "
                        "at run time") &&
          ContainsSubstring("--const c=VALUE"));
  options.constants.emplace("c", TensorSource("--const c", "false", "c"));
  const Graph g = build_graph(m, options);
  CHECK(g.inputs.size() == 1);
  CHECK(count(g, "Relu") == 0);
}

TEST_CASE("What no output depends on isn't looked at") {
  const Graph g = build_graph(model({node("Relu", {"x"}, {"y"}), node("Frobnicate", {"nothing"}, {"z"}),
                                     node("Neg", {"w"}, {"v"}), node("Neg", {"v"}, {"w"})}));
  CHECK(g.nodes.size() == 1);
}

TEST_CASE("Calls of a file's own functions are their nodes") {
  Model m = model({node("Twice", {"x"}, {"y"})});
  m.nodes[0].domain = "my";
  m.functions = {
      {"Twice", "my", {"a"}, {"b"}, {}, {node("Once", {"a"}, {"t"}), node("Once", {"t"}, {"b"})}, {}},
      {"Once", "my", {"a"}, {"b"}, {}, {node("Relu", {"a"}, {"t"}), node("Neg", {"t"}, {"b"})}, {{"", 13}}}};
  for (ModelNode& n : m.functions[0].nodes) n.domain = "my";
  const Graph g = build_graph(m);
  CHECK(count(g, "Relu") == 2);
  CHECK(g.nodes[0].opset == 13);
  m.functions[1].nodes[0] = m.nodes[0];
  CHECK_THAT(error_of([&] { build_graph(m); }), ContainsSubstring("calls itself"));
}

TEST_CASE("Functions that would make too many nodes are refused") {
  Model m = model({node("f0", {"x"}, {"y"})});
  m.nodes[0].domain = "my";
  constexpr int kDepth = 40;
  for (int i = 0; i < kDepth; ++i) {
    const std::string next = "f" + std::to_string(i + 1);
    ModelFunction f{"f" + std::to_string(i),
                    "my",
                    {"a"},
                    {"b"},
                    {},
                    {node(next, {"a"}, {"t"}), node(next, {"t"}, {"b"})},
                    {}};
    for (ModelNode& n : f.nodes) n.domain = i + 1 < kDepth ? "my" : "";
    m.functions.push_back(f);
  }
  CHECK_THAT(error_of([&] { build_graph(m); }), ContainsSubstring("more than 100000 nodes"));
}

TEST_CASE("Nodes that are refused alike are one line") {
  std::vector<ModelNode> nodes;
  std::vector<std::string> made;
  for (int i = 0; i < 5; ++i) {
    made.push_back("d" + std::to_string(i));
    nodes.push_back(node("ImageDecoder", {"x"}, {made.back()}));
  }
  nodes.push_back(node("Sum", made, {"y"}));
  CHECK_THAT(error_of([&] { build_graph(model(nodes)); }),
             ContainsSubstring(
                 "5 ImageDecoder nodes (opset 17, f32; `d0`, `d1`, `d2` and 2 more): the operator isn't"));
}

TEST_CASE("A declared shape that disagrees is a warning") {
  Model m = model({node("Neg", {"x"}, {"n"}), node("Relu", {"n"}, {"y"})});
  m.outputs = {{"y", DType::f32, {{7, ""}}}};
  m.values = {{"n", DType::f32, {{1, ""}, {3, ""}}}};
  std::vector<std::string> warnings;
  BuildOptions options;
  options.warn = [&](const std::string& w) { warnings.push_back(w); };
  CHECK(build_graph(m, options).nodes.size() == 2);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0],
             ContainsSubstring("`n` is declared with [1,3], it is f32[3]; `y` is declared with [7]"));
}

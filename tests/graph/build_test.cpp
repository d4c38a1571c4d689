// build_graph: what it accepts, what it computes ahead, and that it lists every problem of a model.
#include "catch.h"
#include "nestor/graph.h"
#include "tests/graph/files.h"
#include "tests/graph/run.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string x_of(const std::string& shape, const std::string& dtype = "f32") {
  return R"({"name": "x", "dtype": ")" + dtype + R"(", "shape": )" + shape + "}";
}
// A model of inputs, nodes and weights; its output is y.
std::string model(const std::string& inputs, const std::string& nodes, const std::string& weights = "",
                  const std::string& outputs = "\"y\"") {
  return R"({"opset": 17, "inputs": [)" + inputs + R"(], "outputs": [)" + outputs + R"(], "nodes": [)" +
         nodes + R"(], "weights": {)" + weights + "}}";
}
std::string node(const std::string& op, const std::string& inputs, const std::string& outputs,
                 const std::string& attrs = "") {
  return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [)" + outputs +
         R"(], "attrs": {)" + attrs + "}}";
}
std::string relu(const std::string& in, const std::string& out) {
  return node("Relu", '"' + in + '"', '"' + out + '"');
}
std::string error(const std::string& text, const BuildOptions& options = {}) {
  return error_of([&] { graph_of(text, options); });
}
TensorType output_type(const Graph& g) {
  return g.values[static_cast<size_t>(g.outputs.at(0))].type;
}

}  // namespace

TEST_CASE("Nodes may stand in any order") {
  const Graph g = graph_of(model(x_of("[2]"), relu("b", "y") + "," + relu("a", "b") + "," + relu("x", "a")));
  REQUIRE(g.nodes.size() == 3);
  for (size_t i = 0; i < 3; ++i)
    CHECK(g.values[static_cast<size_t>(g.nodes[i].outputs[0])].producer == static_cast<int>(i));
  CHECK(g.nodes[0].inputs[0] == g.inputs[0]);
  CHECK(g.nodes[2].outputs[0] == g.outputs[0]);
}

TEST_CASE("Symbolic dimensions get their values from the options") {
  const std::string text = model(x_of(R"(["N", 3, null])"), relu("x", "y"), "",
                                 R"({"name": "y", "dtype": "f32", "shape": ["N", 3, "M"]})");
  CHECK(output_type(graph_of(text, {{{"N", 5}, {"x.2", 0}}, {}})).shape == Dims{5, 3, 0});
  CHECK_THAT(error(text),
             ContainsSubstring("dimensions N, x.2") && ContainsSubstring("--dim N=... --dim x.2=..."));
  CHECK_THAT(error(text, {{{"N", 5}, {"x.2", 2}, {"Q", 1}}, {}}),
             ContainsSubstring("--dim Q=1") && ContainsSubstring("no input"));
  CHECK_THAT(error(text, {{{"N", -5}, {"x.2", 2}}, {}}), ContainsSubstring("-5"));
}

TEST_CASE("Shapes that are computed from shapes are known") {
  const std::string weights =
      R"("zero": {"dtype": "i64", "shape": [1], "data": [0]}, "rest": {"dtype": "i64", "shape": [1], "data": [-1]})";
  const std::string nodes = node("Shape", R"("x")", R"("s")") + "," +
                            node("Gather", R"("s", "zero")", R"("n")", R"("axis": 0)") + "," +
                            node("Concat", R"("n", "rest")", R"("to")", R"("axis": 0)") + "," +
                            node("Reshape", R"("x", "to")", R"("r")") + "," +
                            node("ConstantOfShape", R"("s")", R"("c")") + "," + relu("r", "y");
  const Graph g = graph_of(model(x_of(R"(["N", 3, 4])"), nodes, weights, R"("y", "c")"), {{{"N", 2}}, {}});
  CHECK(output_type(g).shape == Dims{2, 12});
  CHECK(count(g, "Shape") + count(g, "Gather") + count(g, "Concat") == 0);
  CHECK(g.values[static_cast<size_t>(g.outputs[1])].constant.shape() == Dims{2, 3, 4});
  const Values in = random_inputs(g);
  CHECK(run_unfused(g, in).at("y").size() == 24);
}

TEST_CASE("The evaluator that is passed computes the small constants") {
  int calls = 0;
  BuildOptions options;
  options.evaluate = [&](const PrimFunc& f, const std::vector<Tensor>& in) {
    ++calls;
    return evaluate_by_interpreter(f, in);
  };
  const std::string w = R"("a": {"dtype": "f32", "shape": [2], "data": [1, 2]})";
  const Graph g =
      graph_of(model(x_of("[2]"),
                     node("Add", R"("a", "a")", R"("b")") + "," + node("Mul", R"("x", "b")", R"("y")"), w),
               options);
  CHECK(calls == 1);
  REQUIRE(g.nodes.size() == 1);
  CHECK(g.values[static_cast<size_t>(g.nodes[0].inputs[1])].constant.get(1) == 4);
}

TEST_CASE("Zero-sized dimensions are legal") {
  const Graph g = graph_of(model(x_of("[0, 3]"), relu("x", "y")));
  CHECK(output_type(g).shape == Dims{0, 3});
  CHECK(run_unfused(g, random_inputs(g)).at("y").size() == 0);
}

TEST_CASE("Optional inputs and outputs may be left out") {
  const std::string w =
      R"("w": {"dtype": "f32", "shape": [1, 1, 1, 1], "data": [2]}, "hi": {"dtype": "f32", "shape": [], "data": [1]})";
  const Graph g = graph_of(model(
      x_of("[1, 1, 2, 2]"),
      node("Conv", R"("x", "w", "")", R"("c")") + "," + node("Clip", R"("c", "", "hi")", R"("y", "")"), w));
  CHECK(g.nodes[0].inputs.size() == 2);
  CHECK(g.nodes[1].inputs[1] == -1);
}

TEST_CASE("A node may be asked for any of its outputs, and for no others") {
  const std::string w = R"("g": {"dtype": "f32", "shape": [4], "data": [1, 2, 3, 4]})", x = x_of("[3, 4]");
  // Of three outputs those whose bit is set.
  const auto values = [&](const std::string& op, const std::string& inputs, int wanted) {
    std::string outputs, asked;
    for (int i = 0; i < 3; ++i) {
      const std::string name = std::string("\"") + "abc"[i] + "\"";
      outputs += (i ? ", " : "") + (wanted >> i & 1 ? name : "\"\"");
      if (wanted >> i & 1) asked += (asked.empty() ? "" : ", ") + name;
    }
    Graph g = graph_of(model(x, node(op, inputs, outputs), w, asked));
    check_unchanged(g, [](Graph& changed) { optimize(changed, evaluate_by_interpreter); });
    return run_unfused(g, random_inputs(g));
  };
  for (const auto& [op, inputs] :
       {std::pair{"LayerNormalization", R"("x", "g")"}, std::pair{"DynamicQuantizeLinear", R"("x")"},
        std::pair{"Split", R"("x")"}}) {
    const Values all = values(op, inputs, 7);
    CHECK(all.size() == 3);
    for (int wanted = 1; wanted < 7; ++wanted)
      for (const auto& [name, value] : values(op, inputs, wanted)) {
        INFO(op << " asked for " << wanted);
        CHECK(value.shape() == all.at(name).shape());
        CHECK(value.get(0) == all.at(name).get(0));
      }
  }
  CHECK(graph_of(model(x, node("Relu", R"("x")", R"("")") + "," + relu("x", "y"))).nodes.size() == 1);
}

TEST_CASE("Tensors have at most 64 dimensions") {
  std::string ones = "1", axes = "0";
  for (int i = 1; i < 64; ++i) ones += ", 1", axes += ", " + std::to_string(i);
  CHECK(output_type(graph_of(model(x_of("[" + ones + "]"), relu("x", "y")))).shape.size() == 64);
  CHECK_THAT(error(model(x_of("[1, " + ones + "]"), relu("x", "y"))),
             ContainsSubstring("input `x` has 65 dimensions; at most 64 are supported"));
  const std::string w = R"("axes": {"dtype": "i64", "shape": [64], "data": [)" + axes + "]}";
  const std::string unsqueeze = node("Unsqueeze", R"("x", "axes")", R"("y")");
  CHECK(output_type(graph_of(model(x_of("[]"), unsqueeze, w))).shape.size() == 64);
  CHECK_THAT(error(model(x_of("[2]"), unsqueeze, w)), ContainsSubstring("output 0 has 65 dimensions"));
}

TEST_CASE("What is wrong with a graph is named") {
  const std::string x = x_of("[2, 3]");
  CHECK_THAT(error(model(x, relu("b", "a") + "," + relu("a", "b") + "," + relu("x", "y"), "", R"("y", "a")")),
             ContainsSubstring("cycle: `a` needs `b`, `b` needs `a`"));
  CHECK_THAT(error(model(x, relu("y", "y"))), ContainsSubstring("cycle: `y` needs `y`"));
  CHECK_THAT(error(model(x, relu("x", "y") + "," + relu("x", "y"))),
             ContainsSubstring("two values are named `y`: made by Relu node that makes `y`"));
  CHECK_THAT(error(model(x, relu("x", "x") + "," + relu("x", "y"))),
             ContainsSubstring("two values are named `x`: an input and"));
  CHECK_THAT(error(model(x + "," + x, relu("x", "y"))), ContainsSubstring("two values are named `x`"));
  CHECK_THAT(error(model(x, relu("input", "y"))), ContainsSubstring("reads `input`, which nothing defines"));
  CHECK_THAT(error(model(x, relu("x", "hidden1") + "," + relu("hidden1", "z") + "," + relu("hiden1", "y"), "",
                         "\"y\", \"z\"")),
             ContainsSubstring("did you mean `hidden1`?"));
  CHECK_THAT(error(model(x, relu("x", "z"))), ContainsSubstring("output `y` is made by no node"));
  CHECK_THAT(error(model(x, relu("x", "y"), "", R"("y", "y")")), ContainsSubstring("listed twice"));
  CHECK_THAT(error(model(x, relu("x", "y"), "", "")), ContainsSubstring("no outputs"));
  CHECK_THAT(error(model(x_of("[-2, 3]"), relu("x", "y"))),
             ContainsSubstring("dimension 0 of input `x` is -2"));
  CHECK_THAT(error(model(x_of("[4611686018427387904, 4]"), relu("x", "y"))), ContainsSubstring("too large"));
  CHECK_THAT(error(model(R"("x")", relu("x", "y"))), ContainsSubstring("input `x` has no element type"));
  CHECK_THAT(error(model(R"({"name": "x", "dtype": "f32"})", relu("x", "y"))),
             ContainsSubstring("input `x` has no shape"));
  CHECK_THAT(error(model(x, relu("x", "y"), "", R"({"name": "y", "dtype": "i64"})")),
             ContainsSubstring("declared as i64"));
}

TEST_CASE("What is wrong with a node is named") {
  const std::string x = x_of("[1, 2, 4, 4]");
  const std::string w = R"("w": {"dtype": "f32", "shape": [1, 2, 3, 3], "data": [)" +
                        std::string("0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0") + "]}";
  const auto conv = [&](const std::string& attrs) {
    return error(model(x, node("Conv", R"("x", "w")", R"("y")", attrs), w));
  };
  CHECK(conv("").empty());
  CHECK_THAT(conv(R"("strides": [0, 1])"), ContainsSubstring("m.json") &&
                                               ContainsSubstring("Conv node that makes `y`") &&
                                               ContainsSubstring("strides"));
  CHECK_THAT(conv(R"("group": "two")"), ContainsSubstring("`group` is a string"));
  CHECK_THAT(conv(R"("stride": [2, 2])"), ContainsSubstring("the operator has no attribute `stride`") &&
                                              ContainsSubstring("did you mean `strides`?"));
  CHECK_THAT(conv(R"("storage_order": 1)"), ContainsSubstring("it has auto_pad, dilations, group"));
  CHECK(conv(R"("__origin": "layer 3")").empty());
  CHECK_THAT(error(model(x, node("Relu", R"("x")", R"("y")", R"("alpha": 0.1)"))),
             ContainsSubstring("no attribute `alpha`") && ContainsSubstring("it has none"));
  CHECK_THAT(error(model(x, node("Conv", R"("x")", R"("y")"))),
             ContainsSubstring("it has 1 inputs, it takes 2 to 3"));
  CHECK_THAT(error(model(x, node("Relu", R"("x", "x")", R"("y")"))),
             ContainsSubstring("has 2 inputs, it takes 1"));
  CHECK_THAT(error(model(x, node("Conv", R"("x", "", "x")", R"("y")"))),
             ContainsSubstring("input 1 can't be omitted"));
  CHECK_THAT(error(model(x, node("Relu", R"("x")", R"("y", "z")"))),
             ContainsSubstring("has 2 outputs, it gives 1"));
  CHECK_THAT(error(model(x_of("[2, 3]"), node("Add", R"("x", "b")", R"("y")"),
                         R"("b": {"dtype": "f32", "shape": [4], "data": [1,2,3,4]})")),
             ContainsSubstring("broadcast"));
  // Found only when the constant is computed.
  CHECK_THAT(
      error(model(
          x, node("Gather", R"("b", "i")", R"("g")") + "," + relu("x", "y"),
          R"("b": {"dtype": "f32", "shape": [4], "data": [1,2,3,4]}, "i": {"dtype": "i64", "shape": [1], "data": [9]})",
          R"("y", "g")")),
      ContainsSubstring("Gather node that makes `g`"));
  CHECK_THAT(
      error(model(x, node("Expand", R"("x", "s")", R"("y")"),
                  R"("s": {"dtype": "i64", "shape": [5], "data": [9223372036854775807,1,1,1,1]})")),
      ContainsSubstring("Expand node") && (ContainsSubstring("too large") || ContainsSubstring("overflow")));
}

TEST_CASE("All unsupported nodes are listed in one error, and nothing that follows from them") {
  Model m = model_of(model(
      x_of("[2, 3]"), node("Frobnicate", R"("x")", R"("a")") + "," + node("Conv2", R"("a")", R"("b")") + "," +
                          node("If", R"("x")", R"("c")") + "," + relu("b", "d") + "," +
                          node("MatMul", R"("x", "x")", R"("e")") + "," +
                          R"({"op": "Relu", "domain": "com.acme", "inputs": ["x"], "outputs": ["f"]},)" +
                          node("Gelu", R"("x")", R"("g")") + "," +
                          node("Sum", R"("d", "c", "e", "f", "g")", R"("y")")));
  m.nodes[4].graphs["body"] = std::make_shared<ModelGraph>();
  m.nodes[4].refused_attrs["table"] = "a tensor of string";
  const std::string e = error_of([&] { build_graph(m); });
  CHECK_THAT(e, ContainsSubstring("m.json: error: the model has 7 problems"));
  CHECK_THAT(
      e, ContainsSubstring("Frobnicate node that makes `a` (opset 17, f32): the operator isn't supported"));
  CHECK_THAT(
      e, ContainsSubstring(
             "Conv2 node that makes `b` (opset 17): the operator isn't supported (did you mean `Conv`?)"));
  CHECK_THAT(e, ContainsSubstring("If node that makes `c` (opset 17, f32): it must have a condition"));
  for (const char* what : {"`body` is a graph", "`table` is a tensor of string"})
    CHECK_THAT(
        e, ContainsSubstring("MatMul node that makes `e` (opset 17, f32): attribute " + std::string(what)));
  CHECK_THAT(e, ContainsSubstring("of domain com.acme"));
  CHECK_THAT(e, ContainsSubstring("Gelu node that makes `g` (opset 17, f32): this opset's Gelu isn't "
                                  "supported (opset 20 and later is)"));
}

TEST_CASE("Initializers that are inputs too are constants") {
  Model m = model_of(model(x_of("[2]"), node("Add", R"("x", "w")", R"("y")"),
                           R"("w": {"dtype": "f32", "shape": [2], "data": [1, 2]})"));
  m.inputs.push_back({"w", DType::f32, {{2, ""}}, true, true});
  CHECK(build_graph(m).inputs.size() == 1);
  m.inputs.back().dtype = DType::i64;
  CHECK_THAT(error_of([&] { build_graph(m); }),
             ContainsSubstring("initializer `w` is f32, the input of that name is i64"));
}

TEST_CASE("A graph prints the same each time, one node a line") {
  const std::string w = R"("w": {"dtype": "f32", "shape": [2], "data": [1, 2.5]})";
  const std::string text = model(x_of("[2]"),
                                 R"({"op": "Add", "name": "add1", "inputs": ["x", "w"], "outputs": ["a"]},)" +
                                     node("LeakyRelu", R"("a")", R"("y")", R"("alpha": 0.25)"),
                                 w);
  CHECK(print(graph_of(text)) ==
        "graph model(x: f32[2]) -> (y: f32[2]) {\n"
        "  const w: f32[2] = [1,2.5]\n"
        "  a: f32[2] = Add(x, w)  # add1\n"
        "  y: f32[2] = LeakyRelu(a) {alpha=0.25}\n"
        "}\n");
}

// Graph passes: what each leaves behind, and that outputs stay what they were.
#include "src/graph/passes.h"

#include <set>

#include "catch.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// A model on x: f32[1,4,5,5] with seeded weights of the given shapes.
Model model(const std::string& nodes,
            const std::vector<std::pair<std::string, std::vector<int64_t>>>& weights = {},
            const std::string& outputs = "\"y\"", const std::string& shape = "[1,4,5,5]") {
  Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": )" + shape +
                     R"(}], "outputs": [)" + outputs + R"(], "nodes": [)" + nodes + "]}");
  uint64_t seed = 10;
  for (const auto& [name, dims] : weights) {
    Tensor t = Tensor::random(DType::f32, dims, seed++);
    if (name.starts_with("var"))
      for (int64_t i = 0; i < t.size(); ++i) t.set(i, 0.6 + t.get(i));  // variances are positive
    m.initializers.emplace_back(name, t);
  }
  return m;
}
std::string node(const std::string& op, const std::string& inputs, const std::string& out,
                 const std::string& attrs = "") {
  std::string list;
  for (size_t at = 0; at < inputs.size();) {
    const size_t end = std::min(inputs.find(' ', at), inputs.size());
    list += (list.empty() ? "\"" : ", \"") + inputs.substr(at, end - at) + "\"";
    at = end + 1;
  }
  return R"({"op": ")" + op + R"(", "inputs": [)" + list + R"(], "outputs": [")" + out + R"("], "attrs": {)" +
         attrs + "}}";
}
std::string join(const std::vector<std::string>& nodes) {
  std::string out;
  for (const std::string& n : nodes) out += (out.empty() ? "" : ",") + n;
  return out;
}
const std::vector<std::pair<std::string, std::vector<int64_t>>> kNorm = {
    {"scale", {6}}, {"bias", {6}}, {"mean", {6}}, {"var", {6}}};

void optimize_all(Graph& g) {
  optimize(g, evaluate_by_interpreter);
}

// The producers of values stand where the values say.
void check_whole(const Graph& g) {
  std::vector<bool> made(g.values.size(), false);
  for (ValueId v : g.inputs) made[static_cast<size_t>(v)] = true;
  for (size_t v = 0; v < g.values.size(); ++v)
    if (g.values[v].constant.defined()) made[v] = true;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for (ValueId v : g.nodes[i].inputs) CHECK((v < 0 || made[static_cast<size_t>(v)]));
    for (ValueId v : g.nodes[i].outputs)
      if (v >= 0) {
        CHECK(g.values[static_cast<size_t>(v)].producer == static_cast<int>(i));
        made[static_cast<size_t>(v)] = true;
      }
  }
  for (ValueId v : g.outputs) CHECK(made[static_cast<size_t>(v)]);
}

}  // namespace

TEST_CASE("Nodes that change nothing go, the outputs' names stay") {
  Graph g = build_graph(model(
      join({node("Identity", "x", "a"), node("Relu", "a", "b"), node("Dropout", "b", "c"),
            node("Cast", "c", "d", R"("to": "f32")"), node("Flatten", "d", "f"), node("Flatten", "f", "y")}),
      {}, R"("y", "f")"));
  check_unchanged(g, [](Graph& h) { remove_identities(h, {}); });
  check_whole(g);
  CHECK(g.nodes.size() == 3);  // Relu, Flatten, and an Identity: both of its sides are outputs
  CHECK(count(g, "Identity") == 1);
}

TEST_CASE("An output that is an input stays") {
  Graph g = build_graph(model(node("Identity", "x", "y")));
  check_unchanged(g, optimize_all);
  CHECK(count(g, "Identity") == 1);
  const Partition p = partition(g);
  CHECK(p.calls.empty());
  CHECK(p.alias.at(g.outputs[0]) == g.inputs[0]);
}

TEST_CASE("The maker of an intermediate takes the name of the output that it is") {
  Graph g = build_graph(model(
      join({node("Relu", "x", "a"), node("Neg", "a", "b"), node("Identity", "a", "y")}), {}, R"("y", "b")"));
  check_unchanged(g, optimize_all);
  check_whole(g);
  CHECK(g.nodes.size() == 2);
}

TEST_CASE("Two transpositions are one, or none") {
  const std::string p = R"("perm": [0, 2, 3, 1])", q = R"("perm": [0, 3, 1, 2])",
                    r = R"("perm": [3, 2, 1, 0])";
  Graph g = build_graph(
      model(join({node("Transpose", "x", "a", p), node("Transpose", "a", "b", q), node("Relu", "b", "y")})));
  check_unchanged(g, optimize_all);
  CHECK(count(g, "Transpose") == 0);
  g = build_graph(model(join({node("Transpose", "x", "a", p), node("Transpose", "a", "b", r),
                              node("Transpose", "b", "c"), node("Relu", "c", "y")})));
  check_unchanged(g, optimize_all);
  CHECK(count(g, "Transpose") == 1);
}

TEST_CASE("Constants are folded by running the operators") {
  const auto weights = std::vector<std::pair<std::string, std::vector<int64_t>>>{{"w", {6, 50}}, {"b", {6}}};
  Graph g =
      build_graph(model(join({node("Transpose", "w", "wt"), node("Mul", "wt b", "ws"),
                              node("Reshape", "x to", "f"), node("MatMul", "f ws", "y")}) +
                            R"(,{"op": "Constant", "outputs": ["to"], "attrs": {"value_ints": [2, 50]}})",
                        weights));
  // Small ones were folded while the graph was built; a larger one is left for the pass.
  Model big = model(join({node("Mul", "w w", "ws"), node("Add", "x ws", "y")}), {{"w", {70, 4, 5, 5}}});
  Graph h = build_graph(big);
  CHECK(count(h, "Mul") == 1);
  check_unchanged(h, [](Graph& k) { fold_constants(k, evaluate_by_interpreter); });
  CHECK(count(h, "Mul") == 0);
  check_unchanged(g, optimize_all);
  CHECK(g.nodes.size() == 2);
}

TEST_CASE("BatchNormalization goes into the weights before it") {
  const std::string bn =
      R"(,{"op": "BatchNormalization", "inputs": ["c", "scale", "bias", "mean", "var"], "outputs": ["y"], "attrs": {"epsilon": 0.01}})";
  const auto folds = [&](const std::string& nodes,
                         std::vector<std::pair<std::string, std::vector<int64_t>>> weights,
                         const std::string& shape) {
    weights.insert(weights.end(), kNorm.begin(), kNorm.end());
    Graph g = build_graph(model(nodes + bn, weights, "\"y\"", shape));
    check_unchanged(g, optimize_all, 1e-5);
    check_whole(g);
    CHECK(g.nodes.size() == 1);
  };
  folds(node("Conv", "x w", "c"), {{"w", {6, 4, 3, 3}}}, "[2,4,5,5]");
  folds(node("Conv", "x w b", "c", R"("group": 2)"), {{"w", {6, 2, 3, 3}}, {"b", {6}}}, "[2,4,5,5]");
  folds(node("Conv", "x w b", "c"), {{"w", {6, 4, 3}}, {"b", {6}}}, "[2,4,7]");
  folds(node("ConvTranspose", "x w", "c", R"("strides": [2, 2])"), {{"w", {4, 6, 3, 3}}}, "[2,4,5,5]");
  folds(node("ConvTranspose", "x w b", "c", R"("group": 2)"), {{"w", {4, 3, 2, 2}}, {"b", {6}}}, "[2,4,5,5]");
  folds(node("Gemm", "x w", "c"), {{"w", {3, 6}}}, "[5,3]");
  folds(node("Gemm", "x w b", "c", R"("transB": 1, "alpha": 0.5, "beta": 2.0)"), {{"w", {6, 3}}, {"b", {6}}},
        "[5,3]");
  folds(node("Gemm", "x w b", "c", R"("beta": 3)"), {{"w", {3, 6}}, {"b", {1}}}, "[5,3]");
  folds(node("Gemm", "x w b", "c"), {{"w", {3, 6}}, {"b", {1, 6}}}, "[5,3]");
}

TEST_CASE("Weights made by folding don't take a name that is there") {
  auto weights = kNorm;
  weights.push_back({"w", {6, 4, 3, 3}});
  weights.push_back({"y.weight", {1, 6, 3, 3}});
  Graph g = build_graph(
      model(join({node("Conv", "x w", "c"), node("BatchNormalization", "c scale bias mean var", "y"),
                  node("Mul", "y y.weight", "z")}),
            weights, R"("y", "z")"));
  check_unchanged(g, optimize_all);
  std::set<std::string> names;
  for (const Value& v : g.values) CHECK(names.insert(v.name).second);
}

TEST_CASE("Elsewhere BatchNormalization is a Mul and an Add") {
  const std::string bn =
      R"({"op": "BatchNormalization", "inputs": ["c", "scale", "bias", "mean", "var"], "outputs": ["n"]})";
  auto weights = kNorm;
  weights.push_back({"w", {6, 4, 3, 3}});
  const auto check = [&](const std::string& nodes, const std::string& outputs) {
    Graph g = build_graph(model(nodes + "," + bn, weights, outputs));
    check_unchanged(g, optimize_all, 1e-5);
    check_whole(g);
    CHECK(count(g, "BatchNormalization") == 0);
    CHECK((count(g, "Mul") == 1 && count(g, "Add") == 1));
  };
  check(node("Conv", "x w", "c"), R"("n", "c")");                                  // c is an output
  check(join({node("Conv", "x w", "c"), node("Relu", "c", "y")}), R"("n", "y")");  // c is read twice
  check(join({node("Conv", "x w", "d"), node("Relu", "d", "c")}), R"("n")");       // behind something else
}

TEST_CASE("BatchNormalization of run-time statistics stays") {
  Model m = model(
      R"({"op": "BatchNormalization", "inputs": ["x", "scale", "bias", "mean", "v"], "outputs": ["y"]})",
      {{"scale", {4}}, {"bias", {4}}, {"mean", {4}}});
  m.inputs.push_back({"v", DType::f32, {{4, ""}}});
  Graph g = build_graph(m);
  optimize_all(g);
  CHECK(count(g, "BatchNormalization") == 1);
}

TEST_CASE("Equal nodes and equal constants are one") {
  Model m = model(
      join({node("Add", "x w", "a"), node("Add", "x v", "b"), node("Relu", "a", "c"), node("Relu", "b", "d"),
            node("Mul", "c d", "y"), node("LeakyRelu", "a", "e", R"("alpha": 0.1)"),
            node("LeakyRelu", "b", "f", R"("alpha": 0.2)"), node("Add", "e f", "z")}),
      {{"w", {4, 1, 1}}}, R"("y", "z")");
  m.initializers.emplace_back("v", m.initializers[0].second.clone());
  Graph g = build_graph(m);
  check_unchanged(g, [](Graph& h) { merge_equal_nodes(h, {}); });
  check_whole(g);
  CHECK(count(g, "Add") == 2);
  CHECK(count(g, "Relu") == 1);
  CHECK(count(g, "LeakyRelu") == 2);
}

TEST_CASE("Equal outputs keep both names") {
  for (const char* outputs : {R"("a", "b")", R"("b", "a")", R"("b")"}) {
    Graph g = build_graph(model(join({node("Relu", "x", "a"), node("Relu", "x", "b")}), {}, outputs));
    check_unchanged(g, optimize_all);
    check_whole(g);
    CHECK(count(g, "Relu") == 1);
  }
}

TEST_CASE("What leads to no output is dropped") {
  Graph g = build_graph(
      model(join({node("Relu", "x", "y"), node("Neg", "x", "a"), node("Add", "a w", "b")}), {{"w", {5}}}));
  check_unchanged(g, [](Graph& h) { remove_dead_nodes(h, {}); });
  check_whole(g);
  CHECK(g.nodes.size() == 1);
  CHECK(g.values.size() == 2);
}

TEST_CASE("A mask that nobody reads doesn't keep a Dropout") {
  Graph g = build_graph(
      model(R"({"op": "Dropout", "inputs": ["x"], "outputs": ["a", "mask"]},)" + node("Relu", "a", "y")));
  check_unchanged(g, optimize_all);
  CHECK(g.nodes.size() == 1);
}

TEST_CASE("Optimizing twice changes nothing more") {
  const std::string bn =
      R"({"op": "BatchNormalization", "inputs": ["c", "scale", "bias", "mean", "var"], "outputs": ["n"]})";
  auto weights = kNorm;
  weights.push_back({"w", {6, 4, 3, 3}});
  Graph g = build_graph(model(join({node("Conv", "x w", "c"), bn, node("Relu", "n", "y")}), weights));
  optimize_all(g);
  const std::string once = print(g);
  optimize_all(g);
  CHECK(print(g) == once);
}

// What folding may store and compute: small models must not make large constants, nor take long.
#include "src/graph/fold_budget.h"

#include "catch.h"
#include "src/graph/edit.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// Zeros, so that nothing is computed; counts the calls.
struct Zeros {
  int calls = 0;
  EvaluateFn evaluator() {
    return [this](const PrimFunc& f, const std::vector<Tensor>&) {
      ++calls;
      std::vector<Tensor> out;
      for (const Param& p : f.params) {
        if (p.role != Role::out) continue;
        std::vector<int64_t> shape;
        for (const Expr& e : p.decl.shape) shape.push_back(as_int(e).value());
        out.emplace_back(p.decl.buffer->type.dtype, shape);
      }
      return out;
    };
  }
};

// x + w, where w went through nodes: name is "w0" before the first and "w<N>" behind the last.
Graph behind(const std::vector<std::string>& nodes, const std::vector<int64_t>& shape) {
  std::string list;
  for (const std::string& n : nodes) list += n + ",";
  Model m =
      model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1]}], "outputs": ["y"],
    "nodes": [)" +
               list + R"({"op": "Add", "inputs": ["x", "w)" + std::to_string(nodes.size()) +
               R"("], "outputs": ["y"]}]})");
  m.initializers.emplace_back("w0", Tensor(DType::f32, shape));
  return build_graph(m);
}

std::vector<std::string> chain(int count, const std::string& op, int reads, const std::string& attrs) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    std::string inputs;
    for (int k = 0; k < reads; ++k) inputs += (k ? ", \"w" : "\"w") + std::to_string(i) + "\"";
    out.push_back(R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": ["w)" +
                  std::to_string(i + 1) + R"("], "attrs": {)" + attrs + "}}");
  }
  return out;
}

int64_t constant_bytes(const Graph& g) {
  int64_t bytes = 0;
  for (const Value& v : g.values)
    if (v.constant.defined()) bytes += v.constant.bytes();
  return bytes;
}

}  // namespace

TEST_CASE("A chain of nodes that each make four times what they read isn't folded to its end") {
  Graph g = behind(chain(12, "Concat", 4, R"("axis": 0)"), {65536});  // 4 TiB in the end
  Zeros zeros;
  fold_constants(g, zeros.evaluator());
  CHECK(zeros.calls == 3);
  CHECK(g.nodes.size() == 12 - 3 + 1);
  CHECK(constant_bytes(g) == 16 << 20);
}

TEST_CASE("A long chain that keeps its size is folded, and only its end is kept") {
  Graph g = behind(chain(300, "Neg", 1, ""), {100000});
  Zeros zeros;
  fold_constants(g, zeros.evaluator());
  CHECK(zeros.calls == 300);
  CHECK(g.nodes.size() == 1);
  CHECK(constant_bytes(g) == 400000);
}

TEST_CASE("What views share isn't let go twice") {
  std::string nodes, parts;  // each Neg reads the weights through a Flatten of its own
  for (int i = 1; i < 400; ++i) {
    const std::string n = std::to_string(i);
    nodes += R"({"op": "Flatten", "inputs": ["w0"], "outputs": ["v)" + n + "\"]},";
    nodes += R"({"op": "Neg", "inputs": ["v)" + n + R"("], "outputs": ["n)" + n + "\"]},";
    parts += ", \"n" + n + "\"";
  }
  Model m =
      model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1]}], "outputs": ["y"],
    "nodes": [)" +
               nodes + R"({"op": "Sum", "inputs": ["x")" + parts + R"(], "outputs": ["y"]}]})");
  m.initializers.emplace_back("w0", Tensor(DType::f32, {1, 100000}));
  Graph g = build_graph(m);
  Zeros zeros;
  fold_constants(g, zeros.evaluator());
  CHECK(zeros.calls < 180);  // 64 MiB and 4 times the weights: 171
  CHECK(zeros.calls > 160);
}

TEST_CASE("Work has a limit, a product of large weights is left to run time") {
  for (const int64_t size : {64, 8192}) {
    Graph g = behind({R"({"op": "MatMul", "inputs": ["w0", "w0"], "outputs": ["w1"]})"}, {size, size});
    Zeros zeros;
    fold_constants(g, zeros.evaluator());
    CHECK(zeros.calls == (size == 64));
    CHECK(g.nodes.size() == (size == 64 ? 1 : 2));
  }
}

TEST_CASE("What a shape might depend on has a limit too") {
  std::string nodes, parts;
  for (int i = 0; i < 3000; ++i) {
    const std::string n = std::to_string(i);
    nodes += R"({"op": "Expand", "inputs": ["w0", "shape"], "outputs": ["e)" + n + "\"]},";
    parts += ", \"e" + n + "\"";
  }
  Model m =
      model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f64", "shape": [1]}], "outputs": ["y"],
    "nodes": [)" +
               nodes + R"({"op": "Concat", "inputs": ["x")" + parts +
               R"(], "outputs": ["y"], "attrs": {"axis": 0}}],
    "weights": {"shape": {"dtype": "i64", "shape": [1], "data": [4096]}}})");
  m.initializers.emplace_back("w0", Tensor(DType::f64, {1}));
  Zeros zeros;
  BuildOptions options;
  options.evaluate = zeros.evaluator();
  const Graph g = build_graph(m, options);
  CHECK(zeros.calls == 2048);  // 64 MiB of f64[4096]
}

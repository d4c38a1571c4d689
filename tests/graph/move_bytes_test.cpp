// What moves elements that bytes stand for moves the bytes.
#include <random>

#include "catch.h"
#include "nestor/graph.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// q: u8[1,4,6,5] -> DequantizeLinear -> nodes, which make m of x -> `behind`, which makes y.
Graph model(const std::string& nodes, const std::string& behind, const std::string& scale = "[0.25]",
            const std::string& axis = "1") {
  return graph_of(R"({"opset": 17, "inputs": [{"name": "q", "dtype": "u8", "shape": [1,4,6,5]},
                                              {"name": "p", "dtype": "u8", "shape": [1,4,6,5]}],
    "initializers": {"s": {"dtype": "f32", "shape": [)" +
                  std::string(scale.find(',') == std::string::npos ? "1" : "4") + R"(], "data": )" + scale +
                  R"(}, "t": {"dtype": "f32", "shape": [], "data": [0.5]},
      "z": {"dtype": "u8", "shape": [], "data": [3]}, "k": {"dtype": "i64", "shape": [2], "data": [4,30]},
      "from": {"dtype": "i64", "shape": [1], "data": [2]}, "to": {"dtype": "i64", "shape": [1], "data": [9]}},
    "outputs": ["y"], "nodes": [
    {"op": "DequantizeLinear", "inputs": ["q","s"], "outputs": ["x"], "attrs": {"axis": )" +
                  axis + "}}," + nodes + "," + behind + "]}");
}

const std::string kSame = R"({"op": "QuantizeLinear", "inputs": ["m","s"], "outputs": ["b"]},
                             {"op": "Cast", "inputs": ["b"], "outputs": ["y"], "attrs": {"to": 6}})";
const std::string kOther = R"({"op": "QuantizeLinear", "inputs": ["m","t"], "outputs": ["y"]})";
const std::string kPool = R"({"op": "MaxPool", "inputs": ["x"], "outputs": ["m"],
                              "attrs": {"kernel_shape": [3,2], "pads": [1,1,1,0], "strides": [2,1]}})";

Values inputs_of(const Graph& g) {
  std::mt19937_64 rng(3);
  Values in;
  for (const ValueId v : g.inputs) {
    const Value& value = g.values[static_cast<size_t>(v)];
    Tensor t(value.type.dtype, value.type.shape);
    for (int64_t i = 0; i < t.size(); ++i) t.set_int(i, static_cast<int64_t>(rng() % 256));
    in[value.name] = t;
  }
  return in;
}

// Nodes to and from bytes that are left.
int left(Graph g) {
  const Values in = inputs_of(g), before = run_unfused(g, in);
  move_bytes(g, evaluate_by_interpreter);
  remove_dead_nodes(g, evaluate_by_interpreter);
  check_close(run_unfused(g, in), before, 0);
  check_close(run(g, partition(g, {.channel_block = 4}), in), before, 0);
  for (const Node& n : g.nodes)
    if (n.op == "MaxPool" || n.op == "Concat" || n.op == "Slice" || n.op == "Transpose")
      CHECK(bytes_of(g.values[static_cast<size_t>(n.inputs[0])].type.dtype) == 1);
  return count(g, "DequantizeLinear") + count(g, "QuantizeLinear");
}

}  // namespace

TEST_CASE("Nodes that move elements move bytes; a step back and forth is none") {
  CHECK(left(model(kPool, kSame)) == 0);
  CHECK(left(model(kPool, kOther)) == 2);
  for (const char* node :
       {R"({"op": "Transpose", "inputs": ["x"], "outputs": ["m"], "attrs": {"perm": [0,2,3,1]}})",
        R"({"op": "Reshape", "inputs": ["x","k"], "outputs": ["m"]})",
        R"({"op": "Slice", "inputs": ["x","from","to","from"], "outputs": ["m"]})",
        R"({"op": "Slice", "inputs": ["x","from","to","from"], "outputs": ["n"]},
           {"op": "Flatten", "inputs": ["n"], "outputs": ["m"]})"})
    CHECK(left(model(node, kSame)) == 0);
  CHECK(left(model(kPool, R"({"op": "Sigmoid", "inputs": ["m"], "outputs": ["y"]})")) == 1);
}

TEST_CASE("A concatenation moves bytes of one step; of several, elements") {
  const auto concat = [](const std::string& other) {
    return model(R"({"op": "DequantizeLinear", "inputs": ["p",)" + other + R"(], "outputs": ["w"]},
      {"op": "Concat", "inputs": ["x","w","x"], "outputs": ["m"], "attrs": {"axis": 1}})",
                 kSame);
  };
  CHECK(left(concat(R"("s")")) == 0);
  for (const char* other : {R"("t")", R"("s","z")"}) {
    Graph g = concat(other);
    move_bytes(g, evaluate_by_interpreter);
    CHECK(count(g, "DequantizeLinear") == 2);
    CHECK(count(g, "QuantizeLinear") == 1);
  }
}

TEST_CASE("Several steps move with their axis, and past nothing but transpositions") {
  const std::string turned =
      R"({"op": "Transpose", "inputs": ["x"], "outputs": ["m"], "attrs": {"perm": [2,1,3,0]}})";
  const std::string steps = "[0.25, 0.5, 1, 2]", sum = R"({"op": "Neg", "inputs": ["m"], "outputs": ["y"]})";
  CHECK(left(model(turned, sum, steps, "1")) == 1);
  CHECK(left(model(turned, sum, steps, "-3")) == 1);
  Graph g = model(kPool, sum, steps);
  move_bytes(g, evaluate_by_interpreter);
  CHECK(g.values[static_cast<size_t>(g.nodes.back().inputs[0])].type.dtype == DType::f32);
  CHECK(g.nodes[0].op == "DequantizeLinear");
}

TEST_CASE("A negative step turns the order round: no pooling of its bytes") {
  Graph g = model(kPool, kSame, "[-0.25]");
  move_bytes(g, evaluate_by_interpreter);
  CHECK(g.nodes[0].op == "DequantizeLinear");
}

TEST_CASE("Bytes that the model gives out are still made") {
  Graph g = model(kPool, R"({"op": "QuantizeLinear", "inputs": ["m","s"], "outputs": ["y"]})");
  const Values in = inputs_of(g), before = run_unfused(g, in);
  move_bytes(g, evaluate_by_interpreter);
  check_close(run_unfused(g, in), before, 0);
}

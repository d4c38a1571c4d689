// Fusion and partition: which nodes share a function, and that the functions compute what the nodes do.
#include "catch.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

// Nodes as "y = Add(a, b); z = Relu(y)", with attributes as JSON after a bar: "t = Transpose(y) | \"perm\":
// [1,0]".
std::string nodes_of(const std::string& text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(';', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const auto quoted = [](const std::string& list) {
      std::string q, word;
      for (char c : list + ",") {
        if (c == ',') {
          if (!word.empty() || q.empty()) q += (q.empty() ? "\"" : ",\"") + word + "\"";
          word.clear();
        } else if (c != ' ') {
          word += c;
        }
      }
      return q;
    };
    const size_t eq = line.find('='), open = line.find('('), close = line.find(')', open),
                 bar = line.find('|');
    std::string op;
    for (char c : line.substr(eq + 1, open - eq - 1))
      if (c != ' ') op += c;
    out += (out.empty() ? "" : ",") + (R"({"op": ")" + op) + R"(", "inputs": [)" +
           quoted(line.substr(open + 1, close - open - 1)) + R"(], "outputs": [)" +
           quoted(line.substr(0, eq)) + R"(], "attrs": {)" +
           (bar == std::string::npos ? "" : line.substr(bar + 1)) + "}}";
  }
  return out;
}

struct Case {
  Graph graph;
  Partition partition;

  // x, z: f32 of the shape; weights seeded; output y (or more).
  Case(const std::string& nodes, const std::string& shape = "[1,4,5,5]",
       const std::vector<std::pair<std::string, std::vector<int64_t>>>& weights = {},
       const std::string& outputs = "\"y\"") {
    Model m = model_of(R"({"opset": 20, "inputs": [{"name": "x", "dtype": "f32", "shape": )" + shape +
                       R"(}, {"name": "z", "dtype": "f32", "shape": )" + shape + R"(}], "outputs": [)" +
                       outputs + R"(], "nodes": [)" + nodes_of(nodes) + "]}");
    uint64_t seed = 10;
    for (const auto& [name, dims] : weights)
      m.initializers.emplace_back(name, Tensor::random(DType::f32, dims, seed++));
    for (const auto& [name, list] :
         {std::pair<std::string, std::vector<int64_t>>{"flat", {1, -1}}, {"axes", {2, 3}}}) {
      Tensor t(DType::i64, {2});
      for (int64_t i = 0; i < 2; ++i) t.set_int(i, list[static_cast<size_t>(i)]);
      m.initializers.emplace_back(name, t);
    }
    graph = build_graph(m);
    partition = nestor::partition(graph);
    const Values in = random_inputs(graph);
    check_close(run(graph, partition, in), run_unfused(graph, in), 1e-6);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const KernelCall& c : partition.calls)
      out.push_back(partition.funcs[static_cast<size_t>(c.func)].name);
    return out;
  }
};
using Names = std::vector<std::string>;

std::string params(const PrimFunc& f) {
  std::string out;
  for (const Param& p : f.params)
    out += std::string(out.empty() ? "" : " ") + name_of(p.role) + ":" + p.decl.buffer->name;
  return out;
}

}  // namespace

TEST_CASE("An anchor takes its element-wise epilogue") {
  const Case c("c = Conv(x, w, b); r = Relu(c); y = Add(r, z)", "[1,4,5,5]",
               {{"w", {4, 4, 1, 1}}, {"b", {4}}});
  CHECK(c.names() == Names{"conv2d_bias_relu_add"});
  CHECK(params(c.partition.funcs[0]) == "in:X const:W const:B in:B1 out:Y");
}

TEST_CASE("What an anchor multiplies into is T, with or without a bias") {
  const auto blocks = [](const PrimFunc& f) { return f.allocs.empty() ? "" : f.allocs[0].buffer->name; };
  CHECK(blocks(Case("c = Conv(x, w); y = Relu(c)", "[1,4,5,5]", {{"w", {4, 4, 1, 1}}}).partition.funcs[0]) ==
        "T");
}

TEST_CASE("A residual joins one of two convolutions, the other runs before") {
  const Case c("a = Conv(x, w); b = Conv(z, w); s = Add(a, b); y = Relu(s)", "[1,4,5,5]",
               {{"w", {4, 4, 1, 1}}});
  CHECK(c.names() == Names{"conv2d", "conv2d_add_relu"});
}

TEST_CASE("A residual over a block of layers makes no cycle") {
  const Case c("a = Relu(x); b = Conv(a, w); d = Relu(b); e = Conv(d, w); s = Add(e, a); y = Relu(s)",
               "[1,4,5,5]", {{"w", {4, 4, 1, 1}}});
  CHECK(c.names() == Names{"relu", "conv2d_relu", "conv2d_add_relu"});
}

TEST_CASE("A diamond is fused whole: x * sigmoid(x) behind a convolution") {
  CHECK(Case("c = Conv(x, w); s = Sigmoid(c); y = Mul(c, s)", "[1,4,5,5]", {{"w", {4, 4, 1, 1}}}).names() ==
        Names{"conv2d_sigmoid_mul"});
}

TEST_CASE("What is read elsewhere, or is an output, ends a group") {
  CHECK(Case("a = Add(x, z); b = Relu(a); y = Neg(b)", "[2,3]", {}, R"("y", "b")").names() ==
        Names{"add_relu", "neg"});
  CHECK(Case("a = Add(x, z); b = Relu(a); y = MatMul(a, b)", "[3,3]").names() ==
        Names{"add", "relu", "matmul"});
}

TEST_CASE("Chains of element-wise nodes, with broadcasting, are one function") {
  CHECK(Case("a = Mul(x, w); b = Add(a, v); d = Relu(b); y = Sub(d, z)", "[1,4,5,5]",
             {{"w", {4, 1, 1}}, {"v", {4, 1, 1}}})
            .names() == Names{"mul_add_relu_sub"});
}

TEST_CASE("Nothing is computed more often by being fused") {
  // The sigmoid of 4 elements is not computed again for each of 100.
  CHECK(Case("m = GlobalAveragePool(x); s = Sigmoid(m); y = Mul(x, s)").names() ==
        Names{"global_average_pool_sigmoid", "mul"});
}

TEST_CASE("A reduction ends a chain and takes an epilogue of its shape") {
  CHECK(Case("a = Abs(x); b = Neg(a); y = Softmax(b)", "[3,7]").names() == Names{"abs_neg_softmax"});
  CHECK(Case("a = Abs(x); r = ReduceMean(a, axes); y = Sqrt(r)").names() == Names{"abs_reduce_mean_sqrt"});
  CHECK(Case("a = Softmax(x); y = Softmax(a)", "[3,7]").names() == Names{"softmax", "softmax"});
  CHECK(Case("a = MatMul(x, z); y = Softmax(a)", "[3,3]").names() == Names{"matmul", "softmax"});
  // Centering: the mean is read beside x, by a larger node.
  CHECK(Case("a = Abs(x); m = ReduceMean(a, axes); y = Sub(a, m)").names() ==
        Names{"abs", "reduce_mean", "sub"});
}

TEST_CASE("An element-wise chain joins an epilogue of the same shape only") {
  CHECK(Case("a = Neg(z); c = Conv(x, w); y = Add(c, a)", "[1,4,5,5]", {{"w", {4, 4, 1, 1}}}).names() ==
        Names{"conv2d_neg_add"});
  CHECK(Case("a = Neg(x); y = Conv(a, w)", "[1,4,5,5]", {{"w", {4, 4, 1, 1}}}).names() ==
        Names{"neg", "conv2d"});
  CHECK(Case("c = MatMul(x, z); t = Transpose(c); y = Relu(t)", "[3,3]").names() ==
        Names{"matmul", "transpose_relu"});
}

TEST_CASE("Reshapes are aliases, chained ones of the first value") {
  const Case c("a = Relu(x); b = Reshape(a, flat); d = Flatten(b); e = Relu(d); y = Identity(e)");
  CHECK(c.names() == Names{"relu", "relu_1"});
  const auto id = [&](const std::string& name) {
    for (size_t v = 0; v < c.graph.values.size(); ++v)
      if (c.graph.values[v].name == name) return static_cast<ValueId>(v);
    return -1;
  };
  CHECK(c.partition.alias.at(id("b")) == id("a"));
  CHECK(c.partition.alias.at(id("d")) == id("a"));
  CHECK(c.partition.alias.at(id("y")) == id("e"));
  CHECK(c.partition.calls[1].args == std::vector<ValueId>{id("d"), id("e")});
}

TEST_CASE("A transposition that moves only dimensions of 1 is an alias, another isn't") {
  CHECK(Case("y = Transpose(x) | \"perm\": [0, 2, 1, 3]", "[1,1,5,5]").names().empty());
  CHECK(Case("y = Transpose(x) | \"perm\": [0, 2, 1, 3]", "[1,2,5,5]").names() == Names{"transpose"});
}

TEST_CASE("Layers that differ in their weights only share a function, other sizes don't") {
  const Case c(
      "a = Conv(x, w, b); d = Relu(a); e = Conv(d, v, u); f = Relu(e); g = Conv(f, t, s); y = Relu(g)",
      "[1,4,5,5]",
      {{"w", {4, 4, 1, 1}}, {"b", {4}}, {"v", {4, 4, 1, 1}}, {"u", {4}}, {"t", {3, 4, 1, 1}}, {"s", {3}}});
  CHECK(c.partition.funcs.size() == 2);
  CHECK(c.names() == Names{"conv2d_bias_relu", "conv2d_bias_relu", "conv2d_bias_relu_1"});
  CHECK(c.partition.calls[0].args != c.partition.calls[1].args);
}

TEST_CASE("Constants of one element stand in the code") {
  const Case c("a = Mul(x, w); y = Add(a, v)", "[2,3]", {{"w", {1}}, {"v", {}}});
  CHECK(params(c.partition.funcs[0]) == "in:A out:Y");
}

TEST_CASE("One value read in two places is one parameter") {
  const Case c("a = Mul(x, x); b = Add(a, x); y = Sub(b, z)", "[2,3]");
  CHECK(params(c.partition.funcs[0]) == "in:A in:B out:Y");
}

TEST_CASE("Depthwise convolutions and long chains have names that tell") {
  CHECK(Case("y = Conv(x, w) | \"group\": 4", "[1,4,5,5]", {{"w", {4, 1, 3, 3}}}).names() ==
        Names{"depthwise_conv2d"});
  CHECK(Case("a = Relu(x); b = Neg(a); c = Abs(b); d = Exp(c); e = Sqrt(d); f = Neg(e); y = Abs(f)", "[3]")
            .names() == Names{"relu_neg_abs_exp_sqrt_and_2_more"});
}

TEST_CASE("Partitions print, and print the same each time") {
  const auto text = [] {
    const Case c("c = Conv(x, w); r = Relu(c); y = Flatten(r)", "[1,4,5,5]", {{"w", {4, 4, 1, 1}}});
    return print(c.graph, c.partition);
  };
  const std::string once = text();
  CHECK(once == text());
  CHECK(once.find("conv2d_relu(x, w, r) {") != std::string::npos);
  CHECK(once.find("alias y: f32[1,100] of r") != std::string::npos);
}

TEST_CASE("Without fusion each node is a function") {
  const Case c("a = Relu(x); y = Neg(a)", "[3]");
  CHECK(partition(c.graph, {.fuse = false}).calls.size() == 2);
}

// Channels in blocks: which values of a network lie so, and that it computes what it did.
#include "catch.h"
#include "nestor/graph.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

Graph network(const std::string& nodes, std::vector<std::pair<std::string, std::vector<int64_t>>> weights) {
  Model m = model_of(R"({"opset": 20, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,3,9,7]}],
                         "outputs": ["y"], "nodes": [)" +
                     nodes + "]}");
  uint64_t seed = 10;
  for (const auto& [name, dims] : weights)
    m.initializers.emplace_back(name, Tensor::random(DType::f32, dims, seed++));
  return build_graph(m);
}

std::vector<std::string> blocked_names(const Graph& g, const Partition& p) {
  std::vector<std::string> out;
  for (ValueId v : p.blocked) out.push_back(g.values[static_cast<size_t>(v)].name);
  return out;
}

}  // namespace

TEST_CASE(
    "between convolutions and pooling values lie in blocks, at the network's ends and under views they "
    "don't") {
  const Graph g = network(
      R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"], "attrs": {"pads": [1,1,1,1]}},
    {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
    {"op": "Conv", "inputs": ["r","b"], "outputs": ["d"], "attrs": {"group": 8, "pads": [1,1,1,1], "strides": [2,2]}},
    {"op": "Conv", "inputs": ["d","e"], "outputs": ["f"]},
    {"op": "Conv", "inputs": ["f","h"], "outputs": ["i"]},
    {"op": "Add", "inputs": ["i","d"], "outputs": ["s"]},
    {"op": "MaxPool", "inputs": ["s"], "outputs": ["p"], "attrs": {"kernel_shape": [2,2]}},
    {"op": "Flatten", "inputs": ["p"], "outputs": ["l"]},
    {"op": "MatMul", "inputs": ["l","m"], "outputs": ["y"]})",
      {{"a", {8, 3, 3, 3}}, {"b", {8, 1, 3, 3}}, {"e", {6, 8, 1, 1}}, {"h", {8, 6, 1, 1}}, {"m", {96, 4}}});
  const Values in = random_inputs(g);
  const Values want = run_unfused(g, in);
  for (const int64_t block : {1, 2, 4, 8}) {
    const Partition p = partition(g, {.channel_block = block});
    check_close(run(g, p, in), want, 1e-6);
    if (block == 2 || block == 4) CHECK(blocked_names(g, p) == std::vector<std::string>{"r", "d", "f", "s"});
    if (block == 1) CHECK(p.blocked.empty());
  }
}

TEST_CASE("what stands beyond the channels reaches no result: 1/0 there, while all channels are finite") {
  const Graph g =
      network(R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"]},
    {"op": "Reciprocal", "inputs": ["c"], "outputs": ["r"]},
    {"op": "Conv", "inputs": ["r","b"], "outputs": ["d"], "attrs": {"group": 7, "pads": [1,1,1,1]}},
    {"op": "Conv", "inputs": ["d","e"], "outputs": ["f"], "attrs": {"pads": [1,1,1,1]}},
    {"op": "Softmax", "inputs": ["f"], "outputs": ["s"], "attrs": {"axis": 1}},
    {"op": "Conv", "inputs": ["s","h"], "outputs": ["y"]})",
              {{"a", {7, 3, 3, 3}}, {"b", {7, 1, 3, 3}}, {"e", {15, 7, 3, 3}}, {"h", {3, 15, 1, 1}}});
  const Values in = random_inputs(g);
  const Partition p = partition(g, {.channel_block = 4});
  CHECK(blocked_names(g, p) == std::vector<std::string>{"r", "d", "f", "s"});
  CHECK(stored_shape(g, p, *p.blocked.begin()) == Dims{1, 2, 7, 5, 4});
  check_close(run(g, p, in), run_unfused(g, in), 1e-6);
}

TEST_CASE("weights computed at run time stay row major between who makes them and the convolution") {
  const Graph g =
      network(R"({"op": "Constant", "inputs": [], "outputs": ["from"], "attrs": {"value_ints": [0]}},
    {"op": "Constant", "inputs": [], "outputs": ["to"], "attrs": {"value_ints": [144]}},
    {"op": "Constant", "inputs": [], "outputs": ["along"], "attrs": {"value_ints": [1]}},
    {"op": "Constant", "inputs": [], "outputs": ["shape"], "attrs": {"value_ints": [4,4,3,3]}},
    {"op": "Conv", "inputs": ["x","a"], "outputs": ["c"]},
    {"op": "Flatten", "inputs": ["x"], "outputs": ["f"]},
    {"op": "Slice", "inputs": ["f","from","to","along"], "outputs": ["s"]},
    {"op": "Reshape", "inputs": ["s","shape"], "outputs": ["v"]},
    {"op": "Relu", "inputs": ["v"], "outputs": ["w"]},
    {"op": "Conv", "inputs": ["c","w"], "outputs": ["d"], "attrs": {"pads": [1,1,1,1]}},
    {"op": "Conv", "inputs": ["d","e"], "outputs": ["y"]})",
              {{"a", {4, 3, 3, 3}}, {"e", {3, 4, 1, 1}}});
  const Values in = random_inputs(g);
  const Partition p = partition(g, {.channel_block = 4});
  CHECK(blocked_names(g, p) == std::vector<std::string>{"c", "d"});
  check_close(run(g, p, in), run_unfused(g, in), 1e-6);
}

TEST_CASE("a concatenation of channels that don't fill blocks is row major, and so is what it reads") {
  const Graph g =
      network(R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"]},
    {"op": "Conv", "inputs": ["c","b"], "outputs": ["d"]},
    {"op": "Concat", "inputs": ["c","d"], "outputs": ["k"], "attrs": {"axis": 1}},
    {"op": "Conv", "inputs": ["k","e"], "outputs": ["f"]},
    {"op": "Conv", "inputs": ["f","h"], "outputs": ["y"]})",
              {{"a", {7, 3, 1, 1}}, {"b", {8, 7, 1, 1}}, {"e", {8, 15, 1, 1}}, {"h", {3, 8, 1, 1}}});
  const Values in = random_inputs(g);
  const Partition p = partition(g, {.channel_block = 4});
  CHECK(blocked_names(g, p) == std::vector<std::string>{"d", "f"});
  check_close(run(g, p, in), run_unfused(g, in), 1e-6);
}

TEST_CASE("a softmax over channels takes blocks as they come; matrices have none") {
  const Graph g = network(R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"]},
    {"op": "Softmax", "inputs": ["c"], "outputs": ["s"], "attrs": {"axis": 1}},
    {"op": "Concat", "inputs": ["s","c"], "outputs": ["k"], "attrs": {"axis": 1}},
    {"op": "Transpose", "inputs": ["k"], "outputs": ["t"], "attrs": {"perm": [0,2,3,1]}},
    {"op": "MatMul", "inputs": ["t","m"], "outputs": ["y"]})",
                          {{"a", {8, 3, 3, 3}}, {"m", {16, 4}}});
  const Values in = random_inputs(g);
  const Partition p = partition(g, {.channel_block = 4});
  check_close(run(g, p, in), run_unfused(g, in), 1e-6);
  CHECK(blocked_names(g, p) == std::vector<std::string>{"c"});
}

TEST_CASE("two groups to a block of lanes: row major where a stride leaves nothing to share") {
  const auto blocked = [](const std::string& attrs) {
    const Graph g =
        network(R"({"op": "Conv", "inputs": ["x","a"], "outputs": ["c"], "attrs": {"pads": [1,1,1,1]}},
    {"op": "Conv", "inputs": ["c","b"], "outputs": ["d"], "attrs": {)" +
                    attrs + R"(, "pads": [1,1,1,1]}},
    {"op": "Conv", "inputs": ["d","e"], "outputs": ["f"]},
    {"op": "Conv", "inputs": ["f","h"], "outputs": ["y"]})",
                {{"a", {8, 3, 3, 3}}, {"b", {8, 2, 3, 3}}, {"e", {8, 8, 1, 1}}, {"h", {3, 8, 1, 1}}});
    const Values in = random_inputs(g);
    const Partition p = partition(g, {.channel_block = 4});
    check_close(run(g, p, in), run_unfused(g, in), 1e-6);
    return blocked_names(g, p);
  };
  CHECK(blocked(R"("group": 4)") == std::vector<std::string>{"c", "d", "f"});
  CHECK(blocked(R"("group": 4, "strides": [2,2])") == std::vector<std::string>{"f"});
  CHECK(blocked(R"("group": 4, "strides": [1,2], "dilations": [1,3])") ==
        std::vector<std::string>{"c", "d", "f"});  // rows of 2 pixels fill no 4 lanes
}

TEST_CASE("bytes lie in blocks of channels between convolutions, where these fill them") {
  const auto blocked = [](int64_t channels) {
    Model m = model_of(R"({"opset": 20, "inputs": [{"name": "x", "dtype": "u8", "shape": [1,3,9,7]}],
      "outputs": ["y"], "nodes": [
      {"op": "QLinearConv", "inputs": ["x","s","z","a","s","o","s","z"], "outputs": ["c"]},
      {"op": "QLinearConv", "inputs": ["c","s","z","b","s","o","s","z"], "outputs": ["d"],
       "attrs": {"pads": [1,1,1,1]}},
      {"op": "QLinearConv", "inputs": ["d","s","z","e","s","o","s","z"], "outputs": ["y"]}]})");
    const auto weights = [&](const char* name, std::vector<int64_t> shape) {
      m.initializers.emplace_back(name, Tensor::random(DType::i8, shape, 7));
    };
    weights("a", {channels, 3, 3, 3});
    weights("b", {8, channels, 3, 3});
    weights("e", {5, 8, 1, 1});
    Tensor scale(DType::f32, {});
    scale.set(0, 0.1);
    Tensor zero(DType::u8, {});
    zero.set_int(0, 3);
    m.initializers.emplace_back("s", scale);
    m.initializers.emplace_back("z", zero);
    m.initializers.emplace_back("o", Tensor(DType::i8, {}));
    Graph g = build_graph(m);
    optimize(g, evaluate_by_interpreter);
    const Values in = random_inputs(g);
    const Partition p = partition(g, {.channel_block = 4});
    CHECK(p.funcs.size() == 3);
    check_close(run(g, p, in), run_unfused(g, in), 0);
    return blocked_names(g, p);
  };
  CHECK(blocked(12) == std::vector<std::string>{"c", "d"});
  CHECK(blocked(7) == std::vector<std::string>{"d"});
}

TEST_CASE("an operand in blocks is of use to results in blocks only, also where channels are grouped") {
  const auto blocked = [](const std::string& group, int64_t filters, int64_t channels) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,16,9,9]}],
      "outputs": ["y"], "nodes": [{"op": "Conv", "inputs": ["x","w"], "outputs": ["y"], "attrs": {"group": )" +
                       group + "}}]}");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {filters, channels, 3, 3}, 3));
    const Graph g = build_graph(m);
    return blocked_names(g, partition(g, {.channel_block = 8, .blocked_io = true}));
  };
  CHECK(blocked("1", 8, 16) == std::vector<std::string>{"x", "y"});
  CHECK(blocked("2", 8, 8) == std::vector<std::string>{"x", "y"});
  CHECK(blocked("16", 16, 1) == std::vector<std::string>{"x", "y"});
  CHECK(blocked("2", 2, 8).empty());   // two results are no block
  CHECK(blocked("4", 12, 4).empty());  // groups of three are refused
}

TEST_CASE(
    "groups of a transposed convolution that share a block of results are row major where a stride scatters "
    "them") {
  const auto blocked = [](const std::string& op, int64_t channels, int64_t filters,
                          const std::string& attrs) {
    const std::string x = std::to_string(4 * channels);
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,)" + x +
                       R"(,9,9]}], "outputs": ["y"], "nodes": [{"op": ")" + op +
                       R"(", "inputs": ["x","w"], "outputs": ["y"], "attrs": {"group": 4)" + attrs + "}}]}");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {4 * channels, filters, 3, 3}, 3));
    const Graph g = build_graph(m);
    const Partition p = partition(g, {.channel_block = 8, .blocked_io = true});
    return !blocked_names(g, p).empty();
  };
  const std::string twice = R"(, "strides": [2,2])";
  CHECK(!blocked("ConvTranspose", 8, 4, twice));
  CHECK(!blocked("ConvTranspose", 8, 2, twice));
  CHECK(blocked("ConvTranspose", 8, 8, twice));  // whole blocks of results
  CHECK(!blocked("ConvTranspose", 4, 4, twice));
  CHECK(!blocked("ConvTranspose", 16, 4, twice));
  CHECK(blocked("ConvTranspose", 8, 4, ""));
}

TEST_CASE("groups of which many share a block of results stay row major, of single elements also some") {
  const auto blocked = [](int64_t channels, int64_t filters, int64_t kernel, const std::string& attrs) {
    constexpr int64_t kGroups = 16;
    const std::string x = std::to_string(kGroups * channels);
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,)" + x +
                       R"(,9,9]}], "outputs": ["y"], "nodes": [{"op": "Conv", "inputs": ["x","w"],
      "outputs": ["y"], "attrs": {"group": 16)" +
                       attrs + "}}]}");
    m.initializers.emplace_back("w",
                                Tensor::random(DType::f32, {kGroups * filters, channels, kernel, kernel}, 3));
    const Graph g = build_graph(m);
    return !blocked_names(g, partition(g, {.channel_block = 8, .blocked_io = true})).empty();
  };
  CHECK(!blocked(8, 1, 3, ""));
  CHECK(!blocked(8, 4, 1, ""));
  CHECK(blocked(8, 4, 3, ""));                       // two groups to a block
  CHECK(blocked(1, 1, 3, ""));                       // lanes are next to each other on both sides
  CHECK(blocked(8, 8, 1, ""));                       // whole blocks of results
  CHECK(blocked(8, 1, 3, R"(, "strides": [3,3])"));  // a row of three
}

TEST_CASE("results that a stride takes apart lie in blocks that they don't quite fill") {
  const auto blocked = [](int64_t filters, int64_t stride, int64_t lanes = 16) {
    Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1,4,9,7]}],
      "outputs": ["y"], "nodes": [{"op": "ConvTranspose", "inputs": ["x","w"], "outputs": ["y"],
      "attrs": {"strides": [2,)" +
                       std::to_string(stride) + "]}}]}");
    m.initializers.emplace_back("w", Tensor::random(DType::f32, {4, filters, 3, 5}, 3));
    Graph g = build_graph(m);
    optimize(g, evaluate_by_interpreter);
    return !blocked_names(g, partition(g, {.channel_block = lanes, .blocked_io = true})).empty();
  };
  CHECK(blocked(21, 3));
  CHECK(blocked(21, 4));
  CHECK(!blocked(21, 2));  // 21 of 32
  CHECK(blocked(24, 2));
  CHECK(blocked(17, 2, 8));  // 17 of 24, of lanes that are few
  CHECK(!blocked(9, 2, 8));
}

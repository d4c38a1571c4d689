// Sums that would convert an image between blocked and row-major layout at each read: which get a Reorder
// before them, their order of loops, and that results stay the same.
#include <algorithm>

#include "catch.h"
#include "nestor/library.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

using Ints = std::vector<int64_t>;

struct Behind {  // a pointwise convolution of so many filters
  std::string op;
  Attrs attrs = {};
  Ints weights = {};  // the second input's shape, if there is one
  int64_t filters = 16, size = 28;
};

Model model_of(const Behind& b) {
  Model m;
  m.opsets[""] = 17;
  m.inputs.push_back({"x", DType::f32, {{1, ""}, {16, ""}, {b.size, ""}, {b.size, ""}}});
  m.outputs.push_back({"y", DType::f32, {}, false, false});
  m.initializers.emplace_back("w", Tensor::random(DType::f32, {b.filters, 16, 1, 1}, 1));
  m.nodes.push_back({"Conv", "", "", {"x", "w"}, {"a"}, {}, {}});
  m.nodes.push_back({b.op, "", "", {"a"}, {"y"}, b.attrs, {}});
  if (!b.weights.empty()) {
    m.initializers.emplace_back("v", Tensor::random(DType::f32, b.weights, 2));
    m.nodes.back().inputs.push_back("v");
  }
  return m;
}

Graph graph_of(const Behind& b) {
  return build_graph(model_of(b));
}

CompileOptions eight_lanes() {
  CompileOptions o = checking_options(parse_target("x86-64-v3"));
  o.target.cores = o.threads = 1;
  return o;
}

// Where a copy stands, beside the second node.
std::string copies(const Behind& b) {
  const CompiledModel m = partition_model({graph_of(b), std::nullopt}, eight_lanes());
  const auto is_copy = [](const Node& n) { return n.op == "Reorder"; };
  const auto producer = [&](ValueId v) {
    return std::find_if(m.graph.nodes.begin(), m.graph.nodes.end(),
                        [&](const Node& n) { return n.outputs[0] == v; });
  };
  std::string out;
  auto n = producer(m.graph.outputs[0]);
  if (is_copy(*n)) {
    out = "behind";
    n = producer(n->inputs[0]);
  }
  const auto before = producer(n->inputs[0]);
  return before != m.graph.nodes.end() && is_copy(*before) ? "before" + out : out;
}

const Attrs kWindow{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
const Attrs kEach{{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{16}}};
const Attrs kPadded{{"pads", Ints{1, 1, 1, 1}}};

}  // namespace

TEST_CASE("sums of images in blocks that make row-major ones have a copy made beside them") {
  CHECK(copies({"MaxPool", kWindow}) == "behind");
  CHECK(copies({"AveragePool", kWindow}) == "behind");
  CHECK(copies({"Conv", kEach, {16, 1, 3, 3}}) == "behind");
  CHECK(copies({"Conv", kPadded, {24, 16, 3, 3}}) == "behind");
  const auto few = [](int64_t channels, int64_t filters) {
    return copies(
        {.op = "Conv", .attrs = kPadded, .weights = {filters, channels, 3, 3}, .filters = channels});
  };
  CHECK(few(12, 3) == "before");  // that fill no block
  // Dot products along channels take blocks as they are.
  CHECK(few(16, 3).empty());
  CHECK(few(24, 2).empty());
  CHECK(copies({"Softmax", {{"axis", int64_t{3}}}}) == "before");
  CHECK(copies({"MatMul", {}, {28, 28}}) == "before");
  // A map turns vectors; few results are written singly, a few products read what lies apart.
  CHECK(copies({"Exp"}).empty());
  CHECK(copies({"GlobalAveragePool"}).empty());
  CHECK(copies({"Conv", {}, {3, 16, 1, 1}}).empty());
  CHECK(copies({.op = "MaxPool", .attrs = kWindow, .size = 8}).empty());
  // Nothing lies in blocks.
  CHECK(copies({.op = "MaxPool", .attrs = kWindow, .filters = 3}).empty());
}

TEST_CASE("models with copies beside sums are right") {
  const std::vector<Behind> all = {
      {"MaxPool", kWindow},
      {.op = "AveragePool", .attrs = kWindow, .size = 9},
      {"Conv", kEach, {16, 1, 3, 3}},
      {.op = "Conv", .attrs = kPadded, .weights = {24, 20, 3, 3}, .filters = 20},  // blocks that aren't full
      {"Conv", kPadded, {3, 16, 3, 3}},
      {.op = "Conv", .attrs = kPadded, .weights = {3, 12, 3, 3}, .filters = 12},
      {.op = "Conv", .attrs = kPadded, .weights = {5, 21, 3, 3}, .filters = 21},
      {"Softmax", {{"axis", int64_t{3}}}},
      {"Softmax", {{"axis", int64_t{1}}}},
      {"MatMul", {}, {28, 28}},
      {"ConvTranspose", {{"strides", Ints{2, 2}}}, {16, 5, 3, 3}},
  };
  for (const Behind& b : all) {
    INFO(b.op);
    const CompiledModel m = compile_model({graph_of(b), std::nullopt}, eight_lanes());
    for (const CompiledFunction& f : m.funcs) check_results(f, eight_lanes().target);
    const CompiledModel naive = compile_model({graph_of(b), std::nullopt}, CompileOptions::naive());
    const NamedTensors in{{"x", Tensor::random(DType::f32, {1, 16, b.size, b.size}, 7)}};
    const Tensor want = make_executor(naive)->run(in).at("y");
    const Comparison c = compare(make_executor(m)->run(in).at("y"), want, {1e-4, 1e-5});
    INFO(describe(c, "y", want));
    CHECK(c.ok());
  }
}

TEST_CASE("a scale of a number for each channel is no image that is to be converted") {
  constexpr int64_t kChannels = 4096;
  Behind b{"Conv", kEach, {kChannels, 1, 3, 3}, kChannels, 2};
  b.attrs["group"] = kChannels;
  Model m = model_of(b);
  m.nodes.back().outputs = {"d"};
  m.nodes.push_back({"GlobalAveragePool", "", "", {"a"}, {"s"}, {}, {}});
  m.nodes.push_back({"Mul", "", "", {"d", "s"}, {"m"}, {}, {}});
  m.nodes.push_back({"GlobalAveragePool", "", "", {"m"}, {"y"}, {}, {}});
  const CompiledModel out = partition_model({build_graph(m), std::nullopt}, eight_lanes());
  const auto copies_made = std::count_if(out.graph.nodes.begin(), out.graph.nodes.end(),
                                         [](const Node& n) { return n.op == "Reorder"; });
  CHECK(copies_made == 0);
}

TEST_CASE("what a copy doesn't help has none, and comes to an end") {
  for (const char* spec : {"AveragePool(f32[1,4096,1,1]; kernel_shape=[2,2], pads=[1,1,1,1])",
                           "Conv(f32[1,4096,1,1], const f32[4096,1,2,2]; group=4096, pads=[1,1,1,1])",
                           "ConvTranspose(f32[1,4096,1,1], const f32[4096,1,2,2]; group=4096)"}) {
    INFO(spec);
    CompileOptions options = eight_lanes();
    options.blocked_io = true;
    const CompiledModel m = partition_model(load(spec), options);
    CHECK(std::none_of(m.graph.nodes.begin(), m.graph.nodes.end(),
                       [](const Node& n) { return n.op == "Reorder" || !n.why.empty(); }));
  }
  // Behind a sum, what has a number for each row.
  Model m = model_of({"Conv", kEach, {16, 1, 3, 3}});
  m.nodes.back().outputs = {"d"};
  m.inputs.push_back({"r", DType::f32, {{1, ""}, {16, ""}, {28, ""}, {1, ""}}});
  m.nodes.push_back({"Add", "", "", {"d", "r"}, {"m"}, {}, {}});
  m.nodes.push_back({"GlobalAveragePool", "", "", {"m"}, {"y"}, {}, {}});
  const CompiledModel out = partition_model({build_graph(m), std::nullopt}, eight_lanes());
  CHECK(std::none_of(out.graph.nodes.begin(), out.graph.nodes.end(),
                     [](const Node& n) { return n.op == "Reorder"; }));
}

TEST_CASE("weights that are no constants are no image either") {
  Behind b{"Conv", kPadded, {16, 16, 3, 3}};
  Model m = model_of(b);
  m.initializers.pop_back();
  m.inputs.push_back({"v", DType::f32, {{16, ""}, {16, ""}, {3, ""}, {3, ""}}});
  m.nodes.back().outputs = {"c"};
  m.initializers.emplace_back("u", Tensor::random(DType::f32, {16, 16, 1, 1}, 3));
  m.nodes.push_back({"Conv", "", "", {"c", "u"}, {"e"}, {}, {}});
  m.nodes.push_back({"GlobalAveragePool", "", "", {"e"}, {"y"}, {}, {}});
  const CompiledModel out = partition_model({build_graph(m), std::nullopt}, eight_lanes());
  CHECK(std::none_of(out.graph.nodes.begin(), out.graph.nodes.end(),
                     [](const Node& n) { return n.op == "Reorder"; }));
}

#include "tests/driver/winograd_layer.h"

#include <algorithm>

#include "nestor/library.h"
#include "tests/driver/compiled.h"

namespace nestor {

using Ints = std::vector<int64_t>;

Graph graph_of(const WinogradLayer& l) {
  const auto dims = [](const Ints& shape) {
    std::vector<ModelDim> out;
    for (const int64_t n : shape) out.push_back({n, ""});
    return out;
  };
  Model m;
  m.opsets[""] = 17;
  m.inputs.push_back({"x", DType::f32, dims({l.n, 3, l.height, l.width})});
  m.outputs.push_back({"y", DType::f32, {}, false, false});
  uint64_t seed = 3;
  const auto weight = [&](const char* name, const Ints& shape) {
    m.initializers.emplace_back(name, Tensor::random(DType::f32, shape, seed++));
  };
  weight("w1", {l.channels, 3, 1, 1});
  weight("w3", {2, l.filters, 1, 1});
  weight("b2", {l.filters});
  const Ints w2{l.filters, l.channels, 3, 3};
  if (l.constant_weights)
    weight("w2", w2);
  else
    m.inputs.push_back({"w2", DType::f32, dims(w2)});
  Attrs attrs = l.more;
  attrs["pads"] = l.pads;
  m.nodes.push_back({"Conv", "", "", {"x", "w1"}, {"a"}, {}, {}});
  m.nodes.push_back({"Conv", "", "", {"a", "w2", "b2"}, {"b"}, attrs, {}});
  std::string last = "b";
  if (l.tail == "Relu") m.nodes.push_back({"Relu", "", "", {"b"}, {last = "r"}, {}, {}});
  if (l.tail == "Bytes") {  // rounded to bytes, which a convolution by groups reads
    const auto number = [&](const char* name, DType type, double value) {
      Tensor t(type, {});
      t.set(0, value);
      m.initializers.emplace_back(name, t);
    };
    number("step", DType::f32, 0.05);
    number("zero", DType::u8, 100);
    Tensor bytes(DType::i8, {l.filters, 1, 1, 1});
    for (int64_t i = 0; i < l.filters; ++i) bytes.set_int(i, i * 37 % 200 - 100);
    m.initializers.emplace_back("w4", bytes);
    m.nodes.push_back({"QuantizeLinear", "", "", {"b", "step", "zero"}, {"q"}, {}, {}});
    m.nodes.push_back({"DequantizeLinear", "", "", {"q", "step", "zero"}, {"d"}, {}, {}});
    m.nodes.push_back({"DequantizeLinear", "", "", {"w4", "step"}, {"v"}, {}, {}});
    m.nodes.push_back({"Conv", "", "", {"d", "v"}, {last = "g"}, {{"group", l.filters}}, {}});
  }
  if (l.tail == "Add") m.nodes.push_back({"Add", "", "", {"b", "a"}, {last = "s"}, {}, {}});
  m.nodes.push_back({"Conv", "", "", {last, "w3"}, {"y"}, {}, {}});
  return build_graph(m);
}

CompiledModel forced_winograd(const WinogradLayer& l, int64_t tile, const Target& target) {
  Source source{graph_of(l), std::nullopt};
  const EvaluateFn evaluate = constant_evaluator(target);
  optimize(source.graph, evaluate);
  const PartitionOptions how{.channel_block = target.lanes(4)};
  source.partition = partition(source.graph, how);
  use_winograd(source.graph, *source.partition, how, {.lanes = target.lanes(4), .tile = tile}, evaluate);
  return compile_model(std::move(source), checking_options(target));
}

int count_winograd(const CompiledModel& m) {
  return static_cast<int>(std::count_if(m.graph.nodes.begin(), m.graph.nodes.end(),
                                        [](const Node& n) { return n.op == "WinogradConv"; }));
}

}  // namespace nestor

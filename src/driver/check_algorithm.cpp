// Checks that an algorithm computes what the operator's definition says. Schedules are proved against the
// loop nest that they schedule. But the loop nest of a Winograd convolution is a different one from the
// direct sum, and equals it only in exact arithmetic. So this evaluates the direct sum in f64. The compiled
// function may differ by the rounding errors of Winograd's steps: element by element, by the rules for every
// function, with the transformation of the weights as one of its blocks.
#include <algorithm>
#include <map>

#include "nestor/device.h"
#include "nestor/layout.h"
#include "nestor/ops.h"
#include "src/driver/oracle.h"

namespace nestor {

namespace {

bool is_winograd(const Node& n) {
  return n.domain == "nestor" && n.op == "WinogradConv";
}

// X, U, B, W -> Conv(X, W, B)
Node definition_of(const Node& n) {
  Node conv = n;
  conv.op = "Conv";
  conv.domain = "";
  conv.opset = 11;
  conv.inputs = {n.inputs[0], n.inputs[3], n.inputs[2]};
  conv.attrs.erase("tile");
  return conv;
}

Node weights_of(const Node& n) {
  return {"WinogradWeights", n.name, 1, {n.inputs[3]}, {n.inputs[1]}, {{"tile", n.attrs.at("tile")}},
          "nestor"};
}

class AlgorithmCheck {
 public:
  AlgorithmCheck(const CompiledModel& m, const KernelCall& call, FunctionRun run, uint64_t seed)
      : model_(m), call_(call), run_(std::move(run)), seed_(seed) {}

  std::vector<OutputCheck> run() {
    Graph defined = model_.graph, whole = model_.graph;
    std::vector<int> nodes;
    for (const int i : call_.nodes) {
      Node& n = defined.nodes[static_cast<size_t>(i)];
      if (is_winograd(n)) {
        nodes.push_back(static_cast<int>(whole.nodes.size()));
        whole.nodes.push_back(weights_of(n));
        n = definition_of(n);
      }
    }
    if (nodes.empty()) return {};
    nodes.insert(nodes.end(), call_.nodes.begin(), call_.nodes.end());
    for (const int i : call_.nodes) {
      // Made in the function itself, which the model has as a constant.
      const Node& n = whole.nodes[static_cast<size_t>(i)];
      if (is_winograd(n)) whole.values[static_cast<size_t>(n.inputs[1])].constant = {};
    }
    Oracle oracle = oracle_of(whole, nodes);
    oracle.wanted = oracle_of(defined, call_.nodes).wanted;
    const std::vector<Tensor> got = compiled();
    std::vector<OutputCheck> out;
    for (size_t i = 0; i < got.size(); ++i)
      out.push_back({function().name + " compared with the direct convolution", compare(got[i], oracle, i),
                     oracle.wanted[i]});
    return out;
  }

 private:
  const PrimFunc& function() const { return model_.funcs[static_cast<size_t>(call_.func)].func; }

  // One for each value, whoever asks.
  Tensor tensor(ValueId v) {
    const Value& value = model_.graph.values[static_cast<size_t>(v)];
    if (value.constant.defined()) return value.constant;
    const auto [it, is_new] = inputs_.try_emplace(v);
    if (is_new) it->second = Tensor::random(value.type.dtype, value.type.shape, seed_ + inputs_.size());
    return it->second;
  }

  Oracle oracle_of(const Graph& g, const std::vector<int>& nodes) {
    std::vector<ValueId> args;
    const PrimFunc f = build_function(g, nodes, &args);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < args.size(); ++i)
      if (f.params[i].role != Role::out) inputs.push_back(tensor(args[i]));
    return make_oracle(f, inputs, oracle_target(model_.target));
  }

  // What the model's function makes of the same inputs.
  std::vector<Tensor> compiled() {
    const PrimFunc& f = function();
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < call_.args.size(); ++i) {
      if (f.params[i].role == Role::out) continue;
      Tensor t = tensor(call_.args[i]);
      if (const auto blocks = channel_blocks(model_, call_.args[i])) t = pack(t, *blocks);
      const bool constant = f.params[i].role == Role::constant;
      inputs.push_back(constant ? constant_argument(t, f.params[i].decl)
                                : t.reshaped(logical_shape(f.params[i].decl)));
    }
    std::vector<Tensor> out = run_(model_.funcs[static_cast<size_t>(call_.func)], inputs);
    for (size_t i = 0, next = 0; i < call_.args.size(); ++i) {
      if (f.params[i].role != Role::out) continue;
      const ValueId v = call_.args[i];
      Tensor& t = out[next++];
      if (const auto blocks = channel_blocks(model_, v))
        t = unpack(t.reshaped(physical_shape(*blocks)), *blocks);
      t = t.reshaped(model_.graph.values[static_cast<size_t>(v)].type.shape);
    }
    return out;
  }

  const CompiledModel& model_;
  const KernelCall& call_;
  FunctionRun run_;
  uint64_t seed_;
  std::map<ValueId, Tensor> inputs_;
};

}  // namespace

std::vector<OutputCheck> check_algorithm(const CompiledModel& m, size_t call, uint64_t seed) {
  const auto run = [&](const CompiledFunction& f, const std::vector<Tensor>& inputs) {
    return run_function(f, inputs, m.target);
  };
  if (m.partition.calls.at(call).control) return {};
  return AlgorithmCheck(m, m.partition.calls.at(call), run, seed).run();
}

std::vector<OutputCheck> check_algorithm(const CompiledModel& m, size_t call, const Device& device,
                                         uint64_t seed) {
  const auto run = [&](const CompiledFunction& f, const std::vector<Tensor>& inputs) {
    return device.run(f, inputs);
  };
  if (m.partition.calls.at(call).control) return {};
  return AlgorithmCheck(m, m.partition.calls.at(call), run, seed).run();
}

}  // namespace nestor

#include "tests/graph/run.h"

#include <cmath>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/layout.h"
#include "tests/graph/files.h"

namespace nestor {

Model model_of(const std::string& json) {
  const Folder folder;
  return read_model(folder.write("m.json", json));
}
Graph graph_of(const std::string& json, const BuildOptions& options) {
  return build_graph(model_of(json), options);
}

Values random_inputs(const Graph& g, uint64_t seed) {
  Values out;
  for (ValueId v : g.inputs) {
    const Value& value = g.values[static_cast<size_t>(v)];
    out[value.name] = Tensor::random(value.type.dtype, value.type.shape, seed++);
  }
  return out;
}

Values run(const Graph& g, const Partition& p, const Values& inputs) {
  std::vector<Tensor> tensors(g.values.size());
  for (size_t v = 0; v < g.values.size(); ++v) tensors[v] = g.values[v].constant;
  for (ValueId v : g.inputs)
    tensors[static_cast<size_t>(v)] = inputs.at(g.values[static_cast<size_t>(v)].name);
  const auto get = [&](ValueId v) {
    const auto root = p.alias.find(v);
    const Tensor& t = tensors[static_cast<size_t>(root == p.alias.end() ? v : root->second)];
    REQUIRE(t.defined());
    return t;
  };
  for (const KernelCall& c : p.calls) {
    const PrimFunc& f = p.funcs[static_cast<size_t>(c.func)];
    check_well_formed(f);
    REQUIRE(f.params.size() == c.args.size());
    std::vector<Tensor> in;
    for (size_t i = 0; i < c.args.size(); ++i)
      if (f.params[i].role != Role::out)
        in.push_back(f.params[i].role == Role::constant
                         ? constant_argument(get(c.args[i]), f.params[i].decl)
                         : get(c.args[i]).reshaped(logical_shape(f.params[i].decl)));
    const std::vector<Tensor> out = evaluate_by_interpreter(f, in);
    for (size_t i = 0; i < out.size(); ++i) tensors[static_cast<size_t>(c.args[in.size() + i])] = out[i];
  }
  Values out;
  for (ValueId v : g.outputs)
    out[g.values[static_cast<size_t>(v)].name] = get(v).reshaped(g.values[static_cast<size_t>(v)].type.shape);
  return out;
}

Values run_unfused(const Graph& g, const Values& inputs) {
  return run(g, partition(g, {.fuse = false}), inputs);
}

void check_close(const Values& a, const Values& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, x] : a) {
    INFO("output " << name);
    REQUIRE(b.count(name));
    const Tensor& y = b.at(name);
    REQUIRE(to_string(x.dtype(), x.shape()) == to_string(y.dtype(), y.shape()));
    double worst = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x.get(i)) && std::isnan(y.get(i))) continue;
      const double d = std::fabs(x.get(i) - y.get(i)) / (1 + std::fabs(y.get(i)));
      worst = d >= worst ? d : std::isnan(d) ? INFINITY : worst;
    }
    CHECK(worst <= tolerance);
  }
}

int count(const Graph& g, const std::string& op) {
  int n = 0;
  for (const Node& node : g.nodes) n += node.op == op;
  return n;
}

}  // namespace nestor

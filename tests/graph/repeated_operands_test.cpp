// A node may name its values in any order, and as often as it likes: which buffer an operand is must not
// depend on how many parameters the operands before it have.
#include <algorithm>
#include <array>

#include "catch.h"
#include "nestor/ops.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

Tensor tensor(const std::vector<double>& values) {
  Tensor t(DType::f32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.set(static_cast<int64_t>(i), values[i]);
  return t;
}

// Of two elements, and the last of one.
const std::array<std::vector<double>, 4> kValues = {{{1, 2}, {3, 5}, {7, 11}, {13}}};

// op(...) + z, of the letters' values: those of `inputs` come at run time, the others are known.
Model model(const std::string& op, const std::string& letters, const std::string& inputs) {
  Model m;
  m.opsets = {{"", 17}};
  ModelNode n{op, "", "", {}, {"y"}, {}, {}};
  if (op == "Concat") n.attrs["axis"] = int64_t{0};
  for (const char c : letters) {
    const std::string name(1, c);
    n.inputs.push_back(name);
    if (std::count(n.inputs.begin(), n.inputs.end(), name) > 1) continue;
    const Tensor t = tensor(kValues.at(static_cast<size_t>(c - 'a')));
    if (inputs.find(c) == std::string::npos)
      m.initializers.emplace_back(name, t);
    else
      m.inputs.push_back({name, DType::f32, {{t.size(), ""}}});
  }
  m.outputs.push_back({"y", DType::f32, {}, false, false});
  m.nodes.push_back(n);
  return m;
}

std::vector<double> wanted(const std::string& op, const std::string& letters) {
  std::vector<double> joined, sum;
  for (const char c : letters) {
    const std::vector<double>& v = kValues.at(static_cast<size_t>(c - 'a'));
    joined.insert(joined.end(), v.begin(), v.end());
    sum.resize(std::max(sum.size(), v.size()), sum.empty() ? 0 : sum[0]);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += v[v.size() > 1 ? i : 0];
  }
  return op == "Concat" ? joined : sum;
}

std::vector<double> numbers(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.size(); ++i) out.push_back(t.get(i));
  return out;
}

}  // namespace

TEST_CASE("Operands are told apart whatever stands before them") {
  for (const std::string op : {"Concat", "Sum"})
    for (int code = 0; code < 256; ++code)
      for (const std::string inputs : {"", "ab", "abcd"}) {
        std::string letters;
        for (int k = 0; k < 4; ++k) letters += static_cast<char>('a' + (code >> (2 * k) & 3));
        INFO(op << " of " << letters << ", inputs " << inputs);
        Graph g = build_graph(model(op, letters, inputs));
        Values given;
        for (const ValueId v : g.inputs) {
          const std::string& name = g.values[static_cast<size_t>(v)].name;
          given[name] = tensor(kValues.at(static_cast<size_t>(name[0] - 'a')));
        }
        const std::vector<double> want = wanted(op, letters);
        CHECK(numbers(run_unfused(g, given).at("y")) == want);
        optimize(g, evaluate_by_interpreter);
        CHECK(numbers(run(g, partition(g), given).at("y")) == want);
        // A node by itself, as it is evaluated: its arguments in the order of its parameters.
        for (const Node& n : g.nodes) {
          std::vector<ValueId> args;
          const PrimFunc f = build_function(g, n, &args);
          std::vector<Tensor> in;
          for (size_t i = 0; i < args.size(); ++i) {
            const Value& v = g.values[static_cast<size_t>(args[i])];
            if (f.params[i].role != Role::out)
              in.push_back(v.constant.defined() ? v.constant : given.at(v.name));
          }
          CHECK(numbers(evaluate_by_interpreter(f, in).at(0)) == want);
        }
      }
}

TEST_CASE("Choices and products of repeated operands") {
  const std::string head = R"({"opset": 17, "inputs": [], "initializers": {
      "yes": {"dtype": "bool", "shape": [1], "data": [true]}, "a": {"dtype": "f32", "shape": [2], "data": [1, 2]},
      "b": {"dtype": "f32", "shape": [2], "data": [3, 5]}}, "outputs": ["y"], "nodes": [)";
  const auto value = [&](const std::string& node) {
    return numbers(run_unfused(graph_of(head + node + "]}"), {}).at("y"));
  };
  CHECK(value(R"({"op": "Where", "inputs": ["yes","b","b"], "outputs": ["y"]})") ==
        std::vector<double>{3, 5});
  CHECK(value(R"({"op": "Einsum", "inputs": ["a","a","b","b"], "outputs": ["y"],
                  "attrs": {"equation": "i,i,i,i->i"}})") == std::vector<double>{9, 100});
}

#include "bench/cpu/work.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/flops.h"

namespace nestor::bench {

std::vector<Work> read_works(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw UserError("can't read " + path);
  std::vector<Work> out;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line);
    Work w;
    if (!(words >> w.family) || w.family[0] == '#') continue;
    words >> w.name >> std::ws;
    std::getline(words, w.spec);
    if (w.spec.empty())
      throw UserError(path + ":" + std::to_string(number) + ": expected `family name operator`, found `" +
                      line + "`");
    out.push_back(w);
  }
  return out;
}

const std::vector<int64_t>& Problem::shape(size_t input) const {
  return value(node().inputs.at(input)).type.shape;
}

Tensor Problem::input(size_t i) const {
  const ValueId v = node().inputs.at(i);
  if (value(v).constant.defined()) return value(v).constant;
  const auto at = std::find(graph.inputs.begin(), graph.inputs.end(), v) - graph.inputs.begin();
  return inputs.at(static_cast<size_t>(at));
}

std::vector<int64_t> Problem::ints(const std::string& attribute, std::vector<int64_t> otherwise) const {
  const auto it = node().attrs.find(attribute);
  return it == node().attrs.end() ? otherwise : std::get<std::vector<int64_t>>(it->second);
}

int64_t Problem::integer(const std::string& attribute, int64_t otherwise) const {
  const auto it = node().attrs.find(attribute);
  return it == node().attrs.end() ? otherwise : std::get<int64_t>(it->second);
}

Problem make_problem(const std::string& spec) {
  Problem p;
  p.graph = load(spec).graph;
  NESTOR_CHECK(p.graph.nodes.size() == 1) << spec;
  uint64_t seed = 1;
  for (const ValueId v : p.graph.inputs) {
    const TensorType& t = p.value(v).type;
    p.inputs.push_back(Tensor::random(t.dtype, t.shape, seed++));
  }
  const TensorType& out = p.value(p.node().outputs.at(0)).type;
  p.output = Tensor(out.dtype, out.shape);
  for (const PrimFunc& f : partition(p.graph).funcs) p.flops += flops_of(f);
  p.bytes = static_cast<double>(p.output.bytes());
  for (size_t i = 0; i < p.node().inputs.size(); ++i)
    if (p.node().inputs[i] >= 0) p.bytes += static_cast<double>(p.input(i).bytes());
  return p;
}

}  // namespace nestor::bench

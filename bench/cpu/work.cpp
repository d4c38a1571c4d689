#include "bench/cpu/work.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "nestor/error.h"
#include "nestor/flops.h"
#include "nestor/schedule.h"
#include "nestor/walk.h"

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
    if (w.spec.ends_with(".nest") || w.spec.ends_with(".json"))
      w.spec = std::filesystem::path(path).parent_path() / w.spec;
    if (w.spec.empty())
      throw UserError(path + ":" + std::to_string(number) + ": expected `family name operator`, found `" +
                      line + "`");
    out.push_back(w);
  }
  return out;
}

std::vector<int64_t> Problem::shape(size_t input) const {
  return value(node().inputs.at(input)).type.shape;
}

Tensor Problem::input(size_t i) const {
  const ValueId v = node().inputs.at(i);
  if (value(v).constant.defined()) return value(v).constant;
  const std::vector<ValueId>& of_graph = source.graph.inputs;
  const auto at = std::find(of_graph.begin(), of_graph.end(), v) - of_graph.begin();
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

std::string Problem::op() const {
  return source.graph.nodes.size() != 1 ? "" : node().op;
}

namespace {

// How many elements of a parameter the function touches: at most its size, and at most as many as there are
// values of the iterators that index it.
double touched(const PrimFunc& f, const BufferDecl& param) {
  double size = 1, total = 0;
  for (const Expr& e : param.shape) size *= static_cast<double>(as_int(e).value_or(0));
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* block = s.as<Block>();
    if (!block) return;
    for (const BlockAccess& a : accesses_of(*block)) {
      if (a.buffer != param.buffer) continue;
      double count = 1;
      for (const IterVar& i : block->iters) {
        bool used = false;
        for (const Expr& index : a.indices) used = used || uses_var(index, i.var);
        if (used) count *= static_cast<double>(as_int(i.extent).value_or(1));
      }
      total += count;
    }
  });
  return std::min(size, total);
}

}  // namespace

Problem make_problem(const std::string& spec) {
  Problem p;
  p.source = load(spec);
  const Graph& g = p.source.graph;
  if (g.outputs.size() != 1) throw UserError("a work has one output, not " + spec);
  uint64_t seed = 1;
  for (const ValueId v : g.inputs) {
    const TensorType& t = p.value(v).type;
    p.inputs.push_back(Tensor::random(t.dtype, t.shape, seed++));
  }
  if (p.op() == "Gather") {  // indices all over the table
    const int64_t rows = p.shape(0).at(static_cast<size_t>(p.integer("axis", 0)));
    std::mt19937_64 rng(seed);
    for (int64_t i = 0; i < p.inputs.at(1).size(); ++i)
      p.inputs[1].set_int(i, static_cast<int64_t>(rng() % static_cast<uint64_t>(rows)));
  }
  const TensorType& out = p.value(g.outputs.at(0)).type;
  p.output = Tensor(out.dtype, out.shape);
  const Partition parts = p.source.partition ? *p.source.partition : partition(g);
  std::map<ValueId, double> bytes;
  for (const KernelCall& call : parts.calls) {
    const PrimFunc& f = parts.funcs.at(static_cast<size_t>(call.func));
    p.flops += flops_of(f);
    for (size_t i = 0; i < f.params.size(); ++i) {
      const ValueId v = call.args.at(i);
      const bool made_here = p.value(v).producer >= 0 && v != g.outputs[0];
      const BufferDecl& decl = f.params[i].decl;
      if (!made_here) bytes[v] = std::max(bytes[v], touched(f, decl) * bytes_of(decl.buffer->type.dtype));
    }
  }
  for (const auto& [value, count] : bytes) p.bytes += count;
  return p;
}

}  // namespace nestor::bench

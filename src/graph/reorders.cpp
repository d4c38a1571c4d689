#include "src/graph/reorders.h"

#include <algorithm>
#include <map>

#include "src/graph/edit.h"

namespace nestor {

namespace {

bool is_chosen(const Graph& g, int node, const std::set<ValueId>& chosen) {
  return chosen.count(g.nodes[static_cast<size_t>(node)].outputs[0]) > 0;
}

}  // namespace

std::set<ValueId> images_of(const Graph& g, const KernelCall& call, const std::set<ValueId>& chosen) {
  std::set<ValueId> out;
  const std::vector<int64_t>& made = value_of(g, call.args.back()).type.shape;
  for (const ValueId v : call.args)
    if (!is_constant(g, v) && value_of(g, v).type.shape == made) out.insert(v);
  for (const int i : call.nodes)
    if (is_chosen(g, i, chosen)) out.insert(g.nodes[static_cast<size_t>(i)].inputs[0]);
  return out;
}

Graph with_reorders(const Graph& g, const Partition& p, const std::set<ValueId>& chosen) {
  Graph out = g;
  std::map<ValueId, ValueId> blocks;        // of row-major values
  std::map<int, std::vector<Node>> behind;  // by node, -1: before all
  const auto reorder = [&](ValueId from, ValueId to) {
    behind[value_of(g, std::min(from, to)).producer].push_back(
        {"Reorder", value_of(out, to).name, 1, {from}, {to}, {}, "nestor"});
  };
  const auto like = [&](ValueId v) {
    return add_value(out, value_of(g, v).name + ".blocks", value_of(g, v).type);
  };
  for (const KernelCall& call : p.calls) {
    if (std::none_of(call.nodes.begin(), call.nodes.end(), [&](int i) { return is_chosen(g, i, chosen); }))
      continue;
    const ValueId made = call.args.back();
    for (const ValueId read : images_of(g, call, chosen))
      if (read != made && !p.blocked.count(read) && !blocks.count(read))
        reorder(read, blocks[read] = like(read));
    for (const int i : call.nodes)
      for (size_t k = 0; k < out.nodes[static_cast<size_t>(i)].inputs.size(); ++k)
        if (const auto it = blocks.find(g.nodes[static_cast<size_t>(i)].inputs[k]); it != blocks.end())
          out.nodes[static_cast<size_t>(i)].inputs[k] = it->second;
    if (p.blocked.count(made)) continue;
    const ValueId row_major = like(made);  // everyone else reads it, by the name that there was
    std::swap(value_of(out, made).name, value_of(out, row_major).name);
    replace_reads(out, made, row_major);
    std::replace(out.outputs.begin(), out.outputs.end(), made, row_major);
    reorder(blocks[made] = made, row_major);
  }
  if (behind.empty()) return out;
  std::vector<Node> nodes = std::move(behind[-1]);
  for (size_t i = 0; i < out.nodes.size(); ++i) {
    nodes.push_back(std::move(out.nodes[i]));
    for (Node& n : behind[static_cast<int>(i)]) nodes.push_back(std::move(n));
  }
  replace_nodes(out, std::move(nodes));
  return out;
}

}  // namespace nestor

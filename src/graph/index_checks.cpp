#include "nestor/index_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "src/graph/edit.h"

namespace nestor {

namespace {

int64_t int_attr(const Node& n, const char* name) {
  const auto it = n.attrs.find(name);
  return it == n.attrs.end() ? 0 : std::get<int64_t>(it->second);
}

// The extents that a node's indices, its input 1, are for: one for all, or one for each of a tuple. Empty: it
// has no indices.
std::vector<int64_t> indexed_extents(const Graph& g, const Node& n) {
  if (!n.domain.empty()) return {};
  const bool tuples = n.op == "GatherND" || n.op == "ScatterND";
  if (!tuples && n.op != "Gather" && n.op != "GatherElements" && n.op != "Scatter" &&
      n.op != "ScatterElements")
    return {};
  const std::vector<int64_t>& data = value_of(g, n.inputs[0]).type.shape;
  if (!tuples) {
    const int64_t axis = int_attr(n, "axis");
    return {data[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(data.size()) : axis)]};
  }
  const auto first = data.begin() + int_attr(n, "batch_dims");
  return {first, first + value_of(g, n.inputs[1]).type.shape.back()};
}

}  // namespace

void add_index_checks(Graph& g) {
  std::vector<Node> nodes;
  for (const Node& n : std::exchange(g.nodes, {})) {
    const std::vector<int64_t> extents = indexed_extents(g, n);
    if (!extents.empty() && !is_constant(g, n.inputs[1])) {
      const ValueId flag = add_value(g, value_of(g, n.inputs[1]).name + ".outside", {DType::i32, {}});
      Node check;
      check.op = "CheckIndices";
      check.domain = "nestor";
      check.name = n.op + (n.name.empty() ? "" : " node `" + n.name + "`");
      check.opset = 1;
      check.inputs = {n.inputs[1]};
      check.outputs = {flag};
      check.attrs["extents"] = extents;
      nodes.push_back(std::move(check));
    }
    nodes.push_back(n);
  }
  replace_nodes(g, std::move(nodes));
}

bool is_index_check(const Node& n) {
  return n.op == "CheckIndices" && n.domain == "nestor";
}

std::string found_by(const Node& check) {
  const auto& extents = std::get<std::vector<int64_t>>(check.attrs.at("extents"));
  return fmt::format("{}: an index is out of range, for {} of {}", check.name,
                     extents.size() > 1 ? "dimensions" : "a dimension", fmt::join(extents, ", "));
}

}  // namespace nestor

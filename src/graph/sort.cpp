#include "src/graph/sort.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>

#include "src/graph/model_names.h"

namespace nestor {

namespace {

using Makers = std::map<std::string, int>;  // by value name: the node that makes it

// Follows inputs among the nodes left until one repeats: "`b` needs `a`, `a` needs `b` (Relu node `y`, Relu
// node `x`)".
std::string describe_cycle(const std::vector<ModelNode>& nodes, const Makers& makers,
                           const std::vector<int>& waiting) {
  const auto stuck = [&](int i) { return waiting[static_cast<size_t>(i)] > 0; };
  int at = 0;
  while (!stuck(at)) ++at;
  std::vector<int> path;
  std::vector<std::string> values;  // values[k] is read by path[k] and made by path[k + 1]
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    for (const std::string& input : reads_of(nodes[static_cast<size_t>(at)])) {
      const auto it = makers.find(input);
      if (it == makers.end() || !stuck(it->second)) continue;
      values.push_back(input);
      at = it->second;
      break;
    }
  }
  const auto first = static_cast<size_t>(std::find(path.begin(), path.end(), at) - path.begin());
  std::string out, path_text;
  for (size_t k = first; k < path.size(); ++k) {
    const ModelNode& node = nodes[static_cast<size_t>(path[k])];
    path_text += fmt::format("{}{}", k == first ? "" : ", ",
                             node.name.empty() ? node.op : fmt::format("{} node `{}`", node.op, node.name));
    const std::string& made = k == first ? values.back() : values[k - 1];
    out += fmt::format("{}`{}` needs `{}`", k == first ? "" : ", ", made, values[k]);
  }
  return fmt::format("{} ({})", out, path_text);
}

}  // namespace

std::vector<int> sort_nodes(const std::vector<ModelNode>& nodes, Problems& problems) {
  Makers makers;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& name : nodes[i].outputs)
      if (!name.empty()) makers.emplace(name, static_cast<int>(i));
  std::vector<int> waiting(nodes.size(), 0);  // for how many inputs
  std::vector<std::vector<int>> readers(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& name : reads_of(nodes[i]))
      if (const auto it = makers.find(name); it != makers.end()) {
        ++waiting[i];
        readers[static_cast<size_t>(it->second)].push_back(static_cast<int>(i));
      }

  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waiting[i] == 0) ready.push(static_cast<int>(i));
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (int reader : readers[static_cast<size_t>(order.back())])
      if (--waiting[static_cast<size_t>(reader)] == 0) ready.push(reader);
  }
  if (order.size() < nodes.size())
    problems.add("the nodes form a cycle: " + describe_cycle(nodes, makers, waiting));
  return order;
}

}  // namespace nestor

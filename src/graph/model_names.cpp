#include "src/graph/model_names.h"

#include <algorithm>

namespace nestor {

namespace {

std::set<std::string> own_names(const ModelGraph& g) {
  std::set<std::string> out;
  for (const ModelValue& v : g.inputs) out.insert(v.name);
  for (const auto& entry : g.initializers) out.insert(entry.first);
  for (const auto& entry : g.refused_initializers) out.insert(entry.first);
  for (const ModelNode& n : g.nodes) out.insert(n.outputs.begin(), n.outputs.end());
  return out;
}

// What a branch or a body reads and doesn't define.
std::set<std::string> free_names(const ModelGraph& g) {
  std::set<std::string> out;
  for (const ModelNode& n : g.nodes)
    for (std::string& name : reads_of(n)) out.insert(std::move(name));
  for (const ModelValue& v : g.outputs) out.insert(v.name);
  for (const std::string& name : own_names(g)) out.erase(name);
  return out;
}

std::string new_name(const std::string& name, const Renaming& names) {
  const auto it = names.find(name);
  return it == names.end() ? name : it->second;
}

std::shared_ptr<const ModelGraph> renamed(const ModelGraph& g, Renaming names) {
  for (const std::string& own : own_names(g)) names.erase(own);
  auto out = std::make_shared<ModelGraph>(g);
  for (ModelNode& n : out->nodes) n = renamed(n, names);
  for (ModelValue& v : out->outputs) v.name = new_name(v.name, names);
  return out;
}

void add_names(const ModelGraph& g, std::set<std::string>& out) {
  out.merge(own_names(g));
  for (const ModelNode& n : g.nodes)
    for (const auto& entry : n.graphs) add_names(*entry.second, out);
}

}  // namespace

std::vector<std::string> reads_of(const ModelNode& n) {
  std::vector<std::string> out;
  for (const std::string& name : n.inputs)
    if (!name.empty()) out.push_back(name);
  for (const auto& entry : n.graphs)
    for (const std::string& name : free_names(*entry.second)) out.push_back(name);
  return out;
}

std::set<std::string> all_names(const ModelGraph& g) {
  std::set<std::string> out;
  add_names(g, out);
  return out;
}

ModelNode renamed(const ModelNode& n, const Renaming& names) {
  ModelNode out = n;
  for (std::string& name : out.inputs) name = new_name(name, names);
  for (std::string& name : out.outputs) name = new_name(name, names);
  for (auto& entry : out.graphs) entry.second = renamed(*entry.second, names);
  return out;
}

std::vector<bool> live_nodes(const ModelGraph& g) {
  std::map<std::string, std::vector<size_t>> makers;  // a name that two nodes make is refused later
  for (size_t i = 0; i < g.nodes.size(); ++i)
    for (const std::string& name : g.nodes[i].outputs)
      if (!name.empty()) makers[name].push_back(i);
  std::vector<bool> live(g.nodes.size(), false);
  std::vector<std::string> wanted;
  for (const ModelValue& v : g.outputs) wanted.push_back(v.name);
  while (!wanted.empty()) {
    const auto it = makers.find(wanted.back());
    wanted.pop_back();
    if (it == makers.end()) continue;
    for (size_t i : it->second) {
      if (live[i]) continue;
      live[i] = true;
      for (std::string& name : reads_of(g.nodes[i])) wanted.push_back(std::move(name));
    }
    makers.erase(it);
  }
  return live;
}

std::string FreshNames::operator()(const std::string& wanted) {
  std::string name = wanted;
  for (int64_t& k = next_[wanted]; !taken_.insert(name).second;) name = wanted + "." + std::to_string(++k);
  return name;
}

}  // namespace nestor

// Operators that a file defines itself, as PyTorch's exporter writes them: a call becomes the function's
// nodes, whose values get names below the call's, and whose attributes that refer to the function's get what
// the call gives, or the function's default, or are left out.
#include "src/graph/inline_functions.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/graph/files.h"
#include "src/graph/model_names.h"

namespace nestor {

namespace {

constexpr size_t kMostNodes = 100'000, kDeepest = 64;

class Inliner {
 public:
  explicit Inliner(const Model& m) : m_(m), fresh_(names_of(m)) {
    for (const ModelFunction& f : m.functions)
      if (!functions_.emplace(std::pair(f.domain, f.op), &f).second)
        file_error(m.file, fmt::format("two functions are named {} in domain `{}`", f.op, f.domain));
  }

  std::vector<ModelNode> nodes(const std::vector<ModelNode>& from) {
    std::vector<ModelNode> out;
    for (const ModelNode& n : from) add(n, out);
    return out;
  }

 private:
  static std::set<std::string> names_of(const Model& m) {
    std::set<std::string> out = all_names(m);
    for (const ModelFunction& f : m.functions) {
      ModelGraph body;
      body.nodes = f.nodes;
      out.merge(all_names(body));
    }
    return out;
  }

  void add(const ModelNode& n, std::vector<ModelNode>& out) {
    const auto it = functions_.find({n.domain, n.op});
    if (it != functions_.end()) return call(n, *it->second, out);
    if (++count_ > kMostNodes)
      file_error(m_.file, fmt::format("its functions make more than {} nodes", kMostNodes));
    out.push_back(n);
    for (auto& entry : out.back().graphs) {
      auto graph = std::make_shared<ModelGraph>(*entry.second);
      graph->nodes = nodes(graph->nodes);
      entry.second = std::move(graph);
    }
  }

  void call(const ModelNode& n, const ModelFunction& f, std::vector<ModelNode>& out) {
    if (std::find(open_.begin(), open_.end(), &f) != open_.end())
      file_error(m_.file, fmt::format("the function {} calls itself", f.op));
    if (open_.size() >= kDeepest)
      file_error(m_.file, fmt::format("its functions call each other more than {} deep", kDeepest));
    if (n.inputs.size() > f.inputs.size() || n.outputs.size() > f.outputs.size())
      file_error(m_.file,
                 fmt::format("the call of function {} that makes `{}` has {} inputs and {} outputs, the "
                             "function has {} and {}",
                             f.op, n.outputs.empty() ? "" : n.outputs[0], n.inputs.size(), n.outputs.size(),
                             f.inputs.size(), f.outputs.size()));
    if (open_.empty()) prefix_ = n.outputs.empty() || n.outputs[0].empty() ? f.op : n.outputs[0];
    open_.push_back(&f);
    Renaming names;
    // A branch's own name may be that of what the call gives: only new names are sure not to be hidden.
    const bool hides =
        std::any_of(f.nodes.begin(), f.nodes.end(), [](const auto& inner) { return !inner.graphs.empty(); });
    for (size_t i = 0; i < f.inputs.size(); ++i) {
      std::string& name = names[f.inputs[i]];
      if (i < n.inputs.size()) name = n.inputs[i];
      if (name.empty() || !hides) continue;
      name = fresh_(prefix_ + "." + f.inputs[i]);
      out.push_back({"Identity", "", "", {n.inputs[i]}, {name}, {}, {}});
    }
    for (const ModelNode& inner : f.nodes)
      for (const std::string& name : inner.outputs)
        if (!name.empty() && !names.count(name)) names[name] = fresh_(prefix_ + "." + name);
    for (const ModelNode& inner : f.nodes) add(instance(inner, n, f, names), out);
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const auto it = names.find(f.outputs[k]);
      if (it == names.end())
        file_error(m_.file, fmt::format("the function {} doesn't make its output `{}`", f.op, f.outputs[k]));
      if (!n.outputs[k].empty() && !it->second.empty())
        out.push_back({"Identity", "", "", {it->second}, {n.outputs[k]}, {}, {}});
    }
    open_.pop_back();
  }

  // A node of f's body, as the call has it.
  ModelNode instance(const ModelNode& inner, const ModelNode& call, const ModelFunction& f,
                     const Renaming& names) const {
    ModelNode out = renamed(inner, names);
    if (out.name.empty()) out.name = call.name;
    bind(out, call, f);
    return out;
  }

  // Attributes and opsets, in graphs inside too.
  void bind(ModelNode& n, const ModelNode& call, const ModelFunction& f) const {
    if (n.opset == 0)
      if (const auto it = f.opsets.find(n.domain); it != f.opsets.end())
        n.opset = static_cast<int>(it->second);
    for (const auto& [name, of_call] : n.attr_refs) {
      if (const auto it = call.attrs.find(of_call); it != call.attrs.end())
        n.attrs[name] = it->second;
      else if (const auto graph = call.graphs.find(of_call); graph != call.graphs.end())
        n.graphs[name] = graph->second;
      else if (const auto refused = call.refused_attrs.find(of_call); refused != call.refused_attrs.end())
        n.refused_attrs[name] = refused->second;
      else if (const auto fallback = f.defaults.find(of_call); fallback != f.defaults.end())
        n.attrs[name] = fallback->second;
    }
    n.attr_refs.clear();
    for (auto& entry : n.graphs) {
      auto graph = std::make_shared<ModelGraph>(*entry.second);
      for (ModelNode& inner : graph->nodes) bind(inner, call, f);
      entry.second = std::move(graph);
    }
  }

  const Model& m_;
  FreshNames fresh_;
  std::map<std::pair<std::string, std::string>, const ModelFunction*> functions_;
  std::vector<const ModelFunction*> open_;  // calls that are being inlined
  std::string prefix_;                      // of names inside the outermost of them
  size_t count_ = 0;
};

}  // namespace

Model inline_functions(const Model& m) {
  Model out = m;
  out.nodes = Inliner(m).nodes(m.nodes);
  out.functions.clear();
  return out;
}

}  // namespace nestor

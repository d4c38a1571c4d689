#include "src/graph/reorders.h"

#include <algorithm>
#include <functional>
#include <map>

#include "src/graph/edit.h"

namespace nestor {

namespace {

bool is_chosen(const Graph& g, int node, const std::set<ValueId>& chosen) {
  return chosen.count(g.nodes[static_cast<size_t>(node)].outputs[0]) > 0;
}

// Puts copies of values before and behind functions, which then read and make these.
class Reorderer {
 public:
  Reorderer(const Graph& g, std::string suffix) : g_(g), out_(g), suffix_(std::move(suffix)) {}

  // `images`: what a function shall read and make in another order.
  Graph run(const Partition& p, const std::set<ValueId>& chosen,
            const std::function<std::set<ValueId>(const KernelCall&)>& images) {
    for (const KernelCall& call : p.calls)
      if (std::any_of(call.nodes.begin(), call.nodes.end(), [&](int i) { return is_chosen(g_, i, chosen); }))
        reorder_for(call, images(call));
    if (behind_.empty()) return out_;
    std::vector<Node> nodes = std::move(behind_[-1]);
    for (size_t i = 0; i < out_.nodes.size(); ++i) {
      nodes.push_back(std::move(out_.nodes[i]));
      for (Node& n : behind_[static_cast<int>(i)]) nodes.push_back(std::move(n));
    }
    replace_nodes(out_, std::move(nodes));
    return std::move(out_);
  }

 private:
  void reorder(ValueId from, ValueId to) {
    behind_[value_of(g_, std::min(from, to)).producer].push_back(
        {"Reorder", value_of(out_, to).name, 1, {from}, {to}, {}, "nestor"});
  }
  ValueId like(ValueId v) { return add_value(out_, value_of(g_, v).name + suffix_, value_of(g_, v).type); }

  void reorder_for(const KernelCall& call, const std::set<ValueId>& images) {
    const ValueId made = call.args.back();
    for (const ValueId read : images)
      if (read != made && !copies_.count(read)) reorder(read, copies_[read] = like(read));
    for (const int i : call.nodes)
      for (size_t k = 0; k < out_.nodes[static_cast<size_t>(i)].inputs.size(); ++k)
        if (const auto it = copies_.find(g_.nodes[static_cast<size_t>(i)].inputs[k]); it != copies_.end())
          out_.nodes[static_cast<size_t>(i)].inputs[k] = it->second;
    if (!images.count(made)) return;
    const ValueId other = like(made);  // everyone else reads it, by the name that there was
    std::swap(value_of(out_, made).name, value_of(out_, other).name);
    replace_reads(out_, made, other);
    std::replace(out_.outputs.begin(), out_.outputs.end(), made, other);
    reorder(copies_[made] = made, other);
  }

  const Graph& g_;
  Graph out_;
  std::string suffix_;                       // of copies' names
  std::map<ValueId, ValueId> copies_;        // of values, in the order that is wanted
  std::map<int, std::vector<Node>> behind_;  // by node, -1: before all
};

}  // namespace

std::set<ValueId> images_of(const Graph& g, const KernelCall& call, const std::set<ValueId>& chosen) {
  std::set<ValueId> out;
  const Dims& made = value_of(g, call.args.back()).type.shape;
  for (const ValueId v : call.args)
    if (!is_constant(g, v) && value_of(g, v).type.shape == made) out.insert(v);
  for (const int i : call.nodes)
    if (is_chosen(g, i, chosen)) out.insert(g.nodes[static_cast<size_t>(i)].inputs[0]);
  return out;
}

Graph with_reorders(const Graph& g, const Partition& p, const std::set<ValueId>& chosen,
                    const std::set<ValueId>& kept) {
  return Reorderer(g, ".blocks").run(p, chosen, [&](const KernelCall& call) {
    std::set<ValueId> images;
    for (const ValueId v : images_of(g, call, chosen))
      if (!p.blocked.count(v) && !kept.count(v)) images.insert(v);
    return images;
  });
}

Graph with_rows(const Graph& g, const Partition& p, const std::set<ValueId>& chosen) {
  return Reorderer(g, ".rows").run(p, chosen, [&](const KernelCall& call) {
    std::set<ValueId> images;
    for (const ValueId v : call.args)
      if (p.blocked.count(v)) images.insert(v);
    return images;
  });
}

}  // namespace nestor

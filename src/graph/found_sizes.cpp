#include "src/graph/found_sizes.h"

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "nestor/walk.h"
#include "src/graph/control_flow.h"
#include "src/graph/edit.h"

namespace nestor {

bool is_found_size(const Node& n) {
  return n.op == "FoundSize" && n.domain == "nestor";
}

const std::string& symbol_found_by(const Node& n) {
  return std::get<std::string>(n.attrs.at("symbol"));
}

bool may_find_sizes(const ModelGraph& g) {
  static const std::set<std::string> finders = {"NonZero", "NonMaxSuppression", "Compress", "Unique"};
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const ModelNode& n) {
    return finders.count(n.op) || std::any_of(n.graphs.begin(), n.graphs.end(),
                                              [](const auto& attr) { return may_find_sizes(*attr.second); });
  });
}

namespace {

// Whether a node that finds a size is such a one, here or in a body.
bool some_found_size(const Graph& g, const std::function<bool(const Node&)>& is) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
    return (is_found_size(n) && is(n)) || std::any_of(n.bodies.begin(), n.bodies.end(),
                                                      [&](const auto& b) { return some_found_size(*b, is); });
  });
}

}  // namespace

bool finds_size(const Graph& g, const std::string& name) {
  return some_found_size(g, [&](const Node& n) { return symbol_found_by(n) == name; });
}

bool bodies_find_sizes(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& n) {
    return std::any_of(n.bodies.begin(), n.bodies.end(), [](const auto& body) {
      return some_found_size(*body, [](const Node&) { return true; });
    });
  });
}

namespace {

using Vars = std::unordered_set<Var>;

void add_vars(const Value& v, Vars& out) {
  const auto add = [&](const Expr& e) {
    for_each_expr(e, [&](const Expr& part) {
      if (const auto* ref = part.as<VarRef>()) out.insert(ref->var);
    });
  };
  for (const Dim& d : v.type.shape)
    if (!d.known()) add(d.expr());
  for (const Expr& e : v.elements) add(e);
}

// Of what a node reads and makes, its bodies too.
void add_vars(const Graph& g, const Node& n, Vars& out) {
  for (const auto* side : {&n.inputs, &n.outputs})
    for (const ValueId v : *side)
      if (v >= 0) add_vars(value_of(g, v), out);
  for (const auto& body : n.bodies)
    for (const Value& v : body->values) add_vars(v, out);
}

}  // namespace

bool depends_on_found(const Graph& g, const Dims& shape) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
    if (!is_found_size(n)) return false;
    const Var& found = g.symbols->find(symbol_found_by(n))->var;
    return std::any_of(shape.begin(), shape.end(),
                       [&](const Dim& d) { return !d.known() && uses_var(d.expr(), found); });
  });
}

namespace {

// Visits a node's makers first.
class Order {
 public:
  explicit Order(const Graph& g) : g_(g), state_(g.nodes.size(), State::unseen) {
    for (size_t i = 0; i < g.nodes.size(); ++i)
      if (is_found_size(g.nodes[i])) finder_.emplace(g.symbols->find(symbol_found_by(g.nodes[i]))->var, i);
  }

  std::vector<size_t> run() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) visit(i);
    return std::move(order_);
  }

 private:
  enum class State : uint8_t { unseen, open, done };

  std::vector<size_t> needed(size_t i) const {
    const Node& n = g_.nodes[i];
    std::vector<size_t> out;
    for (const ValueId v : n.inputs)
      if (v >= 0 && value_of(g_, v).producer >= 0)
        out.push_back(static_cast<size_t>(value_of(g_, v).producer));
    Vars vars;
    add_vars(g_, n, vars);
    for (const Var& v : vars)
      if (const auto it = finder_.find(v); it != finder_.end() && it->second != i) out.push_back(it->second);
    std::sort(out.begin(), out.end());
    return out;
  }

  // With a stack of its own: chains of nodes are long.
  void visit(size_t first) {
    std::vector<size_t> stack = {first};
    while (!stack.empty()) {
      const size_t i = stack.back();
      if (state_[i] == State::unseen) {
        state_[i] = State::open;
        const std::vector<size_t> before = needed(i);
        for (auto it = before.rbegin(); it != before.rend(); ++it)
          if (state_[*it] == State::unseen) stack.push_back(*it);
        continue;
      }
      stack.pop_back();
      if (state_[i] == State::done) continue;
      state_[i] = State::done;
      order_.push_back(i);
    }
  }

  const Graph& g_;
  std::vector<State> state_;
  std::unordered_map<Var, size_t> finder_;
  std::vector<size_t> order_;
};

}  // namespace

void order_found_sizes(Graph& g) {
  if (std::none_of(g.nodes.begin(), g.nodes.end(), is_found_size)) return;
  const std::vector<size_t> order = Order(g).run();
  if (std::is_sorted(order.begin(), order.end())) return;
  std::vector<Node> nodes;
  for (const size_t i : order) nodes.push_back(std::move(g.nodes[i]));
  replace_nodes(g, std::move(nodes));
}

}  // namespace nestor

// The partitions of bodies in the place of their nodes' calls: what stands in one list runs in one plan, with
// one arena, and functions that are alike are there once, inside and outside of loops.
#include <fmt/format.h>

#include <algorithm>

#include "nestor/print.h"
#include "src/graph/control_flow.h"
#include "src/graph/edit.h"
#include "src/graph/function_table.h"

namespace nestor {

namespace {

class BodyInliner {
 public:
  BodyInliner(Graph& g, Partition& p, const PartitionBody& partition_body)
      : g_(g), p_(p), partition_body_(partition_body) {}

  void run() {
    std::vector<KernelCall> calls = std::exchange(p_.calls, {});
    drop_placeholders(calls);
    table_.emplace(p_.funcs);
    for (KernelCall& call : calls) {
      if (!stands_for_bodies(call)) {
        p_.calls.push_back(std::move(call));
        continue;
      }
      const int node = call.nodes[0];
      is_loop(g_.nodes[static_cast<size_t>(node)]) ? inline_loop(node) : inline_branch(node);
    }
  }

 private:
  bool stands_for_bodies(const KernelCall& call) const {
    return !call.nodes.empty() && has_bodies(g_.nodes[static_cast<size_t>(call.nodes[0])]);
  }

  // Functions that only calls with bodies have.
  void drop_placeholders(std::vector<KernelCall>& calls) {
    std::vector<int> place(p_.funcs.size(), -1);
    for (const KernelCall& call : calls)
      if (!stands_for_bodies(call)) place[static_cast<size_t>(call.func)] = 0;
    std::vector<PrimFunc> kept;
    std::map<int, OneSample> of_one;
    for (size_t f = 0; f < place.size(); ++f) {
      if (place[f] < 0) continue;
      place[f] = static_cast<int>(kept.size());
      kept.push_back(std::move(p_.funcs[f]));
      if (const auto it = p_.one_sample.find(static_cast<int>(f)); it != p_.one_sample.end())
        of_one.emplace(place[f], std::move(it->second));
    }
    p_.funcs = std::move(kept);
    p_.one_sample = std::move(of_one);
    for (KernelCall& call : calls)
      if (!stands_for_bodies(call)) call.func = place[static_cast<size_t>(call.func)];
  }

  void mark(int func, int node, const std::shared_ptr<const ControlFlow>& what) {
    p_.calls.push_back({func, {}, {node}, what});
  }

  void inline_loop(int node) {
    const Node n = g_.nodes[static_cast<size_t>(node)];
    const LoopForm form = loop_form(n);
    Graph body = *n.bodies[0];
    Partition q = partition_body_(body);
    std::vector<ValueId> outside(body.inputs.size(), -1);
    const auto own = static_cast<size_t>(1 + form.states + form.scanned);
    std::copy(n.inputs.begin() + static_cast<std::ptrdiff_t>(form.captured_at()), n.inputs.end(),
              outside.begin() + static_cast<std::ptrdiff_t>(own));
    const std::vector<ValueId> to = take_values(n, body, outside);
    const auto input = [&](size_t i) { return to[static_cast<size_t>(body.inputs[i])]; };
    const auto output = [&](size_t k) { return to[static_cast<size_t>(body.outputs[k])]; };
    auto what = std::make_shared<ControlFlow>();
    what->trips = n.inputs[0], what->condition = n.inputs[1];
    what->known_trips = known_trips(g_, n), what->limit = form.limit;
    what->iteration = input(0);
    const ValueId goes_on = output(0);
    const bool always = is_constant(g_, goes_on) && constant_of(g_, goes_on).get_int(0) != 0;
    if (!always) what->goes_on = goes_on;
    const auto states = static_cast<size_t>(form.states), scanned = static_cast<size_t>(form.scanned);
    for (size_t i = 0; i < states; ++i)
      what->states.push_back({n.inputs[2 + i], input(1 + i), output(1 + i), n.outputs[i]});
    for (size_t i = 0; i < scanned; ++i)
      what->scanned.push_back({n.inputs[2 + states + i], input(1 + states + i), form.backward[i] != 0});
    for (size_t k = 0; states + k < n.outputs.size(); ++k)
      if (n.outputs[states + k] >= 0)
        what->made.push_back(
            {n.outputs[states + k], output(1 + states + k), form.backward[scanned + k] != 0});
    mark(kLoopBegins, node, what);
    take_calls(body, std::move(q), to);
    mark(kLoopEnds, node, what);
  }

  void inline_branch(int node) {
    const Node n = g_.nodes[static_cast<size_t>(node)];
    auto what = std::make_shared<ControlFlow>();
    what->condition = n.inputs[0];
    for (const ValueId v : n.outputs) what->results.push_back({-1, -1, v});
    const auto reason = [&](const char* name) {
      const auto it = n.attrs.find(name);
      return it == n.attrs.end() ? std::string() : std::get<std::string>(it->second);
    };
    what->not_true = reason(kNoThen), what->not_false = reason(kNoElse);
    mark(kBranchBegins, node, what);
    auto captured = n.inputs.begin() + 1;
    for (const bool taken : {true, false}) {
      Graph body = *n.bodies[taken ? 0 : 1];
      if (body.symbols && body.symbols != g_.symbols) g_.symbols->take_found(*body.symbols);
      (taken ? what->true_needs : what->false_needs) = needs_of(body);
      Partition q = partition_body_(body);
      const auto end = captured + static_cast<std::ptrdiff_t>(body.inputs.size());
      const std::vector<ValueId> to = take_values(n, body, {captured, end});
      captured = end;
      for (size_t k = 0; k < body.outputs.size(); ++k)
        (taken ? what->results[k].when_true : what->results[k].when_false) =
            to[static_cast<size_t>(body.outputs[k])];
      take_calls(body, std::move(q), to);
      mark(taken ? kOtherwise : kBranchEnds, node, what);
    }
    std::erase_if(what->results, [](const ControlFlow::Result& r) { return r.result < 0; });
  }

  // What must hold of sizes where a branch is taken, beside what must hold anyway.
  std::vector<ControlFlow::Need> needs_of(const Graph& body) const {
    std::vector<ControlFlow::Need> needs;
    if (!body.symbols || body.symbols == g_.symbols) return needs;
    for (const Symbols::Requirement& r : body.symbols->requirements()) {
      if (body.symbols->uses_found(r.condition)) continue;  // the graph's, once the sizes are found
      const Dim unmet(make::select(g_.symbols->reduce(r.condition), Expr(0), Expr(1)), g_.symbols);
      if (unmet.known() && unmet == 0) continue;
      needs.push_back({unmet, fmt::format("{} must hold where a branch is taken{}{}", print(r.condition),
                                          r.why.empty() ? "" : ": ", r.why)});
    }
    return needs;
  }

  // The body's values become the graph's, those that stand for ones outside apart: the new numbers. Its
  // nodes come behind the graph's own.
  std::vector<ValueId> take_values(const Node& n, Graph& body, const std::vector<ValueId>& outside) {
    std::vector<ValueId> to(body.values.size(), -1);
    for (size_t i = 0; i < outside.size(); ++i)
      if (outside[i] >= 0) to[static_cast<size_t>(body.inputs[i])] = outside[i];
    const auto made = std::find_if(n.outputs.begin(), n.outputs.end(), [](ValueId v) { return v >= 0; });
    const std::string prefix = made == n.outputs.end() ? n.op : value_of(g_, *made).name;
    for (size_t v = 0; v < to.size(); ++v) {
      if (to[v] >= 0) continue;
      to[v] = static_cast<ValueId>(g_.values.size());
      Value& value = body.values[v];
      value.name = fmt::format("{}.{}", prefix, value.name);
      value.type.shape = in_symbols(std::move(value.type.shape), g_.symbols);
      if (value.producer >= 0) value.producer += static_cast<int>(g_.nodes.size());
      g_.values.push_back(std::move(value));
    }
    return to;
  }

  static void renumber(std::vector<ValueId>& values, const std::vector<ValueId>& to) {
    for (ValueId& v : values)
      if (v >= 0) v = to[static_cast<size_t>(v)];
  }
  static ControlFlow renumbered(ControlFlow c, const std::vector<ValueId>& to) {
    const auto change = [&](auto&... values) {
      ((values = values < 0 ? values : to[static_cast<size_t>(values)]), ...);
    };
    change(c.condition, c.iteration, c.trips, c.goes_on);
    for (ControlFlow::State& s : c.states) change(s.initial, s.inside, s.next, s.last);
    for (auto* parts : {&c.scanned, &c.made})
      for (ControlFlow::Part& part : *parts) change(part.whole, part.part);
    for (ControlFlow::Result& r : c.results) change(r.when_true, r.when_false, r.result);
    return c;
  }

  void take_calls(Graph& body, Partition q, const std::vector<ValueId>& to) {
    const int first_node = static_cast<int>(g_.nodes.size());
    for (Node& n : body.nodes) {
      renumber(n.inputs, to);
      renumber(n.outputs, to);
      g_.nodes.push_back(std::move(n));
    }
    std::vector<int> func;
    for (size_t f = 0; f < q.funcs.size(); ++f) {
      const size_t known = p_.funcs.size();
      func.push_back(table_->add(std::move(q.funcs[f])));
      const auto of_one = q.one_sample.find(static_cast<int>(f));
      if (p_.funcs.size() > known && of_one != q.one_sample.end())
        p_.one_sample.emplace(func.back(), std::move(of_one->second));
    }
    for (const auto& [view, root] : q.alias) {
      ValueId of = to[static_cast<size_t>(root)];
      for (auto it = p_.alias.find(of); it != p_.alias.end(); it = p_.alias.find(of)) of = it->second;
      p_.alias[to[static_cast<size_t>(view)]] = of;
    }
    for (const ValueId v : q.blocked) p_.blocked.insert(to[static_cast<size_t>(v)]);
    p_.typical.insert(q.typical.begin(), q.typical.end());
    std::map<const ControlFlow*, std::shared_ptr<const ControlFlow>> marks;
    for (KernelCall& call : q.calls) {
      if (call.func >= 0) call.func = func[static_cast<size_t>(call.func)];
      renumber(call.args, to);
      for (int& node : call.nodes) node += first_node;
      if (call.control) {
        auto& mine = marks[call.control.get()];
        if (!mine) mine = std::make_shared<ControlFlow>(renumbered(*call.control, to));
        call.control = mine;
      }
      p_.calls.push_back(std::move(call));
    }
  }

  Graph& g_;
  Partition& p_;
  const PartitionBody& partition_body_;
  std::optional<FunctionTable> table_;
};

}  // namespace

void inline_bodies(Graph& g, Partition& p, const PartitionBody& partition_body) {
  if (std::none_of(g.nodes.begin(), g.nodes.end(), has_bodies)) return;
  BodyInliner(g, p, partition_body).run();
}

}  // namespace nestor

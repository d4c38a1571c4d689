#include "src/graph/control_flow.h"

#include "src/graph/edit.h"
#include "src/graph/passes.h"

namespace nestor {

int64_t least_trips(const ControlFlow& loop) {
  return loop.known_trips && loop.known_trips->known() ? std::max<int64_t>(*loop.known_trips, 1) : 1;
}

std::vector<ValueId> values_of(const ControlFlow& c) {
  std::vector<ValueId> out = {c.condition, c.iteration, c.trips, c.goes_on};
  for (const ControlFlow::State& s : c.states) out.insert(out.end(), {s.initial, s.inside, s.next, s.last});
  for (const auto* parts : {&c.scanned, &c.made})
    for (const ControlFlow::Part& p : *parts) out.insert(out.end(), {p.whole, p.part});
  for (const ControlFlow::Result& r : c.results) out.insert(out.end(), {r.when_true, r.when_false, r.result});
  std::erase(out, -1);
  return out;
}

bool is_loop(const Node& n) {
  return n.op == "Loop" && n.domain == "nestor";
}
bool is_branch(const Node& n) {
  return n.op == "If" && n.domain == "nestor";
}

Attrs attributes_of(const LoopForm& form) {
  return {{"states", form.states},
          {"scanned", form.scanned},
          {"trips", form.trips},
          {"limit", form.limit},
          {"backward", form.backward}};
}

LoopForm loop_form(const Node& n) {
  const auto number = [&](const char* name) { return std::get<int64_t>(n.attrs.at(name)); };
  return {number("states"), number("scanned"), number("trips"), number("limit"),
          std::get<std::vector<int64_t>>(n.attrs.at("backward"))};
}

Dims in_symbols(Dims shape, const std::shared_ptr<Symbols>& symbols) {
  for (Dim& d : shape)
    if (!d.known() && d.symbols() != symbols) d = Dim(d.expr(), symbols);
  return shape;
}

std::optional<Dim> known_trips(const Graph& g, const Node& n) {
  if (const int64_t trips = loop_form(n).trips; trips >= 0) return trips;
  if (n.inputs[0] < 0 || value_of(g, n.inputs[0]).elements.empty()) return std::nullopt;
  return Dim(value_of(g, n.inputs[0]).elements[0], g.symbols);
}

namespace {

// Inputs from `from` on that are constants of the graph become constants of the body, which reads them at
// its own input `at` and on.
void take_constants(const Graph& g, Node& n, size_t from, size_t at, Graph& body) {
  for (size_t i = at; i < body.inputs.size();) {
    const ValueId outside = n.inputs[from + i - at];
    if (!is_constant(g, outside)) {
      ++i;
      continue;
    }
    value_of(body, body.inputs[i]).constant = constant_of(g, outside);
    body.inputs.erase(body.inputs.begin() + static_cast<std::ptrdiff_t>(i));
    n.inputs.erase(n.inputs.begin() + static_cast<std::ptrdiff_t>(from + i - at));
  }
}

}  // namespace

void optimize_bodies(Graph& g, const EvaluateFn& evaluate, const OptimizeOptions& options) {
  for (Node& n : g.nodes) {
    size_t from = is_loop(n) ? loop_form(n).captured_at() : 1;
    for (std::shared_ptr<const Graph>& body : n.bodies) {
      auto own = std::make_shared<Graph>(*body);
      const size_t at = is_loop(n) ? from - 1 : 0;  // a body has an iteration for trips and condition
      take_constants(g, n, from, at, *own);
      from += own->inputs.size() - at;
      optimize(*own, evaluate, options);
      body = std::move(own);
    }
  }
}

}  // namespace nestor

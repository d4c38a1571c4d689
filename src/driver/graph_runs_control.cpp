// Loops and branches: how often, and which, the run without noise decides for all.
#include <algorithm>
#include <cstring>
#include <limits>

#include "src/driver/graph_runs.h"
#include "src/graph/control_flow.h"

namespace nestor {

namespace {

// Of each run; one tensor where they are one.
template <class F>
Runs of_each(const Runs& runs, const F& f) {
  Runs out;
  for (size_t r = 0; r < out.size(); ++r)
    out[r] = r > 0 && runs[r].data() == runs[0].data() ? out[0] : f(runs[r]);
  return out;
}

Tensor part_of(const Tensor& whole, int64_t at) {
  Tensor out(whole.dtype(), {whole.shape().begin() + 1, whole.shape().end()});
  std::memcpy(out.data(), static_cast<const char*>(whole.data()) + at * out.bytes(),
              static_cast<size_t>(out.bytes()));
  return out;
}

// Elements along a new first dimension.
Tensor side_by_side(const std::vector<Runs>& elements, size_t run, const TensorType& type, bool backward) {
  Tensor out(is_float(type.dtype) ? DType::f64 : type.dtype, type.shape);
  for (size_t t = 0; t < elements.size(); ++t) {
    const Tensor& e = elements[t][run];
    const size_t at = backward ? elements.size() - 1 - t : t;
    std::memcpy(static_cast<char*>(out.data()) + at * static_cast<size_t>(e.bytes()), e.data(),
                static_cast<size_t>(e.bytes()));
  }
  return out;
}

}  // namespace

// How often bodies are evaluated, as far as that is known before.
double GraphRuns::times(const Step& step) const {
  if (!is_loop(node_of(step))) return 1;
  return static_cast<double>(std::max<int64_t>(loop_form(node_of(step)).trips, 1));
}

void GraphRuns::evaluate_loop(Step& step) {
  const Node& n = node_of(step);
  const LoopForm form = loop_form(n);
  GraphRuns& body = *step.bodies[0];
  const Graph& inside = body.graph();
  const auto states = static_cast<size_t>(form.states), scanned = static_cast<size_t>(form.scanned);
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (form.trips >= 0 || n.inputs[0] >= 0)
    trips = form.trips >= 0 ? form.trips : runs_of(n.inputs[0])[0].get_int(0);
  bool going = n.inputs[1] < 0 || runs_of(n.inputs[1])[0].get_int(0) != 0;
  std::vector<Runs> state, whole;
  for (size_t i = 0; i < states; ++i) state.push_back(runs_of(n.inputs[2 + i]));
  for (size_t i = 0; i < scanned; ++i) whole.push_back(runs_of(n.inputs[2 + states + i]));
  std::vector<std::vector<Runs>> made(n.outputs.size() - states);
  for (int64_t t = 0; going && t < trips; ++t) {
    if (form.limit > 0 && t >= form.limit)
      throw UserError("a loop goes on for more than " + std::to_string(form.limit) + " iterations");
    body.clear();
    Tensor number(DType::i64, inside.values[static_cast<size_t>(inside.inputs[0])].type.shape);
    number.set_int(0, t);
    Runs same;
    same.fill(number);
    size_t input = 0;
    const auto give = [&](const Runs& runs) { body.set(inside.inputs[input++], runs); };
    give(same);
    for (const Runs& s : state) give(s);
    for (size_t i = 0; i < scanned; ++i) {
      const int64_t at = form.backward[i] ? trips - 1 - t : t;
      give(of_each(whole[i], [&](const Tensor& of) { return part_of(of, at); }));
    }
    for (size_t i = form.captured_at(); i < n.inputs.size(); ++i) give(runs_of(n.inputs[i]));
    body.run(salt_ + static_cast<uint64_t>(t) + 1);
    going = body.runs_of(inside.outputs[0])[0].get_int(0) != 0;
    for (size_t i = 0; i < states; ++i) state[i] = body.runs_of(inside.outputs[1 + i]);
    for (size_t k = 0; k < made.size(); ++k)
      if (n.outputs[states + k] >= 0) made[k].push_back(body.runs_of(inside.outputs[1 + states + k]));
  }
  for (size_t i = 0; i < states; ++i)
    if (n.outputs[i] >= 0) values_[static_cast<size_t>(n.outputs[i])] = state[i];
  for (size_t k = 0; k < made.size(); ++k) {
    const ValueId v = n.outputs[states + k];
    if (v < 0) continue;
    const bool backward = form.backward[scanned + k] != 0;
    for (size_t r = 0; r < kRuns; ++r)
      values_[static_cast<size_t>(v)][r] = side_by_side(made[k], r, value(v).type, backward);
  }
  body.clear();
}

void GraphRuns::evaluate_branch(Step& step) {
  const Node& n = node_of(step);
  const bool taken = runs_of(n.inputs[0])[0].get_int(0) != 0;
  if (const auto it = n.attrs.find(taken ? kNoThen : kNoElse); it != n.attrs.end())
    throw UserError(std::get<std::string>(it->second));
  GraphRuns& body = *step.bodies[taken ? 0 : 1];
  const Graph& inside = body.graph();
  const size_t first = 1 + (taken ? 0 : step.bodies[0]->graph().inputs.size());
  body.clear();
  for (size_t i = 0; i < inside.inputs.size(); ++i) body.set(inside.inputs[i], runs_of(n.inputs[first + i]));
  body.run(salt_ + 1);
  for (size_t k = 0; k < n.outputs.size(); ++k)
    if (n.outputs[k] >= 0) values_[static_cast<size_t>(n.outputs[k])] = body.runs_of(inside.outputs[k]);
  body.clear();
}

}  // namespace nestor

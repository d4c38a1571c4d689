// A recurrent layer is the product of its whole input with W, and for each step one of the state with R and
// what the gates make of both:
//
//   X W^T + b, all steps at once        g = (that of step t) + H R^T        H, C = gates(g, C)
//
// Where W and R are bytes (DynamicQuantizeLSTM), both products are of bytes: X is quantized as a whole, and
// the state at each step, by the range of its values.
//
// A few steps stand one after another; they are the same functions on other values, so that their code is
// there once. More are a loop of the plan, where the target has them. Beyond a sequence's own length its
// state stays, and what it gives is 0; backwards, it waits until its last step comes.
#include <fmt/format.h>

#include "nestor/ops.h"
#include "src/graph/control_flow.h"
#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/spell_out.h"
#include "src/ops/recurrent.h"

namespace nestor {

namespace {

using ops::Activation;

constexpr int64_t kFewSteps = 32;     // of some 30 nodes each, as many as build_loops.cpp spells out
constexpr int64_t kMostSteps = 4096;  // where there are no loops

struct Layer {
  Layer(const Graph& g, const Node& n)
      : op(n.op),
        shape(ops::recurrent_shape(OpContext(g, n))),
        type(g.values[static_cast<size_t>(n.inputs[ops::kX])].type.dtype),
        coupled(OpContext(g, n).get_int("input_forget", 0) != 0),
        reset_after(OpContext(g, n).get_int("linear_before_reset", 0) != 0) {}
  std::string op;
  ops::RecurrentShape shape;
  DType type;
  bool coupled, reset_after;
};

// What the steps of one direction read, all of them the same.
struct Operands {
  ValueId r = -1, r_of_reset = -1, recurrent_bias = -1;  // weights [hidden, gates]
  ValueId r_scale = -1, r_zero = -1;                     // of weights that are bytes
  ValueId peephole[3] = {-1, -1, -1};                    // of i, o, f
  template <class F>
  void each(const F& f) {
    for (ValueId* v :
         {&r, &r_of_reset, &recurrent_bias, &r_scale, &r_zero, &peephole[0], &peephole[1], &peephole[2]})
      if (*v >= 0) *v = f(*v);
  }
};

// One step: from a state to the next.
class RecurrentStep : protected Expansion {
 public:
  RecurrentStep(Graph& g, const Node& n, std::vector<Node>& nodes, const Layer& layer)
      : Expansion(g, n, nodes), layer_(layer), s_(layer_.shape) {}

  struct State {
    ValueId h = -1, c = -1;
  };
  void begin(const Operands& with, const Activation* functions) {
    with_ = with;
    functions_ = functions;
  }

  // x: of the step, X W^T + b.
  State step(ValueId x, const State& from) {
    if (is_lstm()) return lstm(x, from);
    if (layer_.op == "GRU") return {gru(x, from.h), -1};
    return {activated(0, add("Add", {add("MatMul", {from.h, with_.r}), x})), -1};
  }
  // The same; sequences that are at an end keep their state, and give 0. runs: which aren't, or -1.
  State step_of_some(ValueId x, ValueId runs, const State& from, ValueId* gives) {
    State to = step(x, from);
    *gives = to.h;
    if (runs < 0) return to;
    runs = reshaped(runs, {s_.batch, 1});
    *gives = add("Where", {runs, to.h, constant(layer_.type, 0)});
    to.h = add("Where", {runs, to.h, from.h});
    if (to.c >= 0) to.c = add("Where", {runs, to.c, from.c});
    return to;
  }

 protected:
  bool is_lstm() const { return s_.gates == 4; }

  // By weights; where they are bytes, with their scale and zero point.
  ValueId product(ValueId x, ValueId w, ValueId scale, ValueId zero) {
    if (!s_.quantized) return add("MatMul", {x, w});
    const std::vector<ValueId> bytes = add_node("DynamicQuantizeLinear", {x}, {}, "", 3);
    const ValueId sums = add("MatMulInteger", {bytes[0], w, bytes[2], zero});
    return add("Mul", {cast(sums, layer_.type), add("Mul", {bytes[1], scale})});
  }

  const Layer layer_;
  const ops::RecurrentShape& s_;

 private:
  // Gates i o f c.
  State lstm(ValueId x, const State& from) {
    const ValueId g = add("Add", {product(from.h, with_.r, with_.r_scale, with_.r_zero), x});
    const ValueId in = activated(0, with_peephole(gate(g, 0), 0, from.c));
    const ValueId forget = layer_.coupled ? add("Sub", {constant(layer_.type, 1), in})
                                          : activated(0, with_peephole(gate(g, 2), 2, from.c));
    const ValueId cell = activated(1, gate(g, 3));
    const ValueId c = add("Add", {add("Mul", {forget, from.c}), add("Mul", {in, cell})});
    const ValueId out = activated(0, with_peephole(gate(g, 1), 1, c));
    return {add("Mul", {out, activated(2, c)}), c};
  }
  ValueId with_peephole(ValueId g, int64_t i, ValueId c) {
    return with_.peephole[i] < 0 ? g : add("Add", {g, add("Mul", {with_.peephole[i], c})});
  }

  // Gates z r h.
  ValueId gru(ValueId x, ValueId h) {
    ValueId state = add("MatMul", {h, with_.r});
    if (with_.recurrent_bias >= 0) state = add("Add", {state, with_.recurrent_bias});
    const ValueId z = activated(0, add("Add", {gate(x, 0), gate(state, 0)})),
                  reset = activated(0, add("Add", {gate(x, 1), gate(state, 1)}));
    const ValueId kept = layer_.reset_after ? add("Mul", {reset, gate(state, 2)})
                                            : add("MatMul", {add("Mul", {reset, h}), with_.r_of_reset});
    const ValueId made = activated(1, add("Add", {kept, gate(x, 2)}));
    return add("Add", {add("Mul", {add("Sub", {constant(layer_.type, 1), z}), made}), add("Mul", {z, h})});
  }

  ValueId gate(ValueId g, int64_t i) { return sliced(g, 1, i * s_.hidden, (i + 1) * s_.hidden); }

  // Only what goes into gates is cut off, not the cell's state on its way out (as ONNX Runtime has it; ONNX's
  // words are "the input of activations").
  ValueId activated(size_t which, ValueId v) {
    const DType t = layer_.type;
    if (s_.clip > 0 && which < 2) v = add("Clip", {v, constant(t, -s_.clip), constant(t, s_.clip)});
    const auto& [name, alpha, beta] = functions_[which];
    const auto scaled = [&](double by, ValueId x) { return add("Mul", {x, constant(t, by)}); };
    if (name == "Affine") return add("Add", {scaled(alpha, v), constant(t, beta)});
    if (name == "ScaledTanh") return scaled(alpha, add("Tanh", {scaled(beta, v)}));
    if (name == "ThresholdedRelu") {
      const ValueId passes = add("Less", {constant(t, alpha), v});
      return add("Where", {passes, v, constant(t, 0)});
    }
    if (name == "HardSigmoid") return add(name, {v}, {{"alpha", alpha}, {"beta", beta}});
    if (name == "LeakyRelu" || name == "Elu") return add(name, {v}, {{"alpha", alpha}});
    return add(name, {v});
  }

  Operands with_;
  const Activation* functions_ = nullptr;
};

// The body of a loop over steps.
class StepBody : RecurrentStep {
 public:
  // Its values begin with the iteration's number, which has the layer's name, so that others are called by
  // it.
  static std::shared_ptr<const Graph> make(const Layer& layer, const std::string& name, Operands with,
                                           const Activation* functions, bool some_run, bool gives,
                                           const Graph& around, std::vector<ValueId>& captured) {
    auto g = std::make_shared<Graph>();
    g->name = name;
    g->symbols = around.symbols;
    const auto input = [&](const std::string& what, const TensorType& type) {
      g->inputs.push_back(static_cast<ValueId>(g->values.size()));
      g->values.push_back({what, type, {}, -1});
      return g->inputs.back();
    };
    const ops::RecurrentShape& s = layer.shape;
    input(name, {DType::i64, {}});
    State from;
    from.h = input(name + ".h", {layer.type, {s.batch, s.hidden}});
    if (s.gates == 4) from.c = input(name + ".c", {layer.type, {s.batch, s.hidden}});
    const ValueId x = input(name + ".x", {layer.type, {s.batch, s.gates * s.hidden}});
    const ValueId runs = some_run ? input(name + ".runs", {DType::boolean, {s.batch}}) : -1;
    with.each([&](ValueId v) {
      const Value& outside = around.values[static_cast<size_t>(v)];
      if (outside.constant.defined()) {
        g->values.push_back({outside.name, outside.type, outside.constant, -1});
        return static_cast<ValueId>(g->values.size()) - 1;
      }
      captured.push_back(v);
      return input(outside.name, outside.type);
    });
    Node n{layer.op, "", 1, {}, {0}, {}, ""};
    std::vector<Node> nodes;
    StepBody(*g, n, nodes, layer, with, functions).run(x, runs, from, gives);
    replace_nodes(*g, std::move(nodes));
    return g;
  }

 private:
  StepBody(Graph& g, const Node& n, std::vector<Node>& nodes, const Layer& layer, const Operands& with,
           const Activation* functions)
      : RecurrentStep(g, n, nodes, layer) {
    begin(with, functions);
  }

  void run(ValueId x, ValueId runs, const State& from, bool gives) {
    ValueId given = -1;
    const State to = step_of_some(x, runs, from, &given);
    g_.outputs = {constant(DType::boolean, 1), to.h};
    if (to.c >= 0) g_.outputs.push_back(to.c);
    if (gives) g_.outputs.push_back(given == to.h ? add("Identity", {given}) : given);
  }
};

class RecurrentSpeller : RecurrentStep {
 public:
  RecurrentSpeller(Graph& g, const Node& n, std::vector<Node>& nodes, bool loops)
      : RecurrentStep(g, n, nodes, Layer(g, n)), loops_(loops) {
    if (!loops && (!s_.steps.known() || s_.steps > kMostSteps))
      OpContext(g, n).fail(
          fmt::format("the sequence has {} steps", to_string(s_.steps)),
          fmt::format("on this target up to {}, since the code is unrolled; a CPU has loops", kMostSteps));
  }

  void run() {
    const ValueId x = n_.inputs[ops::kX];
    x_ = s_.batch_first ? transposed(x, {1, 0, 2}) : x;
    std::vector<ValueId> y, h, c;
    for (int64_t d = 0; d < s_.directions; ++d) {
      begin_direction(d);
      const bool backward = s_.backward || d == 1;
      const bool few = s_.steps.known() && (!loops_ || s_.steps <= kFewSteps);
      const ValueId made = few ? all_steps(backward) : loop(backward);
      if (wants(0)) y.push_back(reshaped(made, {s_.steps, 1, s_.batch, s_.hidden}));
      h.push_back(reshaped(state_.h, {1, s_.batch, s_.hidden}));
      c.push_back(state_.c < 0 ? state_.c : reshaped(state_.c, {1, s_.batch, s_.hidden}));
    }
    if (wants(0)) {
      const ValueId all = concatenated(std::move(y), 1);
      give(0, s_.batch_first ? transposed(all, {2, 0, 1, 3}) : all);
    }
    if (wants(1)) give_state(1, std::move(h));
    if (wants(2)) give_state(2, std::move(c));
  }

 private:
  // ---- One direction

  void begin_direction(int64_t d) {
    const int64_t rows = s_.gates * s_.hidden;
    const size_t functions = s_.activations.size() / static_cast<size_t>(s_.directions);
    functions_ = s_.activations.data() + static_cast<size_t>(d) * functions;
    with_ = {};
    with_.r = weights(ops::kR, d, s_.hidden);
    if (layer_.op == "GRU" && !layer_.reset_after) {  // its last gate is of the state that was reset
      with_.r_of_reset = sliced(with_.r, 1, 2 * s_.hidden, rows);
      with_.r = sliced(with_.r, 1, 0, 2 * s_.hidden);
    }
    ValueId scale = -1, zero = -1;
    if (s_.quantized) {
      scale = by_column(ops::kWScale, d), zero = by_column(ops::kWZero, d);
      with_.r_scale = by_column(ops::kRScale, d), with_.r_zero = by_column(ops::kRZero, d);
    }
    inputs_ = product(x_, weights(ops::kW, d, s_.size), scale, zero);
    if (has_input(ops::kB)) {
      const ValueId b = part(ops::kB, d, {2 * rows}), wb = sliced(b, 0, 0, rows),
                    rb = sliced(b, 0, rows, 2 * rows);
      // What a reset gate multiplies has its own bias inside.
      if (layer_.reset_after) with_.recurrent_bias = rb;
      inputs_ = add("Add", {inputs_, layer_.reset_after ? wb : add("Add", {wb, rb})});
    }
    state_ = {state(ops::kInitialH, d), is_lstm() ? state(ops::kInitialC, d) : -1};
    for (int64_t i = 0; i < 3 && has_input(ops::kPeepholes); ++i)
      with_.peephole[i] =
          sliced(part(ops::kPeepholes, d, {3 * s_.hidden}), 0, i * s_.hidden, (i + 1) * s_.hidden);
    begin(with_, functions_);
  }

  // [rows, gates]
  ValueId weights(size_t i, int64_t d, int64_t rows) {
    const int64_t columns = s_.gates * s_.hidden;
    return s_.quantized ? part(i, d, {rows, columns}) : transposed(part(i, d, {columns, rows}), {1, 0});
  }

  // A scale or a zero point: one, or one for each column.
  ValueId by_column(size_t i, int64_t d) {
    const bool one = type(n_.inputs[i]).shape.size() == 1;
    return part(i, d, one ? std::vector<int64_t>{} : std::vector<int64_t>{s_.gates * s_.hidden});
  }

  // What is input i of direction d, without that dimension.
  ValueId part(size_t i, int64_t d, const Dims& shape) {
    const ValueId v = n_.inputs[i];
    return reshaped(s_.directions == 1 ? v : sliced(v, 0, d, d + 1), shape);
  }
  ValueId state(size_t i, int64_t d) {
    if (!has_input(i)) return filled("state", layer_.type, {s_.batch, s_.hidden}, 0);
    const ValueId v = n_.inputs[i];
    return reshaped(s_.directions == 1 ? v : sliced(v, s_.batch_first ? 1 : 0, d, d + 1),
                    {s_.batch, s_.hidden});
  }

  // What each step gives, by its place in the sequence, along dimension 0 (or -1 where nobody reads it); the
  // state is that of the last afterwards.
  ValueId all_steps(bool backward) {
    const std::vector<ValueId> inputs = steps_of(inputs_);
    const bool some_run = has_input(ops::kLengths);
    const std::vector<ValueId> running = some_run ? steps_of(running_steps()) : inputs;
    std::vector<ValueId> made(inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) {
      const size_t t = backward ? inputs.size() - 1 - k : k;
      const ValueId x = reshaped(inputs[t], {s_.batch, s_.gates * s_.hidden});
      state_ = step_of_some(x, some_run ? running[t] : -1, state_, &made[t]);
      made[t] = reshaped(made[t], {1, s_.batch, s_.hidden});
    }
    return concatenated(std::move(made), 0);
  }

  ValueId loop(bool backward) {
    const bool some_run = has_input(ops::kLengths);
    std::vector<ValueId> captured;
    const auto made = std::find_if(n_.outputs.begin(), n_.outputs.end(), [](ValueId v) { return v >= 0; });
    const std::string name = g_.values[static_cast<size_t>(*made)].name;
    LoopForm form;
    form.states = is_lstm() ? 2 : 1, form.scanned = some_run ? 2 : 1;
    if (s_.steps.known()) form.trips = s_.steps;
    form.backward.assign(static_cast<size_t>(form.scanned + (wants(0) ? 1 : 0)), backward);
    const ValueId trips = s_.steps.known() ? -1 : size(s_.steps);
    Node n{"Loop", n_.name, 1, {trips, -1, state_.h}, {}, attributes_of(form), "nestor"};
    n.bodies = {StepBody::make(layer_, name, with_, functions_, some_run, wants(0), g_, captured)};
    if (is_lstm()) n.inputs.push_back(state_.c);
    n.inputs.push_back(inputs_);
    if (some_run) n.inputs.push_back(running_steps());
    n.inputs.insert(n.inputs.end(), captured.begin(), captured.end());
    const std::vector<ValueId> out =
        append(std::move(n), static_cast<size_t>(form.states) + (wants(0) ? 1 : 0));
    state_ = {out[0], is_lstm() ? out[1] : -1};
    return out.back();
  }

  // Which sequences have which steps: [steps, batch].
  ValueId running_steps() {
    const ValueId steps = cast(counted("steps", {s_.steps, 1}), DType::i32);
    return add("Less", {steps, reshaped(n_.inputs[ops::kLengths], {1, s_.batch})});
  }

  // ---- Outputs

  void give_state(size_t i, std::vector<ValueId> of_directions) {
    const ValueId all = concatenated(std::move(of_directions), 0);
    give(i, s_.batch_first ? transposed(all, {1, 0, 2}) : all);
  }

  const bool loops_;
  ValueId x_ = -1;
  // Of the direction that is at work; inputs: X W^T + b of all steps.
  Operands with_;
  const Activation* functions_ = nullptr;
  ValueId inputs_ = -1;
  State state_;
};

}  // namespace

bool spell_out_recurrent(Graph& g, const Node& n, std::vector<Node>& nodes, bool loops) {
  const bool known = n.domain.empty() ? n.op == "LSTM" || n.op == "GRU" || n.op == "RNN"
                                      : n.domain == "com.microsoft" && n.op == "DynamicQuantizeLSTM";
  if (!known) return false;
  RecurrentSpeller(g, n, nodes, loops).run();
  return true;
}

}  // namespace nestor

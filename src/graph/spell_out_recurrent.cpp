// A recurrent layer is the product of its whole input with W, and for each step one of the state with R and
// what the gates make of both:
//
//   X W^T + b, all steps at once        g = (that of step t) + H R^T        H, C = gates(g, C)
//
// Where W and R are bytes (DynamicQuantizeLSTM), both products are of bytes: X is quantized as a whole, and
// the state at each step, by the range of its values.
//
// Steps are the same functions on other values, so that their code is there once. Beyond a sequence's own
// length its state stays, and what it gives is 0; backwards, it waits until its last step comes.
#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/spell_out.h"
#include "src/ops/recurrent.h"

namespace nestor {

namespace {

using ops::Activation;

class RecurrentSpeller : Expansion {
 public:
  RecurrentSpeller(Graph& g, const Node& n, std::vector<Node>& nodes)
      : Expansion(g, n, nodes),
        s_(ops::recurrent_shape(OpContext(g, n))),
        type_(type(n.inputs[ops::kX]).dtype),
        coupled_(OpContext(g, n).get_int("input_forget", 0) != 0),
        reset_after_(OpContext(g, n).get_int("linear_before_reset", 0) != 0) {}

  void run() {
    const ValueId x = n_.inputs[ops::kX];
    x_ = s_.batch_first ? transposed(x, {1, 0, 2}) : x;
    std::vector<ValueId> y, h, c;
    for (int64_t d = 0; d < s_.directions; ++d) {
      begin(d);
      std::vector<ValueId> made = all_steps(s_.backward || d == 1);
      if (wants(0)) y.push_back(reshaped(joined(std::move(made)), {s_.steps, 1, s_.batch, s_.hidden}));
      h.push_back(reshaped(h_, {1, s_.batch, s_.hidden}));
      c.push_back(c_ < 0 ? c_ : reshaped(c_, {1, s_.batch, s_.hidden}));
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

  void begin(int64_t d) {
    const int64_t rows = s_.gates * s_.hidden;
    const size_t functions = s_.activations.size() / static_cast<size_t>(s_.directions);
    functions_ = s_.activations.data() + static_cast<size_t>(d) * functions;
    r_ = weights(ops::kR, d, s_.hidden);
    if (n_.op == "GRU" && !reset_after_) {  // its last gate is of the state that was reset
      r_of_reset_ = sliced(r_, 1, 2 * s_.hidden, rows);
      r_ = sliced(r_, 1, 0, 2 * s_.hidden);
    }
    inputs_ = product(x_, weights(ops::kW, d, s_.size), ops::kW, d);
    direction_ = d;
    recurrent_bias_ = -1;
    if (has_input(ops::kB)) {
      const ValueId b = part(ops::kB, d, {2 * rows}), wb = sliced(b, 0, 0, rows),
                    rb = sliced(b, 0, rows, 2 * rows);
      // What a reset gate multiplies has its own bias inside.
      if (reset_after_) recurrent_bias_ = rb;
      inputs_ = add("Add", {inputs_, reset_after_ ? wb : add("Add", {wb, rb})});
    }
    h_ = state(ops::kInitialH, d);
    c_ = is_lstm() ? state(ops::kInitialC, d) : -1;
    for (int64_t i = 0; i < 3; ++i)
      peephole_[i] = has_input(ops::kPeepholes) ? sliced(part(ops::kPeepholes, d, {3 * s_.hidden}), 0,
                                                         i * s_.hidden, (i + 1) * s_.hidden)
                                                : -1;
  }

  bool is_lstm() const { return s_.gates == 4; }

  // [rows, gates]
  ValueId weights(size_t i, int64_t d, int64_t rows) {
    const int64_t columns = s_.gates * s_.hidden;
    return s_.quantized ? part(i, d, {rows, columns}) : transposed(part(i, d, {columns, rows}), {1, 0});
  }

  // By the weights that are input i.
  ValueId product(ValueId x, ValueId w, size_t i, int64_t d) {
    if (!s_.quantized) return add("MatMul", {x, w});
    const size_t scale = i == ops::kW ? ops::kWScale : ops::kRScale;
    const std::vector<ValueId> bytes = add_node("DynamicQuantizeLinear", {x}, {}, "", 3);
    const ValueId sums = add("MatMulInteger", {bytes[0], w, bytes[2], by_column(scale + 1, d)});
    return add("Mul", {cast(sums, type_), add("Mul", {bytes[1], by_column(scale, d)})});
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
    if (!has_input(i)) return filled("state", type_, {s_.batch, s_.hidden}, 0);
    const ValueId v = n_.inputs[i];
    return reshaped(s_.directions == 1 ? v : sliced(v, s_.batch_first ? 1 : 0, d, d + 1),
                    {s_.batch, s_.hidden});
  }

  // What each step gives, by its place in the sequence; the states afterwards are those of the last.
  std::vector<ValueId> all_steps(bool backward) {
    const std::vector<ValueId> inputs = steps_of(inputs_);
    const std::vector<ValueId> running = has_input(ops::kLengths) ? steps_of(running_steps()) : inputs;
    std::vector<ValueId> made(inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) {
      const size_t t = backward ? inputs.size() - 1 - k : k;
      const ValueId h = h_, c = c_;
      step(reshaped(inputs[t], {s_.batch, s_.gates * s_.hidden}));
      made[t] = h_;
      if (!has_input(ops::kLengths)) continue;
      const ValueId runs = reshaped(running[t], {s_.batch, 1});
      if (wants(0)) made[t] = add("Where", {runs, h_, constant(type_, 0)});
      h_ = add("Where", {runs, h_, h});
      if (c_ >= 0) c_ = add("Where", {runs, c_, c});
    }
    return made;
  }

  // Which sequences have which steps: [steps, batch].
  ValueId running_steps() {
    Tensor steps(DType::i32, {s_.steps, 1});
    for (int64_t t = 0; t < s_.steps; ++t) steps.set_int(t, t);
    return add("Less",
               {constant("steps", std::move(steps)), reshaped(n_.inputs[ops::kLengths], {1, s_.batch})});
  }

  void step(ValueId x) {
    if (is_lstm())
      lstm(x);
    else if (n_.op == "GRU")
      gru(x);
    else
      h_ = activated(0, add("Add", {add("MatMul", {h_, r_}), x}));
  }

  // Gates i o f c.
  void lstm(ValueId x) {
    const ValueId g = add("Add", {product(h_, r_, ops::kR, direction_), x});
    const ValueId in = activated(0, with_peephole(gate(g, 0), 0, c_));
    const ValueId forget =
        coupled_ ? add("Sub", {constant(type_, 1), in}) : activated(0, with_peephole(gate(g, 2), 2, c_));
    const ValueId cell = activated(1, gate(g, 3));
    c_ = add("Add", {add("Mul", {forget, c_}), add("Mul", {in, cell})});
    const ValueId out = activated(0, with_peephole(gate(g, 1), 1, c_));
    h_ = add("Mul", {out, activated(2, c_)});
  }
  ValueId with_peephole(ValueId g, int64_t i, ValueId c) {
    return peephole_[i] < 0 ? g : add("Add", {g, add("Mul", {peephole_[i], c})});
  }

  // Gates z r h.
  void gru(ValueId x) {
    ValueId state = add("MatMul", {h_, r_});
    if (recurrent_bias_ >= 0) state = add("Add", {state, recurrent_bias_});
    const ValueId z = activated(0, add("Add", {gate(x, 0), gate(state, 0)})),
                  reset = activated(0, add("Add", {gate(x, 1), gate(state, 1)}));
    const ValueId kept = reset_after_ ? add("Mul", {reset, gate(state, 2)})
                                      : add("MatMul", {add("Mul", {reset, h_}), r_of_reset_});
    const ValueId made = activated(1, add("Add", {kept, gate(x, 2)}));
    h_ = add("Add", {add("Mul", {add("Sub", {constant(type_, 1), z}), made}), add("Mul", {z, h_})});
  }

  ValueId gate(ValueId g, int64_t i) { return sliced(g, 1, i * s_.hidden, (i + 1) * s_.hidden); }

  // Only what goes into gates is cut off, not the cell's state on its way out (as ONNX Runtime has it; ONNX's
  // words are "the input of activations").
  ValueId activated(size_t which, ValueId v) {
    if (s_.clip > 0 && which < 2) v = add("Clip", {v, constant(type_, -s_.clip), constant(type_, s_.clip)});
    const auto& [name, alpha, beta] = functions_[which];
    const auto scaled = [&](double by, ValueId x) { return add("Mul", {x, constant(type_, by)}); };
    if (name == "Affine") return add("Add", {scaled(alpha, v), constant(type_, beta)});
    if (name == "ScaledTanh") return scaled(alpha, add("Tanh", {scaled(beta, v)}));
    if (name == "ThresholdedRelu") {
      const ValueId passes = add("Less", {constant(type_, alpha), v});
      return add("Where", {passes, v, constant(type_, 0)});
    }
    if (name == "HardSigmoid") return add(name, {v}, {{"alpha", alpha}, {"beta", beta}});
    if (name == "LeakyRelu" || name == "Elu") return add(name, {v}, {{"alpha", alpha}});
    return add(name, {v});
  }

  // ---- Outputs

  ValueId joined(std::vector<ValueId> made) {
    for (ValueId& v : made) v = reshaped(v, {1, s_.batch, s_.hidden});
    return concatenated(std::move(made), 0);
  }
  void give_state(size_t i, std::vector<ValueId> of_directions) {
    const ValueId all = concatenated(std::move(of_directions), 0);
    give(i, s_.batch_first ? transposed(all, {1, 0, 2}) : all);
  }

  const ops::RecurrentShape s_;
  const DType type_;
  const bool coupled_, reset_after_;
  ValueId x_ = -1;
  int64_t direction_ = 0;
  // Of the direction that is at work: weights [hidden, gates], X W^T + b of all steps, the states.
  const Activation* functions_ = nullptr;
  ValueId r_ = -1, r_of_reset_ = -1, inputs_ = -1, recurrent_bias_ = -1, h_ = -1, c_ = -1;
  ValueId peephole_[3] = {-1, -1, -1};  // of i, o, f
};

}  // namespace

bool spell_out_recurrent(Graph& g, const Node& n, std::vector<Node>& nodes) {
  const bool known = n.domain.empty() ? n.op == "LSTM" || n.op == "GRU" || n.op == "RNN"
                                      : n.domain == "com.microsoft" && n.op == "DynamicQuantizeLSTM";
  if (!known) return false;
  RecurrentSpeller(g, n, nodes).run();
  return true;
}

}  // namespace nestor

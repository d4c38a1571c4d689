// LSTM, GRU and RNN step by step, beside the formulas of ONNX's documentation, one number after another.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <random>

#include "catch.h"
#include "nestor/error.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

struct Layer {
  std::string op;
  int64_t directions = 1, steps = 1, batch = 1, size = 1, hidden = 1;
  bool backward = false, batch_first = false, reset_after = false, coupled = false;
  double clip = 0;
  std::vector<std::string> activations = {};  // of all directions
  std::vector<bool> given = std::vector<bool>(8, true);

  int64_t gates() const { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
  int64_t inputs() const { return op == "LSTM" ? 8 : 6; }
};

std::string model(const Layer& l) {
  const int64_t d = l.directions, h = l.hidden, rows = l.gates() * h;
  using Shape = std::vector<int64_t>;
  const Shape state = l.batch_first ? Shape{l.batch, d, h} : Shape{d, l.batch, h};
  const std::vector<Shape> shapes = {
      l.batch_first ? Shape{l.batch, l.steps, l.size} : Shape{l.steps, l.batch, l.size},
      {d, rows, l.size},
      {d, rows, h},
      {d, 2 * rows},
      {l.batch},
      state,
      state,
      {d, 3 * h}};
  std::string inputs, names;
  for (int64_t i = 0; i < l.inputs(); ++i) {
    const bool given = l.given[static_cast<size_t>(i)];
    names += fmt::format(R"({}"{}")", i ? ", " : "", given ? fmt::format("x{}", i) : "");
    if (given)
      inputs += fmt::format(R"({}{{"name": "x{}", "dtype": "{}", "shape": [{}]}})", i ? ", " : "", i,
                            i == 4 ? "i32" : "f32", fmt::join(shapes[static_cast<size_t>(i)], ", "));
  }
  std::string attrs = fmt::format(R"("hidden_size": {}, "direction": "{}")", h,
                                  d == 2       ? "bidirectional"
                                  : l.backward ? "reverse"
                                               : "forward");
  if (l.batch_first) attrs += R"(, "layout": 1)";
  if (l.reset_after) attrs += R"(, "linear_before_reset": 1)";
  if (l.coupled) attrs += R"(, "input_forget": 1)";
  if (l.clip > 0) attrs += fmt::format(R"(, "clip": {})", l.clip);
  if (!l.activations.empty())
    attrs += fmt::format(R"(, "activations": ["{}"])", fmt::join(l.activations, R"(", ")"));
  const std::string outputs = l.op == "LSTM" ? R"("y", "h", "c")" : R"("y", "h")";
  return fmt::format(
      R"({{"opset": 22, "inputs": [{}], "outputs": [{}], "nodes": [{{"op": "{}", "inputs": [{}],
          "outputs": [{}], "attrs": {{{}}}}}]}})",
      inputs, outputs, l.op, names, outputs, attrs);
}

double activated(const std::string& name, double x) {
  if (name == "Tanh") return std::tanh(x);
  if (name == "Sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "Relu") return std::max(x, 0.0);
  if (name == "HardSigmoid") return std::clamp(0.2 * x + 0.5, 0.0, 1.0);
  if (name == "LeakyRelu") return x < 0 ? 0.01 * x : x;
  if (name == "ThresholdedRelu") return x > 1 ? x : 0;
  if (name == "Elu") return x < 0 ? std::expm1(x) : x;
  if (name == "Softsign") return x / (1 + std::abs(x));
  if (name == "Softplus") return std::log1p(std::exp(x));
  FAIL("no activation " << name);
  return 0;
}

// Outputs y, h and c of one direction and one sequence, each step's equations as ONNX writes them.
class Reference {
 public:
  Reference(const Layer& l, const Values& in) : l_(l), in_(in) {}

  Values run() {
    const int64_t d = l_.directions, b = l_.batch, h = l_.hidden;
    out_["y"] =
        Tensor(DType::f32, l_.batch_first ? std::vector{b, l_.steps, d, h} : std::vector{l_.steps, d, b, h});
    for (const char* state : {"h", "c"})
      if (*state == 'h' || l_.op == "LSTM")
        out_[state] = Tensor(DType::f32, l_.batch_first ? std::vector{b, d, h} : std::vector{d, b, h});
    for (d_ = 0; d_ < d; ++d_)
      for (b_ = 0; b_ < b; ++b_) sequence(l_.backward || d_ == 1);
    return std::move(out_);
  }

 private:
  using Vector = std::vector<double>;
  bool given(size_t i) const { return l_.given[i] && static_cast<int64_t>(i) < l_.inputs(); }
  const Tensor& input(size_t i) const { return in_.at(fmt::format("x{}", i)); }
  int64_t state_at(int64_t j) const {
    return (l_.batch_first ? b_ * l_.directions + d_ : d_ * l_.batch + b_) * l_.hidden + j;
  }

  void sequence(bool backward) {
    const int64_t n = given(4) ? input(4).get_int(b_) : l_.steps;
    h_.assign(static_cast<size_t>(l_.hidden), 0);
    c_ = h_;
    for (size_t j = 0; j < h_.size(); ++j) {
      if (given(5)) h_[j] = input(5).get(state_at(static_cast<int64_t>(j)));
      if (given(6)) c_[j] = input(6).get(state_at(static_cast<int64_t>(j)));
    }
    for (int64_t k = 0; k < n; ++k) {
      t_ = backward ? n - 1 - k : k;
      step();
      for (int64_t j = 0; j < l_.hidden; ++j) {
        const int64_t at = l_.batch_first ? (b_ * l_.steps + t_) * l_.directions + d_
                                          : (t_ * l_.directions + d_) * l_.batch + b_;
        out_["y"].set(at * l_.hidden + j, h_[static_cast<size_t>(j)]);
      }
    }
    for (int64_t j = 0; j < l_.hidden; ++j) {
      out_["h"].set(state_at(j), h_[static_cast<size_t>(j)]);
      if (l_.op == "LSTM") out_["c"].set(state_at(j), c_[static_cast<size_t>(j)]);
    }
  }

  // What a gate's unit sums up of the input, and of a state, each with its bias.
  double of_input(int64_t gate, int64_t j) const {
    const int64_t row = gate * l_.hidden + j, rows = l_.gates() * l_.hidden;
    double sum = given(3) ? input(3).get(d_ * 2 * rows + row) : 0;
    const int64_t x = (l_.batch_first ? b_ * l_.steps + t_ : t_ * l_.batch + b_) * l_.size;
    for (int64_t k = 0; k < l_.size; ++k)
      sum += input(0).get(x + k) * input(1).get((d_ * rows + row) * l_.size + k);
    return sum;
  }
  double of_state(int64_t gate, int64_t j, const Vector& h) const {
    const int64_t row = gate * l_.hidden + j, rows = l_.gates() * l_.hidden;
    double sum = given(3) ? input(3).get(d_ * 2 * rows + rows + row) : 0;
    for (int64_t k = 0; k < l_.hidden; ++k)
      sum += h[static_cast<size_t>(k)] * input(2).get((d_ * rows + row) * l_.hidden + k);
    return sum;
  }
  double peephole(int64_t gate, int64_t j) const {
    return given(7) ? input(7).get(d_ * 3 * l_.hidden + gate * l_.hidden + j) : 0;
  }

  double function(size_t which, double x, bool cut = true) const {
    const std::vector<std::string> usual = l_.op == "LSTM"
                                               ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                           : l_.op == "GRU" ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                            : std::vector<std::string>{"Tanh"};
    const size_t at = static_cast<size_t>(d_) * usual.size() + which;
    if (l_.clip > 0 && cut) x = std::clamp(x, -l_.clip, l_.clip);
    return activated(l_.activations.empty() ? usual[which] : l_.activations[at], x);
  }

  void step() {
    const Vector h = h_, c = c_;
    const auto each = [&](const std::function<void(size_t, int64_t)>& f) {
      for (size_t j = 0; j < h.size(); ++j) f(j, static_cast<int64_t>(j));
    };
    if (l_.op == "RNN")
      each([&](size_t j, int64_t u) { h_[j] = function(0, of_input(0, u) + of_state(0, u, h)); });
    if (l_.op == "GRU") {
      Vector z(h.size()), r(h.size()), rh(h.size());
      each([&](size_t j, int64_t u) {
        z[j] = function(0, of_input(0, u) + of_state(0, u, h));
        r[j] = function(0, of_input(1, u) + of_state(1, u, h));
        rh[j] = r[j] * h[j];
      });
      each([&](size_t j, int64_t u) {
        const double state = l_.reset_after ? r[j] * of_state(2, u, h) : of_state(2, u, rh);
        h_[j] = (1 - z[j]) * function(1, of_input(2, u) + state) + z[j] * h[j];
      });
    }
    if (l_.op == "LSTM")
      each([&](size_t j, int64_t u) {
        const auto gate = [&](int64_t g, double with) { return of_input(g, u) + of_state(g, u, h) + with; };
        const double i = function(0, gate(0, peephole(0, u) * c[j]));
        const double f = l_.coupled ? 1 - i : function(0, gate(2, peephole(2, u) * c[j]));
        c_[j] = f * c[j] + i * function(1, gate(3, 0));
        h_[j] = function(0, gate(1, peephole(1, u) * c_[j])) * function(2, c_[j], false);
      });
  }

  const Layer& l_;
  const Values& in_;
  Values out_;
  int64_t d_ = 0, b_ = 0, t_ = 0;
  Vector h_, c_;
};

Layer drawn(std::mt19937_64& rng) {
  const auto one_of = [&](int n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
  Layer l;
  l.op = std::vector<std::string>{"LSTM", "GRU", "RNN"}[rng() % 3];
  l.directions = 1 + one_of(2);
  l.steps = std::vector<int64_t>{1, 2, 5, 18, 35}[rng() % 5];
  l.batch = 1 + one_of(3);
  l.size = 1 + one_of(6);
  l.hidden = 1 + one_of(7);
  l.backward = l.directions == 1 && one_of(2);
  l.batch_first = one_of(3) == 0;
  l.reset_after = l.op == "GRU" && one_of(2);
  l.coupled = l.op == "LSTM" && one_of(4) == 0;
  l.clip = one_of(4) == 0 ? 0.4 : 0;
  if (one_of(3) == 0)
    for (int64_t k = 0; k < l.directions * (l.op == "LSTM" ? 3 : l.op == "GRU" ? 2 : 1); ++k)
      l.activations.push_back(std::vector<std::string>{"Sigmoid", "Tanh", "HardSigmoid", "Softsign", "Relu",
                                                       "Elu", "LeakyRelu", "ThresholdedRelu",
                                                       "Softplus"}[rng() % 9]);
  for (size_t i = 3; i < 8; ++i) l.given[i] = one_of(2) != 0;
  return l;
}

Layer lstm(int64_t steps) {
  Layer l{"LSTM", 1, steps, 2, 3, 5};
  l.given = {true, true, true, true, false, false, false, false};
  return l;
}

std::string error_of(const std::string& json) {
  try {
    graph_of(json);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), other);
}

}  // namespace

TEST_CASE("recurrent layers compute what ONNX's formulas say") {
  std::mt19937_64 rng(7);
  for (int k = 0; k < 120; ++k) {
    const Layer l = drawn(rng);
    INFO(model(l));
    BuildOptions spelled;  // loops are held against this (tests/driver/loops_test.cpp)
    spelled.control_flow = false;
    Graph g = graph_of(model(l), spelled);
    CHECK(count(g, l.op) == 0);
    Values in = random_inputs(g, static_cast<uint64_t>(k));
    for (auto& [name, t] : in)  // states that stay near 1
      for (int64_t i = 0; name != "x4" && i < t.size(); ++i) t.set(i, 0.3 * t.get(i));
    if (l.given[4])
      for (int64_t b = 0; b < l.batch; ++b) in.at("x4").set_int(b, 1 + static_cast<int64_t>(rng() % l.steps));
    const Values wanted = Reference(l, in).run();
    check_close(run_unfused(g, in), wanted, 1e-4);
    optimize(g, evaluate_by_interpreter);
    check_close(run(g, partition(g), in), wanted, 1e-4);
  }
}

TEST_CASE("the steps of a long sequence are the same few functions") {
  const auto functions = [](int64_t steps, bool lengths) {
    Layer l = lstm(steps);
    l.given[4] = lengths;
    BuildOptions spelled;
    spelled.control_flow = false;
    Graph g = graph_of(model(l), spelled);
    optimize(g, evaluate_by_interpreter);
    const Partition p = partition(g);
    for (const PrimFunc& f : p.funcs) CHECK(f.params.size() < 80);
    CHECK(p.calls.size() > static_cast<size_t>(steps));
    return p.funcs.size();
  };
  for (const bool lengths : {false, true}) {
    CHECK(functions(64, lengths) <= 20);
    CHECK(functions(300, lengths) <= 24);
  }
}

TEST_CASE("a sequence longer than what is spelled out is refused where there are no loops") {
  BuildOptions spelled;
  spelled.control_flow = false;
  try {
    graph_of(model(lstm(4097)), spelled);
    FAIL("built");
  } catch (const UserError& e) {
    CHECK_THAT(e.what(), Catch::Contains("the sequence has 4097 steps"));
  }
  CHECK(count(graph_of(model(lstm(4097))), "Loop") == 1);
}

TEST_CASE("activations take their parameters in turn, whatever their case") {
  Layer l{"RNN", 2, 1, 1, 1, 1};
  l.given = std::vector<bool>(8, false);
  l.given[0] = l.given[1] = l.given[2] = true;
  const auto y = [&](const std::string& attrs) {
    const Graph g = graph_of(with(model(l), R"("hidden_size")", attrs + R"(, "hidden_size")"));
    Values in = random_inputs(g);
    in.at("x0").set(0, 0.5);
    for (int64_t d = 0; d < 2; ++d) in.at("x1").set(d, 1);
    const Tensor out = run_unfused(g, in).at("y");
    return std::pair{out.get(0), out.get(1)};
  };
  const auto close = [](double x) { return Approx(x).epsilon(1e-5); };
  auto [a, b] = y(R"("activations": ["Affine", "scaledtanh"], "activation_alpha": [3.0, 2.0],
                     "activation_beta": [0.25, 1.5])");
  CHECK(a == close(3 * 0.5 + 0.25));
  CHECK(b == close(2 * std::tanh(1.5 * 0.5)));
  std::tie(a, b) = y(R"("activations": ["Tanh", "HardSigmoid"], "activation_alpha": [0.5])");
  CHECK(a == close(std::tanh(0.5)));
  CHECK(b == close(0.5 * 0.5 + 0.5));  // beta is as usual
  std::tie(a, b) = y(R"("activations": ["ThresholdedRelu", "LeakyRelu"], "activation_alpha": [0.4, 0.1])");
  CHECK(a == close(0.5));
  CHECK(b == close(0.5));
}

TEST_CASE("what is spelled out and gives nothing that is read is nothing") {
  const std::string json = with(
      with(model(lstm(4)), R"("outputs": ["y", "h", "c"], "attrs")", R"("outputs": ["", "", ""], "attrs")"),
      R"("outputs": ["y", "h", "c"])", R"("outputs": ["z"])");
  const Graph g = graph_of(
      with(json, R"("nodes": [)", R"("nodes": [{"op": "Relu", "inputs": ["x0"], "outputs": ["z"]}, )"));
  CHECK(g.nodes.size() == 1);
}

TEST_CASE("recurrent layers that make no sense are refused by name") {
  const auto refuses = [](const std::string& json, const std::string& part) {
    const std::string message = error_of(json);
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
  };
  const std::string good = model(lstm(4));
  CHECK(error_of(good).empty());
  refuses(with(good, R"("hidden_size": 5)", R"("hidden_size": 6)"), "`hidden_size` is 6");
  refuses(with(good, "forward", "backward"), "`direction` is `backward`");
  refuses(with(good, R"("hidden_size")", R"("layout": 2, "hidden_size")"), "`layout` is 2");
  refuses(with(good, R"("hidden_size")", R"("clip": -1.0, "hidden_size")"), "`clip` is -1");
  refuses(with(good, R"("hidden_size")", R"("activations": ["Tanh"], "hidden_size")"),
          "1 entries, 3 are needed");
  refuses(with(good, R"("hidden_size")", R"("activations": ["Sigmoid", "Tanh", "Tank"], "hidden_size")"),
          "did you mean `Tanh`?");
  refuses(with(good, "[1, 20, 3]", "[1, 21, 3]"), "f32[1,20,3] was expected");
  refuses(with(good, "[1, 40]", "[1, 20]"), "f32[1,40] was expected");
  refuses(with(good, R"("hidden_size")", R"("clip": "often", "hidden_size")"), "a string");
  refuses(with(with(good, R"("x3", "",)", R"("x3", "n",)"), R"("nodes")",
               R"("weights": {"n": {"dtype": "i32", "shape": [2], "data": [4, 5]}}, "nodes")"),
          "`sequence_lens` has 5, of 4 steps");
  refuses(model(lstm(0)), "0 steps");
}

#include "src/driver/graph_runs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "nestor/driver.h"
#include "nestor/flops.h"
#include "nestor/interpret.h"
#include "nestor/ops.h"
#include "nestor/walk.h"
#include "src/driver/oracle.h"
#include "src/graph/control_flow.h"
#include "src/graph/found_sizes.h"

namespace nestor {

namespace {

constexpr double kLargestHalf = 65504;

// Inputs in order, then outputs.
struct Operands {
  PrimFunc func;
  std::vector<ValueId> args;
};

// `n` on values of its own, those that are read at compile time known and no others.
Operands function_of(const Graph& g, const Node& n) {
  const OpDef& op = *find_op(n.domain, n.op, n.opset);
  const OpContext ctx(g, n);
  Graph alone;
  Node own = n;
  std::vector<ValueId> original, args;
  const auto add = [&](ValueId& v, bool known) {
    if (v < 0) return;
    const Value& value = g.values[static_cast<size_t>(v)];
    original.push_back(v);
    v = static_cast<ValueId>(alone.values.size());
    alone.values.push_back({value.name, value.type, known ? value.constant : Tensor(), -1});
  };
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const bool read = std::count(op.static_inputs.begin(), op.static_inputs.end(), i) > 0;
    add(own.inputs[static_cast<size_t>(i)], read);
  }
  for (ValueId& v : own.outputs) add(v, false);
  Operands out{build_function(alone, own, &args), {}};
  for (const ValueId v : args) out.args.push_back(original[static_cast<size_t>(v)]);
  return out;
}

// A function compiled, or interpreted where that takes less.
class Code {
 public:
  Code(const PrimFunc& f, bool interpreted, const Target& target) : func_(f) {
    if (!interpreted) runner_.emplace(compile_function(f, ScheduleChoice{}, target), target);
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> args = inputs, out;
    for (const Param& p : func_.params) {
      if (p.role != Role::out) continue;
      std::vector<int64_t> shape;
      for (const Expr& e : p.decl.shape) shape.push_back(as_int(e).value());
      out.emplace_back(p.decl.buffer->type.dtype, std::move(shape));
    }
    args.insert(args.end(), out.begin(), out.end());
    if (!runner_) {
      interpret(func_, args);
      return out;
    }
    runner_->bind(args);
    runner_->run();
    return out;
  }

 private:
  PrimFunc func_;
  std::optional<FunctionRunner> runner_;
};

}  // namespace

// A node's function in f64, and with the bound on its rounding; made when first run.
class NodeFunction {
 public:
  explicit NodeFunction(const PrimFunc& f) : func(f) {
    for (const Param& p : f.params) outputs_ += p.role == Role::out;
    for (const Param& p : f.params) elements_ += static_cast<double>(product(shape_of(p.decl)));
    flops_ = flops_of(f);
  }

  const PrimFunc func;

  double work() const { return flops_ + elements_; }

  // The outputs, and where they are rounded the bounds; those are undefined where the function has none.
  struct Bounded {
    std::vector<Tensor> outputs, bounds;
  };
  Bounded bounded(const std::vector<Tensor>& inputs, const Target& target) {
    if (!bounded_) {
      const PrimFunc f = in_oracle_order(func);
      const auto with_bound = with_error_bound(f);
      has_bounds_ = with_bound.has_value();
      bounded_.emplace(with_bound ? *with_bound : to_f64(f), small(), target);
    }
    Bounded out{bounded_->run(inputs), std::vector<Tensor>(outputs_)};
    for (size_t i = 0, next = outputs_; has_bounds_ && i < outputs_; ++i)
      if (!is_bool(out.outputs[i].dtype())) out.bounds[i] = out.outputs[next++];
    out.outputs.resize(outputs_);
    return out;
  }
  std::vector<Tensor> exact(const std::vector<Tensor>& inputs, const Target& target) {
    if (!exact_) exact_.emplace(to_f64(in_oracle_order(func)), small(), target);
    return exact_->run(inputs);
  }

 private:
  static std::vector<int64_t> shape_of(const BufferDecl& d) {
    std::vector<int64_t> shape;
    for (const Expr& e : d.shape) shape.push_back(as_int(e).value());
    return shape;
  }
  bool small() const {
    constexpr double kInterpreted = 2e4;  // compiling takes as long as some 10^5 steps interpreted
    return work() < kInterpreted;
  }

  size_t outputs_ = 0;
  double elements_ = 0, flops_ = 0;
  bool has_bounds_ = false;
  std::optional<Code> bounded_, exact_;
};

namespace {

// From -1 to 1, of a stream of its own for each node, run and element (splitmix64).
double noise(uint64_t stream, int64_t element) {
  uint64_t x = stream * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(element);
  x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return std::ldexp(static_cast<double>((x ^ x >> 31) >> 11), -52) - 1;
}

// Where the function has no bound: a few units in the last place of the type.
double own_rounding(DType type, double value) {
  constexpr double kUnits = 8;
  const int digits = type == DType::f16 ? 11 : type == DType::bf16 ? 8 : type == DType::f32 ? 24 : 52;
  return kUnits * std::ldexp(std::fabs(value), -digits);
}

// What the type has for it, where it is too large for the type: infinity.
double in_range(DType type, double value) {
  const double largest = type == DType::f64   ? std::numeric_limits<double>::max()
                         : type == DType::f16 ? kLargestHalf
                                              : std::numeric_limits<float>::max();
  return std::fabs(value) > largest ? std::copysign(INFINITY, value) : value;
}

// t, moved by noise; infinite where its type overflows, as a model may in whose f64 all is finite.
Tensor disturbed(const Tensor& t, const Tensor& exact, const Tensor& bound, DType type, uint64_t stream) {
  if (!is_float(t.dtype())) return t;
  Tensor out;
  const auto from = t.as<double>(), clean = exact.as<double>();
  for (int64_t i = 0; i < t.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const double most = bound.defined() ? bound.as<double>()[at] : own_rounding(type, clean[at]);
    const double moved = in_range(type, std::isfinite(most) ? from[at] + most * noise(stream, i) : from[at]);
    if (moved == from[at] || std::isnan(moved)) continue;
    if (!out.defined()) out = t.clone();
    out.as<double>()[at] = moved;
  }
  return out.defined() ? out : t;
}

}  // namespace

Tensor in_f64(const Tensor& t) {
  return is_float(t.dtype()) ? t.cast(DType::f64) : t;
}

GraphRuns::GraphRuns(Graph g, Target target) : g_(std::move(g)), target_(std::move(target)) {
  for (const int i : alive()) steps_.push_back(step_of(i));
  clear();
}
GraphRuns::~GraphRuns() = default;

double GraphRuns::work() const {
  double work = 0;
  for (const Step& s : steps_) {
    if (!s.bodies.empty()) {
      for (const auto& body : s.bodies) work += times(s) * body->work();
    } else if (!s.known.defined()) {
      work += functions_[s.function].work();
    }
  }
  return work;
}

size_t GraphRuns::functions() const {
  size_t count = functions_.size();
  for (const Step& s : steps_)
    for (const auto& body : s.bodies) count += body->functions();
  return count;
}

// Nodes that outputs depend on, those that were evaluated to find shapes, and those that find sizes.
std::vector<int> GraphRuns::alive() const {
  std::vector<bool> read(g_.values.size(), false);
  for (const ValueId v : g_.outputs) read[static_cast<size_t>(v)] = true;
  std::vector<int> out;
  for (size_t i = g_.nodes.size(); i-- > 0;) {
    const Node& n = g_.nodes[i];
    const bool wanted = is_found_size(n) || std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
                          return v >= 0 && read[static_cast<size_t>(v)];
                        });
    if (!wanted) continue;
    out.push_back(static_cast<int>(i));
    for (const ValueId v : n.inputs)
      if (v >= 0) read[static_cast<size_t>(v)] = true;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

GraphRuns::Step GraphRuns::step_of(int i) {
  const Node& n = g_.nodes[static_cast<size_t>(i)];
  if (has_bodies(n)) {
    Step step{i, 0, {}, {}, {}};
    for (const ValueId v : n.inputs)
      if (v >= 0) step.args.push_back(v);
    for (const auto& body : n.bodies) step.bodies.push_back(std::make_unique<GraphRuns>(*body, target_));
    return step;
  }
  const OpDef& op = *find_op(n.domain, n.op, n.opset);
  Step step{i, 0, {}, op.fold ? op.fold(OpContext(g_, n)) : Tensor(), {}};
  if (step.known.defined()) return step;
  Operands o = function_of(g_, n);
  step.args = std::move(o.args);
  auto& same_hash = by_hash_[structural_hash(o.func)];
  for (const size_t f : same_hash)
    if (structural_equal(functions_[f].func, o.func)) {
      step.function = f;
      return step;
    }
  step.function = functions_.size();
  same_hash.push_back(step.function);
  functions_.emplace_back(o.func);
  return step;
}

// The last step that reads each value; outputs stay.
std::vector<size_t> GraphRuns::last_uses() const {
  std::vector<size_t> last(g_.values.size(), 0);
  for (size_t s = 0; s < steps_.size(); ++s)
    for (const ValueId v : steps_[s].args) last[static_cast<size_t>(v)] = s;
  for (const ValueId v : g_.outputs) last[static_cast<size_t>(v)] = steps_.size();
  return last;
}

Runs GraphRuns::runs_of(ValueId v) const {
  if (const Runs& made = values_[static_cast<size_t>(v)]; made[0].defined()) return made;
  const Tensor& t = value(v).constant;
  NESTOR_CHECK(t.defined()) << value(v).name << " is read before it is computed";
  Runs same;
  same.fill(in_f64(t));
  return same;
}

void GraphRuns::evaluate_function(const Step& step) {
  const Node& n = g_.nodes[static_cast<size_t>(step.node)];
  if (step.known.defined()) {
    values_[static_cast<size_t>(n.outputs[0])].fill(in_f64(step.known));
    return;
  }
  NodeFunction& f = functions_[step.function];
  std::array<std::vector<Tensor>, kRuns> inputs;
  std::vector<ValueId> made;
  bool alike = true;
  for (size_t i = 0; i < step.args.size(); ++i) {
    if (f.func.params[i].role == Role::out) {
      made.push_back(step.args[i]);
      continue;
    }
    const Runs runs = runs_of(step.args[i]);
    for (size_t r = 0; r < kRuns; ++r) {
      inputs[r].push_back(runs[r]);
      alike = alike && runs[r].data() == runs[0].data();
    }
  }
  const NodeFunction::Bounded exact = f.bounded(inputs[0], target_);
  for (size_t r = 0; r < kRuns; ++r) {
    const std::vector<Tensor> outputs = r == 0 || alike ? exact.outputs : f.exact(inputs[r], target_);
    for (size_t k = 0; k < made.size(); ++k) {
      const auto v = static_cast<size_t>(made[k]);
      values_[v][r] =
          r == 0 ? outputs[k]
                 : disturbed(outputs[k], exact.outputs[k], exact.bounds[k], value(made[k]).type.dtype,
                             salt_ + static_cast<uint64_t>(step.node) * kRuns * 64 + r * 64 + k);
    }
  }
}

void GraphRuns::evaluate(Step& step) {
  if (step.bodies.empty()) return evaluate_function(step);
  is_loop(node_of(step)) ? evaluate_loop(step) : evaluate_branch(step);
}

void GraphRuns::run(uint64_t salt, const std::function<void(const Node&)>& after) {
  constexpr uint64_t kStride = 0x9e3779b97f4a7c15u;
  salt_ = salt * kStride;
  const std::vector<size_t> last = last_uses();
  for (size_t s = 0; s < steps_.size(); ++s) {
    evaluate(steps_[s]);
    if (after) after(node_of(steps_[s]));
    for (const ValueId v : steps_[s].args)
      if (last[static_cast<size_t>(v)] == s) values_[static_cast<size_t>(v)] = {};
  }
}

}  // namespace nestor

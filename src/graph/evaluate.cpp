// Running single nodes at compile time.
#include "nestor/flops.h"
#include "nestor/interpret.h"
#include "nestor/ops.h"
#include "src/graph/edit.h"

namespace nestor {

std::vector<Tensor> evaluate_by_interpreter(const PrimFunc& f, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> args = inputs, outs;
  for (const Param& p : f.params) {
    if (p.role != Role::out) continue;
    std::vector<int64_t> shape;
    for (const Expr& e : p.decl.shape) {
      NESTOR_CHECK(as_int(e)) << "evaluating " << f.name << ", whose shapes aren't constant";
      shape.push_back(*as_int(e));
    }
    args.emplace_back(p.decl.buffer->type.dtype, shape);
  }
  NESTOR_CHECK(args.size() == f.params.size()) << f.name << " takes " << f.params.size() << " arguments";
  interpret(f, args);
  outs.assign(args.begin() + static_cast<std::ptrdiff_t>(inputs.size()), args.end());
  return outs;
}

bool evaluate_node(Graph& g, const Node& n, const EvaluateFn& evaluate, double* left) {
  if (!n.bodies.empty()) return false;
  std::vector<ValueId> args;
  const PrimFunc f = build_function(g, n, &args);
  std::vector<Tensor> inputs;
  size_t first_out = 0;
  for (; first_out < args.size() && f.params[first_out].role != Role::out; ++first_out) {
    if (!is_constant(g, args[first_out])) return false;
    inputs.push_back(constant_of(g, args[first_out]));
  }
  if (left) {
    const double work = work_of(f.body);
    if (work > *left) return false;
    *left -= work;
  }
  const std::vector<Tensor> outs = evaluate ? evaluate(f, inputs) : evaluate_by_interpreter(f, inputs);
  NESTOR_CHECK(outs.size() == args.size() - first_out) << "outputs of " << f.name;
  for (size_t i = 0; i < outs.size(); ++i) {
    Value& v = value_of(g, args[first_out + i]);
    NESTOR_CHECK(outs[i].dtype() == v.type.dtype && outs[i].shape() == v.type.shape)
        << "the value of " << v.name;
    v.constant = outs[i];
  }
  return true;
}

}  // namespace nestor

#include "src/graph/fold_budget.h"

#include <set>

#include "src/graph/edit.h"

namespace nestor {

namespace {

constexpr int64_t kMostGrowth = 4;  // bytes that stand for f32
constexpr int64_t kAlwaysStored = 1 << 20, kAlwaysStoredInAll = 64 << 20;

int64_t bytes_made(const Graph& g, const Node& n) {
  int64_t made = 0;
  for (const ValueId v : n.outputs)
    if (v >= 0) made += product(value_of(g, v).type.shape) * bytes_of(value_of(g, v).type.dtype);
  return made;
}

// A result much larger than what it is made from (a table from a ConstantOfShape) is better computed than
// shipped.
bool worth_storing(const Graph& g, const Node& n, int64_t made) {
  int64_t read = 0;
  for (const ValueId v : std::set<ValueId>(n.inputs.begin(), n.inputs.end()))
    if (v >= 0) read += constant_of(g, v).bytes();
  return made <= kAlwaysStored + kMostGrowth * read;
}

}  // namespace

FoldBudget::FoldBudget(const Graph& g, double work) : bytes_(kAlwaysStoredInAll), work_(work) {
  for (const Value& v : g.values)
    if (v.constant.defined() && holders_[v.constant.data()]++ == 0)
      bytes_ += kMostGrowth * v.constant.bytes();
}

bool FoldBudget::fold(Graph& g, const Node& n, const EvaluateFn& evaluate) {
  for (const ValueId v : n.inputs)
    if (v >= 0 && !is_constant(g, v)) return false;
  const int64_t made = bytes_made(g, n);
  if (made > bytes_ || !worth_storing(g, n, made) || !evaluate_node(g, n, evaluate, &work_)) return false;
  bytes_ -= made;
  for (const ValueId v : n.outputs)
    if (v >= 0) ++holders_[constant_of(g, v).data()];
  return true;
}

void FoldBudget::fold_view(Graph& g, const Node& n) {
  Value& out = value_of(g, n.outputs[0]);
  out.constant = constant_of(g, n.inputs[0]).reshaped(out.type.shape);
  ++holders_[out.constant.data()];
}

void FoldBudget::let_go(Value& v) {
  if (--holders_[v.constant.data()] == 0) bytes_ += v.constant.bytes();
  v.constant = {};
}

}  // namespace nestor

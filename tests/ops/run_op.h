// What a node makes of given values, by the interpreter.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "catch.h"
#include "nestor/interpret.h"
#include "tests/ops/op_case.h"

namespace nestor {

using Values = std::vector<double>;
using Ints = std::vector<int64_t>;
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Output 0 of the node with these values as its run-time inputs, in order.
inline Values run(const OpCase& node, const std::vector<Values>& inputs = {}) {
  std::vector<ValueId> ids;
  const PrimFunc f = node.build(&ids);
  std::vector<Tensor> args;
  size_t next = 0, out = 0;
  for (size_t k = 0; k < f.params.size(); ++k) {
    std::vector<int64_t> shape;
    for (const Expr& e : f.params[k].decl.shape) shape.push_back(*as_int(e));
    args.emplace_back(f.params[k].decl.buffer->type.dtype, shape);
    if (f.params[k].role == Role::out && out == 0) out = k;
    if (f.params[k].role == Role::constant)
      args.back() = node.graph().values[static_cast<size_t>(ids[k])].constant;
    if (f.params[k].role != Role::in) continue;
    REQUIRE(inputs.at(next).size() == static_cast<size_t>(args.back().size()));
    for (size_t i = 0; i < inputs[next].size(); ++i)
      args.back().set(static_cast<int64_t>(i), inputs[next][i]);
    ++next;
  }
  REQUIRE(next == inputs.size());
  interpret(f, args);
  Values y;
  for (int64_t i = 0; i < args[out].size(); ++i) y.push_back(args[out].get(i));
  return y;
}

inline Values iota(int64_t n, double first = 0) {
  Values v;
  for (int64_t i = 0; i < n; ++i) v.push_back(first + static_cast<double>(i));
  return v;
}

inline bool same(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::isnan(a[i]) ? !std::isnan(b[i])
                         : std::abs(a[i] - b[i]) > 1e-5 * std::max(1.0, std::abs(b[i])) && a[i] != b[i])
      return false;
  return true;
}

}  // namespace nestor

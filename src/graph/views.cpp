#include "src/graph/views.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "src/graph/edit.h"

namespace nestor {

namespace {

// Whether a transposition leaves the elements where they are: dimensions longer than 1 keep their order.
bool keeps_order(const Node& n, const Dims& shape) {
  const std::vector<int64_t> perm = transpose_perm(n, shape.size());
  int64_t last = -1;
  for (int64_t p : perm) {
    if (shape[static_cast<size_t>(p)] == 1) continue;
    if (p < last) return false;
    last = p;
  }
  return true;
}

}  // namespace

std::vector<int64_t> transpose_perm(const Node& n, size_t rank) {
  if (const auto it = n.attrs.find("perm"); it != n.attrs.end())
    if (const auto* perm = std::get_if<std::vector<int64_t>>(&it->second); perm && perm->size() == rank)
      return *perm;
  std::vector<int64_t> reversed(rank);
  for (size_t i = 0; i < rank; ++i) reversed[i] = static_cast<int64_t>(rank - 1 - i);
  return reversed;
}

bool is_view(const Graph& g, const Node& n) {
  if (!n.domain.empty() || n.inputs.empty() || n.inputs[0] < 0 || n.outputs.empty() || n.outputs[0] < 0)
    return false;
  for (size_t i = 1; i < n.outputs.size(); ++i)
    if (n.outputs[i] >= 0) return false;
  const TensorType &in = value_of(g, n.inputs[0]).type, &out = value_of(g, n.outputs[0]).type;
  if (in.dtype != out.dtype) return false;
  static const std::set<std::string_view> always = {"Reshape",   "Flatten",  "Squeeze",
                                                    "Unsqueeze", "Identity", "Dropout"};
  if (always.count(n.op)) return true;
  if (n.op == "Transpose") return keeps_order(n, in.shape);
  const bool gathers = n.op == "Concat" || n.op == "Sum" || n.op == "Max" || n.op == "Min";
  const bool moves = n.op == "Cast" || n.op == "CastLike" || n.op == "Expand";
  return (moves || (gathers && n.inputs.size() == 1)) && in.shape == out.shape;
}

bool is_identity(const Graph& g, const Node& n) {
  return is_view(g, n) && value_of(g, n.inputs[0]).type == value_of(g, n.outputs[0]).type;
}

}  // namespace nestor

// TopK finds few elements one by one, each behind the last one in order, by a function that all steps share
// (src/ops/top_k.cpp). For many, or as many as a run finds, all are put in order and the first ones are
// taken. The values are gathered at the end, as they stand in the input.
#include <fmt/format.h>

#include <cmath>

#include "nestor/ops.h"
#include "src/graph/edit.h"
#include "src/graph/expansion.h"
#include "src/graph/spell_out.h"
#include "src/ops/top_k.h"

namespace nestor {

namespace {

class TopKSpeller : Expansion {
 public:
  TopKSpeller(Graph& g, const Node& n, std::vector<Node>& nodes)
      : Expansion(g, n, nodes), s_(ops::top_k_shape(OpContext(g, n))) {}

  void run() {
    std::vector<int64_t> perm;  // its own inverse: the axis and the last one change places
    for (size_t d = 0; d < type(n_.inputs[0]).shape.size(); ++d) perm.push_back(static_cast<int64_t>(d));
    std::swap(perm[s_.axis], perm.back());
    const ValueId x = n_.inputs[0];
    const ValueId indices = transposed(found(transposed(x, perm)), perm);
    if (wants(1)) give(1, indices);
    if (wants(0)) give(0, add("GatherElements", {x, indices}, {{"axis", static_cast<int64_t>(s_.axis)}}));
  }

 private:
  // Of a long row as many elements in a chunk as chunks, whole vectors of them.
  int64_t chunk_size(const Dim& extent) const {
    constexpr int64_t kShortRow = 256, kVectors = 32;
    const int64_t n = extent.typical();
    if (n <= kShortRow) return extent.known() ? n : kVectors;
    return ceil_div(static_cast<int64_t>(std::sqrt(static_cast<double>(n))), kVectors) * kVectors;
  }

  // Indices along the last dimension.
  ValueId found(ValueId x) {
    if (!s_.few()) return first_in_order(x);
    if (s_.count == 0) {
      Dims shape = type(x).shape;
      shape.back() = 0;
      return constant("indices", Tensor(DType::i64, shape));
    }
    const Dim n = type(x).shape.back();
    const int64_t size = type(x).dtype == DType::i64 ? static_cast<int64_t>(n) : chunk_size(n);
    const Attrs attrs = {{"largest", int64_t{s_.largest}}, {"size", size}};
    const ValueId keys = add("OrderKey", {x}, attrs, "nestor");
    ValueId most = add("ReduceMax", {keys}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{0}}});
    std::vector<ValueId> inputs = {keys, most}, indices;
    for (int64_t k = 0; k < s_.count; ++k) {
      const std::vector<ValueId> next = add_node("NextInOrder", inputs, {}, "nestor", 3);
      indices.push_back(next[1]);
      inputs = {keys, next[2], next[0], next[1]};
    }
    const auto last = static_cast<int64_t>(type(x).shape.size()) - 1;
    return cast(concatenated(std::move(indices), last), DType::i64);
  }

  ValueId first_in_order(ValueId x) {
    const Dims shape = type(x).shape;
    const ValueId keys =
        add("OrderKey", {x}, {{"largest", int64_t{s_.largest}}, {"size", int64_t{1}}}, "nestor");
    const Dim row = shape.back(), rows = elements_of(Dims(shape.begin(), shape.end() - 1));
    const ValueId order = add("Order", {reshaped(cast(keys, DType::i64), {rows, row})}, {}, "nestor");
    return reshaped(add("Slice", {order, list({0}), list({s_.count}), list({1})}), first_of(shape));
  }
  Dims first_of(Dims shape) const {
    shape.back() = s_.count;
    return shape;
  }

  const ops::TopKShape s_;
};

}  // namespace

// loops: the target has functions that are loops with a state.
bool spell_out_top_k(Graph& g, const Node& n, std::vector<Node>& nodes, bool loops) {
  if (!n.domain.empty() || n.op != "TopK") return false;
  const ops::TopKShape s = ops::top_k_shape(OpContext(g, n));
  if (!loops && !s.few())
    OpContext(g, n).fail(fmt::format("`k` is {}", to_string(s.count)),
                         fmt::format("a known number up to {} on this target, or a CPU as target",
                                     ops::TopKShape::kMostPlaces));
  TopKSpeller(g, n, nodes).run();
  return true;
}

}  // namespace nestor

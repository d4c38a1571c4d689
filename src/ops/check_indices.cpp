// CheckIndices, which --check-indices puts beside operators that pick elements by indices
// (graph/index_checks.cpp): 1 where one of its input is out of range, else 0. Whoever runs it asks (kCheck of
// runtime.h): kernels themselves clamp such an index, since they must stay inside of their memory.
#include "src/ops/indices.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

std::vector<TensorType> infer(const OpContext&) {
  return {{DType::i32, {}}};
}

// Of one extent, all indices are for it; of several, the k-th of each tuple is for the k-th.
void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor& indices = in[0];
  const Dims extents = ctx.get_ints("extents", {});
  Dims shape = indices.shape;
  if (extents.size() > 1) shape.pop_back();
  b.reduce(
      out[0], {}, axes_of(shape), ReduceOp::max,
      [&](const Exprs&, const Exprs& at) {
        Expr outside;
        for (size_t k = 0; k < extents.size(); ++k) {
          Exprs one = at;
          if (extents.size() > 1) one.emplace_back(static_cast<int64_t>(k));
          const Expr i = make::cast({DType::i64, 1}, indices.at(one));
          const Expr here = logical_or(lt(i, -extents[k]), ge(i, extents[k]));
          outside = k == 0 ? here : logical_or(outside, here);
        }
        const Type flag{DType::i32, 1};
        return make::select(outside, make::imm(1, flag), make::imm(0, flag));
      },
      make::imm(0, {DType::i32}));
}

}  // namespace

OpDef check_indices_row() {
  return {.name = "CheckIndices",
          .domain = "nestor",
          .min_inputs = 1,
          .max_inputs = 1,
          .pattern = Pattern::opaque,
          .params = "I",
          .infer = infer,
          .build = build};
}

}  // namespace nestor::ops

// Gather, GatherElements and GatherND: elements picked by a tensor of indices (indices.h).
#include "src/ops/indices.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// The indices' shape takes the place of the axis.
std::vector<TensorType> infer_gather(const OpContext& ctx) {
  const Dims &data = ctx.input(0).shape, &indices = ctx.input(1).shape;
  const size_t axis = indexed_axis(ctx);
  check_indices(ctx, data[axis]);
  Dims out(data.begin(), data.begin() + static_cast<int64_t>(axis));
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), data.begin() + static_cast<int64_t>(axis) + 1, data.end());
  return {{ctx.input(0).dtype, out}};
}

void build_gather(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor &data = in[0], &indices = in[1];
  const auto axis = static_cast<int64_t>(indexed_axis(ctx));
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    const auto first = i.begin() + axis, last = first + indices.rank();
    Exprs at(i.begin(), first);
    at.push_back(position(indices.at(Exprs(first, last)), data.shape[static_cast<size_t>(axis)]));
    at.insert(at.end(), last, i.end());
    return data.at(at);
  });
}

// One index per element of the result: data[..., indices[...], ...] along the axis.
std::vector<TensorType> infer_elements(const OpContext& ctx) {
  check_elements(ctx);
  return {{ctx.input(0).dtype, ctx.input(1).shape}};
}

void build_elements(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const size_t axis = indexed_axis(ctx);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Exprs at = i;
    at[axis] = position(in[1].at(i), in[0].shape[axis]);
    return in[0].at(at);
  });
}

// result[b..., i..., j...] = data[b..., indices[b..., i..., :], j...], of `batch_dims` b.
int64_t batch_dims(const OpContext& ctx) {
  const Dims &data = ctx.input(0).shape, &indices = ctx.input(1).shape;
  const int64_t batch = ctx.get_int("batch_dims", 0);
  if (data.empty() || indices.empty()) ctx.fail("the data or its indices are a scalar");
  const auto most = static_cast<int64_t>(std::min(data.size(), indices.size())) - 1;
  if (batch < 0 || batch > most)
    ctx.fail("`batch_dims` is " + std::to_string(batch) + ", where 0 to " + std::to_string(most) +
             " dimensions of " + to_string(ctx.input(0)) + " and " + to_string(ctx.input(1)) +
             " may go together");
  return batch;
}

std::vector<TensorType> infer_nd(const OpContext& ctx) {
  const Dims &data = ctx.input(0).shape, &indices = ctx.input(1).shape;
  const int64_t batch = batch_dims(ctx);
  check_tuples(ctx, batch);
  if (!std::equal(data.begin(), data.begin() + batch, indices.begin(),
                  [](const Dim& a, const Dim& b) { return must_equal(a, b); }))
    ctx.fail("the first " + std::to_string(batch) + " dimensions of " + to_string(ctx.input(0)) + " and " +
             to_string(ctx.input(1)) + " must be alike");
  Dims out(indices.begin(), indices.end() - 1);
  out.insert(out.end(), data.begin() + batch + indices.back(), data.end());
  return {{ctx.input(0).dtype, out}};
}

void build_nd(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const int64_t batch = batch_dims(ctx), outer = in[1].rank() - 1;
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Exprs at(i.begin(), i.begin() + batch);
    const Exprs tuple = tuple_at(in[1], Exprs(i.begin(), i.begin() + outer), in[0].shape, batch);
    at.insert(at.end(), tuple.begin(), tuple.end());
    at.insert(at.end(), i.begin() + outer, i.end());
    return in[0].at(at);
  });
}

}  // namespace

void register_gather(Rows& rows) {
  rows.push_back(check_indices_row());
  struct Form {
    const char* name;
    int since;
    decltype(OpDef::infer) infer;
    decltype(OpDef::build) build;
  };
  for (const Form& form :
       {Form{"Gather", 1, infer_gather, build_gather},
        Form{"GatherElements", 11, infer_elements, build_elements}, Form{"GatherND", 11, infer_nd, build_nd}})
    rows.push_back({.name = form.name,
                    .since = form.since,
                    .min_inputs = 2,
                    .max_inputs = 2,
                    .pattern = Pattern::injective,
                    .params = "X I",
                    .infer = form.infer,
                    .build = form.build,
                    .note = "indices out of range that are known only at run time are clamped, or an error "
                            "with --check-indices"});
}

}  // namespace nestor::ops

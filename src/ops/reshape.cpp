// Operators that keep every element and its place in memory order: only the shape changes, if anything. The
// index of the source is found group by group: dimensions are matched in runs of equal product, so that those
// which stay as they are keep their own index and only regrouped ones pay for a division.
#include <algorithm>

#include "nestor/error.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// The index into `from` of the element at `indices` of `to`, which holds as many.
Exprs reshaped_index(const Dims& from, const Dims& to, const Exprs& indices) {
  Exprs out(from.size(), Expr(0));
  if (product(from) == 0) return out;  // never evaluated
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    const size_t first_i = i, first_j = j;
    Dim pi = from[i++], pj = to[j++];
    // Products of all dimensions are equal, though it may take what runs require to see it.
    while (pi != pj && (i < from.size() || j < to.size())) {
      const bool less = pi.known() && pj.known() ? pi < pj : pj % pi == 0;
      if (i < from.size() && (less || j == to.size()))
        pi *= from[i++];
      else
        pj *= to[j++];
    }
    if (i == first_i + 1 && j == first_j + 1) {
      out[first_i] = from[first_i] == 1 ? Expr(0) : indices[first_j];
      continue;
    }
    Expr flat = 0;
    for (size_t k = first_j; k < j; ++k) flat = flat * to[k].expr() + (to[k] == 1 ? Expr(0) : indices[k]);
    Dim stride = pi;
    for (size_t k = first_i; k < i; ++k) {
      stride /= from[k];
      // The leading index needs no remainder: flat is less than the product.
      const bool leading = stride * from[k] == pi;
      if (from[k] != 1) out[k] = leading ? flat / stride.expr() : flat / stride.expr() % from[k].expr();
    }
  }
  return out;  // dimensions left over are 1
}

void build_view(const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  b.compute(out[0], axes_of(out[0].shape),
            [&](const Exprs& i) { return in[0].at(reshaped_index(in[0].shape, out[0].shape, i)); });
}

// 0 copies the input's dimension of that place (unless `allowzero`), one -1 takes what is left.
std::vector<TensorType> infer_reshape(const OpContext& ctx) {
  const TensorType& x = ctx.input(0);
  const bool attribute = ctx.node().opset < 5;
  if (attribute ? !ctx.has_attr("shape") : !ctx.has_input(1)) ctx.fail("the new shape is missing");
  Dims shape = attribute ? Dims(ctx.get_ints("shape", {})) : ctx.ints_from(1, "shape");
  const bool allow_zero = ctx.get_int("allowzero", 0) != 0;
  const Dims asked = shape;
  const auto describe = [&] { return to_string(x) + " to " + to_string(x.dtype, asked); };
  Dim known = 1;
  int64_t open = -1;
  Dims rest = x.shape, others;  // without dimensions that both have
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && !allow_zero) {
      if (d >= x.shape.size())
        ctx.fail("dimension " + std::to_string(d) + " is 0, `copy`, but the input has no such one");
      shape[d] = x.shape[d];
    }
    if (shape[d] == -1 && open >= 0) ctx.fail("two dimensions are -1 in " + describe());
    if (shape[d] < -1) ctx.fail("a dimension is negative in " + describe());
    if (shape[d] == -1)
      open = static_cast<int64_t>(d);
    else if (mul_overflows(known, shape[d], known))
      ctx.fail("the size overflows in " + describe());
    else if (const auto same = std::find(rest.begin(), rest.end(), shape[d]);
             same != rest.end() && shape[d] != 0)
      rest.erase(same);
    else
      others.push_back(shape[d]);
  }
  const Dim size = product(x.shape);
  if (open >= 0) {
    if (known == 0) ctx.fail("the dimension that is -1 is undetermined beside one of 0, in " + describe());
    const Dim left = product(rest), divisor = product(others);
    if (!must_equal(left % divisor, 0, "a dimension of a Reshape is what is left of the others"))
      ctx.fail("can't reshape " + describe() + ": " + to_string(size) + " elements don't divide");
    shape[static_cast<size_t>(open)] = left / divisor;
  } else if (!must_equal(product(others), product(rest), "a Reshape keeps the number of elements")) {
    ctx.fail("can't reshape " + describe() + ": " + to_string(size) + " elements against " +
             to_string(known));
  }
  return {{x.dtype, shape}};
}

std::vector<TensorType> infer_flatten(const OpContext& ctx) {
  const TensorType& x = ctx.input(0);
  const auto axis = normal_axis(ctx, ctx.get_int("axis", 1), x.shape.size(), true);
  const auto at = x.shape.begin() + axis;
  return {{x.dtype, {product(Dims(x.shape.begin(), at)), product(Dims(at, x.shape.end()))}}};
}

// Squeeze and Unsqueeze moved `axes` from an attribute to an input with opset 13.
Dims axes_since_13(const OpContext& ctx) {
  return ctx.node().opset >= 13 ? ctx.ints_from(1, "axes") : Dims(ctx.get_ints("axes", {}));
}

std::vector<TensorType> infer_squeeze(const OpContext& ctx) {
  const TensorType& x = ctx.input(0);
  const bool given = ctx.node().opset >= 13 ? ctx.has_input(1) : ctx.has_attr("axes");
  const Dims axes = normal_axes(ctx, axes_since_13(ctx), x.shape.size());
  Dims out;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (named && !must_equal(x.shape[d], 1, "a Squeeze removes a dimension of 1"))
      ctx.fail("axis " + std::to_string(d) + " of " + to_string(x) + " isn't 1, it can't be squeezed");
    if (given ? !named : x.shape[d] != 1) out.push_back(x.shape[d]);
  }
  return {{x.dtype, out}};
}

// `axes` are places in the result, whose rank negative ones count from.
std::vector<TensorType> infer_unsqueeze(const OpContext& ctx) {
  const TensorType& x = ctx.input(0);
  if (ctx.node().opset >= 13 ? !ctx.has_input(1) : !ctx.has_attr("axes")) ctx.fail("`axes` is missing");
  const Dims list = axes_since_13(ctx);
  const Dims axes = normal_axes(ctx, list, x.shape.size() + list.size());
  Dims out;
  size_t next = 0;
  for (size_t d = 0; d < x.shape.size() + axes.size(); ++d) {
    const bool added = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    out.push_back(added ? Dim(1) : x.shape[next++]);
  }
  return {{x.dtype, out}};
}

// The mask says which elements were kept: all of them. It was of the input's type until opset 9.
std::vector<TensorType> infer_dropout(const OpContext& ctx) {
  if (ctx.node().opset < 7 && ctx.get_int("is_test", 0) == 0)
    ctx.fail("`is_test` is 0: training isn't supported", "export the model for inference");
  if (ctx.has_input(2)) {
    const Tensor* training = ctx.constant(2);
    if (!training || training->size() != 1 || training->get_int(0) != 0)
      ctx.fail("`training_mode` is set or unknown: training isn't supported",
               "export the model for inference");
  }
  const TensorType& x = ctx.input(0);
  return {x, {ctx.node().opset < 10 ? x.dtype : DType::boolean, x.shape}};
}

void build_dropout(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  if (out[0]) build_view(ctx, b, in, out);
  if (out.size() > 1 && out[1])
    b.compute(out[1], axes_of(out[1].shape), [&](const Exprs&) { return constant_like(out[1], 1); });
}

}  // namespace

void register_reshape(Rows& rows) {
  const auto row = [&](const char* name, int since, int max_inputs, Pattern pattern, auto infer) {
    rows.push_back({.name = name,
                    .since = since,
                    .min_inputs = 1,
                    .max_inputs = max_inputs,
                    .pattern = pattern,
                    .infer = infer,
                    .build = build_view});
    for (int i = 1; i < max_inputs; ++i) rows.back().static_inputs.push_back(i);
  };
  row("Reshape", 1, 2, Pattern::injective, infer_reshape);
  row("Flatten", 1, 1, Pattern::injective, infer_flatten);
  row("Squeeze", 1, 2, Pattern::injective, infer_squeeze);
  row("Unsqueeze", 1, 2, Pattern::injective, infer_unsqueeze);
  row("Identity", 1, 1, Pattern::elementwise,
      [](const OpContext& ctx) -> std::vector<TensorType> { return {ctx.input(0)}; });
  row("Dropout", 1, 3, Pattern::elementwise, infer_dropout);
  rows.back().build = build_dropout;
  rows.back().note = "inference only: the identity";
}

}  // namespace nestor::ops

// Values that need no data (Constant, ConstantOfShape, Shape, Size, Range), and changes of element type
// (Cast).
#include <algorithm>
#include <cmath>

#include "nestor/error.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// ---- Constant

// A list or a number as a tensor.
template <class T>
Tensor tensor_of(DType type, const std::vector<T>& values, Dims shape) {
  Tensor t(type, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, int64_t>)
      t.set_int(static_cast<int64_t>(i), values[i]);
    else
      t.set(static_cast<int64_t>(i), values[i]);
  }
  return t;
}

// The value in whichever of its attributes it stands.
Tensor constant_value(const OpContext& ctx) {
  if (ctx.has_attr("value")) return *ctx.get_tensor("value");
  if (ctx.has_attr("value_float"))
    return tensor_of(DType::f32, std::vector<double>{ctx.get_float("value_float", 0)}, {});
  if (ctx.has_attr("value_int")) return tensor_of(DType::i64, Dims{ctx.get_int("value_int", 0)}, {});
  if (ctx.has_attr("value_ints")) {
    const Dims list = ctx.get_ints("value_ints", {});
    return tensor_of(DType::i64, list, {static_cast<int64_t>(list.size())});
  }
  if (ctx.has_attr("value_floats")) {
    const std::vector<double> list = ctx.get_floats("value_floats", {});
    return tensor_of(DType::f32, list, {static_cast<int64_t>(list.size())});
  }
  for (const char* name : {"sparse_value", "value_string", "value_strings"})
    if (ctx.has_attr(name))
      ctx.fail(std::string("`") + name + "` isn't supported", "give the tensor as `value`");
  ctx.fail("the attribute `value` is missing");
}

std::vector<TensorType> infer_constant(const OpContext& ctx) {
  const Tensor t = constant_value(ctx);
  return {{t.dtype(), t.shape()}};
}

// Functions hold no tables: a larger constant never comes here, it becomes a constant of the graph
// (OpDef::fold).
void build_constant(const OpContext& ctx, FuncBuilder& b, const Tensors&, const Tensors& out) {
  const Tensor t = constant_value(ctx);
  NESTOR_CHECK(t.size() <= 1) << "a Constant of " << t.size() << " elements wasn't folded";
  b.compute(out[0], axes_of(t.shape()), [&](const Exprs&) { return immediate(t).immediate; });
}

// ---- ConstantOfShape

Tensor fill_value(const OpContext& ctx) {
  const Tensor* t = ctx.get_tensor("value");
  if (!t) return Tensor(DType::f32, {1});
  if (t->size() != 1) ctx.fail("`value` has " + std::to_string(t->size()) + " elements, it must have one");
  return *t;
}

std::vector<TensorType> infer_constant_of_shape(const OpContext& ctx) {
  const Dims shape = ctx.ints_from(0, "shape");
  Dim size = 1;
  for (const Dim& d : shape)
    if (d < 0 || mul_overflows(size, d, size))
      ctx.fail("the shape has a negative dimension or overflows: " + to_string(DType::f32, shape).substr(3));
  return {{fill_value(ctx).dtype(), shape}};
}

void build_constant_of_shape(const OpContext& ctx, FuncBuilder& b, const Tensors&, const Tensors& out) {
  const Expr value = immediate(fill_value(ctx)).immediate;
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs&) { return value; });
}

// ---- Shape, Size

// The dimensions from `start` to `end`, which came with opset 15; both are cut to what there is.
Dims shape_value(const OpContext& ctx) {
  const Dims& shape = ctx.input(0).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const auto bound = [&](const char* name, int64_t fallback) {
    const int64_t v = ctx.node().opset >= 15 ? ctx.get_int(name, fallback) : fallback;
    return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank);
  };
  const int64_t start = bound("start", 0), end = std::max(start, bound("end", rank));
  return Dims(shape.begin() + start, shape.begin() + end);
}

std::vector<TensorType> infer_shape(const OpContext& ctx) {
  return {{DType::i64, {static_cast<int64_t>(shape_value(ctx).size())}}};
}

// Known at import, so this runs only where a model is not folded: a chain of selects over the position.
void build_shape(const OpContext& ctx, FuncBuilder& b, const Tensors&, const Tensors& out) {
  const Dims shape = shape_value(ctx);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Expr value = shape.empty() ? Expr(0) : shape.back().expr();
    for (size_t d = shape.size(); d-- > 1;)
      value = make::select(lt(i[0], static_cast<int64_t>(d)), shape[d - 1], value);
    return value;
  });
}

// ---- Sizes

// A chain of selects over the position, as in build_shape.
void build_sizes(const OpContext& ctx, FuncBuilder& b, const Tensors&, const Tensors& out) {
  const std::vector<Expr> elements = ctx.elements(0);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Expr place(0), value = elements.back();
    for (size_t d = 0; d < i.size(); ++d) place = place * out[0].shape[d].expr() + i[d];
    for (size_t k = elements.size() - 1; k-- > 0;)
      value = make::select(le(place, static_cast<int64_t>(k)), elements[k], value);
    return value;
  });
}

// ---- Range

double scalar_input(const OpContext& ctx, int i) {
  const Tensor* t = ctx.constant(i);
  if (!t) ctx.fail_unknown(i);
  if (t->size() != 1) ctx.fail("input " + std::to_string(i) + " must be a scalar");
  return t->get(0);
}

// Where a bound is computed from sizes.
std::optional<Dim> symbolic_count(const OpContext& ctx) {
  std::vector<Expr> bounds;
  bool open = false;
  for (const int i : {0, 1, 2}) {
    const std::vector<Expr> elements = ctx.elements(i);
    if (elements.size() != 1) return std::nullopt;
    bounds.push_back(elements[0]);
    open = open || !ctx.constant(i);
  }
  if (!open) return std::nullopt;
  constexpr Type kI64{DType::i64, 1};
  const Expr span = bounds[1] - bounds[0];
  if (is_float(span.dtype()))
    return max(ctx.dim(make::cast(kI64, make::call(Intrinsic::ceil, {span / bounds[2]}))), 0);
  const Dim step = ctx.dim(bounds[2]);
  if (!step.known())
    ctx.fail("`delta` is " + to_string(step) + ", it must be known at compile time",
             "give the dimensions that it is computed from values: --dim NAME=...");
  const int64_t delta = step;
  if (delta == 0) ctx.fail("`delta` is 0");
  const Dim length = ctx.dim(span);
  return max(ceil_div(delta > 0 ? length : -length, std::abs(delta)), 0);
}

// ceil((limit - start) / delta) elements, none where that is negative.
std::vector<TensorType> infer_range(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  require_same_type(ctx, 0, 1);
  require_same_type(ctx, 0, 2);
  if (const auto count = symbolic_count(ctx)) return {{ctx.input(0).dtype, {*count}}};
  const double start = scalar_input(ctx, 0), limit = scalar_input(ctx, 1), delta = scalar_input(ctx, 2);
  if (delta == 0) ctx.fail("`delta` is 0");
  const double count = std::ceil((limit - start) / delta);
  if (!(count < 1e15)) ctx.fail("the range is too long");
  return {{ctx.input(0).dtype, {count > 0 ? static_cast<int64_t>(count) : 0}}};
}

void build_range(const OpContext& ctx, FuncBuilder& b, const Tensors&, const Tensors& out) {
  const Expr start = ctx.elements(0).at(0), delta = ctx.elements(2).at(0);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    return start + make::cast({out[0].dtype(), 1}, i[0]) * delta;
  });
}

// ---- Cast

void build_cast(const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    return make::cast({out[0].dtype(), 1}, in[0].at(i));
  });
}

}  // namespace

void register_constant(Rows& rows) {
  rows.push_back({.name = "Constant",
                  .since = 1,
                  .pattern = Pattern::injective,
                  .infer = infer_constant,
                  .build = build_constant,
                  .fold = constant_value});
  rows.push_back({.name = "ConstantOfShape",
                  .since = 9,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::injective,
                  .infer = infer_constant_of_shape,
                  .build = build_constant_of_shape,
                  .static_inputs = {0}});
  rows.push_back({.name = "Shape",
                  .since = 1,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::injective,
                  .infer = infer_shape,
                  .build = build_shape,
                  .static_inputs = {0},
                  .fold = [](const OpContext& ctx) {
                    const Dims shape = shape_value(ctx);
                    return tensor_of(DType::i64, shape, {static_cast<int64_t>(shape.size())});
                  }});
  const auto size = [](const OpContext& ctx) { return product(ctx.input(0).shape); };
  rows.push_back(
      {.name = "Size",
       .since = 1,
       .min_inputs = 1,
       .max_inputs = 1,
       .pattern = Pattern::injective,
       .infer = [](const OpContext&) -> std::vector<TensorType> {
         return {{DType::i64, {}}};
       },
       .build =
           [size](const OpContext& ctx, FuncBuilder& b, const Tensors&, const Tensors& out) {
             b.compute(out[0], {}, [&](const Exprs&) { return Expr(size(ctx)); });
           },
       .static_inputs = {0},
       .fold = [size](const OpContext& ctx) { return tensor_of(DType::i64, Dims{size(ctx)}, {}); }});
  rows.push_back(
      {.name = "Sizes",
       .domain = "nestor",
       .min_inputs = 1,
       .max_inputs = 1,
       .pattern = Pattern::injective,
       .infer = [](const OpContext& ctx) -> std::vector<TensorType> { return {ctx.input(0)}; },
       .build = build_sizes,
       .static_inputs = {0},
       .note = "what a model computes from sizes, as a tensor; made by the compiler, not by models"});
  rows.push_back({.name = "Range",
                  .since = 11,
                  .min_inputs = 3,
                  .max_inputs = 3,
                  .pattern = Pattern::injective,
                  .infer = infer_range,
                  .build = build_range,
                  .static_inputs = {0, 1, 2}});
  rows.push_back({.name = "Cast",
                  .since = 1,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::elementwise,
                  .infer = [](const OpContext& ctx) -> std::vector<TensorType> {
                    return {{type_attribute(ctx, "to"), ctx.input(0).shape}};
                  },
                  .build = build_cast,
                  .note = "a float that an integer type can't hold gives an unspecified value"});
  rows.push_back({.name = "CastLike",
                  .since = 15,
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .pattern = Pattern::elementwise,
                  .infer = [](const OpContext& ctx) -> std::vector<TensorType> {
                    return {{ctx.input(1).dtype, ctx.input(0).shape}};
                  },
                  .build = build_cast,
                  .static_inputs = {1}});
}

}  // namespace nestor::ops

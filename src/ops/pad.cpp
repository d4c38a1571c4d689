// Pad, in every mode: constant, reflect, edge, wrap. A negative padding cuts off.
#include <algorithm>

#include "nestor/error.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

struct Padding {
  Dims begin, end;  // one per axis of the input
  std::string mode;
};

// Amounts and mode of a node; fails where a mode has nothing to pad with.
Padding read_padding(const OpContext& ctx) {
  const Dims& shape = ctx.input(0).shape;
  const size_t rank = shape.size();
  const int opset = ctx.node().opset;
  const char* name = opset == 1 ? "paddings" : "pads";
  if (opset < 11 ? !ctx.has_attr(name) : !ctx.has_input(1))
    ctx.fail(std::string("`") + name + "` is missing");
  const Dims pads = opset < 11 ? Dims(ctx.get_ints(name, {})) : ctx.ints_from(1, name);
  Dims axes;
  if (opset >= 18 && ctx.has_input(3))
    axes = normal_axes(ctx, ctx.ints_from(3, "axes"), rank);
  else
    for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  if (pads.size() != 2 * axes.size())
    ctx.fail(std::string("`") + name + "` has " + std::to_string(pads.size()) + " entries, " +
             std::to_string(2 * axes.size()) + " are needed: a begin and an end for each axis");
  Padding p{Dims(rank, 0), Dims(rank, 0), ctx.get_string("mode", "constant")};
  for (size_t k = 0; k < axes.size(); ++k) {
    p.begin[static_cast<size_t>(axes[k])] = pads[k];
    p.end[static_cast<size_t>(axes[k])] = pads[k + axes.size()];
  }
  if (p.mode != "constant" && p.mode != "reflect" && p.mode != "edge" && p.mode != "wrap")
    ctx.fail("`mode` is \"" + p.mode + "\"", "constant, reflect, edge or wrap");
  for (size_t d = 0; d < rank; ++d) {
    const Dim most = max(p.begin[d], p.end[d]);
    if (p.mode == "reflect" && !surely_le(most, 0) &&
        !must_be_at_most(most + 1, shape[d], "a padding by reflection is shorter than its axis"))
      ctx.fail("a padding of " + to_string(most) +
               " by reflection needs more than that many elements, axis " + std::to_string(d) + " has " +
               to_string(shape[d]));
    if (p.mode != "constant" && shape[d] == 0 && most > 0)
      ctx.fail("axis " + std::to_string(d) + " has no elements to pad with");
  }
  return p;
}

std::vector<TensorType> infer(const OpContext& ctx) {
  const Padding p = read_padding(ctx);
  TensorType out = ctx.input(0);
  for (size_t d = 0; d < out.shape.size(); ++d) {
    Dim extent = 0;
    if (add_overflows(p.begin[d], p.end[d], extent) || add_overflows(extent, out.shape[d], extent) ||
        extent < 0)
      ctx.fail("axis " + std::to_string(d) + " of " + to_string(out) +
               " gets a negative or overflowing extent");
    out.shape[d] = extent;
  }
  if (ctx.node().opset >= 11 && ctx.has_input(2)) {
    require_same_type(ctx, 0, 2);
    if (product(ctx.input(2).shape) != 1)
      ctx.fail("the value is " + to_string(ctx.input(2)) + ", it must be a scalar");
  }
  return {out};
}

// The element of an extent n that stands for index i, which may lie outside.
Expr source_index(const std::string& mode, const Expr& i, const Expr& n) {
  if (mode == "edge") return min(max(i, 0), n - 1);
  if (mode == "wrap") return i % n;
  // reflect: -i before the beginning, 2(n-1) - i behind the end
  return make::select(lt(i, 0), Expr(0) - i, make::select(lt(i, n), i, (n - 1) * 2 - i));
}

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Padding p = read_padding(ctx);
  const BuildTensor& x = in[0];
  Expr fill = constant_like(x, ctx.node().opset < 11 ? ctx.get_float("value", 0) : 0);
  if (in.size() > 2 && in[2]) fill = in[2].at(Exprs(in[2].shape.size(), Expr(0)));
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Expr inside = make::bool_imm(true);
    Exprs at;
    for (size_t d = 0; d < i.size(); ++d) {
      const Expr source = i[d] - p.begin[d].expr();
      const bool before = !surely_le(p.begin[d], 0), after = !surely_le(p.end[d], 0);
      if (p.mode == "constant") {
        if (before) inside = logical_and(inside, le(0, source));
        if (after) inside = logical_and(inside, lt(source, x.shape[d].expr()));
        at.push_back(source);
      } else {
        at.push_back(before || after ? source_index(p.mode, source, x.shape[d].expr()) : source);
      }
    }
    const Expr value = x.at(at);
    return is_const_int(inside, 1) ? value : make::select(inside, value, fill);
  });
}

}  // namespace

void register_pad(Rows& rows) {
  rows.push_back({.name = "Pad",
                  .since = 1,
                  .min_inputs = 1,
                  .max_inputs = 4,
                  .pattern = Pattern::injective,
                  .params = "X Pads V Axes",
                  .infer = infer,
                  .build = build,
                  .static_inputs = {1, 3}});
}

}  // namespace nestor::ops

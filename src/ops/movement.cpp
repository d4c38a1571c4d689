// Operators that put elements elsewhere: Transpose, Concat, Split, Slice, Expand, Tile, Pad. Where several
// pieces meet in one output, each is a block of its own, so that inner loops stay copies without conditions.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "nestor/error.h"
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// perm[d] is the input's axis that becomes axis d; by default the axes are reversed.
Dims permutation(const OpContext& ctx) {
  const size_t rank = ctx.input(0).shape.size();
  Dims reversed(rank);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const Dims perm = ctx.get_ints("perm", reversed);
  Dims sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  std::reverse(sorted.begin(), sorted.end());
  if (sorted != reversed)
    ctx.fail("`perm` isn't a permutation of the " + std::to_string(rank) + " axes of the input");
  return perm;
}

std::vector<TensorType> infer_transpose(const OpContext& ctx) {
  Dims out;
  for (int64_t p : permutation(ctx)) out.push_back(ctx.input(0).shape[static_cast<size_t>(p)]);
  return {{ctx.input(0).dtype, out}};
}

void build_transpose(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Dims perm = permutation(ctx);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Exprs at(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) at[static_cast<size_t>(perm[d])] = i[d];
    return in[0].at(at);
  });
}

// ---- Concat, Split

// Until opset 3 the axis had a default.
int64_t concat_axis(const OpContext& ctx) {
  if (ctx.node().opset >= 4 && !ctx.has_attr("axis")) ctx.fail("the attribute `axis` is missing");
  return normal_axis(ctx, ctx.get_int("axis", 1), ctx.input(0).shape.size());
}

std::vector<TensorType> infer_concat(const OpContext& ctx) {
  TensorType out = ctx.input(0);
  const auto axis = static_cast<size_t>(concat_axis(ctx));
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    require_same_type(ctx, 0, i);
    require_rank(ctx, i, out.shape.size());
    for (size_t d = 0; d < out.shape.size(); ++d)
      if (d != axis && !must_equal(ctx.input(i).shape[d], out.shape[d]))
        ctx.fail("input " + std::to_string(i) + " is " + to_string(ctx.input(i)) + ", it differs from " +
                 to_string(ctx.input(0)) + " in dimension " + std::to_string(d) +
                 ", not only along the axis");
    if (add_overflows(out.shape[axis], ctx.input(i).shape[axis], out.shape[axis]))
      ctx.fail("the size along the axis overflows");
  }
  return {out};
}

// Copies `from` to `to` along one axis, either of them shifted.
void copy_piece(FuncBuilder& b, const BuildTensor& from, const BuildTensor& to, const Dims& extents,
                size_t axis, const Dim& from_offset, const Dim& to_offset) {
  const auto shifted = [&](Exprs i, const Dim& offset) {
    i[axis] = i[axis] + offset.expr();
    return i;
  };
  b.compute(
      to, axes_of(extents), [&](const Exprs& i) { return from.at(shifted(i, from_offset)); },
      [&](const Exprs& i) { return shifted(i, to_offset); });
}

// One block per operand, each a plain copy to its part of the output.
void build_concat(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const auto axis = static_cast<size_t>(concat_axis(ctx));
  Dim offset = 0;
  for (const BuildTensor& piece : in) {
    copy_piece(b, piece, out[0], piece.shape, axis, 0, offset);
    offset += piece.shape[axis];
  }
}

// The extents of the pieces along the axis: given (an attribute, or an input at opset 1 and since 13), or
// equal; since opset 18 the last piece may be smaller.
Dims split_sizes(const OpContext& ctx, const Dim& extent) {
  const int opset = ctx.node().opset;
  const auto outputs = static_cast<int64_t>(ctx.node().outputs.size());
  Dims sizes = opset >= 13 || opset == 1 ? ctx.ints_from(1, "split") : Dims(ctx.get_ints("split", {}));
  if (sizes.empty()) {
    const int64_t pieces = opset >= 18 ? ctx.get_int("num_outputs", outputs) : outputs;
    if (pieces != outputs) ctx.fail(fmt::format("`num_outputs` is {}, there are {}", pieces, outputs));
    if (pieces < 1 || (opset < 18 && !must_equal(extent % pieces, 0, "an extent is split evenly")))
      ctx.fail("an extent of " + to_string(extent) + " isn't split evenly into " + std::to_string(pieces));
    const bool even = opset < 18;
    const Dim size = even ? extent / pieces : ceil_div(extent, pieces);
    for (int64_t k = 0; k < pieces; ++k) sizes.push_back(even ? size : min(max(extent - size * k, 0), size));
  }
  if (static_cast<int64_t>(sizes.size()) != outputs)
    ctx.fail("there are " + std::to_string(sizes.size()) + " pieces and " + std::to_string(outputs) +
             " outputs");
  for (const Dim& s : sizes)
    if (!must_be_at_most(0, s) || !must_be_at_most(s, extent))
      ctx.fail(
          fmt::format("a piece has the size {}, along an extent of {}", to_string(s), to_string(extent)));
  if (!must_equal(std::accumulate(sizes.begin(), sizes.end(), Dim(0)), extent))
    ctx.fail("the sizes of the pieces don't add up to the extent " + to_string(extent));
  return sizes;
}

std::vector<TensorType> infer_split(const OpContext& ctx) {
  const TensorType& x = ctx.input(0);
  const auto axis = static_cast<size_t>(normal_axis(ctx, ctx.get_int("axis", 0), x.shape.size()));
  std::vector<TensorType> out;
  for (const Dim& size : split_sizes(ctx, x.shape[axis])) {
    out.push_back(x);
    out.back().shape[axis] = size;
  }
  return out;
}

void build_split(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const auto axis = static_cast<size_t>(normal_axis(ctx, ctx.get_int("axis", 0), in[0].shape.size()));
  const Dims sizes = split_sizes(ctx, in[0].shape[axis]);
  Dim offset = 0;
  for (size_t k = 0; k < out.size(); offset += sizes[k++])
    if (out[k]) copy_piece(b, in[0], out[k], out[k].shape, axis, offset, 0);
}

// ---- Slice

struct SliceRange {
  Dim start = 0, step = 1, count = 0;
};

// Exporters write numbers like this where they mean the end.
constexpr int64_t kNoEnd = INT32_MAX;

// One range per axis of the input. Bounds were attributes until opset 9.
std::vector<SliceRange> slice_ranges(const OpContext& ctx) {
  const Dims& shape = ctx.input(0).shape;
  const bool attributes = ctx.node().opset < 10;
  const auto list = [&](int input, const char* name) {
    return attributes ? Dims(ctx.get_ints(name, {})) : ctx.ints_from(input, name);
  };
  const Dims starts = list(1, "starts"), ends = list(2, "ends");
  Dims axes = list(3, "axes"), steps = attributes ? Dims() : ctx.ints_from(4, "steps");
  if (axes.empty() && !starts.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    ctx.fail("`starts`, `ends`, `axes` and `steps` differ in length");
  axes = normal_axes(ctx, axes, shape.size());

  std::vector<SliceRange> out;
  for (const Dim& extent : shape) out.push_back({0, 1, extent});
  for (size_t k = 0; k < axes.size(); ++k) {
    const Dim& n = shape[static_cast<size_t>(axes[k])];
    const int64_t step = steps[k];
    if (step == 0) ctx.fail("a step is 0");
    // What lies outside is cut off. Going backward a start is at least 0 and an end at least -1: here ONNX's
    // text differs from Python, where a start before the first element gives nothing.
    const auto bound = [&](const Dim& at, const Dim& least, const Dim& most) {
      if (at.known() && at >= kNoEnd && least >= 0) return most;  // whatever the extent is
      const Dim v = !(at < 0) ? at : at <= -kNoEnd ? least : at + n;
      return min(max(v, least), max(least, most));
    };
    const Dim start = step > 0 ? bound(starts[k], 0, n) : bound(starts[k], 0, n - 1);
    const Dim end = step > 0 ? bound(ends[k], 0, n) : bound(ends[k], -1, n - 1);
    if (n == 0) {
      out[static_cast<size_t>(axes[k])] = {0, 1, 0};
      continue;
    }
    // Division by a magnitude, which for the lowest step needs unsigned arithmetic.
    const uint64_t magnitude = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    const Dim span = step > 0 ? end - start : start - end;
    Dim count = 0;
    if (!span.known()) {
      const Dim far = step > 0 ? Dim(step) : -Dim(step);
      count = max(ceil_div(span, far), 0);
    } else if (span > 0) {
      count = (static_cast<uint64_t>(static_cast<int64_t>(span)) - 1) / magnitude + 1;
    }
    // Backward from the first of no elements to behind it would be one.
    if (step < 0 && !surely_le(1, n)) count = min(count, n);
    out[static_cast<size_t>(axes[k])] = {start, step, count};
  }
  return out;
}

std::vector<TensorType> infer_slice(const OpContext& ctx) {
  TensorType out = ctx.input(0);
  const std::vector<SliceRange> ranges = slice_ranges(ctx);
  for (size_t d = 0; d < ranges.size(); ++d) out.shape[d] = ranges[d].count;
  return {out};
}

void build_slice(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const std::vector<SliceRange> ranges = slice_ranges(ctx);
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Exprs at;
    for (size_t d = 0; d < ranges.size(); ++d)
      at.push_back(ranges[d].count.known() && ranges[d].count <= 1
                       ? ranges[d].start.expr()
                       : i[d] * ranges[d].step.expr() + ranges[d].start.expr());
    return in[0].at(at);
  });
}

// ---- Expand, Tile

std::vector<TensorType> infer_expand(const OpContext& ctx) {
  const Dims shape = ctx.ints_from(1, "shape");
  for (const Dim& d : shape)
    if (d < 0) ctx.fail("the shape has the negative dimension " + to_string(d));
  return {{ctx.input(0).dtype, broadcast_shapes(ctx, ctx.input(0).shape, shape)}};
}

void build_expand(const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) { return read_broadcast(in[0], i); });
}

std::vector<TensorType> infer_tile(const OpContext& ctx) {
  TensorType out = ctx.input(0);
  const Dims repeats = ctx.ints_from(1, "repeats");
  if (repeats.size() != out.shape.size())
    ctx.fail("`repeats` has " + std::to_string(repeats.size()) + " entries for " + to_string(out));
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] < 0) ctx.fail("`repeats` has the negative entry " + to_string(repeats[d]));
    if (mul_overflows(out.shape[d], repeats[d], out.shape[d])) ctx.fail("the result's size overflows");
  }
  return {out};
}

void build_tile(const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Exprs at;
    for (size_t d = 0; d < i.size(); ++d)
      at.push_back(out[0].shape[d] == in[0].shape[d] ? i[d] : i[d] % in[0].shape[d].expr());
    return in[0].at(at);
  });
}

}  // namespace

void register_movement(Rows& rows) {
  const auto row = [&](const char* name, int since, int min_inputs, int max_inputs, Pattern pattern,
                       auto infer, auto build) {
    rows.push_back({.name = name,
                    .since = since,
                    .min_inputs = min_inputs,
                    .max_inputs = max_inputs,
                    .pattern = pattern,
                    .infer = infer,
                    .build = build});
    for (int i = 1; i < max_inputs; ++i) rows.back().static_inputs.push_back(i);
  };
  row("Transpose", 1, 1, 1, Pattern::injective, infer_transpose, build_transpose);
  row("Concat", 1, 1, -1, Pattern::injective, infer_concat, build_concat);
  rows.back().params = "A B C D";
  row("Split", 1, 1, 2, Pattern::injective, infer_split, build_split);
  row("Slice", 1, 1, 5, Pattern::injective, infer_slice, build_slice);
  row("Expand", 8, 2, 2, Pattern::broadcast, infer_expand, build_expand);
  row("Tile", 6, 2, 2, Pattern::injective, infer_tile, build_tile);
}

}  // namespace nestor::ops

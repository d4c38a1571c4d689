// Checks and small loop-nest idioms that most operators need; see common.h.
#include "src/ops/common.h"

#include <algorithm>

#include "nestor/error.h"

namespace nestor::ops {

void require_type(const OpContext& ctx, int i, const std::initializer_list<DType>& allowed) {
  const DType got = ctx.input(i).dtype;
  if (std::find(allowed.begin(), allowed.end(), got) != allowed.end()) return;
  std::string list;
  for (DType t : allowed) list += (list.empty() ? "" : ", ") + std::string(name_of(t));
  // Of the same kind if there is one: f16 -> f32, bool -> i64.
  DType nearest = *allowed.begin();
  for (DType t : allowed)
    if (is_float(t) == is_float(got)) {
      nearest = t;
      break;
    }
  ctx.fail(
      "input " + std::to_string(i) + " is " + to_string(ctx.input(i)) + "; supported element types: " + list,
      "Cast it to " + std::string(name_of(nearest)) + " first");
}

void require_same_type(const OpContext& ctx, int i, int j) {
  if (ctx.input(i).dtype != ctx.input(j).dtype)
    ctx.fail("input " + std::to_string(i) + " is " + to_string(ctx.input(i)) + " but input " +
             std::to_string(j) + " is " + to_string(ctx.input(j)) + ", their element types must be the same");
}

void require_rank(const OpContext& ctx, int i, size_t rank) {
  if (ctx.input(i).shape.size() != rank)
    ctx.fail("input " + std::to_string(i) + " is " + to_string(ctx.input(i)) + ", it must have " +
             std::to_string(rank) + " dimensions");
}

bool must_be(const Dims& shape, const Dims& wanted) {
  return std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end(),
                    [](const Dim& a, const Dim& b) { return must_equal(a, b); });
}

void require_shape(const OpContext& ctx, int i, const Dims& shape) {
  if (!must_be(ctx.input(i).shape, shape))
    ctx.fail("input " + std::to_string(i) + " is " + to_string(ctx.input(i)) + ", where " +
             to_string(TensorType{ctx.input(i).dtype, shape}) + " was expected");
}

bool must_be_at_most(const Dim& a, const Dim& b, const std::string& why) {
  if (a.known() && b.known()) return a <= b;
  return (a.known() ? b : a).symbols()->require(le(a.expr(), b.expr()), why);
}

std::vector<Axis> axes_of(const Dims& shape) {
  static const std::vector<std::vector<const char*>> names = {
      {}, {"i"}, {"i", "j"}, {"b", "i", "j"}, {"n", "c", "h", "w"}};
  std::vector<Axis> out;
  for (size_t d = 0; d < shape.size(); ++d)
    out.push_back({shape.size() < names.size() ? names[shape.size()][d] : "i" + std::to_string(d), shape[d]});
  return out;
}

int64_t normal_axis(const OpContext& ctx, int64_t axis, size_t rank, bool inclusive) {
  const auto r = static_cast<int64_t>(rank);
  const int64_t last = inclusive ? r : r - 1;
  if (axis < -r || axis > last)
    ctx.fail("axis " + std::to_string(axis) + " is outside [" + std::to_string(-r) + ", " +
             std::to_string(last) + "]");
  return axis < 0 ? axis + r : axis;
}

Dims normal_axes(const OpContext& ctx, const Dims& axes, size_t rank) {
  Dims out;
  for (int64_t a : axes) {
    const int64_t axis = normal_axis(ctx, a, rank);
    if (std::find(out.begin(), out.end(), axis) != out.end())
      ctx.fail("axis " + std::to_string(a) + " is given twice");
    out.push_back(axis);
  }
  return out;
}

namespace {

// What to do where one of two open sizes is 1 in a run, and not the other.
std::string broadcast_hint(const Dim& x, const Dim& y) {
  std::string names;
  for (const Dim& d : {x, y})
    if (!d.known() && d.expr().as<VarRef>())
      names += (names.empty() ? "" : " or ") + ("--specialize " + to_string(d) + "=1");
  return names.empty() ? ""
                       : "they are broadcast; " + names + " makes kernels for a size of 1 beside another";
}

}  // namespace

Dims broadcast_shapes(const OpContext& ctx, const Dims& a, const Dims& b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t d = 0; d < rank; ++d) {
    const Dim x = d + a.size() < rank ? Dim(1) : a[d + a.size() - rank];
    const Dim y = d + b.size() < rank ? Dim(1) : b[d + b.size() - rank];
    if (x != 1 && y != 1 && !must_equal(x, y, broadcast_hint(x, y)))
      ctx.fail("the shapes " + to_string(DType::f32, a).substr(3) + " and " +
                   to_string(DType::f32, b).substr(3) + " don't broadcast: dimension " + std::to_string(d) +
                   " is " + to_string(x) + " in one and " + to_string(y) + " in the other",
               "dimensions are aligned at the last one and must be equal or 1");
    out[d] = x == 1 ? y : x;
  }
  return out;
}

Expr read_broadcast(const BuildTensor& t, const Exprs& indices) {
  NESTOR_CHECK(t.shape.size() <= indices.size()) << "broadcast to a lower rank";
  Exprs at;
  const size_t skip = indices.size() - t.shape.size();
  for (size_t d = 0; d < t.shape.size(); ++d) at.push_back(t.shape[d] == 1 ? Expr(0) : indices[skip + d]);
  return t.at(std::move(at));
}

Expr constant_like(const BuildTensor& t, double value) {
  return make::imm(value, {t.dtype(), 1});
}

Expr one_over(const Dim& n, Type t) {
  if (n.known()) return make::imm(1.0 / static_cast<double>(static_cast<int64_t>(n)), t);
  return make::imm(1, t) / make::cast(t, n.expr());
}

Expr divided_by_count(Expr e, const Expr& count) {
  const Type type = e.type();
  const Expr n =
      as_int(count) ? make::imm(static_cast<double>(*as_int(count)), type) : make::cast(type, count);
  if (!is_float(type.dtype)) return make::call(Intrinsic::tdiv, {std::move(e), n});
  return std::move(e) / n;
}

DType type_attribute(const OpContext& ctx, const std::string& name) {
  std::string hint;
  for (const DTypeRow& r : kDTypes)
    hint += (hint.empty() ? "" : ", ") + std::string(r.onnx) + " " + std::to_string(r.onnx_number);
  if (!ctx.has_attr(name)) ctx.fail("the attribute `" + name + "` is missing", hint);
  if (ctx.is_string(name)) {  // until opset 5, and in the shorthand
    const std::string asked = ctx.get_string(name, "");
    if (const auto own = parse_dtype(asked)) return *own;
    if (const auto type = dtype_by(&DTypeRow::onnx, std::string_view(asked))) return *type;
    ctx.fail("there is no element type \"" + asked + "\"", hint);
  }
  const int64_t asked = ctx.get_int(name, 0);
  if (const auto type = dtype_by(&DTypeRow::onnx_number, static_cast<int>(asked))) return *type;
  ctx.fail("element type " + std::to_string(asked) + " isn't supported", hint);
}

}  // namespace nestor::ops

// GridSample: elements of an image at places that a tensor says, its last dimension being (x, y) or (x, y, z)
// from -1 to 1. A block for each spatial dimension holds where along it each result lies, made fit by the
// padding's rule; the result weighs the elements around. A place that isn't a number is taken for one before
// the first element.
#include "src/ops/common.h"
#include "src/ops/cubic.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

enum class Mode : uint8_t { nearest, linear, cubic };
enum class Outside : uint8_t { zeros, border, reflection };

Mode mode_of(const OpContext& ctx) {
  const std::string mode = ctx.get_string("mode", "linear");
  if (mode == "nearest") return Mode::nearest;
  if (mode == "linear" || mode == "bilinear") return Mode::linear;
  if (mode == "cubic" || mode == "bicubic") return Mode::cubic;
  ctx.fail("`mode` is \"" + mode + "\"", "linear, nearest or cubic");
}

Outside outside_of(const OpContext& ctx) {
  const std::string mode = ctx.get_string("padding_mode", "zeros");
  if (mode == "zeros") return Outside::zeros;
  if (mode == "border") return Outside::border;
  if (mode == "reflection") return Outside::reflection;
  ctx.fail("`padding_mode` is \"" + mode + "\"", "zeros, border or reflection");
}

std::vector<TensorType> infer(const OpContext& ctx) {
  require_type(ctx, 0, kFloats);
  require_type(ctx, 1, kFloats);
  const Dims &x = ctx.input(0).shape, &grid = ctx.input(1).shape;
  if (x.size() != 4 && x.size() != 5)
    ctx.fail("the input is " + to_string(ctx.input(0)) + "; two or three spatial dimensions are supported");
  require_rank(ctx, 1, x.size());
  if (!must_equal(grid[0], x[0]) || !must_equal(grid.back(), x.size() - 2))
    ctx.fail("the grid is " + to_string(ctx.input(1)) + ", for the input " + to_string(ctx.input(0)) +
             " it must begin with " + to_string(x[0]) + " and end with " + std::to_string(x.size() - 2));
  for (size_t d = 2; d < x.size(); ++d)
    if (x[d] < 1 || x[d] > (int64_t{1} << 24))
      ctx.fail("the input is " + to_string(ctx.input(0)) + ": no place in it");
  mode_of(ctx);
  outside_of(ctx);
  Dims out = {x[0], x[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  return {{ctx.input(0).dtype, out}};
}

// One dimension of the image, of `size` elements.
struct Along {
  Dim size;
  bool corners;  // -1 and 1 are the middles of the first and the last element, not their outer ends
  Mode mode;
  Outside outside;

  // Where in elements the place is, reflected or cut off as the padding asks.
  Expr place(const Expr& at) const {
    const auto f = [&](double v) { return make::imm(v, at.type()); };
    const double low = corners ? 0 : -0.5;
    // n, or that and a constant more
    const auto n = [&](double more) {
      if (size.known()) return f(static_cast<double>(static_cast<int64_t>(size)) + more);
      const Expr extent = make::cast(at.type(), size.expr());
      return more == 0 ? extent : extent + f(more);
    };
    Expr x = corners ? (at + f(1)) / f(2) * n(-1) : ((at + f(1)) * n(0) - f(1)) / f(2);
    if (mode == Mode::nearest) x = make::call(Intrinsic::round, {x});
    const Expr beyond = logical_or(lt(x, f(low)), gt(x, n(-1 - low)));
    if (outside == Outside::border) x = make::select(beyond, min(max(x, f(0)), n(-1)), x);
    if (outside == Outside::reflection) x = make::select(beyond, reflected(x, low, n(-1 - 2 * low)), x);
    constexpr double kTaps = 3;  // further away nothing is reached
    return min(max(x, f(-kTaps)), n(-1 + kTaps));
  }

  // The index of an element, which may lie outside.
  Expr inside(const Expr& index) const {
    if (outside != Outside::reflection) return min(max(index, 0), (size - 1).expr());
    if (corners && size == 1) return Expr(0);
    // Of one element the period would be 0; any does.
    const Dim period = corners ? max(2 * (size - 1), 1) : 2 * size, last = corners ? period : period - 1;
    const Expr i = index % period.expr();
    return make::select(lt(i, size.expr()), i, last.expr() - i);
  }

  int64_t taps() const { return mode == Mode::nearest ? 1 : mode == Mode::linear ? 2 : 4; }
  int64_t first_tap() const { return mode == Mode::cubic ? -1 : 0; }

  // How much the elements around a place weigh that lies `rest` behind the first one before it, tap by tap.
  Exprs weights(const Expr& rest) const {
    if (mode == Mode::linear) return {make::imm(1, rest.type()) - rest, rest};
    if (mode == Mode::nearest) return {};
    const std::array<Expr, 4> cubic = cubic_weights(rest, -0.75);
    return {cubic.begin(), cubic.end()};
  }

 private:
  // Between `low` and `length` behind it.
  static Expr reflected(const Expr& x, double low, const Expr& length) {
    const auto f = [&](double v) { return make::imm(v, x.type()); };
    if (const auto* none = length.as<FloatImm>(); none && none->value == 0) return f(0);
    const Expr from_low = make::call(Intrinsic::abs, {x - f(low)});
    const Expr turns = make::call(Intrinsic::floor, {from_low / (length * f(2))});
    const Expr rest = from_low - turns * (length * f(2));
    const Expr at = f(low) + make::select(gt(rest, length), length * f(2) - rest, rest);
    return length.as<FloatImm>() ? at : make::select(le(length, f(0)), f(0), at);
  }
};

void build(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const BuildTensor &x = in[0], &grid = in[1];
  const size_t rank = x.shape.size() - 2;
  std::vector<Along> along;
  std::vector<BuildTensor> places;
  const std::vector<Axis> all = axes_of(out[0].shape);
  std::vector<Axis> axes = {all[0]};
  axes.insert(axes.end(), all.begin() + 2, all.end());
  Dims shape = {x.shape[0]};
  shape.insert(shape.end(), out[0].shape.begin() + 2, out[0].shape.end());
  for (size_t d = 0; d < rank; ++d) {
    along.push_back({x.shape[d + 2], ctx.get_int("align_corners", 0) != 0, mode_of(ctx), outside_of(ctx)});
    places.push_back(b.temp("At", {grid.dtype(), shape}));
    b.compute(places[d], axes, [&](const Exprs& i) {
      Exprs at = i;
      at.emplace_back(static_cast<int64_t>(rank - 1 - d));
      return along[d].place(grid.at(at));
    });
  }
  const Expr zero = constant_like(x, 0);
  b.compute(out[0], all, [&](const Exprs& i) {
    Exprs row = {i[0]}, first;
    std::vector<Exprs> weights;
    row.insert(row.end(), i.begin() + 2, i.end());
    for (size_t d = 0; d < rank; ++d) {
      const Expr at = places[d].at(row), below = make::call(Intrinsic::floor, {at});
      first.push_back(make::cast({DType::i64, 1}, below));
      weights.push_back(along[d].weights(make::cast(zero.type(), at - below)));
    }
    // The weighed sum over taps of dimension d and those behind, of element `at`.
    const std::function<Expr(size_t, const Exprs&, const Expr&)> sum = [&](size_t d, const Exprs& at,
                                                                           const Expr& is_inside) {
      if (d == rank) return is_inside ? make::select(is_inside, x.at(at), zero) : x.at(at);
      Expr total;
      for (int64_t t = 0; t < along[d].taps(); ++t) {
        const Expr index = first[d] + Expr(along[d].first_tap() + t);
        Exprs further = at;
        further.push_back(along[d].inside(index));
        Expr inside = is_inside;
        if (along[d].outside == Outside::zeros) {
          const Expr here = logical_and(le(0, index), lt(index, along[d].size.expr()));
          inside = inside ? logical_and(inside, here) : here;
        }
        const Expr part = sum(d + 1, further, inside);
        if (along[d].taps() == 1) return part;
        const Expr weighed = weights[d][static_cast<size_t>(t)] * part;
        total = total ? total + weighed : weighed;
      }
      return total;
    };
    return sum(0, {i[0], i[1]}, {});
  });
}

}  // namespace

void register_grid_sample(Rows& rows) {
  rows.push_back({.name = "GridSample",
                  .since = 16,
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .params = "X G",
                  .infer = infer,
                  .build = build,
                  .note = "a place that is NaN counts as before the first element"});
}

}  // namespace nestor::ops

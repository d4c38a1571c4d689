// Winograd's convolution as operators of our own, which only the graph pass `use_winograd` makes:
//
//  - Reorder(X) is X, once more: row major on one side, in blocks of channels on the other.
//  - WinogradWeights(W) is U[o,i,j,c] = G W G^T, computed in f64 and rounded once; it folds into a constant.
//  - WinogradConv(X, U, B, W): V[i,j,c,t] = B^T d B of the input under each tile t, M[i,j,o,t] the products,
//    summed over c, and A^T M A the output. W is there for whoever wants to know what it computes (verify).
//
// Each transform is two one-dimensional ones in blocks of their own, so that elements that neighbouring tiles
// share along y are transformed once. Which row of a matrix an element needs is a choice by its index; a
// schedule unrolls that index, and what is left is a few additions. Rows of a pair of points p, -p are
// written as even part plus and minus odd part, which are then common.
//
//   Q[c,r,i,w]     r: rows of tiles of all images     from X, padded
//   V[i,j,c,t]     t: tiles of all images; where sizes of images are open, r,tx
//   M[i,j,o,t]     += V * U over c
//   R[n,o,y,tx,j]  rows of the output, each tile's columns still transformed
//   T[n,o,y,x]
#include <cmath>

#include "src/ops/registry.h"
#include "src/ops/window.h"
#include "src/ops/winograd_transform.h"

namespace nestor::ops {

namespace {

using Row = std::vector<double>;
using At = std::function<Expr(int64_t)>;  // element k of what is transformed

// The sum of coefficient * element; zeros vanish. `order` spares a negation at the front.
Expr combined(const Row& row, const At& at) {
  Expr sum;
  for (size_t k = row.size(); k-- > 0;) {
    if (row[k] == 0) continue;
    const Expr element = at(static_cast<int64_t>(k));
    const double size = std::abs(row[k]);
    const Expr term = size == 1 ? element : make::imm(size, element.type()) * element;
    if (!sum)
      sum = row[k] > 0 ? term : make::imm(row[k], element.type()) * element;
    else
      sum = row[k] > 0 ? sum + term : sum - term;
  }
  return sum;
}

Row half(const Row& a, const Row& b, double sign) {
  Row out;
  for (size_t k = 0; k < a.size(); ++k) out.push_back((a[k] + sign * b[k]) / 2);
  return out;
}

// The first row of a pair.
size_t first_pair(size_t reads) {
  return reads % 2 == 0 ? 1 : 0;
}

// Row i of a matrix whose rows come in pairs, as B^T's and G's do.
Expr paired_row(const Winograd::Matrix& m, size_t i, const At& at) {
  const size_t first = first_pair(m.size());
  if (i < first || i + 1 == m.size()) return combined(m[i], at);
  const size_t plus = i - (i - first) % 2;
  const Expr even = combined(half(m[plus], m[plus + 1], 1), at);
  const Expr odd = combined(half(m[plus], m[plus + 1], -1), at);
  return i == plus ? even + odd : even - odd;
}

// Row i of A^T, whose columns come in pairs.
Expr output_row(const Winograd::Matrix& m, size_t i, const At& at) {
  const Row& row = m[i];
  Row folded;
  std::vector<Expr> elements;
  const auto alone = [&](size_t k) {
    elements.push_back(at(static_cast<int64_t>(k)));
    folded.push_back(row[k]);
  };
  if (first_pair(row.size()) == 1) alone(0);
  for (size_t k = first_pair(row.size()); k + 1 < row.size(); k += 2) {
    const Expr a = at(static_cast<int64_t>(k)), b = at(static_cast<int64_t>(k) + 1);
    elements.push_back(row[k] == row[k + 1] ? a + b : a - b);
    folded.push_back(row[k]);
  }
  alone(row.size() - 1);
  return combined(folded, [&](int64_t k) { return elements[static_cast<size_t>(k)]; });
}

Expr chosen(const Expr& index, const std::vector<Expr>& cases) {
  Expr out = cases.back();
  for (size_t k = cases.size() - 1; k-- > 0;)
    out = make::select(eq(index, static_cast<int64_t>(k)), cases[k], out);
  return out;
}

Expr paired_rows(const Winograd::Matrix& m, const Expr& index, const At& at) {
  std::vector<Expr> cases;
  for (size_t i = 0; i < m.size(); ++i) cases.push_back(paired_row(m, i, at));
  return chosen(index, cases);
}

Expr output_rows(const Winograd::Matrix& m, const Expr& index, const At& at) {
  std::vector<Expr> cases;
  for (size_t i = 0; i < m.size(); ++i) cases.push_back(output_row(m, i, at));
  return chosen(index, cases);
}

const Winograd& tile_of(const OpContext& ctx) {
  const int64_t tile = ctx.get_int("tile", 4);
  if (tile < 2 || tile > 4) ctx.fail("`tile` is " + std::to_string(tile) + ", 2 to 4 are known");
  return winograd(tile);
}

std::vector<TensorType> infer_weights(const OpContext& ctx) {
  require_type(ctx, 0, {DType::f32, DType::f16, DType::bf16});
  require_rank(ctx, 0, 4);
  const Dims& w = ctx.input(0).shape;
  if (w[2] != 3 || w[3] != 3) ctx.fail("the weight is " + to_string(ctx.input(0)) + ", not 3x3");
  const int64_t reads = tile_of(ctx).reads;
  return {{ctx.input(0).dtype, {w[0], reads, reads, w[1]}}};
}

void build_weights(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Winograd& wino = tile_of(ctx);
  const Dims& w = ctx.input(0).shape;
  const Type f64{DType::f64, 1};
  const BuildTensor rows = b.temp("H", {DType::f64, {wino.reads, w[0], w[1], 3}});
  b.compute(rows, {{"i", wino.reads}, {"o", w[0]}, {"c", w[1]}, {"s", 3}}, [&](const Exprs& v) {
    return paired_rows(wino.weight, v[0],
                       [&](int64_t r) { return make::cast(f64, in[0](v[1], v[2], r, v[3])); });
  });
  b.compute(out[0], {{"o", w[0]}, {"i", wino.reads}, {"j", wino.reads}, {"c", w[1]}}, [&](const Exprs& v) {
    const Expr value = paired_rows(wino.weight, v[2], [&](int64_t s) { return rows(v[1], v[0], v[3], s); });
    return make::cast(Type{out[0].dtype(), 1}, value);
  });
}

// The window that a tile is: m + 2 rows of the input, m apart, as many tiles as cover the output.
struct TiledConv {
  Window direct, tiles;
  Dim n;
  int64_t channels, filters;
};

TiledConv tiled_conv(const OpContext& ctx, const Winograd& wino) {
  const Dims &x = ctx.input(0).shape, &u = ctx.input(1).shape;
  if (x.size() != 4 || u.size() != 4 || u[1] != wino.reads || u[2] != wino.reads || u[3] != x[1])
    ctx.fail("an input " + to_string(ctx.input(0)) + " and transformed weights " + to_string(ctx.input(1)));
  TiledConv c{read_window(ctx, {3, 3}), {}, x[0], x[1], u[0]};
  c.tiles = c.direct;
  for (size_t d = 0; d < 2; ++d) {
    c.tiles.kernel[d] = wino.reads;
    c.tiles.stride[d] = wino.tile;
    c.tiles.output[d] = (c.direct.output[d] + wino.tile - 1) / wino.tile;
  }
  return c;
}

std::vector<TensorType> infer_conv(const OpContext& ctx) {
  const TiledConv c = tiled_conv(ctx, tile_of(ctx));
  return {{ctx.input(0).dtype, {c.n, c.filters, c.direct.output[0], c.direct.output[1]}}};
}

// a / b and a % b where one of them is known to be a itself.
Expr quotient(const Expr& a, const Dim& b, const Dim& extent) {
  return surely_le(extent, b) ? Expr(0) : a / b.expr();
}
Expr remainder(const Expr& a, const Dim& b, const Dim& extent) {
  return surely_le(extent, b) ? a : a % b.expr();
}

void build_conv(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Winograd& wino = tile_of(ctx);
  const TiledConv c = tiled_conv(ctx, wino);
  const bool has_bias = in.size() > 2 && in[2];
  const int64_t m = wino.tile;
  const Dim ty = c.tiles.output[0], tx = c.tiles.output[1];
  // The tiles of all images are one row of tiles; of as many images as a run decides, each has its own. Of
  // images whose size a run decides, rows and columns of tiles are numbered apart: nothing is divided by
  // them.
  const bool grid = !ty.known() || !tx.known(), apart = !c.n.known() || (grid && c.n != 1);
  const Dim width = (tx - 1) * m + wino.reads, rows = (apart ? Dim(1) : c.n) * ty;
  const auto tiled = [&](auto first, const auto& row, const auto& column, const auto& both) {
    if (grid)
      first.insert(first.end(), {row, column});
    else
      first.push_back(both);
    return first;
  };
  const DType type = in[0].dtype();
  const auto axes = [&](std::vector<Axis> of_an_image) {
    if (apart) of_an_image.insert(of_an_image.begin(), {"n", c.n});
    return of_an_image;
  };
  const auto temp = [&](const char* name, Dims of_an_image) {
    if (apart) of_an_image.insert(of_an_image.begin(), c.n);
    return b.temp(name, {type, of_an_image});
  };
  // Of the image that the axes `e` of such a tensor name.
  const auto of = [&](const BuildTensor& t, const Exprs& e, Exprs at) {
    if (apart) at.insert(at.begin(), e[0]);
    return t.at(at);
  };
  const auto inner = [&](const Exprs& e) { return apart ? Exprs(e.begin() + 1, e.end()) : e; };

  const BuildTensor x = padded_input(b, c.tiles, in[0], constant_like(in[0], 0));
  const BuildTensor q = temp("Q", {c.channels, rows, wino.reads, width});
  const Dim tiles = grid ? tx : rows * tx;
  const BuildTensor v = temp("V", tiled(Dims{wino.reads, wino.reads, c.channels}, rows, tx, tiles));
  const BuildTensor products = temp("M", tiled(Dims{wino.reads, wino.reads, c.filters}, rows, tx, tiles));
  const BuildTensor r = b.temp("R", {type, {c.n, c.filters, c.direct.output[0], tx, wino.reads}});
  const BuildTensor t = has_bias ? b.temp("T", {type, out[0].shape}) : out[0];

  const Axis i{"i", wino.reads}, j{"j", wino.reads};
  b.compute(q, axes({{"c", c.channels}, {"r", rows}, i, {"w", width}}), [&](const Exprs& all) {
    const Exprs e = inner(all);
    return paired_rows(wino.input, e[2], [&](int64_t k) {
      return x(apart ? all[0] : quotient(e[1], ty, rows), e[0], remainder(e[1], ty, rows) * Expr(m) + Expr(k),
               e[3]);
    });
  });
  const Axis row{"r", rows}, column{"t", tiles};
  b.compute(v, axes(tiled(std::vector<Axis>{i, j, {"c", c.channels}}, row, column, column)),
            [&](const Exprs& all) {
              const Exprs e = inner(all);
              const Expr y = grid ? e[3] : quotient(e[3], tx, tiles);
              const Expr x = grid ? e[4] : remainder(e[3], tx, tiles);
              return paired_rows(wino.input, e[1], [&](int64_t k) {
                return of(q, all, {e[2], y, e[0], x * Expr(m) + Expr(k)});
              });
            });
  b.reduce(products, axes(tiled(std::vector<Axis>{i, j, {"o", c.filters}}, row, column, column)),
           {{"c", c.channels}}, ReduceOp::add, [&](const Exprs& all, const Exprs& k) {
             const Exprs e = inner(all);
             return of(v, all, tiled(Exprs{e[0], e[1], k[0]}, e[3], e.back(), e[3])) *
                    make::cast(Type{type, 1}, in[1](e[2], e[0], e[1], k[0]));
           });
  const std::vector<Axis> pixels = {
      {"n", c.n}, {"o", c.filters}, {"y", c.direct.output[0]}, {"x", c.direct.output[1]}};
  const bool many = !apart && !grid && c.n > 1;
  b.compute(r, {pixels[0], pixels[1], pixels[2], {"tx", tx}, j}, [&](const Exprs& e) {
    const Expr row = e[2] / Expr(m), first = many ? e[0] * ty.expr() + row : row;
    return output_rows(wino.output, e[2] % Expr(m), [&](int64_t k) {
      return of(products, e, tiled(Exprs{k, e[4], e[1]}, row, e[3], first * tx.expr() + e[3]));
    });
  });
  b.compute(t, pixels, [&](const Exprs& e) {
    return output_rows(wino.output, e[3] % Expr(m),
                       [&](int64_t k) { return r(e[0], e[1], e[2], e[3] / Expr(m), k); });
  });
  if (has_bias) b.compute(out[0], pixels, [&](const Exprs& e) { return t.at(e) + in[2](e[1]); });
}

}  // namespace

void register_winograd(Rows& rows) {
  rows.push_back({.name = "Reorder",
                  .domain = "nestor",
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::opaque,
                  .params = "X",
                  .infer = [](const OpContext& ctx) -> std::vector<TensorType> { return {ctx.input(0)}; },
                  .build =
                      [](const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
                        b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) { return in[0].at(i); });
                      }});
  rows.push_back({.name = "WinogradWeights",
                  .domain = "nestor",
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .params = "W",
                  .infer = infer_weights,
                  .build = build_weights});
  rows.push_back(
      {.name = "WinogradConv",
       .domain = "nestor",
       .min_inputs = 4,
       .max_inputs = 4,
       .pattern = Pattern::anchor,
       .by_channels = true,
       .params = "X U B W",
       .infer = infer_conv,
       .build = build_conv,
       .static_inputs = {3},
       .note = "Conv of 3x3 windows by Winograd's algorithm; made by the compiler, not by models."});
}

}  // namespace nestor::ops

// MatMul and Gemm: one block T[i,j] += A[i,k] * B[k,j] that schedules know, scaling and bias in a block
// behind it.
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

// The parts of a MatMul's shapes, after 1-D operands were promoted to matrices as NumPy does.
struct MatMulShape {
  Dims batch_a, batch_b, batch;
  int64_t m = 1, n = 1, k = 1;
  bool vector_a = false, vector_b = false;
};

MatMulShape matmul_shape(const OpContext& ctx) {
  const Dims &a = ctx.input(0).shape, &b = ctx.input(1).shape;
  if (a.empty() || b.empty()) ctx.fail("an operand is a scalar", "use Mul to scale");
  MatMulShape s;
  s.vector_a = a.size() == 1;
  s.vector_b = b.size() == 1;
  s.k = a.back();
  if (!s.vector_a) s.m = a[a.size() - 2], s.batch_a = Dims(a.begin(), a.end() - 2);
  if (!s.vector_b) s.n = b.back(), s.batch_b = Dims(b.begin(), b.end() - 2);
  const int64_t k = s.vector_b ? b[0] : b[b.size() - 2];
  if (k != s.k)
    ctx.fail("the inner dimensions differ: " + to_string(ctx.input(0)) + " has " + std::to_string(s.k) +
             " columns, " + to_string(ctx.input(1)) + " has " + std::to_string(k) + " rows");
  s.batch = broadcast_shapes(ctx, s.batch_a, s.batch_b);
  return s;
}

std::vector<TensorType> infer_matmul(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  require_same_type(ctx, 0, 1);
  const MatMulShape s = matmul_shape(ctx);
  Dims out = s.batch;
  if (!s.vector_a) out.push_back(s.m);
  if (!s.vector_b) out.push_back(s.n);
  return {{ctx.input(0).dtype, out}};
}

// out[b..., i, j] += A[b..., i, k] * B[b..., k, j]; a vector operand has no i or no j.
void build_matmul(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const MatMulShape s = matmul_shape(ctx);
  std::vector<Axis> axes;
  for (size_t d = 0; d < s.batch.size(); ++d) axes.push_back({"b" + std::to_string(d), s.batch[d]});
  if (!s.vector_a) axes.push_back({"i", s.m});
  if (!s.vector_b) axes.push_back({"j", s.n});
  // The indices of an operand: its own batch dimensions, aligned at the last, then its matrix.
  const auto element = [&](const BuildTensor& t, const Dims& batch, const Exprs& i, const Exprs& matrix) {
    Exprs at;
    for (size_t d = 0; d < batch.size(); ++d)
      at.push_back(batch[d] == 1 ? Expr(0) : i[d + s.batch.size() - batch.size()]);
    at.insert(at.end(), matrix.begin(), matrix.end());
    return t.at(at);
  };
  b.reduce(out[0], axes, {{"k", s.k}}, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
    const size_t batch = s.batch.size();
    const Exprs row = s.vector_a ? Exprs{r[0]} : Exprs{i[batch], r[0]};
    const Exprs column = s.vector_b ? Exprs{r[0]} : Exprs{r[0], i.back()};
    return element(in[0], s.batch_a, i, row) * element(in[1], s.batch_b, i, column);
  });
}

struct GemmShape {
  bool trans_a, trans_b;
  int64_t m, n, k;
};

GemmShape gemm_shape(const OpContext& ctx) {
  require_rank(ctx, 0, 2);
  require_rank(ctx, 1, 2);
  const Dims &a = ctx.input(0).shape, &b = ctx.input(1).shape;
  const bool ta = ctx.get_int("transA", 0) != 0, tb = ctx.get_int("transB", 0) != 0;
  const GemmShape s{ta, tb, a[ta ? 1 : 0], b[tb ? 0 : 1], a[ta ? 0 : 1]};
  if (s.k != b[tb ? 1 : 0])
    ctx.fail("the inner dimensions differ: A is " + to_string(ctx.input(0)) + (ta ? " transposed" : "") +
             ", B is " + to_string(ctx.input(1)) + (tb ? " transposed" : ""));
  return s;
}

std::vector<TensorType> infer_gemm(const OpContext& ctx) {
  require_type(ctx, 0, kNumbers);
  require_same_type(ctx, 0, 1);
  const GemmShape s = gemm_shape(ctx);
  const Dims out = {s.m, s.n};
  if (ctx.has_input(2)) {
    require_same_type(ctx, 0, 2);
    if (broadcast_shapes(ctx, out, ctx.input(2).shape) != out)
      ctx.fail("C is " + to_string(ctx.input(2)) + ", it doesn't broadcast to the result " +
               to_string(ctx.input(0).dtype, out));
  }
  const double alpha = ctx.get_float("alpha", 1), beta = ctx.get_float("beta", 1);
  if (!is_float(ctx.input(0).dtype) && (alpha != 1 || beta != 1))
    ctx.fail("alpha and beta must be 1 where the element type is an integer");
  return {{ctx.input(0).dtype, out}};
}

// T = op(A) op(B), then alpha * T + beta * C; where neither scale nor C is there, T is the output. beta = 0
// means that C isn't read, NaN in it or not.
void build_gemm(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const GemmShape s = gemm_shape(ctx);
  const double alpha = ctx.get_float("alpha", 1), beta = ctx.get_float("beta", 1);
  const bool has_c = in.size() > 2 && in[2] && beta != 0;
  const bool plain = alpha == 1 && !has_c;
  const BuildTensor t = plain ? out[0] : b.temp("T", {out[0].dtype(), {s.m, s.n}});
  const std::vector<Axis> axes = {{"i", s.m}, {"j", s.n}};
  b.reduce(t, axes, {{"k", s.k}}, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
    return (s.trans_a ? in[0](r[0], i[0]) : in[0](i[0], r[0])) *
           (s.trans_b ? in[1](i[1], r[0]) : in[1](r[0], i[1]));
  });
  if (plain) return;
  b.compute(out[0], axes, [&](const Exprs& i) {
    Expr y = t.at(i);
    if (alpha != 1) y = constant_like(t, alpha) * y;
    if (!has_c) return y;
    const Expr c = read_broadcast(in[2], i);
    return y + (beta == 1 ? c : constant_like(t, beta) * c);
  });
}

}  // namespace

void register_matmul(Rows& rows) {
  rows.push_back({.name = "MatMul",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 2,
                  .pattern = Pattern::anchor,
                  .params = "A B",
                  .infer = infer_matmul,
                  .build = build_matmul});
  rows.push_back({.name = "Gemm",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::anchor,
                  .params = "A B C",
                  .infer = infer_gemm,
                  .build = build_gemm});
}

}  // namespace nestor::ops

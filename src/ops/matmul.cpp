// MatMul and Gemm: one block T[i,j] += A[i,k] * B[k,j] that schedules know; scaling, bias, and rounding to 16
// bits in a block behind it.
#include "src/ops/products.h"
#include "src/ops/registry.h"

namespace nestor::ops {

Factor widened(DType to) {
  return [to](const Expr& e, const Exprs&) { return make::cast({to, 1}, e); };
}

bool is_half(DType t) {
  return t == DType::f16 || t == DType::bf16;
}

Dims MatMulShape::output() const {
  Dims out = batch;
  if (!vector_a) out.push_back(m);
  if (!vector_b) out.push_back(n);
  return out;
}

std::vector<Axis> MatMulShape::axes() const {
  std::vector<Axis> out;
  for (size_t d = 0; d < batch.size(); ++d) out.push_back({"b" + std::to_string(d), batch[d]});
  if (!vector_a) out.push_back({"i", m});
  if (!vector_b) out.push_back({"j", n});
  return out;
}

DType product_type(const OpContext& ctx, int a, int b) {
  const DType x = ctx.input(a).dtype, y = ctx.input(b).dtype;
  if (is_half(x) && y == DType::f32) return y;
  if (!(is_half(y) && x == DType::f32)) require_same_type(ctx, a, b);
  return x;
}

MatMulShape matmul_shape(const OpContext& ctx, int first, int second) {
  const Dims &a = ctx.input(first).shape, &b = ctx.input(second).shape;
  if (a.empty() || b.empty()) ctx.fail("an operand is a scalar", "use Mul to scale");
  MatMulShape s;
  s.vector_a = a.size() == 1;
  s.vector_b = b.size() == 1;
  s.k = a.back();
  if (!s.vector_a) s.m = a[a.size() - 2], s.batch_a = Dims(a.begin(), a.end() - 2);
  if (!s.vector_b) s.n = b.back(), s.batch_b = Dims(b.begin(), b.end() - 2);
  const Dim k = s.vector_b ? b[0] : b[b.size() - 2];
  if (!must_equal(k, s.k))
    ctx.fail("the inner dimensions differ: " + to_string(ctx.input(first)) + " has " + to_string(s.k) +
             " columns, " + to_string(ctx.input(second)) + " has " + to_string(k) + " rows");
  s.batch = broadcast_shapes(ctx, s.batch_a, s.batch_b);
  return s;
}

void multiply(FuncBuilder& f, const MatMulShape& s, const BuildTensor& a, const BuildTensor& b,
              const BuildTensor& out, const Factor& left, const Factor& right) {
  // The indices of an operand: its own batch dimensions, aligned at the last, then its matrix.
  const auto element = [&](const BuildTensor& t, const Dims& batch, const Exprs& i, const Exprs& matrix) {
    Exprs at;
    for (size_t d = 0; d < batch.size(); ++d)
      at.push_back(batch[d] == 1 ? Expr(0) : i[d + s.batch.size() - batch.size()]);
    at.insert(at.end(), matrix.begin(), matrix.end());
    return t.at(at);
  };
  f.reduce(out, s.axes(), {{"k", s.k}}, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
    const size_t batch = s.batch.size();
    const Exprs row = s.vector_a ? Exprs{r[0]} : Exprs{i[batch], r[0]};
    const Exprs column = s.vector_b ? Exprs{r[0]} : Exprs{r[0], i.back()};
    return left(element(a, s.batch_a, i, row), i) * right(element(b, s.batch_b, i, column), i);
  });
}

namespace {

std::vector<TensorType> infer_matmul(const OpContext& ctx) {
  require_type(ctx, 0, kFactors);
  return {{product_type(ctx, 0, 1), matmul_shape(ctx, 0, 1).output()}};
}

void build_matmul(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const MatMulShape s = matmul_shape(ctx, 0, 1);
  const DType type = out[0].dtype(), sums = is_half(type) ? DType::f32 : type;
  const BuildTensor t = sums == type ? out[0] : b.temp("T", {sums, out[0].shape});
  multiply(b, s, in[0], in[1], t, widened(sums), widened(sums));
  if (sums == type) return;
  b.compute(out[0], s.axes(), [&](const Exprs& i) { return make::cast({type, 1}, t.at(i)); });
}

struct GemmShape {
  bool trans_a, trans_b;
  Dim m, n, k;
};

GemmShape gemm_shape(const OpContext& ctx) {
  require_rank(ctx, 0, 2);
  require_rank(ctx, 1, 2);
  const Dims &a = ctx.input(0).shape, &b = ctx.input(1).shape;
  const bool ta = ctx.get_int("transA", 0) != 0, tb = ctx.get_int("transB", 0) != 0;
  const GemmShape s{ta, tb, a[ta ? 1 : 0], b[tb ? 0 : 1], a[ta ? 0 : 1]};
  if (!must_equal(s.k, b[tb ? 1 : 0]))
    ctx.fail("the inner dimensions differ: A is " + to_string(ctx.input(0)) + (ta ? " transposed" : "") +
             ", B is " + to_string(ctx.input(1)) + (tb ? " transposed" : ""));
  return s;
}

std::vector<TensorType> infer_gemm(const OpContext& ctx) {
  require_type(ctx, 0, kFactors);
  const DType type = product_type(ctx, 0, 1);
  const GemmShape s = gemm_shape(ctx);
  const Dims out = {s.m, s.n};
  if (ctx.has_input(2)) {
    if (ctx.input(2).dtype != type)
      ctx.fail("C is " + to_string(ctx.input(2)) + ", it must be " + std::string(name_of(type)));
    if (broadcast_shapes(ctx, out, ctx.input(2).shape) != out)
      ctx.fail("C is " + to_string(ctx.input(2)) + ", it doesn't broadcast to the result " +
               to_string(type, out));
  }
  const double alpha = ctx.get_float("alpha", 1), beta = ctx.get_float("beta", 1);
  if (!is_float(type) && (alpha != 1 || beta != 1))
    ctx.fail("alpha and beta must be 1 where the element type is an integer");
  return {{type, out}};
}

// T = op(A) op(B), then alpha * T + beta * C; where neither scale nor C nor rounding is there, T is the
// output. beta = 0 means that C isn't read, NaN in it or not.
void build_gemm(const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const GemmShape s = gemm_shape(ctx);
  const double alpha = ctx.get_float("alpha", 1), beta = ctx.get_float("beta", 1);
  const bool has_c = in.size() > 2 && in[2] && beta != 0;
  const DType type = out[0].dtype(), sums = is_half(type) ? DType::f32 : type;
  const bool plain = alpha == 1 && !has_c && sums == type;
  const BuildTensor t = plain ? out[0] : b.temp("T", {sums, {s.m, s.n}});
  const std::vector<Axis> axes = {{"i", s.m}, {"j", s.n}};
  const auto wide = [&](const Expr& e) { return make::cast({sums, 1}, e); };
  b.reduce(t, axes, {{"k", s.k}}, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
    return wide(s.trans_a ? in[0](r[0], i[0]) : in[0](i[0], r[0])) *
           wide(s.trans_b ? in[1](i[1], r[0]) : in[1](r[0], i[1]));
  });
  if (plain) return;
  b.compute(out[0], axes, [&](const Exprs& i) {
    Expr y = t.at(i);
    if (alpha != 1) y = constant_like(t, alpha) * y;
    if (has_c) {
      const Expr c = wide(read_broadcast(in[2], i));
      y = y + (beta == 1 ? c : constant_like(t, beta) * c);
    }
    return make::cast({type, 1}, y);
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
                  .build = build_matmul,
                  .note = "f16 and bf16 are summed in f32 and rounded once"});
  rows.push_back({.name = "Gemm",
                  .since = 1,
                  .min_inputs = 2,
                  .max_inputs = 3,
                  .pattern = Pattern::anchor,
                  .params = "A B C",
                  .infer = infer_gemm,
                  .build = build_gemm,
                  .note = "f16 and bf16 are summed in f32 and rounded once"});
}

}  // namespace nestor::ops

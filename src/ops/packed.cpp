// Weights of 2, 4 or 8 bits, several in a byte: `pack_weights` makes these operators, which models don't
// have. Packed are numbers that follow each other along the first axis of a matrix, so that lanes along its
// rows read whole bytes; along the last axis where rows are picked. The first number is in the lowest bits.
#include "src/ops/products.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

constexpr Type kWide{DType::i32, 1}, kReal{DType::f32, 1};

int64_t bits_of(const OpContext& ctx) {
  const int64_t bits = ctx.get_int("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) ctx.fail("`bits` must be 2, 4 or 8");
  return bits;
}

// Number `place` of those in a byte, in i32.
Expr number_in(const Expr& byte, const Expr& place, int64_t bits) {
  const Expr all = make::cast(kWide, byte);
  if (bits == 8) return all;
  const Expr by = make::cast(kWide, place * Expr(bits));
  const auto mask = static_cast<double>((1 << bits) - 1);
  return make::binary(BinaryOp::bit_and, make::binary(BinaryOp::shr, all, by), make::imm(mask, kWide));
}

// A [.., i, k], numbers packed along k [k / per, j], scales and zero points [k / block, j].
struct Shape {
  MatMulShape product;
  int64_t bits, per, blocks, block;
};

Shape shape_of(const OpContext& ctx) {
  require_type(ctx, 0, {DType::f32, DType::f16, DType::bf16});
  require_type(ctx, 1, {DType::u8});
  require_type(ctx, 2, {DType::f32, DType::f16, DType::bf16});
  require_rank(ctx, 1, 2);
  require_rank(ctx, 2, 2);
  const Dims &a = ctx.input(0).shape, &packed = ctx.input(1).shape, &scale = ctx.input(2).shape;
  Shape s;
  s.bits = bits_of(ctx);
  s.per = 8 / s.bits;
  MatMulShape& p = s.product;
  if (a.empty()) ctx.fail("A is a scalar");
  const int64_t k = packed[0] * s.per;
  if (!must_equal(a.back(), k))
    ctx.fail("A is " + to_string(ctx.input(0)) + " beside " + std::to_string(k) + " rows of weights");
  p.vector_a = a.size() == 1;
  p.k = k;
  p.n = packed[1];
  if (!p.vector_a) p.m = a[a.size() - 2], p.batch_a = Dims(a.begin(), a.end() - 2);
  p.batch = p.batch_a;
  s.blocks = scale[0];
  s.block = s.blocks > 0 ? k / s.blocks : 0;
  if (s.block < 1 || s.block * s.blocks != k || s.block % s.per != 0 || !must_equal(scale[1], p.n))
    ctx.fail("the scales are " + to_string(ctx.input(2)));
  if (ctx.has_input(3)) require_type(ctx, 3, {DType::u8});
  return s;
}

std::vector<TensorType> infer_product(const OpContext& ctx) {
  const Shape s = shape_of(ctx);
  if (ctx.has_input(3)) require_shape(ctx, 3, ctx.input(2).shape);
  return {{ctx.input(0).dtype, s.product.output()}};
}

// The weight is (number - zero point) * scale, which is rounded once, as DequantizeLinear says.
void build_product(const OpContext& ctx, FuncBuilder& f, const Tensors& in, const Tensors& out) {
  const Shape s = shape_of(ctx);
  const DType type = out[0].dtype();
  const BuildTensor t = type == DType::f32 ? out[0] : f.temp("T", {DType::f32, out[0].shape});
  const Expr known_zero = make::imm(static_cast<double>(ctx.get_int("zero", 0)), kWide);
  std::vector<Axis> sum = {{"h", s.block / s.per}};
  if (s.blocks > 1) sum.insert(sum.begin(), {"b", s.blocks});
  if (s.per > 1) sum.push_back({"p", s.per});
  f.reduce(t, s.product.axes(), sum, ReduceOp::add, [&](const Exprs& i, const Exprs& r) {
    const Expr b = s.blocks > 1 ? r[0] : Expr(0), h = r[s.blocks > 1], p = s.per > 1 ? r.back() : Expr(0);
    const Expr row = s.blocks > 1 ? b * Expr(s.block / s.per) + h : h, j = i.back();
    Exprs at(i.begin(), i.end() - 1);
    at.push_back(s.per > 1 ? row * Expr(s.per) + p : row);
    const Expr zero = in.size() > 3 && in[3] ? make::cast(kWide, in[3](b, j)) : known_zero;
    const Expr number = number_in(in[1](row, j), p, s.bits);
    const Expr steps = make::cast(kReal, is_const_int(zero, 0) ? number : number - zero);
    return make::cast(kReal, in[0].at(at)) * (steps * make::cast(kReal, in[2](b, j)));
  });
  if (type == DType::f32) return;
  f.compute(out[0], s.product.axes(), [&](const Exprs& i) { return make::cast({type, 1}, t.at(i)); });
}

std::vector<TensorType> infer_unpack(const OpContext& ctx) {
  require_type(ctx, 0, {DType::u8});
  Dims shape = ctx.input(0).shape;
  if (shape.empty()) ctx.fail("X is a scalar");
  shape.back() = shape.back() * (8 / bits_of(ctx));
  return {{DType::u8, shape}};
}

void build_unpack(const OpContext& ctx, FuncBuilder& f, const Tensors& in, const Tensors& out) {
  const int64_t bits = bits_of(ctx), per = 8 / bits;
  f.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    Exprs at = i;
    at.back() = i.back() / Expr(per);
    return make::cast({DType::u8, 1}, number_in(in[0].at(at), i.back() % Expr(per), bits));
  });
}

}  // namespace

void register_packed(Rows& rows) {
  rows.push_back({.name = "MatMulPacked",
                  .domain = "nestor",
                  .since = 1,
                  .min_inputs = 3,
                  .max_inputs = 4,
                  .pattern = Pattern::anchor,
                  .params = "A B S Z",
                  .infer = infer_product,
                  .build = build_product,
                  .note = "a product with weights of a few bits; made by the compiler, not by models"});
  rows.push_back({.name = "Unpack",
                  .domain = "nestor",
                  .since = 1,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::injective,
                  .infer = infer_unpack,
                  .build = build_unpack,
                  .note = "numbers of a few bits as bytes; made by the compiler, not by models"});
}

}  // namespace nestor::ops

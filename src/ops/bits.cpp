// Operators on the bits of integers, and of other elements as integers.
#include "src/ops/common.h"
#include "src/ops/registry.h"

namespace nestor::ops {

namespace {

std::vector<TensorType> infer_pair(const OpContext& ctx) {
  require_type(ctx, 0, kIntegers);
  require_same_type(ctx, 0, 1);
  return {{ctx.input(0).dtype, broadcast_shapes(ctx, ctx.input(0).shape, ctx.input(1).shape)}};
}

using Formula = std::function<Expr(const Expr& a, const Expr& b)>;

void build_pair(FuncBuilder& b, const Tensors& in, const Tensors& out, const Formula& formula) {
  b.compute(out[0], axes_of(out[0].shape),
            [&](const Exprs& i) { return formula(read_broadcast(in[0], i), read_broadcast(in[1], i)); });
}

bool shifts_left(const OpContext& ctx) {
  const std::string direction = ctx.get_string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    ctx.fail("`direction` is \"" + direction + "\"", "LEFT or RIGHT");
  return direction == "LEFT";
}

// A distance that isn't one of the element's bits leaves what the sign bit gives alone.
Expr shifted(const Expr& x, const Expr& distance, bool left) {
  const Type type = x.type();
  const auto imm = [&](int64_t v) { return make::imm(static_cast<double>(v), type); };
  const int64_t bits = 8 * bytes_of(type.dtype);
  const Expr fits = logical_and(le(imm(0), distance), lt(distance, imm(bits)));
  const Expr by = make::binary(BinaryOp::bit_and, distance, imm(bits - 1));  // lanes compute either case
  const bool is_signed = !is_unsigned(type.dtype);
  const Expr beyond = !left && is_signed ? make::binary(BinaryOp::shr, x, imm(bits - 1)) : imm(0);
  return make::select(fits, make::binary(left ? BinaryOp::shl : BinaryOp::shr, x, by), beyond);
}

std::vector<TensorType> infer_cast(const OpContext& ctx) {
  const DType from = ctx.input(0).dtype, to = type_attribute(ctx, "to");
  if (bytes_of(from) != bytes_of(to))
    ctx.fail("elements of " + std::string(name_of(from)) + " and " + std::string(name_of(to)) +
             " differ in size");
  return {{to, ctx.input(0).shape}};
}

void build_cast(const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
  const Type to{out[0].dtype(), 1};
  const bool truth = is_bool(to.dtype) || is_bool(in[0].dtype());  // a byte of 0 or 1
  b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
    return truth ? make::cast(to, in[0].at(i)) : make::bitcast(to, in[0].at(i));
  });
}

}  // namespace

void register_bits(Rows& rows) {
  const auto pair = [&](const char* name, int since, BinaryOp op) {
    rows.push_back({.name = name,
                    .since = since,
                    .min_inputs = 2,
                    .max_inputs = 2,
                    .pattern = Pattern::elementwise,
                    .params = "A B",
                    .infer = infer_pair,
                    .build = [op](const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
                      build_pair(b, in, out,
                                 [op](const Expr& x, const Expr& y) { return make::binary(op, x, y); });
                    }});
  };
  pair("BitwiseAnd", 18, BinaryOp::bit_and);
  pair("BitwiseOr", 18, BinaryOp::bit_or);
  pair("BitwiseXor", 18, BinaryOp::bit_xor);
  rows.push_back(
      {.name = "BitShift",
       .since = 11,
       .min_inputs = 2,
       .max_inputs = 2,
       .pattern = Pattern::elementwise,
       .params = "A B",
       .infer =
           [](const OpContext& ctx) {
             shifts_left(ctx);
             return infer_pair(ctx);
           },
       .build =
           [](const OpContext& ctx, FuncBuilder& b, const Tensors& in, const Tensors& out) {
             const bool left = shifts_left(ctx);
             build_pair(b, in, out, [left](const Expr& x, const Expr& y) { return shifted(x, y, left); });
           },
       .note = "by less than none or more bits than there are: 0, or -1 of a negative number to the right"});
  rows.push_back({.name = "BitwiseNot",
                  .since = 18,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::elementwise,
                  .infer = [](const OpContext& ctx) -> std::vector<TensorType> {
                    require_type(ctx, 0, kIntegers);
                    return {ctx.input(0)};
                  },
                  .build =
                      [](const OpContext&, FuncBuilder& b, const Tensors& in, const Tensors& out) {
                        const Type type{in[0].dtype(), 1};
                        const Expr ones = make::int_imm(is_unsigned(type.dtype) ? greatest_word(type.dtype) : -1, type);
                        b.compute(out[0], axes_of(out[0].shape), [&](const Exprs& i) {
                          return make::binary(BinaryOp::bit_xor, in[0].at(i), ones);
                        });
                      }});
  rows.push_back({.name = "BitCast",
                  .since = 26,
                  .min_inputs = 1,
                  .max_inputs = 1,
                  .pattern = Pattern::elementwise,
                  .infer = infer_cast,
                  .build = build_cast});
}

}  // namespace nestor::ops

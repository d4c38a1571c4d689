// skip_zeros: a sum whose terms are products with zeros, of a padding say, leaves these terms out:
//
//   T += (if c then a else 0) * b   ->   T += if c then a * b else 0
//
// which lowering makes `if c then T += a * b`. A zero times the other factor is taken to be zero: it would
// not be where that one is infinite or not a number.
//
// Requires
//  1. the block is one update by +=;
//  2. its value is a product, a factor of which is `if c then a else 0`, or a conversion of it.
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

bool is_zero(const Expr& e) {
  const auto* f = e.as<FloatImm>();
  return (f && f->value == 0) || is_const_int(e, 0);
}

// The product, or a conversion of one, with the condition around it; null where no factor has one.
Expr pulled_out(const Expr& e) {
  if (const auto* c = e.as<Cast>()) {
    const Expr inner = pulled_out(c->a);
    const auto* s = (inner ? inner : c->a).as<Select>();
    if (!s || !is_zero(s->b)) return {};
    return make::select(s->cond, make::cast(e.type(), s->a), make::imm(0.0, e.type()));
  }
  const auto* product = e.as<Binary>();
  if (!product || product->op != BinaryOp::mul) return {};
  for (const bool left : {true, false}) {
    const Expr &factor = left ? product->a : product->b, &other = left ? product->b : product->a;
    const Expr inner = pulled_out(factor);
    const auto* s = (inner ? inner : factor).as<Select>();
    if (!s || !is_zero(s->b)) continue;
    return make::select(s->cond, make::binary(BinaryOp::mul, left ? s->a : other, left ? other : s->a), s->b);
  }
  return {};
}

bool is_product(const Expr& e) {
  if (const auto* c = e.as<Cast>()) return is_product(c->a);
  const auto* product = e.as<Binary>();
  return product && product->op == BinaryOp::mul;
}

PrimFunc run(StepContext& ctx) {
  const Place p = ctx.block(0);
  const auto* update = p.block().body.as<Update>();
  if (!update || update->op != ReduceOp::add) ctx.refuse(1, 0, "block " + p.name() + " is no sum", {p.stmt});
  const Expr value = is_product(update->value) ? pulled_out(update->value) : Expr();
  if (!value) {
    std::string hint;
    for (const Buffer& b : read_buffers(p.block()))
      for (const Place& w : writers(ctx.func(), b))
        if (const auto* store = w.block().body.as<Store>();
            hint.empty() && store && store->value.as<Select>())
          hint = "compute_inline " + w.name();
    ctx.refuse(2, 0, "no factor of the value is chosen to be 0", {p.stmt}, hint);
  }
  Block block = p.block();
  block.body = make::update(update->op, update->buffer, update->indices, value);
  return replace(ctx.func(), p.stmt, make::block(std::move(block)));
}

}  // namespace

Primitive skip_zeros_row() {
  return {
      "skip_zeros",
      "",
      {{ArgKind::block, "T"}},
      {},
      "Products with a factor that is `if c then a else 0` are left out of a sum where it is 0; the other "
      "factor is taken "
      "to be finite.",
      {"the block is one update by +=",
       "its value is a product, a factor of which is `if c then a else 0`, or a conversion of it"},
      {examples::kPaddedSum, "skip_zeros Y"},
      run};
}

}  // namespace nestor::schedules

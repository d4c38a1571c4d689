// skip_zeros: leaves out the terms of a sum that are products with zero, for example of a padding:
//
//   T += (if c then a else 0) * b   ->   T += if c then a * b else 0
//
// which lowering turns into `if c then T += a * b`. The result differs only if the other factor is infinite
// or NaN.
//
// With masks=x the part of c that depends on loop x stays in the factor,
//
//   T += (if c && m(x) then a else 0) * b   ->   T += if c then (if m(x) then a else 0) * b else 0
//
// for lanes along x: masked lanes load nothing, and the product is still one multiply-add.
#include <algorithm>
#include <functional>

#include "nestor/walk.h"
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

bool is_zero(const Expr& e) {
  const auto* f = e.as<FloatImm>();
  return (f && f->value == 0) || is_const_int(e, 0);
}

using Stays = std::function<bool(const Expr& condition)>;

// The parts of a condition that leave the factor, and of those that stay; null where there are none.
struct Parted {
  Expr out, stays;
};

Expr both(const Expr& a, const Expr& b) {
  return !a ? b : !b ? a : nestor::logical_and(a, b);
}

Parted part(const Expr& condition, const Stays& stays) {
  if (const auto* c = condition.as<Binary>(); c && c->op == BinaryOp::logical_and) {
    const Parted a = part(c->a, stays), b = part(c->b, stays);
    return {both(a.out, b.out), both(a.stays, b.stays)};
  }
  return stays(condition) ? Parted{{}, condition} : Parted{condition, {}};
}

// `if c then a else 0` by the part of c that leaves it; null where nothing does.
Expr by_what_leaves(const Expr& e, const Stays& stays) {
  const auto* s = e.as<Select>();
  if (!s || !is_zero(s->b)) return {};
  const Parted parts = part(s->cond, stays);
  if (!parts.out) return {};
  return make::select(parts.out, parts.stays ? make::select(parts.stays, s->a, s->b) : s->a, s->b);
}

// The product, or a conversion of one, with the condition around it; null where no factor has one.
Expr pulled_out(const Expr& e, const Stays& stays) {
  const auto inside = [&](const Expr& part) {
    const Expr out = pulled_out(part, stays);
    return out ? out : by_what_leaves(part, stays);
  };
  if (const auto* c = e.as<Cast>()) {
    const Expr inner = inside(c->a);
    if (!inner) return {};
    const auto* s = inner.as<Select>();
    return make::select(s->cond, make::cast(e.type(), s->a), make::imm(0.0, e.type()));
  }
  const auto* product = e.as<Binary>();
  if (!product || product->op != BinaryOp::mul) return {};
  for (const bool left : {true, false}) {
    const Expr &factor = left ? product->a : product->b, &other = left ? product->b : product->a;
    const Expr inner = inside(factor);
    if (!inner) continue;
    const auto* s = inner.as<Select>();
    return make::select(s->cond, make::binary(BinaryOp::mul, left ? s->a : other, left ? other : s->a), s->b);
  }
  return {};
}

bool is_product(const Expr& e) {
  if (const auto* c = e.as<Cast>()) return is_product(c->a);
  const auto* product = e.as<Binary>();
  return product && product->op == BinaryOp::mul;
}

// Whether a condition is about the loop of masks=.
Stays lanes_conditions(const StepContext& ctx, const Place& p) {
  const auto masks = ctx.option("masks");
  if (!masks) return [](const Expr&) { return false; };
  std::vector<std::string> legal;
  for (const Stmt& l : p.loops()) {
    legal.push_back(loop_name(l));
    if (loop_name(l) != *masks) continue;
    std::vector<Var> moved;
    for (const IterVar& i : p.block().iters)
      if (uses_var(i.binding, as_for(l).var)) moved.push_back(i.var);
    return [moved](const Expr& c) {
      return std::any_of(moved.begin(), moved.end(), [&](const Var& v) { return uses_var(c, v); });
    };
  }
  ctx.refuse(3, loc_of_option(ctx.step(), "masks"), "there is no loop `" + *masks + "` around " + p.name(),
             {p.stmt}, "its loops are " + join(legal, ", "));
}

PrimFunc run(StepContext& ctx) {
  const Place p = ctx.block(0);
  const auto* update = p.block().body.as<Update>();
  if (!update || update->op != ReduceOp::add)
    ctx.refuse(1, 0, "block " + p.name() + " isn't a sum", {p.stmt});
  const Stays stays = lanes_conditions(ctx, p);
  const Expr value = is_product(update->value) ? pulled_out(update->value, stays) : Expr();
  if (!value) {
    std::string hint;
    for (const Buffer& b : read_buffers(p.block()))
      for (const Place& w : writers(ctx.func(), b))
        if (const auto* store = w.block().body.as<Store>();
            hint.empty() && store && store->value.as<Select>())
          hint = "compute_inline " + w.name();
    const auto masks = ctx.option("masks");
    ctx.refuse(2, 0,
               masks ? "no factor of the value is chosen to be 0 by more than " + *masks
                     : "no factor of the value is chosen to be 0",
               {p.stmt}, hint);
  }
  Block block = p.block();
  block.body = make::update(update->op, update->buffer, update->indices, value);
  return replace(ctx.func(), p.stmt, make::block(std::move(block)));
}

}  // namespace

Primitive skip_zeros_row() {
  return {"skip_zeros",
          "",
          {{ArgKind::block, "T"}},
          {{"masks", "LOOP",
            "a vectorized loop: the part of the condition that depends on it stays in the factor"}},
          "Skips the terms of a sum in which a factor `if c then a else 0` is 0; the other factor is assumed "
          "to be finite.",
          {"the block is one update by +=",
           "its value is a product with a factor `if c then a else 0`, possibly converted, where c doesn't "
           "depend on the loop of masks= only",
           "the loop of masks= is around the block"},
          {examples::kPaddedSum, "skip_zeros Y"},
          run};
}

}  // namespace nestor::schedules

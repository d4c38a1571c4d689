#include "src/passes/lane_of.h"

namespace nestor::passes {

Expr lane_of(const Expr& e, int64_t i) {
  if (!e.type().is_vector()) return e;
  if (const auto* r = e.as<Ramp>()) return r->base + r->stride * Expr(i);
  if (const auto* b = e.as<Broadcast>()) return b->a;
  if (const auto* b = e.as<Binary>()) {
    const Expr x = lane_of(b->a, i), y = lane_of(b->b, i);
    return x && y ? make::binary(b->op, x, y) : Expr();
  }
  if (const auto imm = as_int(e)) return make::imm(static_cast<double>(*imm), e.type().with_lanes(1));
  return {};
}

}  // namespace nestor::passes

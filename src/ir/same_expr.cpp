// Equality and hashing of expressions node by node, from the nodes' field lists.
#include <bit>

#include "nestor/walk.h"

namespace nestor {

namespace {

bool same_field(const Expr& a, const Expr& b) {
  return same_expr(a, b);
}
bool same_field(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same_expr(a[i], b[i])) return false;
  return true;
}
bool same_field(double a, double b) {  // -0 isn't 0
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}
template <class T>
bool same_field(const T& a, const T& b) {
  return a == b;
}

size_t mixed(size_t h, size_t word) {
  return (h ^ word) * 0x100000001b3ULL;  // FNV-1a's step
}
size_t hash_field(const Expr& e) {
  return e ? HashExpr()(e) : 0;
}
size_t hash_field(double v) {
  return std::bit_cast<uint64_t>(v);
}
template <class T>
size_t hash_field(const std::vector<T>& items) {
  size_t h = items.size();
  for (const T& item : items) h = mixed(h, hash_field(item));
  return h;
}
template <class T>
size_t hash_field(const T& v) {
  return std::hash<T>()(v);
}

}  // namespace

bool same_expr(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return true;
  if (!a || !b) return false;
  if (a->v.index() != b->v.index() || a.type() != b.type()) return false;
  return std::visit(
      [&](const auto& x) {
        using N = std::decay_t<decltype(x)>;
        const N& y = std::get<N>(b->v);
        const bool equal =
            std::apply([&](auto... field) { return (same_field(x.*field, y.*field) && ...); }, N::fields());
        if constexpr (std::is_same_v<N, Binary>)
          if (!equal && x.op == BinaryOp::mul && y.op == BinaryOp::mul)
            return same_expr(x.a, y.b) && same_expr(x.b, y.a);
        return equal;
      },
      a->v);
}

size_t HashExpr::operator()(const Expr& e) const {
  const size_t kind =
      e->v.index() << 32 | static_cast<size_t>(e.dtype()) << 16 | static_cast<size_t>(e.type().lanes);
  const size_t h = mixed(0xcbf29ce484222325ULL, kind);
  if (const auto* b = e.as<Binary>(); b && b->op == BinaryOp::mul)
    return mixed(h, hash_field(b->a) + hash_field(b->b));
  return std::visit(
      [&](const auto& n) {
        size_t out = h;
        std::apply([&](auto... field) { ((out = mixed(out, hash_field(n.*field))), ...); },
                   std::decay_t<decltype(n)>::fields());
        return out;
      },
      e->v);
}

}  // namespace nestor

// Sums are kept in order of first appearance, so that what is built from them is the same on every run.
#include "src/passes/linear.h"

#include <bit>

#include "nestor/walk.h"

namespace nestor::passes {

namespace {

// Everything an expression says, as words, in pre-order with the number of children: equal words, equal
// expressions.
std::vector<uint64_t> words(const Expr& e) {
  std::vector<uint64_t> out;
  for_each_expr(e, [&](const Expr& x) {
    const auto word = [&](auto w) { out.push_back(static_cast<uint64_t>(w)); };
    const auto identity = [&](const void* p) { out.push_back(reinterpret_cast<uintptr_t>(p)); };
    word(x->v.index() << 32 | static_cast<uint64_t>(x.dtype()) << 16 | static_cast<uint64_t>(x.type().lanes));
    match(
        x, [&](const IntImm& i) { word(i.value); },
        [&](const FloatImm& f) { out.push_back(std::bit_cast<uint64_t>(f.value)); },
        [&](const VarRef& r) { identity(r.var.get()); },
        [&](const Load& l) {
          identity(l.buffer.get());
          word(l.indices.size() * 2 + (l.mask ? 1 : 0));
        },
        [&](const Binary& b) { word(b.op); }, [&](const Unary& u) { word(u.op); },
        [&](const Call& c) {
          word(c.fn);
          for (const char ch : c.name) out.push_back(static_cast<unsigned char>(ch));
        },
        [&](const Let& l) { identity(l.var.get()); }, [&](const VectorReduce& r) { word(r.op); },
        [&](const Shuffle& s) {
          for (const int64_t l : s.lanes) word(l);
        },
        [](const Select&) {}, [](const Cast&) {}, [](const Ramp&) {}, [](const Broadcast&) {});
  });
  return out;
}

}  // namespace

bool same(const Expr& a, const Expr& b) {
  return a.same_as(b) || (a && b && a->v.index() == b->v.index() && words(a) == words(b));
}

size_t HashExpr::operator()(const Expr& e) const {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (uint64_t w : words(e)) h = (h ^ w) * 0x100000001b3ULL;
  return h;
}

namespace {

void add(Linear& sum, const Expr& e, int64_t factor) {
  if (const auto value = as_int(e)) {
    sum.constant += factor * *value;
    return;
  }
  if (const auto* b = e.as<Binary>()) {
    if (b->op == BinaryOp::add || b->op == BinaryOp::sub) {
      add(sum, b->a, factor);
      return add(sum, b->b, b->op == BinaryOp::add ? factor : -factor);
    }
    if (b->op == BinaryOp::mul) {
      if (const auto c = as_int(b->b)) return add(sum, b->a, factor * *c);
      if (const auto c = as_int(b->a)) return add(sum, b->b, factor * *c);
    }
  }
  for (auto& [atom, coefficient] : sum.terms)
    if (same(atom, e)) {
      coefficient += factor;
      return;
    }
  sum.terms.emplace_back(e, factor);
}

}  // namespace

Linear linear(const Expr& e) {
  Linear sum;
  add(sum, e, 1);
  std::erase_if(sum.terms, [](const auto& t) { return t.second == 0; });
  return sum;
}

Expr to_expr(const Linear& sum) {
  Expr out = 0;
  for (const auto& [atom, coefficient] : sum.terms) out = out + atom * coefficient;
  return out + sum.constant;
}

std::optional<Strided> strided(const Expr& e, const Var& v) {
  if (const auto* r = e.as<VarRef>(); r && r->var == v) return Strided{0, 1};
  if (!uses_var(e, v)) return Strided{e, 0};
  const auto* b = e.as<Binary>();
  if (!b) return std::nullopt;
  const auto x = strided(b->a, v), y = strided(b->b, v);
  if (!x || !y) return std::nullopt;
  switch (b->op) {
    case BinaryOp::add:
      return Strided{x->base + y->base, x->stride + y->stride};
    case BinaryOp::sub:
      return Strided{x->base - y->base, x->stride - y->stride};
    case BinaryOp::mul:
      if (is_const_int(y->stride, 0)) return Strided{x->base * y->base, x->stride * y->base};
      if (is_const_int(x->stride, 0)) return Strided{x->base * y->base, x->base * y->stride};
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace nestor::passes

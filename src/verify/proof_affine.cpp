// Index expressions and conditions in linear terms.
#include "src/verify/proof_model.h"

namespace nestor::verify {

namespace {

bool is_index(const Expr& e) {
  return e.type() == Type{DType::i64, 1};
}

int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r < 0 ? r + b : r;
}

// l = divisor * whole + rest, the coefficients of rest as small as can be.
std::pair<Lin, Lin> split_by(const Lin& l, int64_t divisor) {
  Lin whole, rest;
  for (const auto& [v, c] : l.terms) {
    if (c % divisor == 0)
      whole.terms.emplace_back(v, c / divisor);
    else
      rest.terms.emplace_back(v, c);
  }
  rest.constant = floor_mod(l.constant, divisor);
  whole.constant = (l.constant - rest.constant) / divisor;
  return {whole, rest};
}

}  // namespace

V Model::quotient(const Lin& of, int64_t divisor) const {
  const auto [it, added] = quotients_.try_emplace({of, divisor}, -1);
  if (!added) return it->second;
  const V q = it->second = home_.make("q");
  const Lin rest = of - Lin::of(q) * divisor;
  definitions_.emplace(q, Set::where(home_, {}, {rest, Lin(divisor - 1) - rest}));
  return q;
}

V Model::piece(const Set& definition, V v) const {
  definitions_.emplace(v, definition);
  return v;
}

std::optional<Lin> Model::lower(const Expr& e, const Env& env) const {
  if (const auto* c = e.as<IntImm>()) return Lin(c->value);
  if (!is_index(e)) return std::nullopt;
  if (const auto* r = e.as<VarRef>()) {
    const auto it = env.find(r->var);
    if (it == env.end()) return std::nullopt;
    return it->second;
  }
  if (const auto* u = e.as<Unary>()) {
    const auto a = lower(u->a, env);
    return a && u->op == UnaryOp::neg ? std::optional(*a * -1) : std::nullopt;
  }
  if (const auto* s = e.as<Select>()) {
    const auto yes = condition(s->cond, env, true), no = condition(s->cond, env, false);
    const auto a = lower(s->a, env), b = lower(s->b, env);
    if (!yes || !no || !a || !b) return std::nullopt;
    const V v = home_.make("s");
    return Lin::of(piece(
        (*yes & Set::where(home_, {Lin::of(v) - *a}, {})) | (*no & Set::where(home_, {Lin::of(v) - *b}, {})),
        v));
  }
  const auto* op = e.as<Binary>();
  if (!op) return std::nullopt;
  const auto a = lower(op->a, env), b = lower(op->b, env);
  if (!a || !b) return std::nullopt;
  switch (op->op) {
    case BinaryOp::add:
      return *a + *b;
    case BinaryOp::sub:
      return *a - *b;
    case BinaryOp::mul:
      if (b->is_constant()) return *a * b->constant;
      if (a->is_constant()) return *b * a->constant;
      return std::nullopt;
    case BinaryOp::div:
    case BinaryOp::mod: {
      if (!b->is_constant() || b->constant <= 0) return std::nullopt;
      const auto [whole, rest] = split_by(*a, b->constant);
      if (rest.is_constant()) return op->op == BinaryOp::div ? whole : Lin(rest.constant);
      const Lin q = Lin::of(quotient(rest, b->constant));
      return op->op == BinaryOp::div ? whole + q : rest - q * b->constant;
    }
    case BinaryOp::min:
    case BinaryOp::max: {
      const V v = home_.make("m");
      const Lin m = Lin::of(v), d = op->op == BinaryOp::max ? *a - *b : *b - *a;
      return Lin::of(piece(Set::where(home_, {m - *a}, {d}) | Set::where(home_, {m - *b}, {d * -1}), v));
    }
    default:
      return std::nullopt;
  }
}

std::optional<Set> Model::condition(const Expr& e, const Env& env, bool holds) const {
  if (const auto* c = e.as<IntImm>()) return (c->value != 0) == holds ? Set::all(home_) : Set::none(home_);
  if (const auto* u = e.as<Unary>(); u && u->op == UnaryOp::logical_not) return condition(u->a, env, !holds);
  const auto* op = e.as<Binary>();
  if (!op) return std::nullopt;
  if (op->op == BinaryOp::logical_and || op->op == BinaryOp::logical_or) {
    const auto a = condition(op->a, env, holds), b = condition(op->b, env, holds);
    if (!a || !b) return std::nullopt;
    return (op->op == BinaryOp::logical_and) == holds ? *a & *b : *a | *b;
  }
  const auto a = lower(op->a, env), b = lower(op->b, env);
  if (!a || !b || (!is_index(op->a) && !is_index(op->b))) return std::nullopt;
  const auto where = [&](const Lin& nonnegative) { return Set::where(home_, {}, {nonnegative}); };
  const Lin less = *b - *a - 1, more = *a - *b - 1;  // >= 0: a < b, a > b
  switch (op->op) {
    case BinaryOp::lt:
      return where(holds ? less : *a - *b);
    case BinaryOp::gt:
      return where(holds ? more : *b - *a);
    case BinaryOp::le:
      return where(holds ? *b - *a : more);
    case BinaryOp::ge:
      return where(holds ? *a - *b : less);
    case BinaryOp::eq:
    case BinaryOp::ne:
      if ((op->op == BinaryOp::eq) == holds) return Set::where(home_, {*a - *b}, {});
      return where(less) | where(more);
    default:
      return std::nullopt;
  }
}

Set Model::definitions_of(const Lin& l) const {
  Set s = Set::all(home_);
  for (const auto& [v, c] : l.terms)
    if (const auto it = definitions_.find(v); it != definitions_.end()) s = s & it->second;
  return define(std::move(s));
}

Set Model::define(Set s) const {
  std::set<V> done;
  for (bool again = true; again;) {
    again = false;
    for (const V v : s.vars()) {
      const auto it = definitions_.find(v);
      if (it == definitions_.end() || !done.insert(v).second) continue;
      s = s & it->second;
      again = true;
    }
  }
  return s;
}

}  // namespace nestor::verify

// Entry points, and the nodes whose rules are short. i64 scalars go through sums (simplify_linear.h), vectors
// of i64 and bool through the scalar rules with the lane as one more variable (simplify_vector.cpp);
// everything else is rebuilt from simplified children and folded where that is exact.
#include "nestor/simplify.h"

#include "src/ir/simplifier.h"

namespace nestor {

namespace algebra {

namespace {

bool is_i64(const Expr& e) {
  return e.type() == Type{};
}

bool is_sum_op(BinaryOp op) {
  return op <= BinaryOp::mod;
}

}  // namespace

Simplifier::Simplifier(const Facts& facts) : facts_(facts) {
  if (facts.assumptions().empty()) return;
  if (!facts.assumed_) {
    for (const Expr& e : facts.assumptions()) assume(expr(e));
    facts.assumed_ = std::make_shared<Assumed>(Assumed{ranges_, constraints_, known_});
  } else {
    ranges_ = facts.assumed_->ranges;
    constraints_ = facts.assumed_->constraints;
    known_ = facts.assumed_->known;
  }
}

Expr Simplifier::expr(const Expr& e) {
  if (!e || e.as<IntImm>() || e.as<FloatImm>()) return e;
  if (e.as<VarRef>() && is_i64(e)) return scalar_rules(e);  // quicker than remembering
  if (const auto it = memo_.find(e.get()); it != memo_.end()) return it->second.second;
  const bool index_vector = e.type().is_vector() && (e.dtype() == DType::i64 || is_bool(e.dtype()));
  Expr out = index_vector ? vector(e) : scalar_rules(e);
  if (!out.same_as(e) && same_expr(out, e)) out = e;
  memo_.emplace(e.get(), std::make_pair(e, out));
  if (!out.same_as(e)) memo_.try_emplace(out.get(), out, out);
  return out;
}

Expr Simplifier::scalar_rules(const Expr& e) {
  return match(
      e, [&](const IntImm&) { return e; }, [&](const FloatImm&) { return e; },
      [&](const VarRef& r) {
        if (const auto it = replaced_.find(r.var); it != replaced_.end()) return expr(it->second);
        if (!is_i64(e) || kept_.count(r.var)) return e;
        const Interval i = var_range(r.var);
        return i.is_point() ? Expr(i.lo) : e;
      },
      [&](const Load&) { return load(e); },
      [&](const Binary& b) {
        if (is_i64(e) && is_sum_op(b.op)) return to_expr(linear(e));
        if (is_comparison(b.op)) return compare(e, b);
        if (b.op == BinaryOp::logical_and || b.op == BinaryOp::logical_or) return logical(e, b);
        if (b.op == BinaryOp::min || b.op == BinaryOp::max) return min_max(e, b);
        return children(e);
      },
      [&](const Unary& u) {
        if (u.op == UnaryOp::logical_not) return logical_not(expr(u.a));
        if (is_i64(e)) return to_expr(linear(e));
        const Expr a = expr(u.a);
        if (const auto* inner = a.as<Unary>(); inner && inner->op == UnaryOp::neg) return inner->a;
        if (const auto* f = a.as<FloatImm>()) return make::float_imm(-f->value, e.type());
        return a.same_as(u.a) ? e : make::unary(u.op, a);
      },
      [&](const Select& s) { return select(e, s); }, [&](const Cast& c) { return cast(e, expr(c.a)); },
      [&](const Call&) { return fold_call(children(e)); }, [&](const Let&) { return let(e); },
      [&](const Ramp&) { return children(e); }, [&](const Broadcast&) { return children(e); },
      [&](const VectorReduce&) { return children(e); }, [&](const Shuffle&) { return children(e); });
}

namespace {
struct Children : Rewriter {
  explicit Children(Simplifier& s) : simplifier(s) {}
  Expr expr(const Expr& e) override { return simplifier.expr(e); }
  Expr of(const Expr& e) { return children(e); }
  Simplifier& simplifier;
};
}  // namespace

Expr Simplifier::children(const Expr& e) {
  const Expr out = Children(*this).of(e);
  if (const auto* b = out.as<Binary>())
    if (Expr folded = fold_binary(b->op, b->a, b->b)) return folded;
  return out;
}

Expr Simplifier::load(const Expr& e) {
  const Expr out = Children(*this).of(e);
  const auto* l = out.as<Load>();
  if (!l->mask) return out;
  if (is_const_int(l->mask, 1)) return make::load(l->buffer, l->indices);
  if (is_const_int(l->mask, 0)) return make::imm(0, e.type());
  return out;
}

Expr Simplifier::let(const Expr& e) {
  const auto* l = e.as<Let>();
  const Expr value = expr(l->value);
  if (value.as<IntImm>() || value.as<FloatImm>() || value.as<VarRef>()) {
    replace(l->var, value);
    return expr(l->body);
  }
  const Mark before = mark();
  if (is_i64(value)) set_range(l->var, range(value));
  const Expr body = expr(l->body);
  back_to(before);
  if (const auto* r = body.as<VarRef>(); r && r->var == l->var) return value;
  if (!uses_var(body, l->var)) return body;
  if (value.same_as(l->value) && body.same_as(l->body)) return e;
  return make::let(l->var, value, body);
}

// ---- Sums

Linear Simplifier::linear(const Expr& e) {
  if (e.as<IntImm>()) return parts(e);
  const auto* b = e.as<Binary>();
  const auto* u = e.as<Unary>();
  if (!(b && is_sum_op(b->op)) && !(u && u->op == UnaryOp::neg)) return parts(expr(e));
  if (const auto it = linear_memo_.find(e.get()); it != linear_memo_.end()) return it->second.second;
  Linear out = linear_uncached(e);
  recombine(out);
  linear_memo_.emplace(e.get(), std::make_pair(e, out));
  return out;
}

Linear Simplifier::linear_uncached(const Expr& e) {
  if (const auto* u = e.as<Unary>()) {
    Linear out = linear(u->a);
    out.scale(-1);
    return out;
  }
  const auto* b = e.as<Binary>();
  Linear x = linear(b->a);
  const Linear y = linear(b->b);
  switch (b->op) {
    case BinaryOp::add:
      x.add(y);
      return x;
    case BinaryOp::sub:
      x.add(y, -1);
      return x;
    case BinaryOp::mul:
      return product(x, y);
    default:
      break;
  }
  if (!y.is_constant() || y.constant == 0) return divmod_symbolic(b->op, x, y);
  if (y.constant > 0) return b->op == BinaryOp::div ? divide(x, y.constant) : modulo(x, y.constant);
  // x / -c is -x / c, and x % -c is -(-x % c).
  x.scale(-1);
  if (b->op == BinaryOp::div) return divide(x, -y.constant);
  Linear m = modulo(x, -y.constant);
  m.scale(-1);
  return m;
}

Linear Simplifier::product(const Linear& a, const Linear& b) {
  const Linear& varying = a.is_constant() ? b : a;
  const int64_t factor = a.is_constant() ? a.constant : b.constant;
  if ((a.is_constant() || b.is_constant()) && varying.can_scale(factor)) {
    Linear out = varying;
    out.scale(factor);
    return out;
  }
  if (a.is_constant() || b.is_constant())
    return Linear::of_atom(make::binary(BinaryOp::mul, to_expr(varying), Expr(factor)));
  const auto common = [](const Linear& l) {
    const int64_t g = content(l);
    return l.constant % g == 0 ? g : int64_t{1};
  };
  const int64_t ga = common(a), gb = common(b);
  const auto g = small_product(ga, gb);
  if (!g) return Linear::of_atom(make::binary(BinaryOp::mul, to_expr(a), to_expr(b)));
  return {{{make::binary(BinaryOp::mul, to_expr(a.divided(ga)), to_expr(b.divided(gb))), *g}}, 0};
}

// ---- Errors

bool Simplifier::is_total(const Expr& e) const {
  bool total = true;
  for_each_expr(e, [&](const Expr& inner) {
    if (inner.as<Load>()) total = false;
    if (const auto* c = inner.as<Call>()) total = total && c->fn != Intrinsic::tdiv;
    if (const auto* b = inner.as<Binary>()) {
      const bool divides = (b->op == BinaryOp::div || b->op == BinaryOp::mod) && !is_float(b->a.dtype());
      if (divides && as_int(b->b).value_or(0) == 0) total = false;
      if (b->op == BinaryOp::shl || b->op == BinaryOp::shr) total = total && as_int(b->b).has_value();
    }
  });
  return total;
}

}  // namespace algebra

Expr simplify(const Expr& e, const Facts& facts) {
  return algebra::Simplifier(facts).expr(e);
}

Interval range_of(const Expr& e, const Facts& facts) {
  algebra::Simplifier s(facts);
  return s.range(s.expr(e));
}

bool can_prove(const Expr& condition, const Facts& facts) {
  return is_const_int(simplify(condition, facts), 1);
}

namespace {

bool collect_affine(const Expr& e, int64_t factor, Affine& out) {
  if (e.type() != Type{} || !algebra::is_small(factor)) return false;
  if (const auto* i = e.as<IntImm>()) {
    const auto c = algebra::small_product(factor, i->value);
    out.constant += c.value_or(0);
    return c.has_value();
  }
  if (const auto* r = e.as<VarRef>()) {
    for (auto& [v, c] : out.terms)
      if (v == r->var) {
        c += factor;
        return true;
      }
    out.terms.emplace_back(r->var, factor);
    return true;
  }
  if (const auto* u = e.as<Unary>()) return u->op == UnaryOp::neg && collect_affine(u->a, -factor, out);
  const auto* b = e.as<Binary>();
  if (!b) return false;
  if (b->op == BinaryOp::add) return collect_affine(b->a, factor, out) && collect_affine(b->b, factor, out);
  if (b->op == BinaryOp::sub) return collect_affine(b->a, factor, out) && collect_affine(b->b, -factor, out);
  if (b->op != BinaryOp::mul) return false;
  Affine x, y;
  if (!collect_affine(b->a, 1, x) || !collect_affine(b->b, 1, y)) return false;
  std::erase_if(x.terms, [](const auto& t) { return t.second == 0; });
  std::erase_if(y.terms, [](const auto& t) { return t.second == 0; });
  if (!x.terms.empty() && !y.terms.empty()) return false;
  const auto scaled = algebra::small_product(factor, x.terms.empty() ? x.constant : y.constant);
  return scaled && collect_affine(x.terms.empty() ? b->b : b->a, *scaled, out);
}

}  // namespace

std::optional<Affine> as_affine(const Expr& e) {
  Affine out;
  if (!collect_affine(e, 1, out)) return std::nullopt;
  std::erase_if(out.terms, [](const auto& t) { return t.second == 0; });
  return out;
}

int64_t coefficient(const Affine& a, const Var& v) {
  for (const auto& [var, c] : a.terms)
    if (var == v) return c;
  return 0;
}

bool divides(const Expr& e, const Var& v, int64_t by) {
  bool found = false;
  for_each_expr(e, [&](const Expr& part) {
    const auto* d = part.as<Binary>();
    found |= d && d->op == BinaryOp::div && as_int(d->b) == by && uses_var(d->a, v);
  });
  return found;
}

}  // namespace nestor

// Simplifying statements: the ranges of loop variables and the conditions of branches are known inside,
// branches that can't be taken and loops that don't run disappear.
#include "nestor/walk.h"
#include "src/ir/simplifier.h"

namespace nestor {

namespace {

using algebra::Simplifier;

class StmtSimplifier : public Rewriter {
 public:
  StmtSimplifier(const Facts& facts, const SimplifyOptions& options) : simple_(facts), options_(options) {}

  Expr expr(const Expr& e) override { return simple_.expr(e); }

  Stmt stmt(const Stmt& s) override {
    return match(
        s, [&](const Seq&) { return children(s); }, [&](const For& f) { return loop(s, f); },
        [&](const Block& b) { return block(s, b); }, [&](const Store&) { return store(children(s)); },
        [&](const Update&) { return children(s); }, [&](const If& i) { return branch(s, i); },
        [&](const Alloc&) { return children(s); }, [&](const LetStmt& l) { return let(s, l); },
        [&](const Evaluate&) { return children(s); });
  }

 private:
  Stmt loop(const Stmt& s, const For& f) {
    const Expr extent = expr(f.extent);
    const Interval n = simple_.range(extent);
    if (n.hi <= 0) return {};
    if (options_.drop_unit_loops && is_const_int(extent, 1) && f.kind == ForKind::serial) {
      simple_.replace(f.var, Expr(0));
      return stmt(f.body);
    }
    const auto outside = simple_.mark();
    simple_.set_range(f.var, {0, n.hi >= Interval::kMax ? Interval::kMax : n.hi - 1});
    if (!extent.as<IntImm>()) simple_.assume(make::binary(BinaryOp::lt, Expr(f.var), extent));
    Stmt body = stmt(f.body);
    simple_.back_to(outside);
    if (!body) return {};
    if (extent.same_as(f.extent) && body.same_as(f.body)) return s;
    return make::loop(f.var, extent, std::move(body), f.kind, f.thread, f.annotations);
  }

  // Iterators keep standing in the body even where they have only one value, and a binding that is just a
  // loop variable stays: schedules speak of them.
  Stmt block(const Stmt& s, const Block& b) {
    Block out = b;
    const auto outside = simple_.mark();
    bool changed = false;
    std::vector<Interval> ranges;
    for (IterVar& i : out.iters) {
      const auto* bound_to = i.binding.as<VarRef>();
      const bool stays = bound_to && !simple_.is_replaced(bound_to->var);
      const Expr extent = expr(i.extent), binding = stays ? i.binding : expr(i.binding);
      changed = changed || !extent.same_as(i.extent) || !binding.same_as(i.binding);
      i.extent = extent;
      i.binding = binding;
      const Interval n = simple_.range(extent), at = simple_.range(binding);
      ranges.push_back(
          {std::max(at.lo, int64_t{0}), std::min(at.hi, n.hi >= Interval::kMax ? n.hi : n.hi - 1)});
    }
    for (size_t k = 0; k < out.iters.size(); ++k) {
      simple_.keep(out.iters[k].var);
      simple_.set_range(out.iters[k].var, ranges[k]);
      if (!out.iters[k].extent.as<IntImm>())
        simple_.assume(make::binary(BinaryOp::lt, Expr(out.iters[k].var), out.iters[k].extent));
    }
    if (b.where) {
      out.where = expr(b.where);
      if (is_const_int(out.where, 1)) out.where = {};
      if (out.where) simple_.assume(out.where);
    }
    const bool never = out.where && is_const_int(out.where, 0);
    if (b.init && !never) out.init = stmt(b.init);
    if (!never) out.body = stmt(b.body);
    simple_.back_to(outside);
    if (never || (!out.body && !out.init)) return {};
    if (!out.body) out.body = make::seq({});
    changed =
        changed || !out.where.same_as(b.where) || !out.init.same_as(b.init) || !out.body.same_as(b.body);
    return changed ? make::block(std::move(out)) : s;
  }

  Stmt store(const Stmt& s) {
    const auto* st = s.as<Store>();
    if (!st || !st->mask) return s;
    if (is_const_int(st->mask, 1)) return make::store(st->buffer, st->indices, st->value, {}, st->streaming);
    if (is_const_int(st->mask, 0)) return {};
    return s;
  }

  Stmt branch(const Stmt& s, const If& i) {
    const Expr cond = expr(i.cond);
    if (const auto c = as_int(cond)) return *c ? stmt(i.then_case) : i.else_case ? stmt(i.else_case) : Stmt();
    const auto outside = simple_.mark();
    const auto under = [&](const Stmt& side, bool holds) {
      if (!side) return side;
      simple_.assume(cond, holds);
      Stmt out = stmt(side);
      simple_.back_to(outside);
      return out;
    };
    const Stmt then_case = under(i.then_case, true), else_case = under(i.else_case, false);
    if (!then_case && !else_case) return {};
    if (!then_case) return make::if_then(expr(make::unary(UnaryOp::logical_not, cond)), else_case);
    if (cond.same_as(i.cond) && then_case.same_as(i.then_case) && else_case.same_as(i.else_case)) return s;
    return make::if_then(cond, then_case, else_case);
  }

  Stmt let(const Stmt& s, const LetStmt& l) {
    const Expr value = expr(l.value);
    if (value.as<IntImm>() || value.as<FloatImm>() || value.as<VarRef>()) {
      simple_.replace(l.var, value);
      return stmt(l.body);
    }
    const auto outside = simple_.mark();
    if (value.type() == Type{}) simple_.set_range(l.var, simple_.range(value));
    if (const auto* least = value.as<Binary>(); least && least->op == BinaryOp::min && value.type() == Type{})
      for (const Expr& each : {least->a, least->b})
        simple_.assume(make::binary(BinaryOp::le, Expr(l.var), each));
    Stmt body = stmt(l.body);
    simple_.back_to(outside);
    if (!body || !uses_var(body, l.var)) return body;
    if (value.same_as(l.value) && body.same_as(l.body)) return s;
    return make::let_stmt(l.var, value, std::move(body));
  }

  Simplifier simple_;
  const SimplifyOptions& options_;
};

}  // namespace

Stmt simplify(const Stmt& s, const Facts& facts, const SimplifyOptions& options) {
  Stmt out = StmtSimplifier(facts, options).stmt(s);
  return out ? out : make::seq({});
}

PrimFunc simplify(const PrimFunc& f, const SimplifyOptions& options) {
  Facts facts;
  for (const Var& d : f.dims) facts.set(d, {0, Interval::kMax});
  PrimFunc out = f;
  for (BufferDecl& d : out.allocs)
    for (Expr& e : d.shape) e = simplify(e, facts);
  out.body = simplify(f.body, facts, options);
  return out;
}

}  // namespace nestor

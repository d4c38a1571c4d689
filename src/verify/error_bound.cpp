// A function that computes its own rounding allowance.
//
// A fixed tolerance either hides bugs (too loose where values are small) or cries wolf (too tight after long
// sums). Here every float expression e becomes a pair: its f64 value, and a bound on |computed in e's own
// type - value|, by the standard forward rules (Higham, Accuracy and Stability of Numerical Algorithms, ch.
// 3), u being the type's unit roundoff. A sum of K terms gets K·u·Σ|terms|, which holds for every order of
// summation, so that schedules may reassociate. Values are shared by lets, else the pairs would double the
// expression at every level.

#include "src/verify/error_bound.h"

#include "nestor/verify.h"

namespace nestor {

namespace bound {

namespace {

bool sums(const Stmt& body) {
  bool found = false;
  for_each_stmt(body, [&](const Stmt& s) {
    const auto* u = s.as<Update>();
    found = found || (u && u->op == ReduceOp::add);
  });
  return found;
}

// Buffers of integers that floats are rounded to, or what such buffers hold.
std::unordered_set<Buffer> rounded_buffers(const PrimFunc& f) {
  std::unordered_set<Buffer> found;
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* store = s.as<Store>();
    const auto* update = s.as<Update>();
    if (!store && !update) return;
    const Buffer& made = store ? store->buffer : update->buffer;
    if (is_float(made->type.dtype) || is_bool(made->type.dtype)) return;
    for_each_expr(store ? store->value : update->value, [&](const Expr& e) {
      const auto* c = e.as<Cast>();
      const auto* l = e.as<Load>();
      if ((c && is_float(c->a.dtype()) && !is_float(e.dtype())) || (l && found.count(l->buffer)))
        found.insert(made);
    });
  });
  return found;
}

class BoundBuilder {
 public:
  PrimFunc build(const PrimFunc& f) {
    PrimFunc out = f;
    x_.rounded = rounded_buffers(f);
    std::vector<Param> bounds;
    for (Param& p : out.params) {
      const Buffer original = p.decl.buffer;
      p.decl = declare(p.decl);
      p.decl.layout.reset();
      const DType type = original->type.dtype;
      if (p.role == Role::out && !is_float(type) && !is_bool(type))  // perhaps rounded from a float
        x_.errors[original] = make_buffer(original->name + "_err", kF64);
      if (p.role != Role::out || !x_.errors.count(original)) continue;
      bounds.push_back({Role::out, {x_.errors.at(original), p.decl.shape, p.decl.scope, std::nullopt}});
    }
    for (const BufferDecl& a : f.allocs)
      if (x_.rounded.count(a.buffer)) x_.errors[a.buffer] = make_buffer(a.buffer->name + "_err", kF64);
    for (const Param& p : f.params)
      if (p.role != Role::out) x_.errors.erase(p.decl.buffer);  // what is given is exact
    out.params.insert(out.params.end(), bounds.begin(), bounds.end());
    out.allocs.clear();
    for (const BufferDecl& a : f.allocs) {
      out.allocs.push_back(declare(a));
      out.allocs.back().layout.reset();
      if (auto it = x_.errors.find(a.buffer); it != x_.errors.end())
        out.allocs.push_back({it->second, a.shape, a.scope, std::nullopt});
    }
    out.name += "_bound";
    out.body = statement(f.body);
    return out;
  }

 private:
  BufferDecl declare(const BufferDecl& decl) {
    BufferDecl out = decl;
    if (!is_float(decl.buffer->type.dtype)) return out;
    out.buffer = make_buffer(decl.buffer->name, kF64);
    x_.values[decl.buffer] = out.buffer;
    x_.errors[decl.buffer] = make_buffer(decl.buffer->name + "_err", kF64);
    return out;
  }

  // ---- Statements ----

  Stmt with_lets(const Lets& lets, Stmt body) {
    for (auto it = lets.rbegin(); it != lets.rend(); ++it) body = make::let_stmt(it->first, it->second, body);
    return body;
  }

  Stmt store(const Store& s) {
    x_.begin_statement();
    Lets lets;
    std::vector<Expr> at = x_.indices(s.indices, lets);
    const Pair p = x_.eval(s.value, lets);
    auto value = x_.values.find(s.buffer);
    if (value == x_.values.end()) {
      const Stmt itself = make::store(s.buffer, at, p.value);
      const auto error = x_.errors.find(s.buffer);
      if (error != x_.errors.end())
        return with_lets(lets, make::seq({make::store(error->second, at, or_zero(p.err)), itself}));
      if (p.err) throw Unbounded{"a rounded value kept as " + std::string(name_of(s.buffer->type.dtype))};
      return with_lets(lets, itself);
    }
    Expr err = p.err;
    if (start_terms_ > 0)
      err = plus(err, f64(start_terms_ * unit_roundoff(s.buffer->type.dtype)) * abs_of(p.value));
    return with_lets(lets, make::seq({make::store(x_.errors.at(s.buffer), at, or_zero(err)),
                                      make::store(value->second, at, p.value)}));
  }

  Stmt update(const Update& up) {
    x_.begin_statement();
    Lets lets;
    std::vector<Expr> at = x_.indices(up.indices, lets);
    const Pair p = x_.eval(up.value, lets);
    auto found = x_.values.find(up.buffer);
    if (found == x_.values.end()) {
      const Stmt itself = make::update(up.op, up.buffer, at, p.value);
      if (!p.err) return with_lets(lets, itself);
      const auto error = x_.errors.find(up.buffer);
      if ((up.op != ReduceOp::max && up.op != ReduceOp::min) || error == x_.errors.end())
        throw Unbounded{"a reduction of integers that were rounded"};
      return with_lets(lets, make::seq({make::update(ReduceOp::max, error->second, at, p.err), itself}));
    }
    const Buffer& value = found->second;
    const Buffer& error = x_.errors.at(up.buffer);
    const double u = unit_roundoff(up.buffer->type.dtype);
    const Expr size = abs_of(p.value);
    Stmt bound;
    switch (up.op) {
      case ReduceOp::add:
        bound = make::update(ReduceOp::add, error, at, plus(p.err, f64(terms_ * u) * plus(size, p.err)));
        break;
      case ReduceOp::mul: {
        const Expr sum = abs_of(make::load(value, at)), before = make::load(error, at);
        bound = make::store(
            error, at,
            plus(plus(times(sum, p.err), times(before, p.err)), before * size + f64(u) * (sum * size)));
        break;
      }
      case ReduceOp::max:
      case ReduceOp::min:
        bound = make::update(ReduceOp::max, error, at, or_zero(p.err));
        break;
    }
    return with_lets(lets, make::seq({bound, make::update(up.op, value, at, p.value)}));
  }

  Stmt block(const Block& b) {
    Block out = b;
    const double outer = terms_;
    terms_ = 1;
    for (const IterVar& i : b.iters) {
      const auto extent = as_int(i.extent);
      if (!extent) throw Unbounded{"symbolic extents"};
      if (i.kind == IterKind::reduce) terms_ *= static_cast<double>(*extent);
    }
    if (b.where) {
      Lets lets;
      const Expr where = x_.exact(b.where, lets);
      out.where = wrap(lets, where);
    }
    if (b.init) {
      start_terms_ = sums(b.body) ? terms_ : 0;  // a maximum rounds nothing
      out.init = statement(b.init);
      start_terms_ = 0;
    }
    out.body = statement(b.body);
    terms_ = outer;
    return make::block(std::move(out));
  }

  Stmt statement(const Stmt& s) {
    return match(
        s,
        [&](const Seq& q) {
          std::vector<Stmt> all;
          for (const Stmt& child : q.stmts) all.push_back(statement(child));
          return make::seq(std::move(all));
        },
        [&](const For& f) {
          return make::loop(f.var, f.extent, statement(f.body), f.kind, f.thread, f.annotations);
        },
        [&](const Block& b) { return block(b); }, [&](const Store& st) { return store(st); },
        [&](const Update& u) { return update(u); },
        [&](const If& i) {
          Lets lets;
          const Expr cond = x_.exact(i.cond, lets);
          return make::if_then(wrap(lets, cond), statement(i.then_case),
                               i.else_case ? statement(i.else_case) : Stmt());
        },
        [&](const Alloc&) -> Stmt {
          throw Unbounded{"allocations inside the body: bound the unscheduled function"};
        },
        [&](const LetStmt&) -> Stmt { throw Unbounded{"let statements: bound the unscheduled function"}; },
        [&](const Evaluate& e) {
          const auto* call = e.call.as<Call>();
          if (!call || call->fn != Intrinsic::prefetch) throw Unbounded{"hardware instructions and barriers"};
          return make::seq({});
        });
  }

  Expressions x_;
  double terms_ = 1;        // of the sum being updated
  double start_terms_ = 0;  // in an init: of the sum that starts there
};

}  // namespace

}  // namespace bound

std::optional<PrimFunc> with_error_bound(const PrimFunc& f, std::string* why_not) {
  try {
    return bound::BoundBuilder().build(f);
  } catch (const bound::Unbounded& u) {
    if (why_not) *why_not = u.why;
    return std::nullopt;
  }
}

}  // namespace nestor

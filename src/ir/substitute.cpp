// Variables and buffers replaced: by what a map says, or all that a statement binds by fresh ones.
#include "nestor/walk.h"

namespace nestor {

namespace {

struct Substituter : Rewriter {
  const VarMap* vars = nullptr;
  const BufferMap* buffers = nullptr;

  Buffer map(const Buffer& b) const {
    if (!buffers) return b;
    const auto it = buffers->find(b);
    return it == buffers->end() ? b : it->second;
  }
  Expr expr(const Expr& e) override {
    if (const auto* r = e.as<VarRef>(); r && vars) {
      const auto it = vars->find(r->var);
      return it == vars->end() ? e : it->second;
    }
    Expr out = children(e);
    if (const auto* l = out.as<Load>(); l && map(l->buffer) != l->buffer)
      return make::load(map(l->buffer), l->indices, l->mask);
    return out;
  }
  Stmt stmt(const Stmt& s) override {
    Stmt out = children(s);
    if (!buffers || !out) return out;
    if (const auto* st = out.as<Store>(); st && map(st->buffer) != st->buffer)
      return make::store(map(st->buffer), st->indices, st->value, st->mask, st->streaming);
    if (const auto* u = out.as<Update>(); u && map(u->buffer) != u->buffer)
      return make::update(u->op, map(u->buffer), u->indices, u->value);
    if (const auto* a = out.as<Alloc>(); a && map(a->decl.buffer) != a->decl.buffer) {
      BufferDecl d = a->decl;
      d.buffer = map(d.buffer);
      return make::alloc(std::move(d), a->body);
    }
    return out;
  }
};

template <class T>
T run_substitution(const T& node, const VarMap* vars, const BufferMap* buffers) {
  if ((!vars || vars->empty()) && (!buffers || buffers->empty())) return node;
  Substituter s;
  s.vars = vars;
  s.buffers = buffers;
  if constexpr (std::is_same_v<T, Expr>)
    return s.expr(node);
  else
    return s.stmt(node);
}

// Renames everything bound inside; one map for the whole copy, since every binder is a distinct object.
struct FreshCopier : Rewriter {
  VarMap vars;
  BufferMap buffers;

  Var fresh(const Var& v) {
    Var copy = make_var(v->name, v->type);
    vars[v] = Expr(copy);
    return copy;
  }
  Expr expr(const Expr& e) override {
    if (const auto* r = e.as<VarRef>()) {
      const auto it = vars.find(r->var);
      return it == vars.end() ? e : it->second;
    }
    if (const auto* l = e.as<Let>()) {
      Expr value = expr(l->value);
      Var v = fresh(l->var);
      return make::let(v, std::move(value), expr(l->body));
    }
    Expr out = children(e);
    if (const auto* l = out.as<Load>())
      if (const auto it = buffers.find(l->buffer); it != buffers.end())
        return make::load(it->second, l->indices, l->mask);
    return out;
  }
  Stmt stmt(const Stmt& s) override {
    return match(
        s,
        [&](const For& f) {
          Expr extent = expr(f.extent);
          Var v = fresh(f.var);
          return make::loop(v, std::move(extent), stmt(f.body), f.kind, f.thread, f.annotations);
        },
        [&](const LetStmt& l) {
          Expr value = expr(l.value);
          Var v = fresh(l.var);
          return make::let_stmt(v, std::move(value), stmt(l.body));
        },
        [&](const Block& b) {
          Block copy = b;
          copy.id = make_block_id(b.id->name, b.id);
          for (IterVar& i : copy.iters) {
            i.extent = expr(i.extent);
            i.binding = expr(i.binding);
          }
          for (IterVar& i : copy.iters) i.var = fresh(i.var);
          if (b.where) copy.where = expr(b.where);
          if (b.init) copy.init = stmt(b.init);
          copy.body = stmt(b.body);
          return make::block(std::move(copy));
        },
        [&](const Alloc& a) {
          BufferDecl d = a.decl;
          for (Expr& e : d.shape) e = expr(e);
          d.buffer = make_buffer(a.decl.buffer->name, a.decl.buffer->type);
          buffers[a.decl.buffer] = d.buffer;
          return make::alloc(std::move(d), stmt(a.body));
        },
        [&](const Store& st) {
          Stmt out = children(s);
          const auto* o = out.as<Store>();
          const auto it = buffers.find(st.buffer);
          return it == buffers.end() ? out
                                     : make::store(it->second, o->indices, o->value, o->mask, o->streaming);
        },
        [&](const Update& u) {
          Stmt out = children(s);
          const auto* o = out.as<Update>();
          const auto it = buffers.find(u.buffer);
          return it == buffers.end() ? out : make::update(o->op, it->second, o->indices, o->value);
        },
        [&](const Seq&) { return children(s); }, [&](const If&) { return children(s); },
        [&](const Evaluate&) { return children(s); });
  }
};

}  // namespace

Expr substitute(const Expr& e, const VarMap& map) {
  return run_substitution(e, &map, nullptr);
}
Stmt substitute(const Stmt& s, const VarMap& map) {
  return run_substitution(s, &map, nullptr);
}
Stmt substitute(const Stmt& s, const BufferMap& map) {
  return run_substitution(s, nullptr, &map);
}
Expr substitute(const Expr& e, const BufferMap& map) {
  return run_substitution(e, nullptr, &map);
}

Stmt fresh_copy(const Stmt& s) {
  return FreshCopier().stmt(s);
}

}  // namespace nestor

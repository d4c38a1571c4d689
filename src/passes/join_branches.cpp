#include "src/passes/join_branches.h"

#include <algorithm>

#include "nestor/walk.h"

namespace nestor::passes {

namespace {

// The variables and buffers that a statement uses but doesn't bind, in the order of their uses.
struct Free : Walker {
  std::unordered_set<Var> bound;
  std::unordered_set<Buffer> own;
  std::vector<Var> vars;
  std::vector<Buffer> buffers;

  explicit Free(const Stmt& s) {
    for_each_stmt(s, [&](const Stmt& inner) {
      if (const auto* f = inner.as<For>()) bound.insert(f->var);
      if (const auto* l = inner.as<LetStmt>()) bound.insert(l->var);
      if (const auto* a = inner.as<Alloc>()) own.insert(a->decl.buffer);
    });
    for_each_expr(s, [&](const Expr& e) {
      if (const auto* l = e.as<Let>()) bound.insert(l->var);
    });
    stmt(s);
  }
  void expr(const Expr& e) override {
    if (const auto* r = e.as<VarRef>(); r && !bound.count(r->var)) vars.push_back(r->var);
    if (const auto* l = e.as<Load>()) use(l->buffer);
    children(e);
  }
  void stmt(const Stmt& s) override {
    if (const auto* st = s.as<Store>()) use(st->buffer);
    children(s);
  }
  void use(const Buffer& b) {
    if (!own.count(b)) buffers.push_back(b);
  }
};

// The same statement, up to the names of what it binds.
bool same_stmt(const Stmt& a, const Stmt& b) {
  if (a.same_as(b)) return true;
  if (!structural_equal(a, b)) return false;
  const Free x(a), y(b);
  return x.vars == y.vars && x.buffers == y.buffers;
}

// Not of registers: the branches may have vectors of different widths in them.
bool same_memory(const BufferDecl& a, const BufferDecl& b) {
  return a.buffer->type == b.buffer->type && a.scope == b.scope && a.scope != Scope::local &&
         a.shape.size() == b.shape.size() &&
         std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), same_expr) && !a.layout && !b.layout &&
         a.align.empty() && b.align.empty();
}

std::vector<Stmt> statements(const Stmt& s) {
  if (const auto* seq = s.as<Seq>()) return seq->stmts;
  return {s};
}

}  // namespace

Stmt join_branches(const Expr& condition, const Stmt& yes, const Stmt& no) {
  if (!yes || !no) return make::if_then(condition, yes, no);
  if (same_stmt(yes, no)) return yes;
  const auto* a = yes.as<Alloc>();
  const auto* b = no.as<Alloc>();
  if (a && b && same_memory(a->decl, b->decl))
    return make::alloc(
        a->decl,
        join_branches(condition, a->body, substitute(b->body, BufferMap{{b->decl.buffer, a->decl.buffer}})));
  const std::vector<Stmt> x = statements(yes), y = statements(no);
  if (x.size() != y.size() || x.size() < 2) return make::if_then(condition, yes, no);
  std::vector<Stmt> out, of_yes, of_no;
  const auto close = [&] {
    if (of_yes.empty()) return;
    out.push_back(of_yes.size() == 1
                      ? join_branches(condition, of_yes[0], of_no[0])
                      : make::if_then(condition, make::seq(std::move(of_yes)), make::seq(std::move(of_no))));
    of_yes.clear();
    of_no.clear();
  };
  for (size_t i = 0; i < x.size(); ++i) {
    if (same_stmt(x[i], y[i])) {
      close();
      out.push_back(x[i]);
    } else {
      of_yes.push_back(x[i]);
      of_no.push_back(y[i]);
    }
  }
  close();
  return make::seq(std::move(out));
}

}  // namespace nestor::passes

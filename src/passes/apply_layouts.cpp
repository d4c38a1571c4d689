// The layouts of a thread's own buffers, applied before `compact` looks at what a thread touches of them. A
// row of which thread t has the elements t, t + 32, t + 64, ... isn't an interval, so that each thread would
// get the whole row; with the layout (j) -> (j/32, j%32) it is all of the first dimension and one place in
// the second.
#include "nestor/layout.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

class Layouts : public Rewriter {
 public:
  // The declaration as its layout shapes it; what has none stays.
  BufferDecl declared(const BufferDecl& decl) {
    if (decl.scope != Scope::local || !decl.layout || !decl.align.empty()) return decl;
    maps_[decl.buffer] = *decl.layout;
    BufferDecl out{decl.buffer, {}, decl.scope, std::nullopt};
    for (const int64_t n : physical_shape(decl)) out.shape.emplace_back(n);
    return out;
  }

  Expr expr(const Expr& e) override {
    Expr out = children(e);
    const auto* l = out.as<Load>();
    return l && maps_.count(l->buffer) ? make::load(l->buffer, mapped(l->buffer, l->indices), l->mask) : out;
  }
  Stmt stmt(const Stmt& s) override {
    if (const auto* a = s.as<Alloc>()) {
      const BufferDecl decl = declared(a->decl);
      return make::alloc(decl, stmt(a->body));
    }
    Stmt out = children(s);
    if (const auto* st = out.as<Store>(); st && maps_.count(st->buffer))
      return make::store(st->buffer, mapped(st->buffer, st->indices), st->value, st->mask, st->streaming);
    if (const auto* u = out.as<Update>(); u && maps_.count(u->buffer))
      return make::update(u->op, u->buffer, mapped(u->buffer, u->indices), u->value);
    return out;
  }

 private:
  std::vector<Expr> mapped(const Buffer& b, const std::vector<Expr>& indices) const {
    const IndexMap& layout = maps_.at(b);
    VarMap values;
    for (size_t i = 0; i < indices.size(); ++i) values.emplace(layout.vars[i], indices[i]);
    std::vector<Expr> out;
    for (const Expr& e : layout.exprs) out.push_back(substitute(e, values));
    return out;
  }

  std::unordered_map<Buffer, IndexMap> maps_;
};

}  // namespace

PrimFunc apply_layouts(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  Layouts layouts;
  for (BufferDecl& d : out.allocs) d = layouts.declared(d);
  out.body = layouts.stmt(f.body);
  return out;
}

}  // namespace nestor::passes

// Applies layouts and makes every buffer one-dimensional: an index becomes the element's place in memory.
#include "nestor/error.h"
#include "nestor/layout.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

// Row major, where alignments don't ask for more room.
std::vector<Expr> strides_of(const BufferDecl& decl, const std::vector<Expr>& extents) {
  std::vector<Expr> strides(extents.size());
  Expr next = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    for (const StrideAlign& a : decl.align) {
      if (a.dim != static_cast<int64_t>(d)) continue;
      next = simplify(next + (Expr(a.offset + a.factor) - next % a.factor) % a.factor);
    }
    strides[d] = next;
    next = next * extents[d];
  }
  return strides;
}

class Flattener : public Rewriter {
 public:
  void declare(const BufferDecl& decl) { decls_[decl.buffer] = decl; }

  static BufferDecl flat(const BufferDecl& decl) {
    const std::vector<Expr> extents = physical_extents(decl), strides = strides_of(decl, extents);
    const Expr size = extents.empty() ? Expr(1) : extents[0] * strides[0];
    return {decl.buffer, {size}, decl.scope, std::nullopt};
  }

  Expr expr(const Expr& e) override {
    Expr out = children(e);
    const auto* l = out.as<Load>();
    return l ? make::load(l->buffer, {flat_index(l->buffer, l->indices)}, l->mask) : out;
  }
  Stmt stmt(const Stmt& s) override {
    if (const auto* a = s.as<Alloc>()) {
      declare(a->decl);
      Stmt body = stmt(a->body);
      return make::alloc(flat(a->decl), std::move(body));
    }
    Stmt out = children(s);
    const auto* st = out.as<Store>();
    return st ? make::store(st->buffer, {flat_index(st->buffer, st->indices)}, st->value, st->mask,
                            st->streaming)
              : out;
  }

 private:
  // Row major over the physical extents; the divisions that a layout brings in are left to `simplify`.
  Expr flat_index(const Buffer& b, std::vector<Expr> indices) const {
    const auto it = decls_.find(b);
    NESTOR_CHECK(it != decls_.end()) << "buffer " << b->name << " is not declared";
    const BufferDecl& decl = it->second;
    if (decl.layout) {
      VarMap map;
      for (size_t i = 0; i < indices.size(); ++i) map.emplace(decl.layout->vars[i], indices[i]);
      indices.clear();
      for (const Expr& e : decl.layout->exprs) indices.push_back(substitute(e, map));
    }
    std::vector<Expr> extents = physical_extents(decl);
    int lanes = 1;
    for (const Expr& i : indices) lanes = std::max(lanes, i.type().lanes);
    for (std::vector<Expr>* scalars : {&indices, &extents})
      for (Expr& e : *scalars)
        if (!e.type().is_vector()) e = make::broadcast(e, lanes);
    Expr index = make::broadcast(Expr(0), lanes);
    if (decl.align.empty()) {
      for (size_t i = 0; i < indices.size(); ++i) index = index * extents[i] + indices[i];
      return index;
    }
    const std::vector<Expr> strides = strides_of(decl, physical_extents(decl));
    for (size_t i = 0; i < indices.size(); ++i)
      index = index + indices[i] * make::broadcast(strides[i], lanes);
    return index;
  }

  std::unordered_map<Buffer, BufferDecl> decls_;
};

}  // namespace

PrimFunc flatten_buffers(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  Flattener flattener;
  for (Param& p : out.params) {
    flattener.declare(p.decl);
    p.decl = Flattener::flat(p.decl);
  }
  for (BufferDecl& d : out.allocs) {
    flattener.declare(d);
    d = Flattener::flat(d);
  }
  out.body = flattener.stmt(f.body);
  return out;
}

}  // namespace nestor::passes

// Blocks become definitions, in program order. An iterator becomes a Var of Halide's if it indexes exactly
// one dimension of the output and runs over its whole extent. Every other iterator becomes an RVar, over
// which an update runs in order. If there are only Vars and the output has no definition yet, the block is
// its pure definition. Otherwise the output starts as zeros and the block is an update. Reductions are
// updates whose pure definition is their init.
#include "src/halide/translate.h"

#include <limits>
#include <map>
#include <memory>

#include "nestor/walk.h"
#include "src/halide/expr.h"

namespace nestor::halide {

namespace {

class Translator {
 public:
  explicit Translator(const PrimFunc& f) : func_(f) {
    if (!f.dims.empty()) throw Unsupported("symbolic dimensions");
    for (const auto& [buffer, decl] : declarations(f)) extents_[buffer] = extents_of(decl);
  }

  Translation run() {
    Translation out;
    for (const Param& p : func_.params) {
      if (p.role == Role::out) continue;
      const Buffer& b = p.decl.buffer;
      const std::vector<int>& extents = extents_.at(b);
      Halide::ImageParam image(type_of(b->type.dtype), static_cast<int>(extents.size()), "in_" + b->name);
      int stride = 1;
      for (int d = 0; d < image.dimensions(); ++d) {
        const int extent = extents[static_cast<size_t>(d)];
        image.dim(d).set_bounds(0, extent).set_stride(stride).set_estimate(0, extent);
        stride *= extent;
      }
      inputs_.emplace(b, image);
      out.inputs.push_back(image);
    }
    statement(func_.body);
    for (const Param& p : func_.params) {
      if (p.role != Role::out) continue;
      const auto it = funcs_.find(p.decl.buffer);
      if (it == funcs_.end())
        throw Unsupported("the output " + p.decl.buffer->name + ", which nothing writes");
      Halide::Func f = it->second;
      const std::vector<int>& extents = extents_.at(p.decl.buffer);
      int stride = 1;
      for (int d = 0; d < f.dimensions(); ++d) {
        const int extent = extents[static_cast<size_t>(d)];
        f.output_buffer().dim(d).set_bounds(0, extent).set_stride(stride);
        f.set_estimate(f.args()[static_cast<size_t>(d)], 0, extent);
        stride *= extent;
      }
      out.outputs.push_back(f);
    }
    return out;
  }

 private:
  void statement(const Stmt& s) {
    if (const auto* q = s.as<Seq>()) {
      for (const Stmt& one : q->stmts) statement(one);
    } else if (const auto* l = s.as<For>()) {
      extent_of_loop_[l->var] = as_int(l->extent).value_or(-1);
      statement(l->body);
    } else if (const auto* a = s.as<Alloc>()) {
      statement(a->body);
    } else if (const auto* b = s.as<Block>()) {
      block(*b);
    } else {
      throw Unsupported("statements outside of blocks");
    }
  }

  // Iterators that index one dimension alone, over its whole extent, and which one of Halide's that is. All
  // definitions of a Func must call its dimensions alike.
  std::map<Var, size_t> free_iterators(const Block& b, const Buffer& buffer,
                                       const std::vector<Expr>& indices) const {
    const std::vector<int>& extents = extents_.at(buffer);
    std::map<Var, size_t> out;
    for (const IterVar& i : b.iters) {
      int used = 0, plain = 0;
      size_t dim = 0;
      for (size_t d = 0; d < indices.size(); ++d) {
        const auto* v = indices[d].as<VarRef>();
        used += uses_var(indices[d], i.var);
        if (!v || v->var != i.var || as_int(i.extent) != extents[indices.size() - 1 - d]) continue;
        ++plain;
        dim = indices.size() - 1 - d;
      }
      if (i.kind == IterKind::spatial && used == 1 && plain == 1) out[i.var] = dim;
    }
    return out;
  }

  // Vars and RVars for the block's iterators; those of `kind` reduce are left out for an init.
  ExprTranslator bind(const Block& b, const std::map<Var, size_t>& free, bool init) {
    ExprTranslator e(extents_, [this](const Buffer& buffer, const std::vector<Halide::Expr>& at) {
      if (const auto in = inputs_.find(buffer); in != inputs_.end()) return Halide::Expr(in->second(at));
      const auto f = funcs_.find(buffer);
      if (f == funcs_.end())
        throw Unsupported("reading " + buffer->name + " before anything is written to it");
      return Halide::Expr(f->second(at));
    });
    Halide::Region ranges;
    std::vector<Var> ordered;
    for (const IterVar& i : b.iters) {
      if (const auto dim = free.find(i.var); dim != free.end()) {
        e.bind(i.var, variable(dim->second));
      } else if (!init || i.kind == IterKind::spatial) {
        ordered.insert(ordered.begin(), i.var);  // the last runs fastest
        ranges.insert(ranges.begin(), Halide::Range(0, static_cast<int>(as_int(i.extent).value_or(0))));
      }
    }
    if (!ranges.empty()) {
      const Halide::RDom r(ranges);
      for (size_t k = 0; k < ordered.size(); ++k) e.bind(ordered[k], r[static_cast<int>(k)]);
    }
    return e;
  }

  std::vector<Halide::Expr> place(ExprTranslator& e, const std::vector<Expr>& indices) {
    std::vector<Halide::Expr> at;
    for (size_t d = indices.size(); d-- > 0;) at.push_back(e.index(indices[d]));
    return at;
  }

  static Halide::Var variable(size_t dim) { return Halide::Var("d" + std::to_string(dim)); }
  std::vector<Halide::Var> variables(const Buffer& b) const {
    std::vector<Halide::Var> out;
    for (size_t d = 0; d < extents_.at(b).size(); ++d) out.push_back(variable(d));
    return out;
  }

  Halide::Func& defined(const Buffer& b) {
    const auto it = funcs_.find(b);
    if (it != funcs_.end()) return it->second;
    Halide::Func f(b->name);
    f(variables(b)) = Halide::cast(type_of(b->type.dtype), 0);
    return funcs_.emplace(b, f).first->second;
  }

  void store(const Block& b, const Store& s, bool init) {
    const std::map<Var, size_t> free = free_iterators(b, s.buffer, s.indices);
    size_t ordered = 0;
    for (const IterVar& i : b.iters) ordered += !free.count(i.var) && !(init && i.kind == IterKind::reduce);
    ExprTranslator e = bind(b, free, init);
    const bool pure =
        ordered == 0 && free.size() == s.indices.size() && !b.where && !funcs_.count(s.buffer) && !s.mask;
    if (pure) {
      Halide::Func f(s.buffer->name);
      f(variables(s.buffer)) = e.value(s.value);
      funcs_.emplace(s.buffer, f);
      return;
    }
    Halide::Func& f = defined(s.buffer);
    const std::vector<Halide::Expr> at = place(e, s.indices);
    Halide::Expr value = e.value(s.value);
    if (b.where && !init) value = Halide::select(e.value(b.where), value, f(at));
    f(at) = value;
  }

  void update(const Block& b, const Update& u) {
    if (!funcs_.count(u.buffer)) throw Unsupported("block " + b.id->name + ", whose sum has no start");
    ExprTranslator e = bind(b, free_iterators(b, u.buffer, u.indices), false);
    Halide::Func& f = funcs_.at(u.buffer);
    const std::vector<Halide::Expr> at = place(e, u.indices);
    const Halide::Expr value = e.value(u.value), old = f(at);
    Halide::Expr next;
    switch (u.op) {
      case ReduceOp::add:
        next = old + value;
        break;
      case ReduceOp::mul:
        next = old * value;
        break;
      case ReduceOp::max:
      case ReduceOp::min:
        next = extremum(binary_of(u.op), old, value);
        break;
    }
    f(at) = b.where ? Halide::select(e.value(b.where), next, old) : next;
  }

  void block(const Block& b) {
    const std::string name = "block " + b.id->name;
    for (const IterVar& i : b.iters) {
      const auto* loop = i.binding.as<VarRef>();
      const auto extent = loop ? extent_of_loop_.find(loop->var) : extent_of_loop_.end();
      if (extent == extent_of_loop_.end() || as_int(i.extent) != extent->second)
        throw Unsupported(name + ": its iterators aren't its loops");
    }
    if (b.init) {
      const auto* start = b.init.as<Store>();
      if (!start) throw Unsupported(name + ": its init is more than one store");
      if (b.where) throw Unsupported(name + ": an init under a condition");
      store(b, *start, true);
    }
    if (const auto* s = b.body.as<Store>())
      store(b, *s, false);
    else if (const auto* u = b.body.as<Update>())
      update(b, *u);
    else
      throw Unsupported(name + ": more than one store");
  }

  const PrimFunc& func_;
  std::map<Buffer, std::vector<int>> extents_;
  std::map<Buffer, Halide::ImageParam> inputs_;
  std::map<Buffer, Halide::Func> funcs_;
  std::map<Var, int64_t> extent_of_loop_;
};

}  // namespace

std::vector<int> extents_of(const BufferDecl& decl) {
  const std::string& name = decl.buffer->name;
  if (decl.layout) throw Unsupported(name + " in a layout of its own");
  if (decl.scope != Scope::global) throw Unsupported(name + " in registers or shared memory");
  std::vector<int> out;
  int64_t elements = 1;
  for (size_t d = decl.shape.size(); d-- > 0;) {
    const int64_t extent = as_int(decl.shape[d]).value_or(0);
    elements *= extent;
    if (extent <= 0) throw Unsupported(name + ", which is empty");
    if (elements > std::numeric_limits<int32_t>::max())
      throw Unsupported(name + ", of 2^31 elements and more");
    out.push_back(static_cast<int>(extent));
  }
  return out;
}

Translation translate(const PrimFunc& f) {
  return Translator(f).run();
}

}  // namespace nestor::halide

// Temporaries shrink to what one iteration uses and move to the loop that uses it.
//
// `compute_at` and `set_scope` only move loops: a temporary is still declared for the whole function, at its
// full size, or for the parallel loop whose iterations may not share it. Here each one sinks, loop by loop,
// into the loops that enclose all its accesses, as long as no iteration needs what an earlier one left in it;
// then every dimension shrinks to the span that one iteration touches. Inside a parallel loop the temporary
// has thereby become the iteration's own. Where it ends up is decided in placement.cpp; this file moves it.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "src/passes/passes.h"
#include "src/passes/placement.h"
#include "src/passes/refuse.h"

namespace nestor::passes {

namespace {

// Shifts the indices and puts allocations where they belong. A block speaks of loops by its iterators only,
// so a shift that varies becomes an iterator of its own: `T[v - T0]` with `T0: S 13 = i0*4`.
class Mover : public Rewriter {
 public:
  explicit Mover(Facts facts) : facts_(std::move(facts)) {}
  std::unordered_map<Buffer, Placement> placements;
  std::unordered_set<Buffer> staying;
  std::vector<Buffer> order;

  Stmt with_allocations(const For* loop, Stmt body) const {
    for (size_t i = order.size(); i-- > 0;) {
      const Placement& p = placements.at(order[i]);
      if (p.loop == loop) body = make::alloc(p.decl, std::move(body));
    }
    return body;
  }
  Expr expr(const Expr& e) override {
    Expr out = children(e);
    const auto* l = out.as<Load>();
    return l && placements.count(l->buffer) ? make::load(l->buffer, shifted(l->buffer, l->indices)) : out;
  }
  Stmt stmt(const Stmt& s) override {
    if (const auto* a = s.as<Alloc>())
      return staying.count(a->decl.buffer) ? children(s) : stmt(a->body);  // it has its place elsewhere
    if (s.as<Block>()) return in_block(s);
    Stmt out = children(s);
    if (const auto* st = out.as<Store>(); st && placements.count(st->buffer))
      return make::store(st->buffer, shifted(st->buffer, st->indices), st->value, {}, st->streaming);
    if (const auto* u = out.as<Update>(); u && placements.count(u->buffer))
      return make::update(u->op, u->buffer, shifted(u->buffer, u->indices), u->value);
    if (const auto* loop = s.as<For>()) {
      const auto* now = out.as<For>();
      Stmt body = with_allocations(loop, now->body);
      if (!body.same_as(now->body))
        return make::loop(now->var, now->extent, body, now->kind, now->thread, now->annotations);
    }
    return out;
  }

 private:
  std::vector<Expr> shifted(const Buffer& b, const std::vector<Expr>& indices) {
    const auto it = placements.find(b);
    std::vector<Expr> out;
    for (size_t d = 0; d < indices.size(); ++d)
      out.push_back(without_gaps(indices[d] - offset(b, d, it->second.offsets[d]), it->second.digits[d]));
    return out;
  }
  static Expr without_gaps(Expr rest, const std::vector<Digit>& digits) {
    if (digits.empty()) return rest;
    Expr out = 0;
    for (const Digit& d : digits) {
      out = out * d.extent + rest / d.coefficient;
      rest = rest % d.coefficient;
    }
    return out;
  }
  Expr offset(const Buffer& b, size_t dim, const Expr& value) {
    if (!iters_ || as_int(value)) return value;
    const Interval range = range_of(value, facts_);
    const Expr binding = simplify(value - range.lo);
    const Expr& end = placements.at(b).ends[dim];  // behind the last value
    for (const IterVar& i : *iters_)
      if (same_expr(i.binding, binding)) return Expr(i.var) + range.lo;
    Var v = make_var(b->name + std::to_string(dim));
    iters_->push_back({v, IterKind::spatial, simplify(end - range.lo), binding});
    return Expr(v) + range.lo;
  }
  Stmt in_block(const Stmt& s) {
    std::vector<IterVar> added;
    std::vector<IterVar>* outer = std::exchange(iters_, &added);
    Block block = *children(s).as<Block>();
    iters_ = outer;
    block.iters.insert(block.iters.end(), added.begin(), added.end());
    return make::block(std::move(block));
  }

  Facts facts_;
  std::vector<IterVar>* iters_ = nullptr;
};

// A temporary, and how many loops stand around its allocation.
struct Allocation {
  BufferDecl decl;
  size_t inside;
};

// Those of the function, then those of its statements, in program order.
std::vector<Allocation> allocations(const PrimFunc& f) {
  struct Finder : Walker {
    std::vector<Allocation> found;
    size_t depth = 0;
    void stmt(const Stmt& s) override {
      if (const auto* a = s.as<Alloc>()) found.push_back({a->decl, depth});
      depth += s.as<For>() != nullptr;
      children(s);
      depth -= s.as<For>() != nullptr;
    }
  } finder;
  for (const BufferDecl& d : f.allocs) finder.found.push_back({d, 0});
  finder.stmt(f.body);
  return std::move(finder.found);
}

// Buffers that vectors or masks touch already, in text of a lowered function: they have their place.
std::unordered_set<Buffer> touched_by_vectors(const PrimFunc& f) {
  std::unordered_set<Buffer> out;
  const auto see = [&](const Buffer& b, const std::vector<Expr>& indices, const Expr& mask) {
    const bool vector =
        std::any_of(indices.begin(), indices.end(), [](const Expr& i) { return i.type().is_vector(); });
    if (vector || mask || b->type.is_vector()) out.insert(b);
  };
  for_each_expr(f.body, [&](const Expr& e) {
    if (const auto* l = e.as<Load>()) see(l->buffer, l->indices, l->mask);
  });
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* st = s.as<Store>()) see(st->buffer, st->indices, st->mask);
  });
  return out;
}

Facts loop_facts(const PrimFunc& f) {
  Facts facts = facts_of_sizes(f);
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!loop) return;
    const int64_t end = range_of(loop->extent, facts).hi;
    facts.set(loop->var, {0, end >= Interval::kMax ? end : std::max<int64_t>(end - 1, 0)});
  });
  return facts;
}

}  // namespace

PrimFunc compact(const PrimFunc& f, const Target& target) {
  const bool cuda = target.kind == TargetKind::cuda;
  const Accesses accesses = find_accesses(f.body, facts_of_sizes(f));
  const Facts loops = loop_facts(f);
  Mover mover(loops);
  mover.staying = touched_by_vectors(f);
  PrimFunc out = f;
  std::erase_if(out.allocs, [&](const BufferDecl& d) { return mover.staying.count(d.buffer) == 0; });
  for (const Allocation& a : allocations(f)) {
    const BufferDecl& decl = a.decl;
    if (mover.staying.count(decl.buffer)) continue;
    const auto it = accesses.find(decl.buffer);
    if (it == accesses.end()) continue;  // never used
    Placement p = place(decl, a.inside, it->second, loops, cuda);
    const bool of_function = !p.loop && decl.scope == Scope::global;
    if (cuda && !of_function && !p.in_kernel)
      refuse(std::string("buffer ") + decl.buffer->name + " is `" + name_of(decl.scope) +
                 "`, but no loop of one kernel encloses all its accesses",
             "move its producer into the kernel with compute_at, or keep it global");
    if (of_function) out.allocs.push_back(p.decl);
    if (!of_function) mover.order.push_back(decl.buffer);
    mover.placements.emplace(decl.buffer, std::move(p));
  }
  out.body = mover.with_allocations(nullptr, mover.stmt(f.body));
  return out;
}

}  // namespace nestor::passes

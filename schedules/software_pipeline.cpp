// software_pipeline: the copies at the start of an iteration are made `stages - 1` iterations ahead, while
// earlier iterations compute (Lam, PLDI 1988). Each target buffer gets one slot per stage: iteration k
// computes from slot k % stages, and fills the slot for iteration k + stages - 1.
//
// Everything is explicit in the IR: a prologue loop before (copies of the copying blocks), a guard on those
// blocks in the loop (k + stages - 1 may be past the end), and one more dimension for the slots. A dimension
// that moved with the loop now starts at the iteration's own tile, so the buffer has slots instead of the
// whole range. Lowering turns the guard into an epilogue, as with every tail. Use the step late: blocks that
// use slots can't move any more, and the first copies are duplicates, so threads are bound before. On CUDA
// one barrier per iteration remains, since slots differ. There a load is waited for by the store that needs
// its value: `through=registers` puts what is computed in between.
#include <algorithm>

#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "schedules/privatize.h"
#include "schedules/region.h"
#include "schedules/through_registers.h"

namespace nestor::schedules {

PrimFunc with_decl(const PrimFunc& f, const BufferDecl& decl);

namespace {

// A dimension of a buffer that is copied into: index i becomes i - offset - low.
struct Moved {
  Expr offset;           // moves with the loop; 0 where the dimension stays as it is
  int64_t farthest = 0;  // the largest value of the offset
  int64_t low = 0, high = 0;
};
struct Copied {
  BufferDecl decl;  // as it will be: slots first
  std::vector<Moved> dims;
};

struct Pipeline {
  LoopRef loop;
  int64_t stages = 2, extent = 0;
  std::vector<BufferDecl> inside;  // allocations at the top of the loop's body
  std::vector<Stmt> copies, rest;
  std::vector<Copied> buffers;

  const Copied* find(const Buffer& b) const {
    for (const Copied& c : buffers)
      if (c.decl.buffer == b) return &c;
    return nullptr;
  }
  const Var& var() const { return as_for(loop.stmt).var; }
};

// One store of an element read elsewhere, perhaps with a padding around it.
bool is_copy(const Block& b) {
  const auto* store = b.body.as<Store>();
  if (!store || b.init || inspect(b).kind != BlockKind::map) return false;
  Expr value = store->value;
  while (const auto* s = value.as<Select>()) value = s->a.as<FloatImm>() || s->a.as<IntImm>() ? s->b : s->a;
  if (const auto* c = value.as<Cast>()) value = c->a;
  return value.as<Load>() != nullptr;
}

std::vector<Place> places_in(const Pipeline& p, const PrimFunc& f, const std::vector<Stmt>& roots) {
  std::vector<Place> out;
  for (Place& q : places(f.body))
    if (q.under(p.loop.stmt) &&
        std::any_of(roots.begin(), roots.end(), [&](const Stmt& r) { return q.under(r); }))
      out.push_back(std::move(q));
  return out;
}

void read_body(const StepContext& ctx, Pipeline& p) {
  Stmt body = as_for(p.loop.stmt).body;
  for (; body.as<Alloc>(); body = body.as<Alloc>()->body) p.inside.push_back(body.as<Alloc>()->decl);
  const auto* seq = body.as<Seq>();
  for (const Stmt& s : seq ? seq->stmts : std::vector<Stmt>{body}) {
    const std::vector<Place> blocks = places_in(p, ctx.func(), {s});
    const bool copies =
        p.rest.empty() && !blocks.empty() && std::all_of(blocks.begin(), blocks.end(), [&](const Place& q) {
          return is_copy(q.block()) && is_temporary(ctx.func(), inspect(q.block()).out);
        });
    (copies ? p.copies : p.rest).push_back(s);
  }
  if (p.rest.empty()) {  // the last copy is what the others are for
    p.rest = {p.copies.back()};
    p.copies.pop_back();
  }
  if (p.copies.empty())
    ctx.refuse(2, 0, "the body of " + p.loop.text() + " doesn't begin with a copy for what follows",
               {p.loop.stmt});
}

// The part of a base that moves with the loop.
Linear moving_part(const Linear& base, const Var& v) {
  Linear out;
  for (const Term& t : base.terms)
    if (uses_var(t.atom, v)) out.terms.push_back(t);
  return out;
}

// What one iteration writes in a dimension; nothing where that has no plain bounds.
std::optional<Moved> moved_by(const Place& q, const Expr& index, const std::optional<Bound>& bound,
                              const Var& loop) {
  if (!bound && !uses_var(index, loop)) return Moved{Expr(0)};
  if (!bound || !is_zero(bound->span)) return std::nullopt;
  const Linear moving = moving_part(bound->base, loop);
  if (moving.is_constant()) return Moved{Expr(0)};
  const Facts facts = facts_at(q);
  const Interval still = range_of(to_expr(add(bound->base, moving, -1)), facts);
  const Interval far = range_of(to_expr(moving), facts);
  if (far.lo < 0 || far.hi >= Interval::kMax || still.lo <= Interval::kMin || still.hi >= Interval::kMax)
    return std::nullopt;
  return Moved{to_expr(moving), far.hi, still.lo + bound->lo, still.hi + bound->hi};
}

void add_buffer(const StepContext& ctx, Pipeline& p, const Buffer& b, const std::vector<Place>& blocks) {
  Copied c;
  c.decl = decl_of(ctx.func(), b);
  bool first = true;
  for (const Place& q : blocks)
    for (const BlockAccess& a : accesses_at(q)) {
      if (!a.write || a.buffer != b) continue;
      std::vector<Stmt> standing;
      for (const Stmt& l : q.loops())
        if (q.depth_of(l) <= q.depth_of(p.loop.stmt)) standing.push_back(l);
      const auto region = region_of(q, a, standing);
      for (size_t d = 0; d < region.size(); ++d) {
        const auto moved = moved_by(q, a.indices[d], region[d], p.var());
        if (!moved || (!first && !same_expr(moved->offset, c.dims[d].offset)))
          ctx.refuse(5, 0,
                     "what " + q.name() + " copies into " + b->name + " in one iteration has no plain bounds",
                     {q.stmt});
        if (first) c.dims.push_back(*moved);
        c.dims[d].low = std::min(c.dims[d].low, moved->low);
        c.dims[d].high = std::max(c.dims[d].high, moved->high);
      }
      first = false;
    }
  for (size_t d = 0; d < c.dims.size(); ++d)
    if (!is_const_int(c.dims[d].offset, 0)) c.decl.shape[d] = c.dims[d].high - c.dims[d].low + 1;
  c.decl.shape.insert(c.decl.shape.begin(), Expr(p.stages));
  if (c.decl.layout) {
    const Var slot = make_var("slot");
    c.decl.layout->vars.insert(c.decl.layout->vars.begin(), slot);
    c.decl.layout->exprs.insert(c.decl.layout->exprs.begin(), Expr(slot));
  }
  for (StrideAlign& a : c.decl.align) ++a.dim;
  p.buffers.push_back(std::move(c));
}

bool reads_move(const Place& q, const Var& loop) {
  const auto accesses = accesses_at(q);
  return std::any_of(accesses.begin(), accesses.end(), [&](const BlockAccess& a) {
    return a.read &&
           std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) { return uses_var(e, loop); });
  });
}

void check(const StepContext& ctx, Pipeline& p) {
  const For& l = as_for(p.loop.stmt);
  p.extent = extent_of(p.loop.stmt);
  p.stages = ctx.int_option("stages").value_or(2);
  if (l.kind != ForKind::serial || p.extent < 0)
    ctx.refuse(1, 0, p.loop.text() + (p.extent < 0 ? " has no constant extent" : " isn't serial"),
               {p.loop.stmt});
  if (p.stages < 2 || p.stages > p.extent)
    ctx.refuse(1, 0, std::to_string(p.stages) + " stages for " + std::to_string(p.extent) + " iterations",
               {p.loop.stmt}, p.extent >= 2 ? "software_pipeline " + p.loop.text() + " stages=2" : "");
  for (const Place& q : places_in(p, ctx.func(), {p.loop.stmt}))
    for_each_stmt(q.block().body, [&](const Stmt& s) {
      if (s.as<Block>()) ctx.refuse(2, 0, "block " + q.name() + " has a block inside", {q.stmt});
    });
  read_body(ctx, p);
  const std::vector<Place> copying = places_in(p, ctx.func(), p.copies);
  for (const Place& q : copying)
    if (!reads_move(q, p.var()))
      ctx.refuse(5, 0, "each iteration of " + p.loop.text() + " copies the same by " + q.name(), {q.stmt},
                 "a copy of what stays belongs outside of the loop");
  std::vector<Buffer> into;
  for (const Place& q : copying)
    if (const Buffer b = inspect(q.block()).out; std::find(into.begin(), into.end(), b) == into.end())
      into.push_back(b);
  for (const Buffer& b : into)
    for (const Place& q : places(ctx.func().body))
      if (!q.under(p.loop.stmt) && (reads(q.block(), b) || writes(q.block(), b)))
        ctx.refuse(6, 0, "block " + q.name() + " uses " + b->name + " outside of " + p.loop.text(),
                   {q.stmt, p.loop.stmt});
  for (const Buffer& b : into)
    if (!written_before_read(ctx.func(), p.loop.stmt, b))
      ctx.forbid(3, 0, "not all that is read of " + b->name + " is seen to be copied in the same iteration",
                 {p.loop.stmt});
  for (const Place& q : copying)
    for (const Buffer& b : read_buffers(q.block()))
      for (const Place& w : places_in(p, ctx.func(), p.rest))
        if (writes(w.block(), b))
          ctx.forbid(4, 0, "block " + w.name() + " writes " + b->name + ", which " + q.name() + " copies",
                     {w.stmt, q.stmt});
  for (const Buffer& b : into) add_buffer(ctx, p, b, copying);
}

// Blocks go to the slot of the iteration `at`: a slot and an offset for each dimension that moves become
// iterators, since a block speaks of loops by these alone. They hang on the loop, so the block's iterators
// are no box any more: no later step can move it or give it other loops than those it has.
class IntoSlots : public Rewriter {
 public:
  IntoSlots(const Pipeline& p, Expr at, bool guarded) : p_(p), at_(std::move(at)), guarded_(guarded) {}

  Expr expr(const Expr& e) override {
    const Expr out = children(e);
    const auto* l = out.as<Load>();
    const Copied* c = l ? p_.find(l->buffer) : nullptr;
    return c ? make::load(l->buffer, in_slot(*c, l->indices), l->mask) : out;
  }
  Stmt stmt(const Stmt& s) override {
    if (s.as<Block>()) return in_block(*s.as<Block>());
    const Stmt out = children(s);
    const auto* st = out.as<Store>();
    const Copied* c = st ? p_.find(st->buffer) : nullptr;
    return c ? make::store(st->buffer, in_slot(*c, st->indices), st->value, st->mask) : out;
  }

 private:
  Stmt in_block(const Block& old) {
    added_.clear();
    taken_.clear();
    for (const IterVar& i : old.iters) taken_.insert(i.var->name);
    Block b = old;
    if (b.where) b.where = expr(b.where);
    if (b.init) b.init = stmt(b.init);
    b.body = stmt(b.body);
    b.iters.insert(b.iters.end(), added_.begin(), added_.end());
    if (guarded_)
      b.iters.push_back({fresh("t" + p_.var()->name), IterKind::spatial, Expr(p_.extent), p_.var()});
    for (IterVar& i : b.iters) i.binding = substitute(i.binding, VarMap{{p_.var(), at_}});
    return make::block(std::move(b));
  }
  std::vector<Expr> in_slot(const Copied& c, const std::vector<Expr>& indices) {
    std::vector<Expr> out{iterator("slot", p_.stages, Expr(p_.var()) % Expr(p_.stages))};
    for (size_t d = 0; d < indices.size(); ++d) {
      const Moved& m = c.dims[d];
      const bool stays = is_const_int(m.offset, 0);
      out.push_back(stays ? indices[d]
                          : indices[d] - iterator("at" + std::to_string(d), m.farthest + 1, m.offset) +
                                Expr(-m.low));
    }
    return out;
  }
  Expr iterator(const std::string& name, int64_t extent, const Expr& binding) {
    for (const IterVar& i : added_)
      if (same_expr(i.binding, binding)) return Expr(i.var);
    added_.push_back({fresh(name), IterKind::spatial, Expr(extent), binding});
    return Expr(added_.back().var);
  }
  Var fresh(const std::string& name) {
    const std::string unique = unique_name(name, taken_);
    taken_.insert(unique);
    return make_var(unique);
  }

  const Pipeline& p_;
  const Expr at_;
  const bool guarded_;
  std::vector<IterVar> added_;
  std::set<std::string> taken_;
};

Stmt seq_of(const std::vector<Stmt>& stmts) {
  return make::seq(stmts);
}

// Leaves the statements inside as they are.
PrimFunc without_allocation(PrimFunc f, const Buffer& b) {
  const auto at =
      std::find_if(f.allocs.begin(), f.allocs.end(), [&](const BufferDecl& d) { return d.buffer == b; });
  if (at != f.allocs.end()) {
    f.allocs.erase(at);
    return f;
  }
  Stmt old;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>(); a && a->decl.buffer == b) old = s;
  });
  return replace(f, old, old.as<Alloc>()->body);
}

PrimFunc run(StepContext& ctx) {
  Pipeline p;
  p.loop = ctx.loop(0);
  check(ctx, p);
  ctx.expect_results(places_in(p, ctx.func(), p.copies).size());

  const For& old = as_for(p.loop.stmt);
  std::set<std::string> taken = block_and_buffer_names(ctx.func());
  size_t result = 0;
  const auto name = [&](const std::string& of) { return ctx.new_name(result++, of + "_first", taken); };
  const Var first = make_var(old.var->name);
  const Stmt prologue =
      make::loop(first, p.stages - 1,
                 IntoSlots(p, Expr(first), false).stmt(renamed_copy(seq_of(p.copies), name, taken)));
  const auto ahead = [&](const std::vector<Stmt>& copies) {
    return IntoSlots(p, Expr(old.var) + Expr(p.stages - 1), true).stmt(seq_of(copies));
  };
  const Stmt rest = IntoSlots(p, Expr(old.var), false).stmt(seq_of(p.rest));
  std::vector<Stmt> body{ahead(p.copies), rest};
  if (ctx.option("through")) {
    for (const Place& q : places_in(p, ctx.func(), p.copies))
      for (const Buffer& b : read_buffers(q.block()))
        if (p.find(b))
          ctx.refuse(2, 0,
                     "block " + q.name() + " copies " + b->name +
                         ", itself a copy: all loads come before the first store",
                     {q.stmt}, "software_pipeline " + p.loop.text());
    const Halves halves = through_registers(p.copies, old, taken);
    p.inside.insert(p.inside.end(), halves.registers.begin(), halves.registers.end());
    body = {ahead(halves.loads), rest, ahead(halves.stores)};
  }
  Annotations annotations = old.annotations;
  annotations.emplace("tail", "peel");
  Stmt steady = make::seq(std::move(body)), out;
  for (size_t i = p.inside.size(); i-- > 0;)
    if (!p.find(p.inside[i].buffer)) steady = make::alloc(p.inside[i], steady);
  steady = make::loop(old.var, old.extent, steady, ForKind::serial, ThreadTag::none, annotations);
  out = simplify_bindings(make::seq({prologue, steady}), facts_at(p.loop.place));
  PrimFunc f = ctx.func();
  // No other statement touches the slots: iterations of a loop around have slots of their own.
  const std::vector<Stmt> around = p.loop.place.loops();
  const bool enclosed = !around.front().same_as(p.loop.stmt);
  for (size_t i = p.buffers.size(); i-- > 0;) {
    const Copied& c = p.buffers[i];
    const bool was_inside = std::any_of(p.inside.begin(), p.inside.end(),
                                        [&](const BufferDecl& d) { return d.buffer == c.decl.buffer; });
    if (enclosed && !was_inside) f = without_allocation(std::move(f), c.decl.buffer);
    if (enclosed || was_inside)
      out = make::alloc(c.decl, out);
    else
      f = with_decl(f, c.decl);
  }
  return replace(f, p.loop.stmt, out);
}

}  // namespace

Primitive software_pipeline_row() {
  return {"software_pipeline",
          "X0 ...",
          {{ArgKind::loop, "T.k"}},
          {{"stages", "INT", "number of iterations in flight; by default 2"},
           {"through", "registers", "copies are loaded before the iteration computes, and stored after it"}},
          "Makes the copies at the start of an iteration while earlier iterations compute. Bind the loops of "
          "the copies to threads before this step. Otherwise the first copies must be bound too, and a "
          "warning lists the steps.",
          {"the loop is serial and of constant extent; stages is at least 2 and at most the extent",
           "its body has several statements, and the first ones copy into temporaries",
           semantic("each iteration reads only what it copied itself"),
           semantic("no other block inside the loop writes what the copies read"),
           "the region that an iteration copies moves with the loop and has known bounds",
           "the buffers that are copied into are used inside the loop only"},
          {examples::kMatmul,
           "k0 k1 = split Y.k [_, 8]\nreorder Y (k0 i j k1)\nBs = cache_read Y B shared\n"
           "compute_at Bs Y.k0\nsoftware_pipeline Y.k0 stages=2"},
          run};
}

}  // namespace nestor::schedules

// reindex: copies a buffer in the order in which a block reads (or writes) it. The copy has one dimension per
// iterator in the index, so the block accesses it at plain iterators. X[n, c, y+r, x+s] becomes XR[n, y, x,
// c, r, s]: with cache_read and pack this is the im2col of a convolution.
//
// A padding is copied too: the copy has the largest expression `if (iterators) then X[...] else constant`
// around the read, so the block's read needs no condition. Where the iterators' box is outside of X
// (instances there don't run, or a `where` excludes them) the copy holds 0, which nobody reads.
#include <algorithm>

#include "schedules/definition.h"
#include "schedules/examples.h"

namespace nestor::schedules {

namespace {

// Of iterators and constants only.
bool is_pure(const Block& b, const Expr& e) {
  bool pure = true;
  for_each_expr(e, [&](const Expr& inner) {
    if (inner.as<Load>() || inner.as<Let>()) pure = false;
    if (const auto* r = inner.as<VarRef>())
      pure = pure &&
             std::any_of(b.iters.begin(), b.iters.end(), [&](const IterVar& i) { return i.var == r->var; });
  });
  return pure;
}

// Finds the reads of a buffer with the selects around them, and puts `with` in their place.
struct ReadFinder : Rewriter {
  const Block& block;
  Buffer buffer;
  Expr with;
  std::vector<Expr> found;
  ReadFinder(const Block& b, Buffer x) : block(b), buffer(std::move(x)) {}

  bool copies(const Expr& e) const {
    if (const auto* l = e.as<Load>()) return l->buffer == buffer;
    const auto* s = e.as<Select>();
    if (!s || !is_pure(block, s->cond)) return false;
    const auto constant = [](const Expr& x) { return x.as<FloatImm>() || x.as<IntImm>(); };
    return (copies(s->a) && (copies(s->b) || constant(s->b))) || (constant(s->a) && copies(s->b));
  }
  Expr expr(const Expr& e) override {
    if (!copies(e)) return children(e);
    found.push_back(e);
    return with ? with : e;
  }
};

// Reads only where the index is inside of the buffer, as far as the ranges and the selects around don't say
// so.
struct BoundReads : Rewriter {
  const BufferDecl& decl;
  Facts facts;
  explicit BoundReads(const BufferDecl& d) : decl(d) {}
  Expr expr(const Expr& e) override {
    if (const auto* s = e.as<Select>()) {
      const Facts outer = facts;
      facts.assume(s->cond);
      const Expr a = expr(s->a);
      facts = outer;
      facts.assume(logical_not(s->cond));
      const Expr b = expr(s->b);
      facts = outer;
      return make::select(s->cond, a, b);
    }
    const auto* l = e.as<Load>();
    if (!l) return children(e);
    Expr inside = make::bool_imm(true);
    for (size_t d = 0; d < l->indices.size(); ++d)
      for (const Expr& c : {le(0, l->indices[d]), lt(l->indices[d], decl.shape[d])})
        if (!can_prove(c, facts)) inside = logical_and(inside, c);
    return is_const_int(inside, 1) ? e : make::select(inside, e, make::imm(0, e.type()));
  }
};

struct Reindexing {
  Place place;
  Buffer buffer;
  Stmt root;
  bool written = false;
  Expr value;                  // what is copied, over the block's iterators; written: null
  std::vector<Expr> indices;   // written: where the block writes
  std::vector<IterVar> iters;  // that the place is made of, in the block's order
};

void find_read(const StepContext& ctx, Reindexing& r) {
  const Block& b = r.place.block();
  ReadFinder finder(b, r.buffer);
  if (b.where) finder.expr(b.where);
  if (!finder.found.empty()) ctx.refuse(2, 1, "its `where` reads " + r.buffer->name, {r.place.stmt});
  if (b.init) finder.stmt(b.init);
  finder.stmt(b.body);
  for (const Expr& e : finder.found)
    if (!same_expr(e, finder.found[0]))
      ctx.refuse(2, 1, r.place.name() + " reads " + r.buffer->name + " at several places", {r.place.stmt});
  r.value = finder.found[0];
  bool pure = true;
  for_each_expr(r.value, [&](const Expr& e) {
    if (const auto* l = e.as<Load>())
      for (const Expr& i : l->indices) pure = pure && is_pure(b, i);
  });
  if (!pure)
    ctx.refuse(2, 1, "an index of " + r.buffer->name + " is not of iterators alone", {r.place.stmt},
               "cache_read " + r.place.name() + " " + r.buffer->name + " global");
}

void check(const StepContext& ctx, Reindexing& r) {
  const Block& b = r.place.block();
  r.written = writes(b, r.buffer);
  if (!r.written && !reads(b, r.buffer))
    ctx.refuse(1, 1, r.place.name() + " doesn't access " + r.buffer->name, {r.place.stmt});
  for (size_t i = 0; i < r.place.path.size(); ++i)
    if (const auto* a = r.place.path[i].as<Alloc>();
        a && a->decl.buffer == r.buffer && r.place.depth_of(r.root) < i)
      ctx.refuse(5, 1, r.buffer->name + " is allocated inside of the loops", {r.place.path[i]});
  std::vector<Var> used;
  if (r.written) {
    const BlockInfo info = inspect(b);
    if (info.kind == BlockKind::other) ctx.refuse(1, 1, info.why, {r.place.stmt});
    for (const BlockAccess& a : accesses_of(b))
      if (a.buffer == r.buffer) r.indices = a.indices;
    for (const Expr& e : r.indices) {
      if (!is_pure(b, e))
        ctx.refuse(2, 1, "an index of " + r.buffer->name + " is not of iterators alone", {r.place.stmt});
      for (const Var& v : vars_of(e)) used.push_back(v);
    }
  } else {
    find_read(ctx, r);
    forbid_incomplete(ctx, 3, 1, r.place, r.buffer);
    used = vars_of(r.value);
  }
  for (const IterVar& i : b.iters)
    if (std::find(used.begin(), used.end(), i.var) != used.end()) r.iters.push_back(i);
  if (r.iters.empty())
    ctx.refuse(2, 1, r.buffer->name + "'s place is made of no iterator", {r.place.stmt},
               "cache_read " + r.place.name() + " " + r.buffer->name + " global");
}

// for the iterators' whole domains: block NAME { body }
Stmt copy_loops(const std::string& name, const Reindexing& r, const Expr& value, const Buffer& re) {
  Block c;
  c.id = make_block_id(name);
  VarMap map;
  std::vector<NewLoop> loops;
  std::vector<Expr> place;
  std::set<std::string> taken;
  for (const IterVar& i : r.iters) {
    taken.insert(i.var->name);
  }
  for (const IterVar& i : r.iters) {
    const Var loop = make_var(unique_name(loop_stem(i.var->name), taken)), v = make_var(i.var->name);
    taken.insert(loop->name);
    loops.push_back({loop, i.extent});
    c.iters.push_back({v, IterKind::spatial, i.extent, Expr(loop)});
    map[i.var] = Expr(v);
    place.emplace_back(v);
  }
  if (r.written) {
    std::vector<Expr> indices;
    for (const Expr& e : r.indices) indices.push_back(substitute(e, map));
    c.body = make::store(r.buffer, indices, make::load(re, place));
  } else {
    c.body = make::store(re, place, substitute(value, map));
  }
  return nest(loops, make::block(std::move(c)));
}

// The block itself, which touches `re` at plain iterators instead of the buffer.
Stmt changed_block(const Reindexing& r, const Buffer& re) {
  std::vector<Expr> place;
  for (const IterVar& i : r.iters) place.emplace_back(i.var);
  Block b = r.place.block();
  ReadFinder put(b, r.buffer);
  put.with = make::load(re, place);
  if (b.init) b.init = put.stmt(b.init);
  b.body = put.stmt(b.body);
  if (!r.written) return make::block(std::move(b));
  struct PutWrites : Rewriter {
    Buffer from, to;
    std::vector<Expr> place;
    Expr expr(const Expr& e) override { return e; }
    Stmt stmt(const Stmt& s) override {
      if (const auto* st = s.as<Store>(); st && st->buffer == from) return make::store(to, place, st->value);
      if (const auto* u = s.as<Update>(); u && u->buffer == from)
        return make::update(u->op, to, place, u->value);
      return children(s);
    }
  } writes_too;
  writes_too.from = r.buffer;
  writes_too.to = re;
  writes_too.place = place;
  if (b.init) b.init = writes_too.stmt(b.init);
  b.body = writes_too.stmt(b.body);
  return make::block(std::move(b));
}

PrimFunc run(StepContext& ctx) {
  Reindexing r;
  r.place = ctx.block(0);
  r.buffer = ctx.buffer(1);
  r.root = root_of(ctx.func(), r.place);
  check(ctx, r);
  ctx.expect_results(1);
  std::set<std::string> taken = block_and_buffer_names(ctx.func());
  const std::string name = ctx.new_name(0, r.buffer->name + (r.written ? "_copy" : "_re"), taken);
  BufferDecl decl = decl_of(ctx.func(), r.buffer), old = decl;
  decl.buffer = make_buffer(r.written ? unique_name(r.buffer->name + "_re", taken) : name, r.buffer->type);
  decl.scope = Scope::global;
  decl.layout.reset();
  decl.align.clear();
  decl.shape.clear();
  for (const IterVar& i : r.iters) decl.shape.push_back(i.extent);

  Expr value = r.value;
  if (!r.written) {
    BoundReads bound(old);
    for (const IterVar& i : r.iters)
      bound.facts.set(i.var, {0, as_int(i.extent).value_or(Interval::kMax) - 1});
    value = bound.expr(r.value);
  }
  const Stmt copy = copy_loops(name, r, value, decl.buffer);
  const Stmt changed = changed_block(r, decl.buffer), nest = replace(r.root, r.place.stmt, changed);
  PrimFunc f = replace(ctx.func(), r.root, r.written ? make::seq({nest, copy}) : make::seq({copy, nest}));
  f.allocs.push_back(decl);
  if (r.written) {
    for (const Place& q : places(ctx.func().body))
      if (q.under(r.root) && !q.stmt.same_as(r.place.stmt) &&
          (writes(q.block(), r.buffer) || reads(q.block(), r.buffer)))
        ctx.forbid(4, 1, "block " + q.name() + " accesses " + r.buffer->name, {q.stmt, r.place.stmt});
    for (const Place& q : places(f.body))
      if (q.stmt.same_as(changed) && !writes_whole(f, q, decl.buffer))
        ctx.forbid(4, 1, r.place.name() + " isn't seen to run for each of its elements", {r.place.stmt});
  }
  return f;
}

}  // namespace

Primitive reindex_row() {
  return {
      "reindex",
      "XR",
      {{ArgKind::block, "T"}, {ArgKind::buffer, "X"}},
      {},
      "Copies a buffer in the order of a block: the copy has one dimension for each iterator in the index.",
      {"the block reads the buffer and doesn't write it, or it writes nothing else",
       "it accesses the buffer at one place, by indices of iterators only, at least one",
       semantic("a buffer that is read is a parameter, or completely written before the block's loops"),
       semantic("a buffer that is written gets all its elements from this block, and no other block in its "
                "loops accesses it"),
       "the buffer isn't allocated inside of those loops"},
      {examples::kWindow, "PR = reindex Y P"},
      run};
}

}  // namespace nestor::schedules

// rfactor: factors a reduction over one of its loops (Suriana, Adams, Kamil, CGO 2017). A new block computes
// a partial result for each iteration of that loop, in a buffer with one more dimension. There the loop is
// spatial: it can become lanes, threads or GPU blocks. The old block reduces the partial results.
//
// The init runs when all R iterators are 0. So an iterator of which the loop is only one digit (vk = k0*4 +
// k1) can't stay as it is: partial result 1 would never run its init. It is divided into an iterator for the
// loop and those of the other loops, and its domain becomes the `where` of the new block. Partial results
// without iterations (k0 runs to 4, but 3 tiles are enough) are cut off the new dimension. A condition that
// may be false at the start of a partial result (a triangle's k <= i) selects the term or the identity.
#include <algorithm>
#include <ranges>

#include "nestor/print.h"
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/move.h"
#include "schedules/primitive.h"
#include "schedules/witness.h"

namespace nestor::schedules {

namespace {

struct Factoring {
  LoopRef loop;
  Stmt outermost;           // the first R loop
  std::vector<Stmt> group;  // R loops that iterators tie to the loop, itself included
  const Update* update = nullptr;
  int64_t cells = 0;  // partial results
};

// What is taken apart: R iterators and guards that the group's loops serve, and R iterators that are never 0
// (of a part that loop_partition cut off).
bool is_apart(const Factoring& f, const IterVar& i) {
  if (i.kind == IterKind::reduce && !begins_at_zero(f.loop.place, i)) return true;
  return std::any_of(f.group.begin(), f.group.end(),
                     [&](const Stmt& l) { return uses_var(i.binding, as_for(l).var); });
}

std::string legal_loops(const StepContext& ctx, const Place& p) {
  std::vector<std::string> lines;
  for (const Stmt& l : p.loops()) {
    const LoopUse use = own_use_of(p.block(), as_for(l).var);
    if (use.reduce && !use.spatial && as_for(l).kind == ForKind::serial)
      lines.push_back(ctx.instead(0, p.name() + "." + loop_name(l)));
  }
  return join(lines, "\n");
}

// The conjuncts of the block's `where` that are about R iterators, or those that aren't.
std::vector<Expr> conditions(const Block& b, bool about_reduction) {
  std::vector<Expr> out, open;
  if (b.where) open.push_back(b.where);
  while (!open.empty()) {
    const Expr e = open.back();
    open.pop_back();
    if (const auto* both = e.as<Binary>(); both && both->op == BinaryOp::logical_and) {
      open.push_back(both->b);
      open.push_back(both->a);
      continue;
    }
    const bool about = std::any_of(b.iters.begin(), b.iters.end(), [&](const IterVar& i) {
      return i.kind == IterKind::reduce && uses_var(e, i.var);
    });
    if (about == about_reduction) out.push_back(e);
  }
  return out;
}

void check_block(const StepContext& ctx, Factoring& f) {
  const Place& p = f.loop.place;
  const BlockInfo info = inspect(p.block());
  if (info.kind != BlockKind::reduction)
    ctx.refuse(1, 0, info.kind == BlockKind::map ? p.name() + " reduces nothing" : info.why, {p.stmt});
  f.update = p.block().body.as<Update>();
  if (!f.update) ctx.refuse(1, 0, p.name() + " does more than one update", {p.stmt});
  for (const IterVar& i : p.block().iters)
    for (const Expr& e : f.update->indices)
      if (i.kind == IterKind::reduce && uses_var(e, i.var))
        ctx.refuse(1, 0,
                   "the R iterator " + i.var->name + " chooses the element of " + f.update->buffer->name,
                   {p.stmt},
                   "only a function that has an S iterator for that coordinate, with a `where` for its "
                   "terms, can be "
                   "factored");
}

void check_loops(const StepContext& ctx, Factoring& f) {
  const Place& p = f.loop.place;
  const LoopUse named = own_use_of(p.block(), as_for(f.loop.stmt).var);
  if (!named.reduce || named.spatial)
    ctx.refuse(2, 0, f.loop.text() + " isn't a loop of R iterators only", {f.loop.stmt, p.stmt},
               legal_loops(ctx, p));
  if (as_for(f.loop.stmt).kind != ForKind::serial)
    ctx.refuse(2, 0, f.loop.text() + " isn't serial", {f.loop.stmt}, legal_loops(ctx, p));
  for (const Stmt& l : p.loops()) {
    const LoopUse use = own_use_of(p.block(), as_for(l).var);
    if (use.reduce && !f.outermost) f.outermost = l;
    if (use.spatial && use.reduce) ctx.refuse(2, 0, loop_name(l) + " serves S and R iterators", {l, p.stmt});
    if (use.reduce && extent_of(l) < 0)
      ctx.refuse(2, 0, "the extent of " + loop_name(l) + " isn't a constant", {l});
  }
  for (const IterVar& i : p.block().iters) {
    if (!is_guard(p.block(), i)) continue;
    LoopUse both;
    for (const Var& v : vars_of(i.binding)) {
      const LoopUse use = own_use_of(p.block(), v);
      both = {both.spatial || use.spatial, both.reduce || use.reduce};
    }
    if (both.spatial && both.reduce)
      ctx.refuse(2, 0, "the guard " + i.var->name + " is about S and R loops", {p.stmt});
  }
}

void find_group(Factoring& f) {
  const Place& p = f.loop.place;
  f.group = {f.loop.stmt};
  for (bool grown = true; grown;) {
    grown = false;
    for (const IterVar& i : p.block().iters) {
      if (!is_apart(f, i)) continue;
      for (const Stmt& l : p.loops())
        if (uses_var(i.binding, as_for(l).var) && !bound_to(p.block(), as_for(l).var) &&
            std::none_of(f.group.begin(), f.group.end(), [&](const Stmt& g) { return g.same_as(l); })) {
          f.group.push_back(l);
          grown = true;
        }
    }
  }
}

// What decides whether an instance runs, of the parts that are taken apart: bounds of iterators before the
// conditions of `where`, which may rely on them. Iterators are replaced by `values`.
std::vector<Expr> reduction_conditions(const Factoring& f, const VarMap& values) {
  const Block& b = f.loop.place.block();
  std::vector<Expr> out;
  for (const IterVar& i : b.iters) {
    if (!is_apart(f, i)) continue;
    out.push_back(le(0, values.at(i.var)));
    out.push_back(lt(values.at(i.var), i.extent));
  }
  for (const Expr& e : conditions(b, true)) out.push_back(substitute(e, values));
  return out;
}

// The ranges of loops with the R loops at 0, but for the one that is factored.
Facts at_beginning(const Factoring& f) {
  Facts facts = facts_at(f.loop.place);
  for (const Stmt& l : f.loop.place.loops())
    if (own_use_of(f.loop.place.block(), as_for(l).var).reduce) facts.set(as_for(l).var, {0, 0});
  return facts;
}

// Of each condition of reduction_conditions: it is seen to hold for all partial results where these begin.
std::vector<bool> hold_at_beginning(const Factoring& f) {
  std::vector<bool> out;
  Facts facts = at_beginning(f);
  for (const Expr& condition : reduction_conditions(f, bindings_of(f.loop.place.block()))) {
    bool holds = f.cells <= 4096;  // of more it takes long to ask
    for (int64_t v = 0; holds && v < f.cells; ++v) {
      facts.set(as_for(f.loop.stmt).var, {v, v});
      holds = can_prove(condition, facts);
    }
    out.push_back(holds);
  }
  return out;
}

// No instance runs where the loop stands at v or behind it.
bool is_empty_from(const Factoring& f, int64_t v) {
  Facts facts = facts_at(f.loop.place);
  facts.set(as_for(f.loop.stmt).var, {v, extent_of(f.loop.stmt) - 1});
  const auto all = reduction_conditions(f, bindings_of(f.loop.place.block()));
  return std::any_of(all.begin(), all.end(), [&](const Expr& c) { return can_prove(logical_not(c), facts); });
}

void count_cells(const StepContext& ctx, Factoring& f) {
  const Place& p = f.loop.place;
  const Block& b = p.block();
  for (const IterVar& i : b.iters)
    if (b.init && i.kind == IterKind::reduce && !begins_at_zero(p, i))
      ctx.forbid(3, 0, i.var->name + " doesn't begin at 0, where the init runs", {p.stmt});
  for (const IterVar& i : b.iters)
    if (is_apart(f, i) && !can_prove(lt(i.binding, i.extent), at_beginning(f)))
      ctx.forbid(3, 0, i.var->name + " isn't seen to run where the R loops are 0", {p.stmt});
  for (const Expr& condition : conditions(b, true))
    if (!can_prove(substitute(condition, bindings_of(b)), at_beginning(f)))
      ctx.forbid(3, 0, "`" + print(condition) + "` isn't seen to hold where the R loops are 0", {p.stmt});
  const int64_t extent = extent_of(f.loop.stmt);
  const auto runs = [&](int64_t v) { return !is_empty_from(f, v); };
  f.cells = *std::ranges::partition_point(std::views::iota(std::min<int64_t>(extent, 1), extent), runs);
}

void check_surroundings(const StepContext& ctx, const Factoring& f) {
  const Place& p = f.loop.place;
  const Buffer& out = f.update->buffer;
  for (size_t i = p.depth_of(f.outermost); i < p.path.size(); ++i) {
    const auto* a = p.path[i].as<Alloc>();
    const bool of_init = a && p.block().init && uses_buffer(p.block().init, a->decl.buffer);
    if (a && (a->decl.buffer == out || of_init))
      ctx.refuse(4, 0, a->decl.buffer->name + " is allocated inside of its reduction's loops",
                 {p.path[i], f.outermost});
    if (p.path[i].as<If>() || p.path[i].as<LetStmt>())
      ctx.refuse(4, 0, "there is a statement other than a loop in between", {p.path[i], p.stmt});
  }
  for (const Place& other : places(ctx.func().body))
    if (other.under(f.outermost) && !other.stmt.same_as(p.stmt))
      for (const BlockAccess& a : accesses_of(other.block()))
        if (a.buffer == out || (a.write && p.block().init && uses_buffer(p.block().init, a.buffer)))
          ctx.forbid(5, 0,
                     "block " + other.name() + " accesses " + a.buffer->name + " inside of the reduction",
                     {other.stmt, p.stmt});
  std::vector<Stmt> below;
  for (const Stmt& l : p.loops())
    if (p.depth_of(l) >= p.depth_of(f.outermost)) below.push_back(l);
  if (!distinct_instances(p, below))
    ctx.forbid(5, 0, "an instance of " + p.name() + " may run twice" + repetition_of(p, below), {p.stmt});
}

// The new block: the loop's iterator is spatial, those of the group's other loops are R.
Stmt partial_block(const Factoring& f, const BufferDecl& rf, const std::string& name, size_t axis,
                   std::set<std::string> taken) {
  const Block& old = f.loop.place.block();
  Block b;
  b.id = make_block_id(name, old.id);
  b.annotations = old.annotations;
  VarMap of_loop, of_iter;  // loops of the group by their iterators; the old iterators by both
  Facts facts;
  const auto add = [&](const Stmt& l, IterKind kind, int64_t extent) {
    std::string stem = "v" + loop_name(l);
    for (const IterVar& i : old.iters)  // an iterator that is the loop itself keeps its name
      if (i.kind == IterKind::reduce && i.binding.as<VarRef>() &&
          i.binding.as<VarRef>()->var == as_for(l).var)
        stem = i.var->name;
    const bool kept = std::any_of(old.iters.begin(), old.iters.end(),
                                  [&](const IterVar& i) { return i.var->name == stem; });
    if (!kept) stem = unique_name(stem, taken);
    taken.insert(stem);
    const Var v = make_var(stem);
    facts.set(v, {0, extent - 1});
    of_loop[as_for(l).var] = Expr(v);
    b.iters.push_back({v, kind, Expr(extent), Expr(as_for(l).var)});
  };
  for (const IterVar& i : old.iters) {
    if (is_apart(f, i)) continue;
    IterVar copy = i;
    copy.var = make_var(i.var->name);
    of_iter[i.var] = Expr(copy.var);
    b.iters.push_back(copy);
  }
  add(f.loop.stmt, IterKind::spatial, f.cells);
  const Var cell = b.iters.back().var;
  for (const Stmt& l : f.loop.place.loops())
    if (!l.same_as(f.loop.stmt) &&
        std::any_of(f.group.begin(), f.group.end(), [&](const Stmt& g) { return g.same_as(l); }))
      add(l, IterKind::reduce, extent_of(l));
  std::stable_sort(b.iters.begin(), b.iters.end(),
                   [](const IterVar& x, const IterVar& y) { return x.kind < y.kind; });
  for (const Stmt& l : f.loop.place.loops())
    if (const IterVar* i = bound_to(old, as_for(l).var)) {
      of_loop[as_for(l).var] = of_iter.at(i->var);
      facts.set(of_iter.at(i->var).as<VarRef>()->var, range_of_loop(l));
    }
  for (const IterVar& i : old.iters)
    if (is_apart(f, i)) of_iter[i.var] = simplify(substitute(i.binding, of_loop), facts);
  Expr fills;  // where it fails the term is the identity
  const auto add_to = [&](Expr& all, const Expr& condition) {
    const Expr c = simplify(condition, facts);
    if (!is_const_int(c, 1)) all = all ? logical_and(all, c) : c;
  };
  for (const Expr& e : conditions(old, false)) add_to(b.where, substitute(e, of_iter));
  const std::vector<bool> hold = hold_at_beginning(f);
  const std::vector<Expr> about_reduction = reduction_conditions(f, of_iter);
  for (size_t i = 0; i < hold.size(); ++i) {
    const bool relies = fills && has_load(about_reduction[i]);  // on what is asked with the term
    add_to(hold[i] && !relies ? b.where : fills, about_reduction[i]);
  }
  std::vector<Expr> place;
  for (const Expr& e : f.update->indices) place.push_back(substitute(e, of_iter));
  place.insert(place.begin() + static_cast<std::ptrdiff_t>(axis), Expr(cell));
  const Expr identity = identity_of(f.update->op, rf.buffer->type);
  b.init = make::store(rf.buffer, place, identity);
  Expr value = substitute(f.update->value, of_iter);
  if (fills) value = make::select(fills, value, identity);
  b.body = make::update(f.update->op, rf.buffer, place, value);
  return make::block(std::move(b));
}

// The old block with the loop as its only R iterator, under fresh loops: those below the outermost R loop
// that are the loop itself or serve S iterators.
Stmt final_nest(const Factoring& f, const BufferDecl& rf, size_t axis) {
  const Place& p = f.loop.place;
  Block b = p.block();
  b.iters.clear();
  VarMap fresh;
  std::vector<std::pair<Stmt, Var>> loops;
  for (const Stmt& l : p.loops()) {
    if (p.depth_of(l) < p.depth_of(f.outermost)) continue;
    if (!l.same_as(f.loop.stmt) && !own_use_of(p.block(), as_for(l).var).spatial) {
      fresh[as_for(l).var] = Expr(0);
      continue;
    }
    loops.emplace_back(l, make_var(loop_name(l)));
    fresh[as_for(l).var] = Expr(loops.back().second);
  }
  std::set<std::string> taken;
  for (const Stmt& l : p.loops()) taken.insert(loop_name(l));
  for (const IterVar& i : p.block().iters) {
    if (i.kind == IterKind::reduce) continue;
    IterVar copy = i;
    copy.binding = simplify(substitute(i.binding, fresh));
    taken.insert(i.var->name);
    if (is_guard(p.block(), i) && as_int(copy.binding) && as_int(i.extent) && 0 <= *as_int(copy.binding) &&
        *as_int(copy.binding) < *as_int(i.extent))
      continue;  // a tail of R loops
    if (is_guard(p.block(), i) && is_apart(f, i)) continue;
    b.iters.push_back(copy);
  }
  const Var cell = make_var(unique_name("v" + loop_name(f.loop.stmt), taken));
  b.iters.push_back({cell, IterKind::reduce, Expr(f.cells), fresh.at(as_for(f.loop.stmt).var)});
  b.where = Expr();
  for (const Expr& e : conditions(p.block(), false)) b.where = b.where ? logical_and(b.where, e) : e;
  std::vector<Expr> place = f.update->indices;
  place.insert(place.begin() + static_cast<std::ptrdiff_t>(axis), Expr(cell));
  b.body = make::update(f.update->op, f.update->buffer, f.update->indices, make::load(rf.buffer, place));
  Stmt out = make::block(std::move(b));
  for (size_t i = loops.size(); i-- > 0;) {
    const auto& [old, v] = loops[i];
    const Expr extent = old.same_as(f.loop.stmt) ? Expr(f.cells) : substitute(as_for(old).extent, fresh);
    out = with_extent(old, v, extent, out);
  }
  return out;
}

PrimFunc run(StepContext& ctx) {
  Factoring f;
  f.loop = ctx.loop(0);
  check_block(ctx, f);
  check_loops(ctx, f);
  find_group(f);
  count_cells(ctx, f);
  check_surroundings(ctx, f);
  ctx.expect_results(1);

  const Place& p = f.loop.place;
  std::set<std::string> names = block_and_buffer_names(ctx.func());
  const std::string name = ctx.new_name(0, p.name() + "_rf", names);
  BufferDecl rf = decl_of(ctx.func(), f.update->buffer);
  const int64_t dims = static_cast<int64_t>(rf.shape.size());
  const int64_t axis = ctx.int_option("axis").value_or(dims);
  if (axis < 0 || axis > dims)
    ctx.refuse_common('A', loc_of_option(ctx.step(), "axis"),
                      f.update->buffer->name + " has " + std::to_string(dims) + " dimensions",
                      "axis=0 to axis=" + std::to_string(dims));
  rf.buffer = make_buffer(name, f.update->buffer->type);
  rf.layout.reset();
  rf.align.clear();
  rf.shape.insert(rf.shape.begin() + static_cast<std::ptrdiff_t>(axis), Expr(f.cells));

  std::set<std::string> taken = names_around(ctx.func(), p.stmt);
  for (const Stmt& l : p.loops()) taken.insert(loop_name(l));
  const Stmt partial = partial_block(f, rf, name, static_cast<size_t>(axis), std::move(taken));
  const Stmt main = replace(f.outermost, p.stmt, partial);
  const Stmt rest = final_nest(f, rf, static_cast<size_t>(axis));
  const PrimFunc out = replace(ctx.func(), f.outermost, make::seq({main, rest}));
  return declare_beside(out, f.update->buffer, rf);
}

}  // namespace

Primitive rfactor_row() {
  return {
      "rfactor",
      "T_rf",
      {{ArgKind::loop, "T.k"}},
      {{"axis", "INT", "position of the new dimension of the partial results; by default the last"}},
      "Factors a reduction over a loop: a new block computes a partial result for each iteration, and the "
      "old block reduces these.",
      {"the block is a reduction with one update, and its element doesn't depend on R iterators",
       "the loop is serial and used by R iterators only; the block's R loops have constant extents and "
       "aren't used by S iterators",
       semantic("when the R loops are at 0, all R iterators are 0 (if there is an init) and `where` holds"),
       "between the outermost R loop and the block there are only loops and sequences",
       semantic("no other block in there accesses the buffer or writes what the init reads, and no iteration "
                "of the block runs twice")},
      {examples::kSums, "k0 k1 = split Y.k [_, 16]\nY_rf = rfactor Y.k1"},
      run};
}

}  // namespace nestor::schedules

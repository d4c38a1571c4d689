// decompose_reduction: a reduction's init becomes a block of its own, directly before a loop.
//
// The new block has the reduction's S iterators and runs for the S loops below that loop, in their order and
// with their kinds (vectorized stays vectorized), so that a register tile is cleared as it is used.
#include <algorithm>

#include "nestor/print.h"
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/independence.h"
#include "schedules/primitive.h"
#include "schedules/witness.h"

namespace nestor::schedules {

namespace {

// A hint with the outermost loop that is legal.
std::string legal_loop(const StepContext& ctx, const Place& p) {
  for (const Stmt& l : p.loops())
    if (own_use_of(p.block(), as_for(l).var).reduce) {
      Step s = ctx.step();
      s.args[0] = p.name() + "." + loop_name(l);
      return print(s);
    }
  return "";
}

std::vector<Buffer> read_by_init(const Block& b) {
  std::vector<Buffer> out;
  for_each_expr(b.init, [&](const Expr& e) {
    if (const auto* load = e.as<Load>()) out.push_back(load->buffer);
  });
  return out;
}

// Whether it is an iteration, if there is one. An extent that is open may be 0, where the init is all there
// is.
bool is_within(const Expr& binding, const Expr& extent) {
  const auto at = as_int(binding), count = as_int(extent);
  return at && (count ? 0 <= *at && *at < *count : *at == 0);
}

// Whether an R iterator counts the same. It begins at 0, though perhaps not in the first iteration of its
// loops.
bool counts_a_reduction(const Block& b, const IterVar& guard) {
  return std::any_of(b.iters.begin(), b.iters.end(), [&](const IterVar& i) {
    return i.kind == IterKind::reduce && same_expr(i.binding, guard.binding);
  });
}

void check(const StepContext& ctx, const LoopRef& loop) {
  const Place& p = loop.place;
  const BlockInfo info = inspect(p.block());
  if (info.kind != BlockKind::reduction)
    ctx.refuse(1, 0, info.kind == BlockKind::map ? p.name() + " reduces nothing" : info.why, {p.stmt});
  if (!p.block().init) ctx.refuse(1, 0, p.name() + " has no init any more", {p.stmt});
  std::vector<Stmt> below;
  for (const Stmt& l : p.loops()) {
    const bool outside = p.depth_of(l) < loop.depth;
    const LoopUse use = outside ? own_use_of(p.block(), as_for(l).var) : use_of(p.block(), as_for(l).var);
    if (outside && use.reduce)
      ctx.forbid(2, 0, loop_name(l) + " around it is a reduction loop", {l, loop.stmt}, legal_loop(ctx, p));
    if (outside) continue;
    if (use.spatial && use.reduce) ctx.forbid(3, 0, loop_name(l) + " serves S and R iterators", {l, p.stmt});
    below.push_back(l);
  }
  if (!distinct_instances(p, below))
    ctx.forbid(3, 0,
               "an instance of " + p.name() + " may run twice below " + loop.text() + repetition_of(p, below),
               {p.stmt});
  for (size_t i = loop.depth; i < p.path.size(); ++i) {
    const auto* a = p.path[i].as<Alloc>();
    if (a && (a->decl.buffer == info.out || uses_buffer(p.block().init, a->decl.buffer)))
      ctx.refuse(5, 0, a->decl.buffer->name + " is allocated inside of " + loop.text(), {p.path[i]});
    if (p.path[i].as<If>() || p.path[i].as<LetStmt>())
      ctx.refuse(5, 0, "there is a statement other than a loop in between", {p.path[i], p.stmt});
  }
  bool before = true;
  for (const Place& other : places(loop.stmt)) {
    if (other.stmt.same_as(p.stmt)) {
      before = false;
      continue;
    }
    const bool writes_out = writes(other.block(), info.out);
    if (before && (writes_out || reads(other.block(), info.out)))
      ctx.forbid(4, 0, "block " + other.name() + " accesses " + info.out->name + " before it",
                 {other.stmt, p.stmt});
    // Behind the block its own iteration is done with the init; a later one must not clear what this one
    // wrote.
    for (const Stmt& l : p.loops())
      if (!before && writes_out && p.depth_of(l) >= loop.depth && other.under(l))
        if (const auto c = find_backward(ctx.func(), l, {p.stmt}, {other.stmt}))
          ctx.forbid(4, 0, c->why, c->blocks);
    for (const Buffer& b : read_by_init(p.block()))
      if (writes(other.block(), b))
        ctx.forbid(4, 0, "block " + other.name() + " writes " + b->name + ", which the init reads",
                   {other.stmt, p.stmt});
  }
  for (const IterVar& i : p.block().iters) {
    const bool begins = i.kind == IterKind::reduce ? begins_at_zero(p, i)
                                                   : !is_guard(p.block(), i) || !begins_below_zero(p, i) ||
                                                         counts_a_reduction(p.block(), i);
    if (!begins) ctx.forbid(6, 0, i.var->name + " = " + print(i.binding) + " doesn't start at 0", {p.stmt});
  }
}

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  check(ctx, loop);
  const Place& p = loop.place;
  ctx.expect_results(1);
  std::set<std::string> taken = block_and_buffer_names(ctx.func());
  const std::string name = ctx.new_name(0, p.name() + "_init", taken);

  // S loops below, with fresh variables; R loops stand at 0.
  VarMap map;
  std::vector<Stmt> copied;
  std::vector<Var> vars;
  for (const Stmt& l : p.loops()) {
    if (p.depth_of(l) < loop.depth) continue;
    if (own_use_of(p.block(), as_for(l).var).reduce) {
      map[as_for(l).var] = Expr(0);
    } else if (use_of(p.block(), as_for(l).var).spatial) {
      copied.push_back(l);
      vars.push_back(make_var(loop_name(l)));
      map[as_for(l).var] = Expr(vars.back());
    } else {
      map[as_for(l).var] = Expr(0);
    }
  }
  const Block& old = p.block();
  Block init;
  init.id = make_block_id(name, old.id);
  VarMap iterators;
  for (const IterVar& i : old.iters) {
    if (i.kind == IterKind::reduce) {
      iterators[i.var] = Expr(0);
      continue;
    }
    IterVar copy = i;
    copy.var = make_var(i.var->name);
    copy.binding = simplify(substitute(i.binding, map));
    const Expr begin = counts_a_reduction(old, i) ? Expr(0) : copy.binding;
    if (is_guard(old, i) && is_within(begin, i.extent)) continue;  // a tail of R loops only
    copy.extent = i.extent;
    iterators[i.var] = Expr(copy.var);
    init.iters.push_back(copy);
  }
  init.body = substitute(old.init, iterators);
  if (old.where) {  // but where it only leaves out steps behind the first
    Facts domains;
    for (const IterVar& i : init.iters)
      if (const auto extent = as_int(i.extent)) domains.set(i.var, {0, *extent - 1});
    const Expr where = substitute(old.where, iterators);
    if (!can_prove(where, domains)) init.where = where;
  }
  init.annotations = old.annotations;

  Stmt init_nest = make::block(std::move(init));
  for (size_t i = copied.size(); i-- > 0;)
    init_nest = with_extent(copied[i], vars[i], substitute(as_for(copied[i]).extent, map), init_nest);
  init_nest = simplify_bindings(init_nest, facts_at(p));
  Block rest = old;
  rest.init = Stmt();
  const Stmt main = replace(loop.stmt, p.stmt, make::block(std::move(rest)));
  return replace(ctx.func(), loop.stmt, make::seq({init_nest, main}));
}

}  // namespace

Primitive decompose_reduction_row() {
  return {"decompose_reduction",
          "T0",
          {{ArgKind::loop, "T.k"}},
          {},
          "Makes the init of a reduction a block of its own, directly before a loop.",
          {"the block is a reduction with an init",
           semantic("no loop around the named one is a reduction loop of the block"),
           semantic("in that loop and inside of it, no iteration of the block runs twice and no loop is used "
                    "by both S and R iterators"),
           semantic("no other block inside the loop accesses the buffer before the block, writes elements of "
                    "later iterations after it, or writes what the init reads"),
           "the buffer and what the init reads are declared outside of the loop; between the loop and the "
           "block there are only loops, sequences and allocations",
           semantic("when its R loops are at 0, all its R iterators are 0")},
          {examples::kSums, "Y0 = decompose_reduction Y.k"},
          run};
}

}  // namespace nestor::schedules

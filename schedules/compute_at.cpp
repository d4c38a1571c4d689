// compute_at: moves a producer under a loop of its consumers, where it computes what the consumers read in
// that iteration.
//
// The new loops cover the bounds of all reads under the loop, one loop per S iterator. A dimension is
// computed whole if its bounds aren't a sum of outer loops and a constant range (a gather, a fused loop that
// was split unevenly). Bounds may exceed the buffer (a padded read that a select guards): instances run only
// inside the iterators' domains. What two iterations both read is computed twice, so only a map or a whole
// reduction can move.
//
// With tail=guard the producer doesn't run where a guard keeps its consumers from running. That includes
// guards that depend on loops inside the new place, if all reads go in step with these loops: the last tile
// of a loop that was split before.
#include <algorithm>

#include "schedules/definition.h"
#include "schedules/examples.h"
#include "schedules/independence.h"
#include "schedules/move.h"
#include "schedules/region.h"

namespace nestor::schedules {

namespace {

// The loops that hold all consumers, as steps to paste.
std::string legal_loops(const StepContext& ctx, const Place& p, const std::vector<Place>& consumers) {
  if (consumers.empty()) return "";
  std::vector<std::string> names;
  for (const Stmt& l : consumers[0].loops()) {
    const bool all =
        std::all_of(consumers.begin(), consumers.end(), [&](const Place& c) { return c.under(l); });
    if (all && !p.under(l) && as_for(l).kind != ForKind::vectorized)
      names.push_back(ctx.step().primitive + " " + p.name() + " " + consumers[0].name() + "." + loop_name(l));
  }
  return join(names, "\n");
}

// What stands between the block and the loop and reads what the block makes, at any remove: it has to come
// under the loop first, the last one first. As steps to paste.
std::string readers_first(const StepContext& ctx, const Place& p, const LoopRef& loop) {
  std::set<std::string> known{inspect(p.block()).out->name};
  std::vector<std::string> steps;
  for (const Place& q : places(ctx.func().body)) {
    if (q.under(loop.stmt)) break;
    const std::vector<Buffer> read = read_buffers(q.block());
    if (q.stmt.same_as(p.stmt) ||
        std::none_of(read.begin(), read.end(), [&](const Buffer& b) { return known.count(b->name) > 0; }))
      continue;
    if (const Buffer out = inspect(q.block()).out) known.insert(out->name);
    steps.insert(steps.begin(), ctx.step().primitive + " " + q.name() + " " + loop.text());
  }
  return join(steps, "\n");
}

// The iterator of each dimension of the written buffer; refuses where an index is something else.
std::vector<int> iterators_of_dims(const StepContext& ctx, const Place& p) {
  std::vector<int> out;
  for (const BlockAccess& a : accesses_of(p.block())) {
    if (!a.write) continue;
    for (const Expr& e : a.indices) {
      int found = -1;
      for (size_t k = 0; k < p.block().iters.size(); ++k)
        if (e.as<VarRef>() && e.as<VarRef>()->var == p.block().iters[k].var) found = static_cast<int>(k);
      if (found >= 0 && std::find(out.begin(), out.end(), found) != out.end()) found = -2;
      if (found < 0 && !(found == -1 && as_int(e)))
        ctx.refuse(3, 0, p.name() + " writes " + a.buffer->name + " at something other than its iterators",
                   {p.stmt});
      out.push_back(found);
    }
    break;
  }
  return out;
}

struct Move {
  Place block;
  LoopRef loop;
  BlockInfo info;
  std::vector<Place> consumers;
};

void check(const StepContext& ctx, const Move& m) {
  const Place& p = m.block;
  if (m.info.kind == BlockKind::other) ctx.forbid(1, 0, m.info.why, {p.stmt});
  if (!m.info.out) ctx.refuse(1, 0, m.info.why, {p.stmt});
  if (m.info.kind == BlockKind::reduction && !p.block().init)
    ctx.forbid(1, 0, p.name() + " is a reduction without its init", {p.stmt},
               "a reduction moves together with its init, before a decompose_reduction");
  for (const IterVar& i : p.block().iters) {
    if (i.kind == IterKind::reduce && !covers_domain(p, i))
      ctx.forbid(1, 0, p.name() + " reduces over a part of " + i.var->name + "'s range only", {p.stmt});
  }
  if (const Param* param = find_param(ctx.func(), m.info.out))
    ctx.forbid(2, 0, m.info.out->name + " is an `" + name_of(param->role) + "` parameter", {p.stmt},
               "a consumer is moved by reverse_compute_at");
  if (writers(ctx.func(), m.info.out).size() > 1)
    ctx.forbid(2, 0, "other blocks write " + m.info.out->name + " too", {p.stmt});
  const std::vector<Place> all = places(ctx.func().body);
  const size_t mine = order_of(all, p.stmt);
  if (p.under(m.loop.stmt))
    ctx.refuse(5, 1, p.name() + " is under " + m.loop.text() + " already", {m.loop.stmt, p.stmt});
  for (const Place& q : all)
    if (q.under(m.loop.stmt) && order_of(all, q.stmt) < mine)
      ctx.refuse(5, 1, p.name() + " is after " + m.loop.text(), {m.loop.stmt, p.stmt},
                 legal_loops(ctx, p, m.consumers));
  if (m.consumers.empty()) ctx.refuse(5, 1, "nothing reads " + m.info.out->name, {p.stmt});
  const std::string hint = legal_loops(ctx, p, m.consumers);
  const auto under = [&](const Place& c) { return c.under(m.loop.stmt); };
  if (std::none_of(m.consumers.begin(), m.consumers.end(), under))
    ctx.refuse(5, 1,
               "no block under " + m.loop.text() + " reads " + m.info.out->name + ", but " +
                   m.consumers[0].name() + " does, which would have to come there first",
               {m.loop.stmt, m.consumers[0].stmt}, readers_first(ctx, p, m.loop) + "\n" + hint);
  for (const Place& c : m.consumers)
    if (!under(c))
      ctx.forbid(4, 1,
                 "block " + c.name() + " reads " + m.info.out->name + " and is not under " + m.loop.text(),
                 {c.stmt, m.loop.stmt},
                 readers_first(ctx, p, m.loop) + "\n" + (hint.empty() ? "compute_inline " + p.name() : hint));
  for (const Buffer& b : read_buffers(p.block()))
    for (const Place& w : writers(ctx.func(), b))
      if (!w.stmt.same_as(p.stmt) && order_of(all, w.stmt) > mine)
        ctx.forbid(6, 0,
                   "block " + w.name() + " writes " + b->name + ", which " + p.name() + " reads, after it",
                   {p.stmt, w.stmt});
  Place to = m.loop.place;  // the loop and what is around it
  to.path.resize(m.loop.depth + 1);
  if (const auto c = find_overwriting(ctx.func(), p, {to})) ctx.forbid(6, 0, c->why, c->blocks);
  check_visible(ctx, 8, p, m.loop);
  for (size_t i = 0; i <= m.loop.depth; ++i)
    if (const auto* l = m.loop.place.path[i].as<For>(); l && l->kind == ForKind::vectorized)
      ctx.refuse(7, 1, l->var->name + " is vectorized", {m.loop.place.path[i]});
}

// Bounds of all reads under the loop, per dimension; none where they are unknown or don't unite.
std::vector<std::optional<Bound>> bounds_read(const Move& m) {
  std::vector<std::optional<Bound>> out;
  bool first = true;
  for (const Place& c : m.consumers) {
    if (!c.under(m.loop.stmt)) continue;
    std::vector<Stmt> standing;
    for (const Stmt& l : c.loops())
      if (c.depth_of(l) <= c.depth_of(m.loop.stmt)) standing.push_back(l);
    for (const BlockAccess& a : accesses_at(c)) {
      if (!a.read || a.buffer != m.info.out) continue;
      const auto region = guarded_region_of(c, a, standing);
      if (first) out = region;
      for (size_t d = 0; d < region.size() && !first; ++d)
        out[d] = out[d] && region[d] ? unite(*out[d], *region[d]) : std::nullopt;
      first = false;
    }
  }
  return out;
}

// Whether it comes to run instances that it didn't, while the loops that both places are under stand still:
// consumers' loops may overhang what they use.
bool grows(const Move& m, const std::vector<IterSpan>& spans, const std::vector<IterVar>& guards) {
  const std::unordered_set<Var> sizes = sizes_at(m.block);
  std::unordered_set<Var> shared = sizes;
  std::unordered_map<Var, Interval> before, there;
  VarMap open;
  for (const Stmt& l : m.block.loops())
    if (m.loop.place.under(l) && extent_of(l) != 1)
      shared.insert(as_for(l).var);
    else
      before[as_for(l).var] = range_of_loop(l);
  for (const Stmt& l : m.loop.place.loops())
    if (!shared.count(as_for(l).var)) there[as_for(l).var] = range_of_loop(l);
  for (const std::vector<Stmt>& loops : {m.block.loops(), m.loop.place.loops()})
    for (const Stmt& l : loops)
      if (is_open(l, sizes)) open[as_for(l).var] = as_for(l).extent;
  for (const IterVar& g : guards)
    if (const auto* v = g.binding.as<VarRef>(); v && as_int(g.extent) && there.count(v->var))
      there[v->var].hi = std::min(there[v->var].hi, *as_int(g.extent) - 1);
  const std::vector<IterVar>& iters = m.block.block().iters;
  for (size_t k = 0; k < iters.size(); ++k) {
    if (is_guard(m.block.block(), iters[k])) continue;
    const auto old = bound_of(iters[k].binding, before, shared, open),
               base = bound_of(spans[k].base, there, shared, open);
    if (!old || !base) return true;
    const Linear distance = add(base->base, old->base, -1);
    if (!distance.is_constant()) return true;
    int64_t lo = base->lo + distance.constant;
    const Linear last = add(add(base->last(), distance), add(linear_of(spans[k].extent), number(-1)));
    bool within = surely_le(last, old->last());
    if (old->base.is_constant()) {  // instances run inside of the domain only
      lo = std::max(lo, -old->base.constant);
      within =
          within || surely_le(add(linear_of(iters[k].extent), number(-1 - old->base.constant)), old->last());
    }
    if (lo < old->lo || !within) return true;
  }
  return false;
}

// The iterators of the producer that run in step with loops of the consumer, inside of the new place, as one
// read says: by loop.
VarMap in_step(const Move& m, const Place& consumer, const BlockAccess& read, const std::vector<int>& dims,
               const std::vector<IterSpan>& spans) {
  VarMap out;
  std::unordered_set<Var> inside;
  for (const Stmt& l : consumer.loops())
    if (consumer.depth_of(l) > consumer.depth_of(m.loop.stmt)) inside.insert(as_for(l).var);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] < 0) continue;
    const auto k = static_cast<size_t>(dims[d]);
    const Linear step = add(linear_of(read.indices[d]), linear_of(spans[k].base), -1);
    if (step.terms.size() == 1 && step.terms[0].coefficient == 1 && step.constant == 0)
      if (const auto* v = step.terms[0].atom.as<VarRef>(); v && inside.count(v->var))
        out[v->var] = Expr(m.block.block().iters[k].var);
  }
  return out;
}

// Where none of the consumers runs, what the producer reads need not be there: the guards of all of them that
// only standing loops decide, and with `inner` those that loops decide in step with the producer's.
std::vector<IterVar> guards_of(const Move& m, const std::vector<int>& dims,
                               const std::vector<IterSpan>& spans, bool inner) {
  std::vector<std::vector<IterVar>> all;
  for (const Place& c : m.consumers) {
    if (!c.under(m.loop.stmt)) continue;
    for (const BlockAccess& a : accesses_at(c))
      if (a.read && a.buffer == m.info.out)
        all.push_back(standing_guards(c, m.loop.stmt, inner ? in_step(m, c, a, dims, spans) : VarMap()));
  }
  if (all.empty()) return {};
  std::vector<IterVar> out = all.front();
  std::erase_if(out, [&](const IterVar& o) {
    return !std::all_of(all.begin(), all.end(), [&](const std::vector<IterVar>& guards) {
      return std::any_of(guards.begin(), guards.end(), [&](const IterVar& g) {
        return same_expr(o.binding, g.binding) && same_expr(o.extent, g.extent);
      });
    });
  });
  return out;
}

// What more instances would read must be there: made as a whole, and not by iterations of a loop around them.
void forbid_unmade(const StepContext& ctx, const Move& m) {
  const auto whole = [&](const Place& w, const Buffer& b) {
    const std::vector<Stmt> loops = w.loops();
    return writes_whole(ctx.func(), w, b) && std::none_of(loops.begin(), loops.end(), [&](const Stmt& l) {
             return m.loop.place.under(l) && extent_of(l) != 1;
           });
  };
  for (const Buffer& b : read_buffers(m.block.block())) {
    const std::vector<Place> made = writers(ctx.func(), b);
    if (made.empty() || b == m.info.out ||
        std::any_of(made.begin(), made.end(), [&](const Place& w) { return whole(w, b); }))
      continue;
    ctx.forbid(6, 1,
               "there it would run more instances, and no block is seen to write the whole of " + b->name +
                   " before",
               {m.block.stmt, m.loop.stmt});
  }
}

PrimFunc run(StepContext& ctx) {
  if (const auto moved = moved_as_decided(ctx)) return *moved;
  Move m;
  m.block = ctx.block(0);
  m.loop = ctx.loop(1);
  m.info = inspect(m.block.block());
  if (m.info.out) m.consumers = readers(ctx.func(), m.info.out);
  // A reduction reads its own element.
  std::erase_if(m.consumers, [&](const Place& c) { return c.stmt.same_as(m.block.stmt); });
  check(ctx, m);
  const std::vector<int> dims = iterators_of_dims(ctx, m.block);
  ctx.expect_results(count_spatial(m.block.block()));

  std::vector<IterSpan> spans;
  for (const IterVar& i : m.block.block().iters) spans.push_back(whole(i));
  const auto bounds = bounds_read(m);
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] >= 0 && bounds[d])
      spans[static_cast<size_t>(dims[d])] =
          span_of(*bounds[d], m.block.block().iters[static_cast<size_t>(dims[d])]);
  const std::vector<IterVar> guards = guards_of(m, dims, spans, ctx.choice("tail") == "guard");
  if (grows(m, spans, guards)) forbid_unmade(ctx, m);
  const Stmt moved = rebuild(ctx, m.block, spans, m.loop.stmt, guards);

  std::vector<Stmt> consumers;
  for (const Place& c : m.consumers) consumers.push_back(c.stmt);
  const Stmt loop = with_body(m.loop.stmt, insert_before(as_for(m.loop.stmt).body, consumers, moved));
  const PrimFunc out = replace(ctx.func(), m.loop.stmt, simplify_bindings(loop, facts_at(m.loop.place)));
  return replace(out, m.block.stmt, Stmt());
}

}  // namespace

Primitive compute_at_row() {
  return {
      "compute_at",
      "n c h w ...",
      {{ArgKind::block, "P"}, {ArgKind::location, "T.i"}},
      {{"tail", "full|guard",
        "for a partial tile of the consumers: `full` computes a full tile, in full vectors and unrolled "
        "loops; `guard` checks where the consumers do"}},
      "Moves a producer into a loop of its consumers, where it computes what that iteration reads. Its loops "
      "there are new and serial.",
      {semantic("the block is a map, or a reduction with its init over the full range of its R iterators"),
       semantic("it is the only writer of its buffer, which is a temporary"),
       "its store is indexed by plain S iterators",
       semantic("every block that reads the buffer is inside the loop"),
       "the block is before the loop, and a block inside the loop reads its buffer",
       semantic("its inputs are complete at the new place"),
       "the loop isn't vectorized and isn't inside a vectorized loop",
       "its buffers are in scope at the loop"},
      {examples::kWindow, "x0 x1 = split Y.x [_, 14]\ni = compute_at P Y.x0"},
      run};
}

}  // namespace nestor::schedules

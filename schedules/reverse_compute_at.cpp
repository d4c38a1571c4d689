// reverse_compute_at: moves a consumer under a loop of its producers, where it consumes what that iteration
// has completed.
//
// Unlike compute_at this needs exact regions: an instance must run in the iteration that completes what it
// reads, not earlier. So each dimension of what the producers write under the loop must be a range without
// gaps, and the consumer must read it at plain iterators, whose new loops then run over that range. Its other
// iterators run over their whole domain.
#include <algorithm>

#include "schedules/definition.h"
#include "schedules/disjoint.h"
#include "schedules/examples.h"
#include "schedules/independence.h"
#include "schedules/move.h"
#include "schedules/region.h"

namespace nestor::schedules {

namespace {

struct Move {
  Place block;
  LoopRef loop;
  BlockInfo info;
  std::vector<Place> all, producers;
};

bool is_producer(const Move& m, const Buffer& b) {
  return std::any_of(m.producers.begin(), m.producers.end(),
                     [&](const Place& p) { return writes(p.block(), b); });
}

// The loops of a producer that are legal as far as its R iterators go, as steps to paste.
void add_legal_loops(const Move& m, const Place& producer, std::vector<std::string>& lines) {
  for (const Stmt& l : producer.loops()) {
    if (own_use_of(producer.block(), as_for(l).var).reduce) return;
    if (!m.block.under(l))
      lines.push_back("reverse_compute_at " + m.block.name() + " " + producer.name() + "." + loop_name(l));
  }
}

std::string legal_loops(const Move& m) {
  std::vector<std::string> lines;
  if (!m.producers.empty()) {
    add_legal_loops(m, m.producers.back(), lines);
    return join(lines, "\n");
  }
  for (const Buffer& b : read_buffers(m.block.block()))
    for (const Place& w : m.all)
      if (writes(w.block(), b) && !w.stmt.same_as(m.block.stmt)) add_legal_loops(m, w, lines);
  return join(lines, "\n");
}

bool never_meets(const Block& a, const Block& b, const Buffer& buffer) {
  const auto of_buffer = [&](const Buffer& other) { return other == buffer; };
  for (const BlockAccess& x : accesses_of(a, of_buffer))
    for (const BlockAccess& y : accesses_of(b, of_buffer))
      if (x.write && y.write && !never_meet(a, x, b, y)) return false;
  return true;
}

void check_between(const StepContext& ctx, const Move& m) {
  const size_t mine = order_of(m.all, m.block.stmt);
  bool reached = false;
  std::vector<Buffer> inputs = read_buffers(m.block.block());
  for (size_t i = 0; i < mine; ++i) {
    const Place& q = m.all[i];
    const bool inside = q.under(m.loop.stmt);
    reached = reached || inside;
    if (!reached) continue;
    if (writes(q.block(), m.info.out) || reads(q.block(), m.info.out))
      ctx.forbid(7, 0, "block " + q.name() + " accesses " + m.info.out->name, {q.stmt, m.block.stmt});
    for (const Buffer& b : inputs)
      if (!inside && writes(q.block(), b))
        ctx.forbid(7, 0, "block " + q.name() + " writes " + b->name + " between them",
                   {q.stmt, m.block.stmt});
  }
  if (const auto c = find_hurried(ctx.func(), m.block, m.loop.place)) ctx.forbid(7, 0, c->why, c->blocks);
  // In the loops around it an instance may come to run in another iteration than before, or in the midst of
  // what it ran behind.
  for (size_t i = 0; i < m.loop.depth; ++i) {
    const Stmt& l = m.loop.place.path[i];
    if (!l.as<For>() || extent_of(l) == 1) continue;
    for (const Buffer& b : inputs) {
      if (is_producer(m, b)) continue;
      for (const Place& q : m.all)
        if (q.under(l) && writes(q.block(), b))
          ctx.forbid(
              7, 0, "block " + q.name() + " makes " + b->name + " in the loop " + loop_name(l) + " around it",
              {q.stmt});
    }
  }
}

void check(const StepContext& ctx, const Move& m) {
  const Place& p = m.block;
  if (m.info.kind == BlockKind::other) ctx.forbid(1, 0, m.info.why, {p.stmt});
  if (!m.info.out) ctx.refuse(1, 0, m.info.why, {p.stmt});
  if (m.info.kind == BlockKind::reduction && !p.block().init)
    ctx.forbid(1, 0, p.name() + " is a reduction without its init", {p.stmt});
  for (const Place& w : writers(ctx.func(), m.info.out))
    if (!w.stmt.same_as(p.stmt) && !never_meets(p.block(), w.block(), m.info.out))
      ctx.forbid(1, 0, "other blocks write " + m.info.out->name + " too", {p.stmt});
  if (p.under(m.loop.stmt))
    ctx.refuse(10, 1, p.name() + " is under " + m.loop.text() + " already", {m.loop.stmt, p.stmt});
  for (const Place& q : m.all)
    if (q.under(m.loop.stmt) && order_of(m.all, q.stmt) > order_of(m.all, p.stmt))
      ctx.forbid(2, 1, p.name() + " is before " + m.loop.text(), {p.stmt, m.loop.stmt},
                 "compute_at " + p.name() + " " + m.loop.text());
  if (m.producers.empty())
    ctx.refuse(10, 1, "no block under " + m.loop.text() + " writes what " + p.name() + " reads",
               {m.loop.stmt, p.stmt}, legal_loops(m));
  for (const Place& q : m.producers)
    for (const Stmt& l : q.loops())
      if (q.depth_of(l) <= q.depth_of(m.loop.stmt) && own_use_of(q.block(), as_for(l).var).reduce)
        ctx.refuse(3, 1,
                   loop_name(l) + " is a reduction loop of " + q.name() + ": its elements aren't final yet",
                   {l, q.stmt}, legal_loops(m));
  check_between(ctx, m);
  check_visible(ctx, 8, p, m.loop);
  for (size_t i = 0; i <= m.loop.depth; ++i)
    if (const auto* l = m.loop.place.path[i].as<For>(); l && l->kind == ForKind::vectorized)
      ctx.refuse(9, 1, l->var->name + " is vectorized", {m.loop.place.path[i]});
}

// What one iteration of the loop writes of a buffer; all writers must agree.
std::vector<Bound> region_written(const StepContext& ctx, const Move& m, const Buffer& b) {
  std::vector<Bound> out;
  bool first = true;
  for (const Place& q : m.producers)
    for (const BlockAccess& a : accesses_at(q)) {
      if (!a.write || a.buffer != b) continue;
      std::vector<Stmt> standing;
      for (const Stmt& l : q.loops())
        if (q.depth_of(l) <= q.depth_of(m.loop.stmt)) standing.push_back(l);
      const auto region = region_of(q, a, standing);
      const bool whole =
          std::all_of(region.begin(), region.end(), [](const auto& d) { return d.has_value(); });
      const std::string why =
          "what " + q.name() + " writes of " + b->name + " in one iteration has no plain bounds";
      if (!whole) ctx.refuse(5, 1, why, {q.stmt});
      if (q.block().where || !fills_region(q, a, standing)) ctx.forbid(5, 1, why, {q.stmt});
      for (size_t d = 0; d < region.size(); ++d) {
        if (first) {
          out.push_back(*region[d]);
          continue;
        }
        const auto both = unite(out[d], *region[d]);
        if (!both || both->hi - both->lo != out[d].hi - out[d].lo ||
            both->hi - both->lo != region[d]->hi - region[d]->lo)
          ctx.forbid(5, 1, "the blocks that write " + b->name + " write different parts in one iteration",
                     {q.stmt});
      }
      first = false;
    }
  return out;
}

// Gives the iterators by which the block reads a producer's buffer the range that is finished.
void tie_iterators(const StepContext& ctx, const Move& m, const Buffer& b,
                   std::vector<std::optional<Bound>>& tied) {
  const Block& block = m.block.block();
  const std::vector<Bound> region = region_written(ctx, m, b);
  const std::vector<Expr>* seen = nullptr;
  const auto all = accesses_of(block);
  for (const BlockAccess& a : all) {
    if (a.buffer != b) continue;
    std::vector<size_t> used;
    for (size_t d = 0; d < a.indices.size(); ++d) {
      if (seen && !same_expr(a.indices[d], (*seen)[d]))
        ctx.forbid(4, 0, m.block.name() + " reads " + b->name + " at several places", {m.block.stmt});
      size_t k = 0;
      while (k < block.iters.size() &&
             !(a.indices[d].as<VarRef>() && a.indices[d].as<VarRef>()->var == block.iters[k].var))
        ++k;
      const auto index = as_int(a.indices[d]);
      const int64_t base = region[d].base.constant;
      const bool fixed = index && region[d].base.is_constant() && base + region[d].lo <= *index &&
                         *index <= base + region[d].hi;
      if (k == block.iters.size() && fixed) continue;
      if (k == block.iters.size() || std::find(used.begin(), used.end(), k) != used.end()) {
        ctx.forbid(4, 0, m.block.name() + " reads " + b->name + " at something other than distinct iterators",
                   {m.block.stmt});
        continue;
      }
      used.push_back(k);
      const auto extent = as_int(block.iters[k].extent);
      for (const Place& q : m.producers)
        if (writes(q.block(), b) && (!extent || !reaches(q, b, d, 0, *extent - 1)))
          ctx.forbid(4, 0, m.block.name() + " has instances where " + q.name() + " has none",
                     {m.block.stmt, q.stmt});
      if (tied[k]) {
        const Linear difference = add(tied[k]->base, region[d].base, -1);
        if (!is_zero(difference) || tied[k]->lo != region[d].lo || tied[k]->hi != region[d].hi)
          ctx.forbid(5, 0, "the buffers it reads are finished in different parts", {m.block.stmt});
      }
      tied[k] = region[d];
    }
    seen = &a.indices;
  }
}

// Row i of one buffer and row i of another meet in iteration i, but rows i and j nowhere.
void check_pairs(const StepContext& ctx, const Move& m, const std::vector<std::optional<Bound>>& tied) {
  const Block& block = m.block.block();
  const auto together = [&](const IterVar& x, const IterVar& y) {
    const auto all = accesses_of(block);
    return std::any_of(all.begin(), all.end(), [&](const BlockAccess& a) {
      const auto at = [&](const IterVar& i) {
        return std::any_of(a.indices.begin(), a.indices.end(),
                           [&](const Expr& e) { return uses_var(e, i.var); });
      };
      return is_producer(m, a.buffer) && at(x) && at(y);
    });
  };
  for (size_t k = 0; k < tied.size(); ++k)
    for (size_t j = 0; j < k; ++j) {
      const IterVar &x = block.iters[j], &y = block.iters[k];
      if (!tied[j] || !tied[k] || together(x, y)) continue;
      for (const Var& v : vars_of(to_expr(tied[j]->base)))
        if (uses_var(to_expr(tied[k]->base), v))
          ctx.forbid(5, 1,
                     "loop " + v->name + " chooses both " + x.var->name + " and " + y.var->name +
                         ", in different buffers: other pairs of them would have no iteration",
                     {m.block.stmt, m.loop.stmt});
    }
}

// Where a producer doesn't run in some iterations of the standing loops, neither may the consumer.
std::vector<IterVar> guards_of(const Move& m) {
  std::vector<IterVar> out;
  for (const Place& q : m.producers)
    for (const IterVar& i : standing_guards(q, m.loop.stmt))
      if (std::none_of(out.begin(), out.end(), [&](const IterVar& o) {
            return same_expr(o.binding, i.binding) && same_expr(o.extent, i.extent);
          }))
        out.push_back(i);
  return out;
}

PrimFunc run(StepContext& ctx) {
  if (const auto moved = moved_as_decided(ctx)) return *moved;
  Move m;
  m.block = ctx.block(0);
  m.loop = ctx.loop(1);
  m.info = inspect(m.block.block());
  m.all = places(ctx.func().body);
  const std::vector<Buffer> inputs = read_buffers(m.block.block());
  for (const Place& q : m.all)
    if (q.under(m.loop.stmt) && !q.stmt.same_as(m.block.stmt) &&
        std::any_of(inputs.begin(), inputs.end(), [&](const Buffer& b) { return writes(q.block(), b); }))
      m.producers.push_back(q);
  check(ctx, m);
  const Block& block = m.block.block();
  ctx.expect_results(count_spatial(block));
  std::vector<std::optional<Bound>> tied(block.iters.size());
  for (const Buffer& b : read_buffers(block))
    if (is_producer(m, b)) tie_iterators(ctx, m, b, tied);
  check_pairs(ctx, m, tied);

  std::vector<IterSpan> spans;
  for (size_t k = 0; k < block.iters.size(); ++k) {
    const IterVar& i = block.iters[k];
    spans.push_back(tied[k] ? exact_span_of(*tied[k], i) : whole(i));
    const bool all = is_const_int(spans[k].base, 0) && same_expr(spans[k].extent, i.extent);
    if (i.kind == IterKind::reduce && !all)
      ctx.forbid(6, 1, "in one iteration only a part of " + i.var->name + "'s range is there",
                 {m.block.stmt, m.loop.stmt}, "a loop further out");
  }
  const Stmt moved = rebuild(ctx, m.block, spans, m.loop.stmt, guards_of(m));
  std::vector<Stmt> producers;
  for (const Place& q : m.producers) producers.push_back(q.stmt);
  const Stmt loop = with_body(m.loop.stmt, insert_after(as_for(m.loop.stmt).body, producers, moved));
  const PrimFunc out = replace(ctx.func(), m.loop.stmt, simplify_bindings(loop, facts_at(m.loop.place)));
  return replace(out, m.block.stmt, Stmt());
}

}  // namespace

Primitive reverse_compute_at_row() {
  return {
      "reverse_compute_at",
      "n c h w ...",
      {{ArgKind::block, "C"}, {ArgKind::location, "T.i"}},
      {},
      "Moves a consumer into a loop of its producers, where it reads what that iteration has completed. Its "
      "loops there are new and serial.",
      {semantic("the block is a map or a reduction with its init, and no other block writes its elements"),
       semantic("the block is after the loop"),
       "neither the loop nor a loop around it is a reduction loop of a producer of its inputs",
       semantic("it reads each producer's buffer at one place, indexed by distinct plain iterators or "
                "constants, and the producers write all of these elements"),
       semantic("what the producers write in one iteration is a box without gaps, the same for each iterator "
                "of the block, and no loop chooses the parts of two iterators in different buffers"),
       semantic("for a reduction, that box has the full range of its R iterators"),
       semantic("no block in between accesses what it writes, or writes what it reads, nor does a later "
                "block in earlier iterations of the loops that it leaves. Its other inputs aren't computed "
                "in loops around the loop"),
       "its buffers are in scope at the loop", "the loop isn't vectorized and isn't inside a vectorized loop",
       "a block inside the loop writes what it reads, and the block isn't inside the loop already"},
      {examples::kEpilogue, "i0 i1 = split T.i [_, 8]\ni = reverse_compute_at Y T.i0"},
      run};
}

}  // namespace nestor::schedules

// loop_partition: one loop becomes consecutive loops over parts of its range, in the old order, so that a
// border or a partial tile can be scheduled separately.
//
// The first part keeps the blocks; the others have copies, which remember their originals. A part of a
// reduction in which no instance has all R iterators 0 has no init: the copy continues from the result of the
// parts before. The instances run in the old order, so this step needs no proof.
#include <algorithm>

#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

// Where the parts begin and end: 0, the cuts, the extent.
std::vector<int64_t> read_bounds(const StepContext& ctx, const LoopRef& loop) {
  const int64_t extent = extent_of(loop.stmt);
  if (extent < 0)
    ctx.refuse(2, 0, "the extent of " + loop.text() + " isn't a constant", {loop.stmt},
               "split " + loop.text() + " [_, 16]");
  std::vector<int64_t> bounds{0};
  const std::string legal = extent > 1 ? ctx.instead(1, "[" + std::to_string(extent / 2) + "]") : "";
  for (const std::optional<int64_t>& cut : ctx.ints(1)) {
    if (!cut) ctx.refuse(3, 1, "`_` says not where to cut", {}, legal);
    if (*cut <= bounds.back() || *cut >= extent)
      ctx.refuse(3, 1,
                 "a cut at " + std::to_string(*cut) + " is not inside of " + std::to_string(bounds.back()) +
                     " .. " + std::to_string(extent),
                 {loop.stmt}, legal);
    bounds.push_back(*cut);
  }
  if (bounds.size() == 1) ctx.refuse(3, 1, "there is no cut", {}, legal);
  bounds.push_back(extent);
  return bounds;
}

// Takes the init from blocks that never start a reduction: an R iterator is above 0 in all iterations.
struct DropInits : Rewriter {
  Facts facts;
  Expr expr(const Expr& e) override { return e; }
  Stmt stmt(const Stmt& s) override {
    if (s.as<For>()) facts.set(as_for(s).var, range_of_loop(s));
    const auto* b = s.as<Block>();
    if (!b || !b->init) return b ? s : children(s);
    const bool starts = std::none_of(b->iters.begin(), b->iters.end(), [&](const IterVar& i) {
      return i.kind == IterKind::reduce && range_of(i.binding, facts).lo > 0;
    });
    if (starts) return s;
    Block rest = *b;
    rest.init = Stmt();
    return make::block(std::move(rest));
  }
};

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const For& old = as_for(loop.stmt);
  if (old.kind != ForKind::serial)
    ctx.refuse(1, 0, loop.text() + " isn't serial any more", {loop.stmt},
               "a loop is cut before the step that gives it a kind");
  const std::vector<int64_t> bounds = read_bounds(ctx, loop);
  const size_t blocks = places(old.body).size();
  ctx.expect_results(blocks * (bounds.size() - 2));

  std::set<std::string> taken = block_and_buffer_names(ctx.func());
  size_t result = 0;
  const auto name = [&](const std::string& of) { return ctx.new_name(result++, of + "_part", taken); };
  std::vector<Stmt> parts;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const Stmt body = i == 0 ? old.body : renamed_copy(old.body, name, taken);
    const Var v = i == 0 ? old.var : make_var(old.var->name);
    const Stmt moved = i == 0 ? body : substitute(body, VarMap{{old.var, Expr(bounds[i]) + Expr(v)}});
    DropInits drop;
    drop.facts = facts_at(loop.place);
    parts.push_back(simplify_bindings(drop.stmt(with_extent(loop.stmt, v, bounds[i + 1] - bounds[i], moved)),
                                      facts_at(loop.place)));
  }
  return replace(ctx.func(), loop.stmt, make::seq(std::move(parts)));
}

}  // namespace

Primitive loop_partition_row() {
  return {
      "loop_partition",
      "T1 T2 ...",
      {{ArgKind::loop, "T.i"}, {ArgKind::ints, "[16, 48]"}},
      {},
      "Cuts a loop into consecutive loops over parts of its range; the later ones get copies of the blocks.",
      {"the loop is serial", "its extent is a constant",
       "the cuts are in ascending order, and inside of the loop's range"},
      {examples::kMap, "Y1 = loop_partition Y.i [48]"},
      run};
}

}  // namespace nestor::schedules

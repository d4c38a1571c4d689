// merge: two adjacent loops of the same extent become one around both bodies (loop fusion), the opposite of
// fission: each iteration runs its part of the first body, then that of the second.
//
// Before, iteration 2 of the second body ran after the whole first loop; afterwards it runs before iteration
// 3 of the first. This matters only if the two touch an element that one of them writes. A later iteration of
// the second body may touch what an earlier one of the first did. If both loops have an annotation, the first
// loop's value is kept. So is a tail to peel, which then applies to guards in both bodies.
#include "nestor/print.h"
#include "nestor/walk.h"
#include "schedules/examples.h"
#include "schedules/independence.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

std::vector<Stmt> parts_of(const Stmt& body) {
  const auto* seq = body.as<Seq>();
  return seq ? seq->stmts : std::vector<Stmt>{body};
}

// Where the first loop stands in what is around it.
bool follows(const LoopRef& first, const LoopRef& second) {
  const auto* around = first.depth > 0 ? first.place.path[first.depth - 1].as<Seq>() : nullptr;
  for (size_t i = 0; around && i + 1 < around->stmts.size(); ++i)
    if (around->stmts[i].same_as(first.stmt)) return around->stmts[i + 1].same_as(second.stmt);
  return false;
}

// The loops around both where their ways part, if those stand one behind the other: what is to be merged
// before the loops inside can be.
std::string merge_outside(const LoopRef& first, const LoopRef& second) {
  const auto &a = first.place.path, &b = second.place.path;
  size_t i = 0;
  while (i < std::min(first.depth, second.depth) && a[i].same_as(b[i])) ++i;
  if (i == 0 || i > std::min(first.depth, second.depth) || !a[i].as<For>() || !b[i].as<For>()) return "";
  const LoopRef x{first.place, a[i], i}, y{second.place, b[i], i};
  return follows(x, y) || follows(y, x)
             ? "merge " + (follows(x, y) ? x : y).text() + " " + (follows(x, y) ? y : x).text()
             : "";
}

void check_alike(const StepContext& ctx, const LoopRef& first, const LoopRef& second) {
  const For &a = as_for(first.stmt), &b = as_for(second.stmt);
  const std::vector<Stmt> both = {first.stmt, second.stmt};
  if (!follows(first, second))
    ctx.refuse(1, 1, second.text() + " doesn't directly follow " + first.text(), both,
               merge_outside(first, second));
  if (a.kind != b.kind || (a.kind != ForKind::serial && a.kind != ForKind::parallel))
    ctx.refuse(2, 1, "the loops are neither both serial nor both parallel", both);
  if (!same_expr(a.extent, b.extent))
    ctx.refuse(2, 1, "the extents are " + print(a.extent) + " and " + print(b.extent), both);
}

PrimFunc run(StepContext& ctx) {
  const LoopRef first = ctx.loop(0), second = ctx.loop(1);
  check_alike(ctx, first, second);
  const For &a = as_for(first.stmt), &b = as_for(second.stmt);

  std::set<std::string> taken;
  for (const LoopRef& l : {first, second}) {
    std::set<std::string> around = names_around(ctx.func(), l.stmt);
    around.erase(loop_name(l.stmt));
    taken.merge(around);
  }
  ctx.expect_results(1);
  const std::string name = ctx.new_name(0, a.var->name, taken);
  const Var v = name == a.var->name ? a.var : make_var(name);
  const auto counted_by_v = [&](const For& l) {
    return parts_of(l.var == v ? l.body : substitute(l.body, {{l.var, Expr(v)}}));
  };
  const std::vector<Stmt> before = counted_by_v(a), behind = counted_by_v(b);
  std::vector<Stmt> all = before;
  all.insert(all.end(), behind.begin(), behind.end());
  Annotations annotations = a.annotations;
  annotations.insert(b.annotations.begin(), b.annotations.end());
  const Stmt merged = make::loop(v, a.extent, make::seq(std::move(all)), a.kind, a.thread, annotations);
  const PrimFunc out = replace(replace(ctx.func(), second.stmt, {}), first.stmt, merged);
  // In an iteration of any other loop as much happens as before, and pairs within either body were proved.
  ctx.only_concerns(merged);
  if (a.kind == ForKind::parallel && !find_conflict_between(out, merged, before, behind))
    ctx.proved(merged);  // bodies that meet in no other iteration don't in an earlier one
  else if (const auto c = find_backward(out, merged, before, behind))
    ctx.forbid(3, 1, c->why, {first.stmt, second.stmt});
  return out;
}

}  // namespace

Primitive merge_row() {
  return {"merge",
          "i",
          {{ArgKind::loop, "T.i"}, {ArgKind::loop, "Y.i"}},
          {},
          "Merges two adjacent loops of the same extent into one.",
          {"the second loop directly follows the first, in the same body",
           "both are serial or both are parallel, and their extents are equal",
           semantic("no iteration of the first loop accesses the same element as an earlier iteration of the "
                    "second, if one of them writes it")},
          {examples::kChain, "i = merge T.i Y.i"},
          run,
          true};
}

}  // namespace nestor::schedules

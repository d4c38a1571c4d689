// Requirement D, of every step: it proves that unordered loops still have no conflicts after the step.
#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_map>

#include "schedules/move.h"
#include "schedules/primitive.h"
#include "schedules/privatize.h"

namespace nestor::schedules {

namespace {

// A loop whose iterations run in no order, and all that says how often it runs and for which values.
struct Concurrent {
  Stmt loop;
  std::vector<const void*> around;
};

using Nests = std::vector<const StmtNode*>;  // in order of their addresses

// What stands under no loop.
void add_nests(const Stmt& s, Nests& out) {
  if (const auto* a = s.as<Alloc>()) return add_nests(a->body, out);
  if (const auto* q = s.as<Seq>()) {
    for (const Stmt& child : q->stmts) add_nests(child, out);
    return;
  }
  out.push_back(s.get());
}

Nests nests_of(const Stmt& s) {
  Nests out;
  add_nests(s, out);
  std::sort(out.begin(), out.end());
  return out;
}

bool is_concurrent(const For& l) {
  return l.kind != ForKind::serial && l.kind != ForKind::unrolled;
}

struct ConcurrentLoops : Walker {
  const Nests* known = nullptr;  // not looked into
  std::vector<Concurrent> found;
  std::vector<const void*> around;
  void expr(const Expr&) override {}
  void stmt(const Stmt& s) override {
    const auto* l = s.as<For>();
    if (around.empty() && std::binary_search(known->begin(), known->end(), s.get())) return;
    if (!l && !s.as<Block>()) return children(s);
    if (l && is_concurrent(*l)) found.push_back({s, around});
    const size_t outside = around.size();
    if (l)
      around.insert(around.end(), {l->var.get(), l->extent.get()});
    else
      around.push_back(s.get());
    children(s);
    around.resize(outside);
  }
};

// Those in `after` that didn't stand in `before`, the same and in the same place: what they hold, and so
// whether its iterations clash, is as it was.
std::vector<Stmt> new_concurrent_loops(const PrimFunc& before, const PrimFunc& after) {
  const Nests were = nests_of(before.body), are = nests_of(after.body);
  Nests same;  // a step changes one nest of many
  std::set_intersection(were.begin(), were.end(), are.begin(), are.end(), std::back_inserter(same));
  ConcurrentLoops old, now;
  old.known = now.known = &same;
  old.stmt(before.body);
  now.stmt(after.body);
  std::unordered_map<const StmtNode*, const Concurrent*> stood;
  for (const Concurrent& c : old.found) stood[c.loop.get()] = &c;
  std::vector<Stmt> out;
  for (const Concurrent& c : now.found) {
    const auto at = stood.find(c.loop.get());
    if (at == stood.end() || at->second->around != c.around) out.push_back(c.loop);
  }
  return out;
}

std::vector<Stmt> loops_to_settle(const StepContext& ctx, const PrimFunc& out) {
  if (ctx.is_settled()) return {};
  const Stmt& only = ctx.concerned();
  if (!only) return new_concurrent_loops(ctx.func(), out);
  return is_concurrent(as_for(only)) ? std::vector<Stmt>{only} : std::vector<Stmt>{};
}

}  // namespace

PrimFunc settle_concurrency(const StepContext& ctx, PrimFunc out) {
  for (const Stmt& loop : loops_to_settle(ctx, out)) {
    if (ctx.is_proved(loop)) continue;
    const auto& [var, kind] = std::tie(as_for(loop).var, as_for(loop).kind);
    if (kind == ForKind::vectorized && reduces_lanes(as_for(loop_with(out, var)))) continue;
    const auto conflict = make_independent(out, var, kind != ForKind::vectorized);
    if (!conflict || is_waived(ctx.step().primitive, 0)) continue;
    std::vector<Stmt> marked;  // of the function before the step, where they were there
    for (const Stmt& b : conflict->blocks)
      if (const auto p = find_place(ctx.func(), b.as<Block>()->id->name)) marked.push_back(p->stmt);
    ctx.refuse_common('D', loc_of_primitive(ctx.step()), "afterwards " + conflict->why,
                      "take this step before the loop " + var->name + " is made parallel", marked);
  }
  return out;
}

}  // namespace nestor::schedules

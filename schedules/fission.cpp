// fission: a loop around several statements becomes a loop around each (loop distribution), so that each can
// be scheduled separately.
//
// Before, iteration 3 of the first statement ran after iteration 2 of the second; afterwards it runs before
// it. This matters only if the two touch an element that one of them writes. So it is enough that no
// iteration of a statement touches the same elements as an earlier iteration of a later statement. A later
// iteration (a running window, T[i-1]) does no harm. If a cut would be wrong between two statements, `at`
// cuts at another place.
#include <algorithm>

#include "schedules/examples.h"
#include "schedules/independence.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

struct Body {
  std::vector<Stmt> allocs;  // outermost first
  std::vector<Stmt> stmts;
};

Body read_body(const StepContext& ctx, const LoopRef& loop) {
  Body b;
  Stmt at = as_for(loop.stmt).body;
  for (; at.as<Alloc>(); at = at.as<Alloc>()->body) b.allocs.push_back(at);
  const auto* seq = at.as<Seq>();
  if (!seq || seq->stmts.size() < 2)
    ctx.refuse(1, 0, "the body of " + loop.text() + " is one statement", {loop.stmt},
               at.as<For>() && at.as<For>()->body.as<Seq>()
                   ? ctx.instead(0, loop.place.name() + "." + loop_name(at))
                   : "");
  b.stmts = seq->stmts;
  return b;
}

bool is_inside(const PrimFunc& f, const std::string& block, const Stmt& s) {
  const auto p = find_place(f, block);
  return p && p->under(s);
}

// The name of the last block in a statement; "" where there is none.
std::string last_block(const Stmt& s) {
  const std::vector<Place> inside = places(s);
  return inside.empty() ? "" : inside.back().name();
}

// What stands between cutting after statement `cut` and being right.
struct Problem {
  int requirement = 0;  // 0: none
  std::string why;
  std::vector<Stmt> marked;
};
Problem problem_of(const StepContext& ctx, const LoopRef& loop, const Body& body, size_t cut) {
  const auto before = body.stmts.begin() + static_cast<std::ptrdiff_t>(cut) + 1;
  for (const Stmt& a : body.allocs) {
    const Buffer& b = a.as<Alloc>()->decl.buffer;
    const auto uses = [&](const Stmt& s) { return uses_buffer(s, b); };
    if (std::any_of(body.stmts.begin(), before, uses) && std::any_of(before, body.stmts.end(), uses))
      return {2, b->name + " is allocated in each iteration and used on both sides", {a}};
  }
  const std::vector<Stmt> first(body.stmts.begin(), before), second(before, body.stmts.end());
  if (const auto c = find_backward(ctx.func(), loop.stmt, first, second)) return {3, c->why, c->blocks};
  return {};
}

std::string legal_cuts(const StepContext& ctx, const LoopRef& loop, const Body& body) {
  std::vector<std::string> lines;
  for (size_t cut = 0; cut + 1 < body.stmts.size(); ++cut) {
    const std::string block = last_block(body.stmts[cut]);
    if (block.empty() || problem_of(ctx, loop, body, cut).requirement) continue;
    Step s = ctx.step();
    s.results.clear();
    s.options = {{"at", block}};
    lines.push_back(print(s));
  }
  return join(lines, "\n");
}

// After which statements the body is cut.
std::vector<size_t> read_cuts(const StepContext& ctx, const LoopRef& loop, const Body& body) {
  std::vector<size_t> cuts;
  const auto at = ctx.option("at");
  for (size_t i = 0; i + 1 < body.stmts.size(); ++i)
    if (!at || is_inside(ctx.func(), *at, body.stmts[i])) cuts.push_back(i);
  if (cuts.empty())
    ctx.refuse(1, loc_of_option(ctx.step(), "at"),
               is_inside(ctx.func(), *at, loop.stmt) ? "nothing follows the statement of block " + *at
                                                     : "there is no block `" + *at + "` in " + loop.text(),
               {loop.stmt}, legal_cuts(ctx, loop, body));
  return cuts;
}

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const Body body = read_body(ctx, loop);
  const std::vector<size_t> cuts = read_cuts(ctx, loop, body);
  for (size_t cut : cuts) {
    const Problem p = problem_of(ctx, loop, body, cut);
    if (p.requirement == 2) ctx.refuse(2, 0, p.why, p.marked, legal_cuts(ctx, loop, body));
    if (p.requirement == 3) ctx.forbid(3, 0, p.why, p.marked, legal_cuts(ctx, loop, body));
  }
  ctx.expect_results(cuts.size() + 1);

  const For& old = as_for(loop.stmt);
  std::set<std::string> taken = names_around(ctx.func(), loop.stmt);
  taken.erase(old.var->name);
  std::vector<Stmt> parts;
  size_t from = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const size_t end = i < cuts.size() ? cuts[i] + 1 : body.stmts.size();
    const auto begin = body.stmts.begin();
    Stmt part =
        make::seq({begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(end)});
    for (size_t a = body.allocs.size(); a-- > 0;)
      if (uses_buffer(part, body.allocs[a].as<Alloc>()->decl.buffer)) part = with_body(body.allocs[a], part);
    std::set<std::string> names = taken;
    const Var v = make_var(ctx.new_name(i, old.var->name, names));
    parts.push_back(with_extent(loop.stmt, v, old.extent, substitute(part, VarMap{{old.var, Expr(v)}})));
    from = end;
  }
  return replace(ctx.func(), loop.stmt, make::seq(std::move(parts)));
}

}  // namespace

Primitive fission_row() {
  return {"fission",
          "i0 i1 ...",
          {{ArgKind::loop, "T.i"}},
          {{"at", "BLOCK", "the block after which the loop is cut; by default after every statement"}},
          "Distributes a loop over its statements: one loop for each, or two loops, cut after a given block.",
          {"the loop's body has several statements, and `at` names a block that isn't in the last one",
           "a buffer allocated in the loop is used in one part only",
           semantic("no iteration of a part accesses the same element as an earlier iteration of a later "
                    "part, if one of them writes it")},
          {examples::kPair, "i0 i1 = fission Y.i at=T"},
          run,
          true};
}

}  // namespace nestor::schedules

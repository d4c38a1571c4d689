// split: one loop becomes several, whose digits make up the old variable: i = (i0 * f1 + i1) * f2 + i2.
//
// Where the factors' product is more than the extent, the overhang must not run. Mostly it already can't: the
// old variable leaves an iterator's domain there. Where it doesn't (a loop made by an earlier split or by
// compute_at), the blocks below get an iterator more, with the old loop as its domain: a guard like any
// other, which no later step loses. TVM adds a predicate only at the block that was named, and lost it.
//
// With at_lines=B tiles begin where lines of B do, 64 bytes, if B itself begins at one: in row r of rows of
// 50257 floats i = i0 * f1 + i1 - r % 16. So the first tile isn't full either: of it, too, only what the old
// variable ran over runs.
#include <algorithm>

#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/line_start.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

namespace {

struct Factors {
  std::vector<Expr> extents;
  bool overhangs = false;  // the product is more than the extent, or may be
};

// What lies before the loop's first element in its line, with at_lines=; else nothing.
Expr read_start(const StepContext& ctx, const LoopRef& loop) {
  const auto name = ctx.option("at_lines");
  if (!name) return 0;
  const SourceLoc at = loc_of_option(ctx.step(), "at_lines");
  const LineStart start = line_start(ctx.func(), loop, ctx.buffer(*name, at));
  if (!start.before) ctx.refuse(5, at, start.why, {loop.stmt});
  return start.before;
}

// `before`: elements of the first tile that come before the loop's first, at most.
Factors read_factors(const StepContext& ctx, const LoopRef& loop, int64_t before) {
  const auto given = ctx.ints(1);
  if (given.size() < 2)
    ctx.refuse(
        2, 1, "there is only one factor", {},
        ctx.instead(1, "[_, " + (given.empty() || !given[0] ? "16" : std::to_string(*given[0])) + "]"));
  if (given.size() > kMostParts)
    ctx.refuse(2, 1, "there are " + std::to_string(given.size()) + " factors", {loop.stmt});
  std::vector<int64_t> factors;
  int open = -1;
  int64_t product = 1;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i] && open >= 0) ctx.refuse(2, 1, "`_` occurs twice", {}, ctx.instead(1, "[_, 16]"));
    if (!given[i]) open = static_cast<int>(i);
    factors.push_back(given[i].value_or(1));
    if (factors.back() < 1) ctx.refuse(2, 1, std::to_string(factors.back()) + " is less than 1");
    if (factors.back() > (int64_t{1} << 40) / product)
      ctx.refuse(2, 1, "the product of the factors overflows");
    product *= factors.back();
  }
  Factors out;
  const int64_t own = extent_of(loop.stmt), extent = own < 0 ? own : own + before;
  if (extent < 0 && open != 0)
    ctx.refuse(4, 1, "the extent of " + loop.text() + " isn't a constant", {loop.stmt},
               ctx.instead(1, "[_, 16]"));
  if (extent > INT64_MAX - product) ctx.refuse(2, 1, "the product of the factors overflows");
  const bool balanced = ctx.choice("tail") == "balanced";
  if (extent >= 0 && open >= 0) {
    const size_t inner = static_cast<size_t>(open) + 1;
    // balanced: as many tiles as before, each as small as that allows
    if (balanced && inner < factors.size()) {
      const int64_t rest = product / factors[inner];
      const int64_t units = std::max<int64_t>(1, ceil_div(extent, rest));  // a loop may run never
      factors[inner] = ceil_div(units, ceil_div(units, factors[inner]));
      product = rest * factors[inner];
    }
    factors[static_cast<size_t>(open)] = std::max<int64_t>(1, ceil_div(extent, product));
    product *= factors[static_cast<size_t>(open)];
  }
  if (extent >= 0 && product < extent) {
    std::vector<std::string> legal{"_"};
    for (size_t i = 1; i < factors.size(); ++i) legal.push_back(std::to_string(factors[i]));
    ctx.forbid(
        3, 1,
        "the product is " + std::to_string(product) + ", the extent of " + loop.text() + " is " +
            std::to_string(own) +
            (before ? ", and of the first line up to " + std::to_string(before) + " lie before it" : ""),
        {loop.stmt}, ctx.instead(1, "[" + join(legal, ", ") + "]"));
  }
  for (int64_t f : factors) out.extents.emplace_back(f);
  const Linear size = linear_of(as_for(loop.stmt).extent);
  const bool divides = own < 0 && before == 0 && size.constant % product == 0 &&
                       std::all_of(size.terms.begin(), size.terms.end(),
                                   [&](const Term& t) { return t.coefficient % product == 0; });
  out.overhangs = own < 0 ? !divides : product > own;
  if (own < 0)
    out.extents[0] = simplify((as_for(loop.stmt).extent + Expr(before + product - 1)) / Expr(product),
                              facts_at(loop.place));
  return out;
}

// True if the block runs nothing while the variable is in [first, end).
bool leaves_domain(const Place& p, const Var& v, int64_t first, int64_t end) {
  if (first >= end) return true;
  Facts facts = facts_at(p);
  facts.set(v, {first, end - 1});
  for (const IterVar& i : p.block().iters) {
    const auto domain = as_int(i.extent);
    const Interval r = range_of(i.binding, facts);
    if (domain && (r.lo >= *domain || r.hi < 0)) return true;
  }
  return false;
}

// Gives the blocks below that would run in the overhang an iterator with the old loop as its domain.
struct AddGuards : Rewriter {
  std::vector<Stmt> blocks;
  Var var;
  Expr extent;
  Expr expr(const Expr& e) override { return e; }
  Stmt stmt(const Stmt& s) override {
    for (const Stmt& b : blocks) {
      if (!s.same_as(b)) continue;
      Block copy = *s.as<Block>();
      std::set<std::string> taken;
      for (const IterVar& i : copy.iters) taken.insert(i.var->name);
      const Var guard = make_var(unique_name("t" + var->name, taken));
      copy.iters.push_back({guard, IterKind::spatial, extent, Expr(var)});
      return make::block(std::move(copy));
    }
    return children(s);
  }
};

PrimFunc run(StepContext& ctx) {
  const LoopRef loop = ctx.loop(0);
  const For& old = as_for(loop.stmt);
  if (old.kind != ForKind::serial)
    ctx.refuse(1, 0, loop.text() + " isn't serial any more", {loop.stmt},
               "a loop is split before the step that gives it a kind");
  const Expr start = read_start(ctx, loop);
  const int64_t before = range_of(start, facts_at(loop.place)).hi;
  const Factors factors = read_factors(ctx, loop, before);
  ctx.expect_results(factors.extents.size());

  Stmt body = old.body;
  if (factors.overhangs) {
    int64_t end = 1;
    bool constant = true;
    for (const Expr& e : factors.extents) {
      constant = constant && as_int(e);
      end *= as_int(e).value_or(1);
    }
    AddGuards add;
    add.var = old.var;
    add.extent = old.extent;
    for (const Place& p : places_under(ctx.func().body, loop.stmt)) {
      if (p.inside() > p.depth_of(loop.stmt)) continue;  // the outer block is guarded
      bool plain = false;  // i bound as it is: its domain ends where the loop did
      for (const IterVar& i : p.block().iters)
        plain = plain || (i.binding.as<VarRef>() && i.binding.as<VarRef>()->var == old.var &&
                          same_expr(i.extent, old.extent));
      if (!plain && before > 0 && !leaves_domain(p, old.var, -before, 0))
        ctx.refuse(5, loc_of_option(ctx.step(), "at_lines"),
                   "before its first iteration " + loop.text() + " has others of " + p.name() +
                       ": it is a part of an iterator's range",
                   {loop.stmt, p.stmt});
      if (plain || (constant && leaves_domain(p, old.var, extent_of(loop.stmt), end))) continue;
      add.blocks.push_back(p.stmt);
    }
    body = add.stmt(body);
  }

  std::set<std::string> taken = names_around(ctx.func(), loop.stmt);
  taken.erase(old.var->name);
  std::vector<NewLoop> loops;
  Expr value = 0;
  for (size_t i = 0; i < factors.extents.size(); ++i) {
    const Var v = make_var(ctx.new_name(i, old.var->name + std::to_string(i), taken));
    loops.push_back({v, factors.extents[i]});
    value = value * factors.extents[i] + Expr(v);
  }
  body = substitute(body, VarMap{{old.var, value - start}});
  Annotations annotations = old.annotations;
  Annotations inside;  // the tail of an earlier split lies in one iteration of each of the new loops
  if (const auto tail = annotations.find("tail"); tail != annotations.end()) inside.insert(*tail);
  Stmt out = body;
  for (size_t i = loops.size(); i-- > 1;)
    out = make::loop(loops[i].var, loops[i].extent, out, ForKind::serial, ThreadTag::none, inside);
  // A symbolic size has a tail whatever the size was that the step was chosen for.
  const bool open = extent_of(loop.stmt) < 0 && !ctx.option("tail");
  if (const std::string tail = open ? "peel" : ctx.choice("tail"); tail != "guard" && factors.overhangs)
    annotations["tail"] = tail;
  out = make::loop(loops[0].var, loops[0].extent, out, ForKind::serial, ThreadTag::none, annotations);
  return replace(ctx.func(), loop.stmt, simplify_bindings(out, facts_at(loop.place)));
}

}  // namespace

Primitive split_row() {
  return {"split",
          "i0 i1 ...",
          {{ArgKind::loop, "T.i"}, {ArgKind::ints, "[_, 16]"}},
          {{"tail", "guard|peel|mask|balanced",
            "a partial tile: `guard` checks in every iteration; `peel` makes a separate loop; `mask` "
            "computes full vectors with masked lanes; `balanced` makes all tiles nearly the same size. By "
            "default `guard`, of a symbolic extent `peel`"},
           {"at_lines", "B",
            "tiles begin at cache lines of the buffer B, which are 64 bytes; a row of B that begins inside a "
            "line gets a partial first tile"}},
          "Splits a loop into nested loops. `_` is computed; if the factors don't divide the extent, the "
          "last tile is partial.",
          {"the loop is serial", "there are 2 to 64 factors, all at least 1, and at most one `_`",
           semantic("the product of the factors covers the extent; with at_lines, also the part of the first "
                    "cache line that lies before the data"),
           "if the extent is symbolic, the first factor is `_`",
           "for at_lines=B, a block in the loop accesses consecutive elements of B, which is row major with "
           "a constant row stride. Only spatial loops around it choose where they begin. No block in the "
           "loop runs before its first iteration"},
          {examples::kMap, "i0 i1 = split Y.i [_, 16]"},
          run,
          true};
}

}  // namespace nestor::schedules

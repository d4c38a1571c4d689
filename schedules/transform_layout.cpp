// transform_layout: a buffer's elements lie in memory in another order: (o, c) -> (o/32, c, o%32). Only the
// declaration changes; blocks go on to use logical indices, which lowering maps. A const parameter is packed
// by its map at compile time; a temporary's map is free.
//
// Requires
//  1. the buffers are const parameters or temporaries (an `in` or `out` parameter's layout is the caller's);
//  2. the map has one variable per dimension, and its expressions are over these with constants (sampled
//     ones too);
//  3. no two elements get one place (semantic);
//  4. the buffers have no layout and no aligned strides yet;
//  5. the shapes are constant, no element gets a negative place, and there are at most 2^40 places.
#include <map>

#include "nestor/parse.h"
#include "schedules/access.h"
#include "schedules/exact_region.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

PrimFunc with_decl(const PrimFunc& f, const BufferDecl& decl);
std::string cached_steps(const StepContext& ctx, const Buffer& b, const std::string& scope);

namespace {

IndexMap read_map(const StepContext& ctx, size_t arg) {
  const IndexMapText text = ctx.map(arg);
  IndexMap map;
  for (const std::string& v : text.vars) {
    if (!is_identifier(v)) ctx.refuse(2, static_cast<int>(arg), "`" + v + "` is no variable");
    map.vars.push_back(make_var(v));
  }
  for (const std::string& e : text.exprs) {
    try {
      map.exprs.push_back(parse_expr(e, map.vars));
    } catch (const UserError& error) {
      ctx.refuse(2, static_cast<int>(arg), "`" + e + "`: " + error.diagnostic().message);
    }
    for_each_expr(map.exprs.back(), [&](const Expr& part) {
      const auto* b = part.as<Binary>();
      if (b && (b->op == BinaryOp::div || b->op == BinaryOp::mod) && as_int(b->b).value_or(0) < 1)
        ctx.refuse(2, static_cast<int>(arg),
                   "`" + e + "` divides by something else than a positive constant");
    });
    if (map.exprs.back().type() != Type{}) ctx.refuse(2, static_cast<int>(arg), "`" + e + "` is no index");
  }
  return map;
}

// ": [0,0] and [1,0] both go to [0,0]", of the first elements that do.
std::string collision_of(const IndexMap& map, const BufferDecl& decl) {
  constexpr int64_t kMost = 1 << 14;  // elements looked at
  std::map<std::vector<int64_t>, std::vector<int64_t>> seen;
  std::vector<int64_t> element(decl.shape.size(), 0);
  const auto listed = [](const std::vector<int64_t>& values) {
    std::vector<std::string> words;
    for (int64_t v : values) words.push_back(std::to_string(v));
    return "[" + join(words, ",") + "]";
  };
  for (int64_t n = 0; n < kMost; ++n) {
    std::unordered_map<Var, int64_t> at;
    for (size_t d = 0; d < element.size(); ++d) at[map.vars[d]] = element[d];
    std::vector<int64_t> place;
    for (const Expr& e : map.exprs) {
      const auto v = value_at(e, at);
      if (!v) return "";
      place.push_back(*v);
    }
    const auto [other, added] = seen.emplace(place, element);
    if (!added)
      return ": " + decl.buffer->name + listed(other->second) + " and " + decl.buffer->name +
             listed(element) + " both go to " + listed(place);
    size_t d = element.size();
    while (d > 0 && ++element[d - 1] >= as_int(decl.shape[d - 1]).value_or(0)) element[--d] = 0;
    if (d == 0) break;
  }
  return "";
}

void check_injective(const StepContext& ctx, const IndexMap& map, const BufferDecl& decl) {
  Solver solver;
  Facts facts;
  for (size_t d = 0; d < decl.shape.size(); ++d) {
    const auto extent = as_int(decl.shape[d]);
    if (!extent) ctx.refuse(5, 0, "the shape of " + decl.buffer->name + " isn't constant");
    solver.range(map.vars[d], {0, *extent - 1});
    facts.set(map.vars[d], {0, *extent - 1});
  }
  constexpr int64_t kLargest = int64_t{1} << 40;
  int64_t places = 1;
  for (size_t i = 0; i < map.exprs.size(); ++i) {
    solver.know(map.exprs[i]);
    const Interval range = range_of(map.exprs[i], facts);
    const std::string text = "`" + ctx.map(1).exprs[i] + "`";
    if (range.lo < 0)
      ctx.refuse(5, 1, text + " may be negative: it goes down to " + std::to_string(range.lo));
    if (range.hi >= kLargest || (range.hi >= 0 && places > kLargest / (range.hi + 1)))
      ctx.refuse(5, 1, "with " + text + " there are more than 2^40 places");
    places *= std::max<int64_t>(range.hi + 1, 1);
  }
  solver.solve();
  for (const Var& v : map.vars)
    if (!solver.knows(v))
      ctx.forbid(3, 1,
                 "the new place of an element of " + decl.buffer->name + " doesn't tell its " + v->name +
                     (quiet_refusals() ? "" : collision_of(map, decl)),
                 {}, "keep every digit: " + v->name + "/16 together with " + v->name + "%16");
}

PrimFunc run(StepContext& ctx) {
  PrimFunc f = ctx.func();
  const IndexMap map = read_map(ctx, 1);
  for (const Buffer& b : ctx.buffers(0)) {
    const Param* param = find_param(f, b);
    if (param && param->role != Role::constant)
      ctx.refuse(1, 0,
                 b->name + " is an `" + name_of(param->role) +
                     "` parameter: whoever calls the function fixed its layout",
                 {}, cached_steps(ctx, b, "global"));
    BufferDecl decl = decl_of(f, b);
    if (decl.layout) ctx.refuse(4, 0, b->name + " has a layout already");
    if (!decl.align.empty())
      ctx.refuse(4, 0, b->name + " has aligned strides, which a layout would change", {});
    if (decl.shape.size() != map.vars.size())
      ctx.refuse(2, 1,
                 b->name + " has " + std::to_string(decl.shape.size()) + " dimensions, the map " +
                     std::to_string(map.vars.size()) + " variables");
    check_injective(ctx, map, decl);
    decl.layout = map;
    if (const auto pad = ctx.int_option("pad")) decl.layout->pad = static_cast<double>(*pad);
    if (!param) {
      f = with_decl(f, decl);
      continue;
    }
    for (Param& p : f.params)
      if (p.decl.buffer == b) p.decl = decl;
  }
  return f;
}

}  // namespace

Primitive transform_layout_row() {
  return {"transform_layout",
          "",
          {{ArgKind::buffers, "X ..."}, {ArgKind::map, "(o, c) -> (o/32, c, o%32)"}},
          {{"pad", "INT", "what stands in places that no element has"}},
          "The elements of a const parameter or a temporary lie in memory in another order.",
          {"the buffers are const parameters or temporaries",
           "the map has one variable per dimension, and its expressions are over these with constants",
           semantic("no two elements get one place"), "the buffers have no layout and no aligned strides yet",
           "the shapes are constant, no element gets a negative place, and there are at most 2^40 places"},
          {examples::kMatmul, "transform_layout B (k, j) -> (j/32, k, j%32)"},
          run};
}

}  // namespace nestor::schedules

// transform_layout: a buffer's elements lie in memory in another order: (o, c) -> (o/32, c, o%32). Only the
// declaration changes; blocks go on to use logical indices, which lowering maps. A const parameter is packed
// by its map at compile time; a temporary's map is free.
#include <algorithm>
#include <unordered_map>

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
    if (!is_identifier(v)) ctx.refuse(2, static_cast<int>(arg), "`" + v + "` isn't a variable");
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
                   "`" + e + "` divides by something other than a positive constant");
    });
    if (map.exprs.back().type() != Type{}) ctx.refuse(2, static_cast<int>(arg), "`" + e + "` isn't an index");
  }
  return map;
}

// Variables that share expressions with `v`, itself first, directly or by others: what the places of their
// elements are depends on no other.
std::vector<size_t> tied_to(size_t v, const IndexMap& map) {
  std::vector<size_t> out{v};
  for (size_t i = 0; i < out.size(); ++i)
    for (const Expr& e : map.exprs)
      for (size_t other = 0; uses_var(e, map.vars[out[i]]) && other < map.vars.size(); ++other)
        if (uses_var(e, map.vars[other]) && !std::count(out.begin(), out.end(), other)) out.push_back(other);
  return out;
}

struct Enumeration {
  bool complete = false;  // every element was looked at, and each has a place of its own
  std::string collision;  // "B[0,0] and B[23,0] both go to [0,0]"
};

// Elements one by one: of the variables tied to `v`, the others being 0. `places`: how many there are in each
// dimension of the layout.
Enumeration enumerate(size_t v, const IndexMap& map, const BufferDecl& decl,
                      const std::vector<int64_t>& places) {
  constexpr int64_t kMost = 1 << 20;  // elements looked at: about a second
  const std::vector<size_t> tied = tied_to(v, map);
  if (std::any_of(tied.begin(), tied.end(), [&](size_t d) { return !as_int(decl.shape[d]); })) return {};
  std::unordered_map<int64_t, std::vector<int64_t>> seen;
  std::vector<int64_t> element(decl.shape.size(), 0);
  const auto listed = [](const std::vector<int64_t>& values) {
    std::vector<std::string> words;
    for (int64_t value : values) words.push_back(std::to_string(value));
    return "[" + join(words, ",") + "]";
  };
  for (int64_t n = 0; n < kMost; ++n) {
    std::unordered_map<Var, int64_t> at;
    for (size_t d = 0; d < element.size(); ++d) at[map.vars[d]] = element[d];
    std::vector<int64_t> place;
    int64_t number = 0;
    for (size_t i = 0; i < map.exprs.size(); ++i) {
      const auto value = value_of(map.exprs[i], at);
      if (!value) return {};
      place.push_back(*value);
      number = number * places[i] + *value;
    }
    const auto [other, added] = seen.emplace(number, element);
    if (!added)
      return {false, decl.buffer->name + listed(other->second) + " and " + decl.buffer->name +
                         listed(element) + " both go to " + listed(place)};
    size_t i = 0;
    while (i < tied.size() && ++element[tied[i]] >= as_int(decl.shape[tied[i]]).value_or(0))
      element[tied[i++]] = 0;
    if (i == tied.size()) return {true, ""};
  }
  return {};
}

void check_injective(const StepContext& ctx, const IndexMap& map, const BufferDecl& decl) {
  Solver solver;
  Facts facts;
  for (size_t d = 0; d < decl.shape.size(); ++d) {
    const int64_t last = as_int(decl.shape[d]).value_or(Interval::kMax) - 1;
    solver.range(map.vars[d], {0, last});
    facts.set(map.vars[d], {0, last});
  }
  const auto is_open = [&](const Expr& place) {
    for (size_t d = 0; d < decl.shape.size(); ++d)
      if (!as_int(decl.shape[d]) && uses_var(place, map.vars[d])) return true;
    return false;
  };
  constexpr int64_t kLargest = int64_t{1} << 40;
  int64_t places = 1;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < map.exprs.size(); ++i) {
    solver.know(map.exprs[i]);
    const Interval range = range_of(map.exprs[i], facts);
    const std::string text = "`" + ctx.map(1).exprs[i] + "`";
    if (range.lo < 0)
      ctx.refuse(5, 1, text + " may be negative: it goes down to " + std::to_string(range.lo));
    if (is_open(map.exprs[i]) && range.hi >= kLargest) {  // how many there are is checked by each run
      sizes.push_back(1);
      continue;
    }
    if (range.hi >= kLargest || (range.hi >= 0 && places > kLargest / (range.hi + 1)))
      ctx.refuse(5, 1, "with " + text + " there are more than 2^40 places");
    sizes.push_back(std::max<int64_t>(range.hi + 1, 1));
    places *= sizes.back();
  }
  solver.solve();
  for (size_t d = 0; d < map.vars.size(); ++d) {
    const Var& v = map.vars[d];
    if (solver.knows(v)) continue;
    const Enumeration all = enumerate(d, map, decl, sizes);
    if (all.complete) continue;
    ctx.forbid(3, 1,
               "the new place of an element of " + decl.buffer->name + " doesn't tell its " + v->name + ": " +
                   (all.collision.empty() ? "too many elements to try them all" : all.collision),
               {}, "keep every digit: " + v->name + "/16 together with " + v->name + "%16");
  }
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
          {{"pad", "INT", "the value of places without an element"}},
          "Changes the order in which the elements of a const parameter or a temporary are stored.",
          {"the buffers are const parameters or temporaries",
           "the map has one variable per dimension, and its expressions use only these and constants",
           semantic("no two elements get the same place"),
           "the buffers have no layout and no aligned strides yet",
           "no element gets a negative place, and there are at most 2^40 places, symbolic sizes aside"},
          {examples::kMatmul, "transform_layout B (k, j) -> (j/32, k, j%32)"},
          run};
}

}  // namespace nestor::schedules

// pack: what a block reads of a buffer in a loop is copied, tile by tile, in the order in which it is read
// (Goto and van de Geijn, 2008; BLIS). `Ap = pack T.i0 A (i,k) -> (i/14, k, i%14)` is cache_read, compute_at
// and transform_layout in one step, with their requirements. Without a loop, the whole buffer is copied. A
// const parameter only gets the layout: it is packed when compiling, and nothing is copied.
//
// With `pad`, the copy has full blocks in each dimension that the map divides. A partial tile has that value
// beyond the end of the buffer, so a kernel can read full blocks.
#include <numeric>
#include <sstream>

#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/simplify.h"
#include "schedules/definition.h"
#include "schedules/examples.h"

namespace nestor::schedules {

PrimFunc with_decl(const PrimFunc& f, const BufferDecl& decl);

namespace {

Step make_step(const std::string& primitive, std::vector<std::string> args) {
  Step s;
  s.primitive = primitive;
  s.args = std::move(args);
  return s;
}

// Legal loops of compute_at as steps of this primitive; other hints are told where they are no steps.
std::string own_hint(const StepContext& ctx, const std::string& hint) {
  std::string lines, line;
  std::istringstream text(hint);
  while (std::getline(text, line)) {
    const std::vector<Word> words = split_words(SourceLoc{"", 1, 1, 1, line});
    if (words.size() == 3 && words[0].text == "compute_at")
      lines += (lines.empty() ? "" : "\n") + ctx.instead(0, words[2].text);
  }
  if (!lines.empty()) return lines;
  for (const Primitive& p : primitives())
    if (hint.find(std::string(p.name) + " ") != std::string::npos) return "";
  return hint;
}

// Applies a step of another primitive; its refusal is one of this primitive's.
PrimFunc part(const StepContext& ctx, int requirement, int arg, const PrimFunc& f, const Step& step) {
  Decisions decisions;
  try {
    return apply_step(f, step, decisions);
  } catch (const ScheduleError& e) {
    std::string why = e.diagnostic().message;
    for (const std::string& note : e.diagnostic().notes) why += "\n" + note;
    ctx.refuse(requirement, arg, why, {}, own_hint(ctx, e.diagnostic().hint));
  }
}

// The size of the blocks that a dimension is taken apart into: the least common multiple of what it is
// divided by.
int64_t block_of(const std::vector<std::string>& exprs, const std::vector<std::string>& vars, size_t dim) {
  std::vector<Var> scope;
  for (const std::string& v : vars) scope.push_back(make_var(v));
  int64_t size = 1;
  for (const std::string& text : exprs)
    for_each_expr(parse_expr(text, scope), [&](const Expr& e) {
      const auto* b = e.as<Binary>();
      if (!b || (b->op != BinaryOp::mod && b->op != BinaryOp::div) || !uses_var(b->a, scope[dim])) return;
      if (const auto by = as_int(b->b); by && *by > 0 && *by < (1 << 20)) size = std::lcm(size, *by);
    });
  return size;
}

// The copy, made larger: whole blocks, with `pad` where the buffer has ended.
PrimFunc padded(const StepContext& ctx, const PrimFunc& f, const std::string& copy, const Expr& pad) {
  const IndexMapText map = ctx.map(2);
  const Place p = *find_place(f, copy);
  Block b = p.block();
  BufferDecl decl = decl_of(f, b.body.as<Store>()->buffer);
  Expr inside = make::bool_imm(true);
  std::vector<NewLoop> loops;
  for (size_t d = 0; d < b.iters.size(); ++d) {
    const int64_t size = block_of(map.exprs, map.vars, d);
    const Expr extent = decl.shape[d], whole = simplify((extent + (size - 1)) / size * size);
    loops.push_back({as_for(p.loops()[d]).var, whole});
    if (same_expr(whole, extent)) continue;
    inside = logical_and(inside, lt(b.iters[d].var, extent));
    decl.shape[d] = b.iters[d].extent = whole;
  }
  const auto* store = b.body.as<Store>();
  if (!is_const_int(inside, 1))
    b.body = make::store(store->buffer, store->indices, make::select(inside, store->value, pad));
  return with_decl(replace(f, p.loops()[0], nest(loops, make::block(std::move(b)))), decl);
}

PrimFunc run(StepContext& ctx) {
  const bool at_loop = ctx.names_loop(0);
  const Place p = at_loop ? ctx.loop(0).place : ctx.block(0);
  const Buffer x = ctx.buffer(1);
  const IndexMapText map = ctx.map(2);
  const auto pad = ctx.int_option("pad");
  Step layout = make_step("transform_layout", {x->name, "(" + join(map.vars, ", ") + ")", "->",
                                               "(" + join(map.exprs, ", ") + ")"});
  const Param* param = find_param(ctx.func(), x);
  if (param && param->role == Role::constant && !at_loop && !ctx.option("scope")) {
    if (!ctx.step().results.empty()) {
      Step unnamed = ctx.step();
      unnamed.results.clear();
      ctx.refuse_common(
          'A', loc_of_result(ctx.step(), 0),
          x->name + " is packed at compile time, where it is: there is no copy that could have a name",
          print(unnamed));
    }
    if (pad) layout.options.emplace_back("pad", std::to_string(*pad));
    return part(ctx, 3, 2, ctx.func(), layout);
  }
  ctx.expect_results(1);
  std::set<std::string> taken = block_and_buffer_names(ctx.func());
  const std::string copy = ctx.new_name(0, x->name + "_packed", taken);
  Step read = make_step("cache_read", {p.name(), x->name, ctx.choice("scope")});
  read.results = {copy};
  PrimFunc f = part(ctx, 1, 0, ctx.func(), read);
  layout.args[0] = copy;
  const PrimFunc shaped = part(ctx, 3, 2, f, layout);  // says first whether the map is one
  f = pad ? part(ctx, 3, 2, padded(ctx, f, copy, make::imm(static_cast<double>(*pad), x->type)), layout)
          : shaped;
  return at_loop ? part(ctx, 2, 0, f, make_step("compute_at", {copy, ctx.loop(0).text()})) : f;
}

}  // namespace

Primitive pack_row() {
  return {
      "pack",
      "XP",
      {{ArgKind::target, "T.i | T"}, {ArgKind::buffer, "X"}, {ArgKind::map, "(i, k) -> (i/14, k, i%14)"}},
      {{"scope", "global|shared|local", "the scope of the copy"},
       {"pad", "INT",
        "the value beyond the buffer's end in a partial tile; by default nothing is stored there"}},
      "Packs what a block reads of a buffer in a loop: copies it in the order in which it is read.",
      {"the requirements of cache_read for the block and the buffer",
       "the requirements of compute_at for the copy and the loop",
       "the requirements of transform_layout for the map and the buffer"},
      {examples::kMatmul,
       "i0 i1 = split Y.i [_, 14]\nreorder Y (i0 k i1 j)\nAp = pack Y.i0 A (i, k) -> (i/14, k, i%14) pad=0"},
      run};
}

}  // namespace nestor::schedules

// cache_write: a block computes into a new buffer, and a new block after it copies the result to the old one.
// All other blocks of the same nest that access the old buffer (an init, an epilogue) use the new one too.
#include "schedules/definition.h"
#include "schedules/examples.h"

namespace nestor::schedules {

std::optional<Scope> parse_scope(const std::string& name);

namespace {

// Whole by one block, or by an init block that a reduction goes on from.
bool nest_writes_whole(const StepContext& ctx, const std::vector<Place>& all, const Buffer& b) {
  for (const Place& w : all)
    if (writes_whole(ctx.func(), w, b)) return true;
  return false;
}

PrimFunc run(StepContext& ctx) {
  const Place p = ctx.block(0);
  const auto scope = parse_scope(ctx.word(1));
  if (!scope)
    ctx.refuse(3, 1, "`" + ctx.word(1) + "` isn't a scope", {}, "cache_write " + p.name() + " global");
  const BlockInfo info = inspect(p.block());
  if (info.kind == BlockKind::other) ctx.refuse(1, 0, info.why, {p.stmt});
  const Stmt root = root_of(ctx.func(), p);
  for (size_t i = 0; i < p.path.size(); ++i)
    if (const auto* a = p.path[i].as<Alloc>(); a && a->decl.buffer == info.out && p.depth_of(root) < i)
      ctx.refuse(4, 0, info.out->name + " is allocated inside of the loops", {p.path[i]});
  const auto all = writers(ctx.func(), info.out);
  for (const Place& w : all)
    if (!w.under(root))
      ctx.forbid(2, 0, "block " + w.name() + " writes " + info.out->name + " elsewhere", {w.stmt});
  if (!nest_writes_whole(ctx, all, info.out))
    ctx.forbid(2, 0, "no block is seen to write the whole of " + info.out->name, {p.stmt});

  ctx.expect_results(1);
  std::set<std::string> taken = block_and_buffer_names(ctx.func());
  const std::string copy = ctx.new_name(0, info.out->name + "_copy", taken);
  const BufferDecl old = decl_of(ctx.func(), info.out);
  BufferDecl decl = old;
  decl.buffer = make_buffer(unique_name(info.out->name + "_" + name_of(*scope), taken), info.out->type);
  decl.scope = *scope;
  decl.layout.reset();
  decl.align.clear();
  const std::vector<std::string> stems = dim_stems(p.block(), old);
  const Stmt changed = substitute(root, BufferMap{{info.out, decl.buffer}});
  PrimFunc f = replace(ctx.func(), root, make::seq({changed, copy_nest(copy, old, decl.buffer, stems)}));
  f.allocs.push_back(decl);
  return f;
}

}  // namespace

Primitive cache_write_row() {
  return {"cache_write",
          "C",
          {{ArgKind::block, "T"}, {ArgKind::word, "global|shared|local"}},
          {},
          "Makes a block compute into a new buffer; a new block after it copies the result to the old one.",
          {"the block writes one buffer, and a different element for each value of its S iterators",
           semantic("a block of the nest writes the complete buffer, and all its writers are in the nest"),
           "the scope is global, shared or local", "the buffer isn't allocated inside of the nest"},
          {examples::kMatmul, "C = cache_write Y local"},
          run};
}

}  // namespace nestor::schedules

// cache_read: a block reads a buffer through a copy, made by a new block before it. The whole buffer is
// copied; a compute_at afterwards moves the copy to where it is read, and shrinks it to the tile that is read
// there.
//
// With readers=all every later block that reads the buffer reads the copy too, so a row that several passes
// read is loaded once.
#include "schedules/definition.h"
#include "schedules/examples.h"

namespace nestor::schedules {

std::optional<Scope> parse_scope(const std::string& name);

namespace {

Stmt reading_copy(Block b, const BufferMap& map) {
  if (b.where) b.where = substitute(b.where, map);
  if (b.init) b.init = substitute(b.init, map);
  b.body = substitute(b.body, map);
  return make::block(std::move(b));
}

// The blocks that will read the copy, which is made before `root`.
std::vector<Place> reading(const StepContext& ctx, const Place& named, const Stmt& root, const Buffer& b) {
  if (ctx.choice("readers") == "one") return {named};
  std::vector<Place> out;
  bool behind = false;
  for (const Place& p : places(ctx.func().body)) {
    behind = behind || p.under(root);
    if (behind && !p.enclosed() && !holds_blocks(p.own()) && reads(p.block(), b)) out.push_back(p);
  }
  return out;
}

PrimFunc run(StepContext& ctx) {
  const Place p = ctx.block(0);
  const Buffer b = ctx.buffer(1);
  const auto scope = parse_scope(ctx.word(2));
  if (!scope)
    ctx.refuse(3, 2, "`" + ctx.word(2) + "` isn't a scope", {},
               "cache_read " + p.name() + " " + b->name + " global");
  if (!reads(p.block(), b)) {
    std::vector<std::string> names;
    for (const Buffer& r : read_buffers(p.block())) names.push_back(r->name);
    ctx.refuse(1, 1, p.name() + " doesn't read " + b->name, {p.stmt}, "it reads " + join(names, ", "));
  }
  if (writes(p.block(), b)) ctx.refuse(1, 1, p.name() + " writes " + b->name, {p.stmt});
  const Stmt root = root_of(ctx.func(), p);
  for (size_t i = 0; i < p.path.size(); ++i)
    if (const auto* a = p.path[i].as<Alloc>(); a && a->decl.buffer == b && p.depth_of(root) < i)
      ctx.refuse(4, 1, b->name + " is allocated inside of the loops", {p.path[i]});
  forbid_incomplete(ctx, 2, 1, p, b);

  ctx.expect_results(1);
  std::set<std::string> taken = block_and_buffer_names(ctx.func());
  const std::string name = ctx.new_name(0, b->name + "_" + name_of(*scope), taken);
  BufferDecl decl = decl_of(ctx.func(), b);
  const std::vector<std::string> stems = dim_stems(p.block(), decl);
  decl.buffer = make_buffer(name, b->type);
  decl.scope = *scope;
  decl.layout.reset();
  decl.align.clear();

  PrimFunc f = ctx.func();
  Stmt here = root;
  for (const Place& reader : reading(ctx, p, root, b)) {
    const Stmt changed = reading_copy(reader.block(), {{b, decl.buffer}});
    if (reader.under(root)) here = replace(here, reader.stmt, changed);
    if (!reader.under(root)) f = replace(f, reader.stmt, changed);
  }
  f = replace(f, root, make::seq({copy_nest(name, decl, b, stems), here}));
  f.allocs.push_back(decl);
  return f;
}

}  // namespace

Primitive cache_read_row() {
  return {
      "cache_read",
      "XS",
      {{ArgKind::block, "T"}, {ArgKind::buffer, "X"}, {ArgKind::word, "global|shared|local"}},
      {{"readers", "one|all", "all: every block from there on that reads the buffer reads the copy too"}},
      "Makes a block read a copy of a buffer; a new block before it makes the copy.",
      {"the block reads the buffer and doesn't write it",
       semantic("the buffer is a parameter, or completely written by statements before the block's loops"),
       "the scope is global, shared or local", "the buffer isn't allocated inside of those loops"},
      {examples::kMatmul, "BS = cache_read Y B global"},
      run};
}

}  // namespace nestor::schedules

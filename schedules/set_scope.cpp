// set_scope: where a temporary lives: global memory, a GPU block's shared memory, or registers (local).
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"

namespace nestor::schedules {

// Also used by cache_read and cache_write.
std::optional<Scope> parse_scope(const std::string& name) {
  for (const Scope s : {Scope::global, Scope::shared, Scope::local})
    if (name == name_of(s)) return s;
  return std::nullopt;
}

// f with the declaration of a temporary changed, wherever it stands.
PrimFunc with_decl(const PrimFunc& f, const BufferDecl& decl) {
  PrimFunc out = f;
  for (BufferDecl& d : out.allocs)
    if (d.buffer == decl.buffer) {
      d = decl;
      return out;
    }
  Stmt at;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>(); a && a->decl.buffer == decl.buffer) at = s;
  });
  return replace(f, at, make::alloc(decl, at.as<Alloc>()->body));
}

// Also used by transform_layout: the steps that give a parameter's elements a place of their own.
std::string cached_steps(const StepContext& ctx, const Buffer& b, const std::string& scope) {
  std::vector<std::string> steps;
  for (const Place& p : writers(ctx.func(), b)) steps.push_back("cache_write " + p.name() + " " + scope);
  for (const Place& p : readers(ctx.func(), b))
    if (writers(ctx.func(), b).empty())
      steps.push_back("cache_read " + p.name() + " " + b->name + " " + scope);
  return join(steps, "\n");
}

namespace {

PrimFunc run(StepContext& ctx) {
  const Buffer b = ctx.buffer(0);
  if (const Param* p = find_param(ctx.func(), b))
    ctx.refuse(1, 0, b->name + " is an `" + name_of(p->role) + "` parameter", {},
               cached_steps(ctx, b, "global"));
  const auto scope = parse_scope(ctx.word(1));
  if (!scope) ctx.refuse(2, 1, "`" + ctx.word(1) + "` isn't a scope", {}, "set_scope " + b->name + " global");
  BufferDecl decl = decl_of(ctx.func(), b);
  decl.scope = *scope;
  return with_decl(ctx.func(), decl);
}

}  // namespace

Primitive set_scope_row() {
  return {"set_scope",
          "",
          {{ArgKind::buffer, "X"}, {ArgKind::word, "global|shared|local"}},
          {},
          "Sets where a temporary is stored: memory, shared memory of a GPU block, or registers.",
          {"the buffer is a temporary", "the scope is global, shared or local"},
          {examples::kEpilogue, "set_scope T local"},
          run};
}

}  // namespace nestor::schedules

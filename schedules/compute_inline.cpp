// compute_inline: removes a producer; each read of its buffer becomes the expression that it would have
// stored.
//
// The element read was written before (else the function read garbage), so its index is in the producer's
// domain, and the expression is valid wherever the read is evaluated. Reads that a select doesn't evaluate
// stay unevaluated.
#include "schedules/definition.h"
#include "schedules/examples.h"
#include "schedules/independence.h"

namespace nestor::schedules {

namespace {

struct Inliner : Rewriter {
  Buffer buffer;
  const Block* producer = nullptr;
  Definition definition;
  Stmt stmt(const Stmt& s) override { return s->inside.buffers & Inside::bit_of(buffer) ? children(s) : s; }
  Expr expr(const Expr& e) override {
    if (!(e->buffers & Inside::bit_of(buffer))) return e;
    const Expr out = children(e);
    const auto* l = out.as<Load>();
    if (!l || l->buffer != buffer) return out;
    VarMap map;
    for (const IterVar& i : producer->iters) map[i.var] = Expr(0);
    for (size_t d = 0; d < l->indices.size(); ++d)
      if (definition.iterator_of_dim[d] >= 0)
        map[producer->iters[static_cast<size_t>(definition.iterator_of_dim[d])].var] = l->indices[d];
    return substitute(definition.store->value, map);
  }
};

PrimFunc run(StepContext& ctx) {
  const Place p = ctx.block(0);
  std::string why;
  const auto definition = definition_of(p.block(), &why);
  if (!definition) ctx.refuse(1, 0, why, {p.stmt});
  const Buffer out = definition->store->buffer;
  if (const Param* param = find_param(ctx.func(), out))
    ctx.forbid(2, 0, out->name + " is an `" + name_of(param->role) + "` parameter", {p.stmt},
               "reverse_compute_inline " + p.name());
  if (writers(ctx.func(), out).size() > 1)
    ctx.forbid(2, 0, "other blocks write " + out->name + " too", {p.stmt});
  const auto consumers = readers(ctx.func(), out);
  if (consumers.empty()) ctx.refuse(3, 0, "nothing reads " + out->name, {p.stmt});
  const std::vector<Place> all = places(ctx.func().body);
  const std::vector<Buffer> inputs = read_buffers(p.block());
  bool passed = false;
  for (const Place& q : all) {
    for (const Buffer& b : inputs)
      if (passed && writes(q.block(), b))
        ctx.forbid(4, 0, "block " + q.name() + " writes " + b->name + " after it", {p.stmt, q.stmt});
    passed = passed || q.stmt.same_as(p.stmt);
  }
  if (const auto c = find_overwriting(ctx.func(), p, consumers)) ctx.forbid(4, 0, c->why, c->blocks);
  for (const Buffer& b : read_buffers(p.block()))
    if (declared_at(ctx.func(), p.path, b).value_or(-1) > declared_at(ctx.func(), p.path, out).value_or(-1))
      ctx.refuse(5, 0, b->name + " doesn't live as long as " + out->name, {p.stmt});

  PrimFunc f = replace(ctx.func(), p.stmt, Stmt());
  Inliner inliner;
  inliner.buffer = out;
  inliner.producer = &p.block();
  inliner.definition = *definition;
  f.body = inliner.stmt(f.body);
  return writers(f, out).empty() ? without_decl(f, out) : f;
}

}  // namespace

Primitive compute_inline_row() {
  return {
      "compute_inline",
      "",
      {{ArgKind::block, "P"}},
      {},
      "Removes a producer; its consumers compute its values themselves.",
      {"the block is one store, indexed by distinct plain iterators",
       semantic("it is the only writer of its buffer, which is a temporary"), "some block reads the buffer",
       semantic("its inputs aren't written after it"), "its inputs are in scope wherever its buffer is"},
      {examples::kChain, "compute_inline T"},
      run};
}

}  // namespace nestor::schedules

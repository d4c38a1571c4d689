// reverse_compute_inline: a consumer disappears into the block that computes what it reads; that block then
// stores the consumer's result directly, at the consumer's place.
//
// The producer's iterators become the consumer's, u = v - c where it reads T[u + c], with the consumer's
// domains: where it reads only a part of T, only that part runs. (TVM dropped that predicate: issue 15911,
// pull request 17838.)
#include <algorithm>

#include "nestor/replace_load.h"
#include "schedules/definition.h"
#include "schedules/examples.h"
#include "schedules/independence.h"

namespace nestor::schedules {

namespace {

struct Pair {
  Place consumer, producer;
  Definition made;  // by the producer
  Buffer temporary;
  std::vector<Expr> read;  // indices at which the consumer reads it
};

// The consumer can still come to the producer's loops.
std::string move_instead(const Pair& p) {
  std::vector<std::string> steps;
  for (const Stmt& l : p.producer.loops())
    steps.push_back("reverse_compute_at " + p.consumer.name() + " " + p.producer.name() + "." + loop_name(l));
  return join(steps, "\n");
}

Place find_producer(const StepContext& ctx, const Place& consumer) {
  std::optional<Place> last;
  const std::vector<Buffer> inputs = read_buffers(consumer.block());
  for (const Place& q : places(ctx.func().body)) {
    if (q.stmt.same_as(consumer.stmt)) break;
    for (const Buffer& b : inputs)
      if (writes(q.block(), b)) last = q;
  }
  if (!last) ctx.refuse(2, 0, "no block before it writes its input", {consumer.stmt});
  return *last;
}

// In a loop that both share, an instance that came to run in another iteration than before would see the
// other inputs made there in another state. `old` and `renewed` bind the same iterator.
void check_shared_loops(const StepContext& ctx, const Pair& p, const Expr& old, const Expr& renewed) {
  const Buffer out = inspect(p.consumer.block()).out;
  const auto bounds = [&](const Place& of, const Expr& e, const std::vector<Stmt>& shared) {
    std::unordered_map<Var, Interval> moving;
    std::unordered_set<Var> fixed = sizes_at(of);
    VarMap open;
    for (const Stmt& l : of.loops()) {
      moving[as_for(l).var] = range_of_loop(l);
      if (is_open(l, fixed)) open[as_for(l).var] = as_for(l).extent;
    }
    for (const Stmt& l : shared) {
      moving.erase(as_for(l).var);
      fixed.insert(as_for(l).var);
    }
    return bound_of(e, moving, fixed, open);
  };
  for (const Place& q : places(ctx.func().body)) {
    if (q.stmt.same_as(p.consumer.stmt) || q.stmt.same_as(p.producer.stmt)) continue;
    bool touches = writes(q.block(), out) || reads(q.block(), out);
    for (const Buffer& b : read_buffers(p.consumer.block()))
      touches = touches || (b != p.temporary && writes(q.block(), b));
    std::vector<Stmt> shared;
    for (const Stmt& l : q.loops())
      if (p.consumer.under(l) && p.producer.under(l) && extent_of(l) != 1) shared.push_back(l);
    if (!touches || shared.empty()) continue;
    const auto x = bounds(p.consumer, old, shared), y = bounds(p.producer, renewed, shared);
    if (!x || !y || !is_zero(add(x->base, y->base, -1)) || x->lo != y->lo ||
        !is_zero(add(x->last(), y->last(), -1)))
      ctx.forbid(5, 0,
                 "it would run in another iteration of " + loop_name(shared.back()) +
                     " than now, where block " + q.name() + " accesses the same elements",
                 {q.stmt, p.consumer.stmt});
  }
}

// In a loop around the producer, but not around the consumer, the other inputs made there are not complete.
void check_producers_loops(const StepContext& ctx, const Pair& p) {
  const std::vector<Buffer> inputs = read_buffers(p.consumer.block());
  for (const Place& q : places(ctx.func().body)) {
    if (q.stmt.same_as(p.producer.stmt)) continue;
    const bool makes = std::any_of(inputs.begin(), inputs.end(),
                                   [&](const Buffer& b) { return b != p.temporary && writes(q.block(), b); });
    for (const Stmt& l : q.loops())
      if (makes && extent_of(l) != 1 && p.producer.under(l) && !p.consumer.under(l))
        ctx.forbid(5, 0,
                   "it would run inside of " + loop_name(l) + ", where block " + q.name() +
                       " hasn't yet computed all of its inputs",
                   {q.stmt, p.consumer.stmt});
  }
}

void check_visible(const StepContext& ctx, const Pair& p) {
  for (const BlockAccess& a : accesses_of(p.consumer.block()))
    if (!declared_at(ctx.func(), p.producer.path, a.buffer))
      ctx.refuse(7, 0, a.buffer->name + " is not declared around " + p.producer.name(), {p.producer.stmt});
}

Pair read_pair(const StepContext& ctx) {
  Pair p;
  p.consumer = ctx.block(0);
  std::string why;
  const BlockInfo info = inspect(p.consumer.block());
  if (info.kind != BlockKind::map || !p.consumer.block().body.as<Store>())
    ctx.refuse(1, 0, info.why.empty() ? p.consumer.name() + " is not a single store" : info.why,
               {p.consumer.stmt});
  if (writers(ctx.func(), info.out).size() > 1)
    ctx.refuse(1, 0, "other blocks write " + info.out->name + " too", {p.consumer.stmt});
  p.producer = find_producer(ctx, p.consumer);
  if (p.producer.enclosed())
    ctx.refuse(2, 0, p.producer.name() + " is inside of another block", {p.producer.stmt});
  const auto made = definition_of(p.producer.block(), &why);
  if (!made) ctx.refuse(2, 0, why, {p.producer.stmt}, move_instead(p));
  p.made = *made;
  p.temporary = made->store->buffer;
  if (!is_temporary(ctx.func(), p.temporary))
    ctx.forbid(3, 0, p.temporary->name + " is a parameter", {p.producer.stmt});
  if (writers(ctx.func(), p.temporary).size() > 1)
    ctx.forbid(3, 0, "other blocks write " + p.temporary->name + " too", {p.producer.stmt});
  for (const Place& q : readers(ctx.func(), p.temporary))
    if (!q.stmt.same_as(p.consumer.stmt))
      ctx.forbid(3, 0, "block " + q.name() + " reads " + p.temporary->name + " too", {q.stmt});
  for (const BlockAccess& a : accesses_of(p.consumer.block())) {
    if (a.buffer != p.temporary) continue;
    for (size_t d = 0; d < a.indices.size() && !p.read.empty(); ++d)
      if (!same_expr(a.indices[d], p.read[d]))
        ctx.forbid(6, 0, p.consumer.name() + " reads " + p.temporary->name + " at several places",
                   {p.consumer.stmt});
    p.read = a.indices;
  }
  check_visible(ctx, p);
  check_producers_loops(ctx, p);
  if (const auto c = find_hurried(ctx.func(), p.consumer, p.producer)) ctx.forbid(5, 0, c->why, c->blocks);
  return p;
}

PrimFunc run(StepContext& ctx) {
  const Pair p = read_pair(ctx);
  const Block &from = p.producer.block(), &to = p.consumer.block();
  Block merged = from;
  merged.iters.clear();
  VarMap of_producer, of_consumer;
  std::vector<bool> tied(to.iters.size(), false);
  std::vector<std::optional<IterVar>> renewed(from.iters.size());
  for (size_t d = 0; d < p.read.size(); ++d) {
    const int k = p.made.iterator_of_dim[d];
    if (k < 0) continue;
    const IterVar& v = from.iters[static_cast<size_t>(k)];
    const Linear index = linear_of(p.read[d]);
    if (index.is_constant() && is_const_int(v.extent, 1)) continue;
    size_t u = to.iters.size();
    if (index.terms.size() == 1 && index.terms[0].coefficient == 1)
      for (size_t j = 0; j < to.iters.size(); ++j)
        if (index.terms[0].atom.as<VarRef>() && index.terms[0].atom.as<VarRef>()->var == to.iters[j].var)
          u = j;
    if (u == to.iters.size() || tied[u])
      ctx.refuse(4, 0,
                 to.id->name + " reads " + p.temporary->name + " at something other than distinct iterators",
                 {p.consumer.stmt});
    tied[u] = true;
    const Linear last = add(linear_of(to.iters[u].extent), number(index.constant - 1));
    if (!reaches(p.producer, p.temporary, d, index.constant, last))
      ctx.forbid(6, 0, to.id->name + " has instances where " + from.id->name + " has none",
                 {p.consumer.stmt, p.producer.stmt}, "compute_inline " + from.id->name);
    IterVar i = v;
    i.var = make_var(v.var->name);
    i.extent = to.iters[u].extent;
    i.binding = v.binding - Expr(index.constant);
    of_producer[v.var] = Expr(i.var) + Expr(index.constant);
    check_shared_loops(ctx, p, to.iters[u].binding, i.binding);
    of_consumer[to.iters[u].var] = Expr(i.var);
    renewed[static_cast<size_t>(k)] = i;
  }
  for (size_t j = 0; j < to.iters.size(); ++j) {
    if (tied[j] || is_guard(to, to.iters[j])) continue;
    if (!is_const_int(to.iters[j].extent, 1))
      ctx.refuse(4, 0, to.iters[j].var->name + " is not given by the place it reads", {p.consumer.stmt});
    of_consumer[to.iters[j].var] = Expr(0);
  }
  for (size_t k = 0; k < from.iters.size(); ++k) merged.iters.push_back(renewed[k].value_or(from.iters[k]));

  const Expr value = substitute(p.made.store->value, of_producer);
  // The consumer's iterators go first, since the producer's value may use variables of the same function.
  merged.body = replace_load(substitute(to.body, of_consumer), p.temporary, value);
  if (from.where) merged.where = substitute(from.where, of_producer);
  if (to.where) {
    const Expr where = replace_load(substitute(to.where, of_consumer), p.temporary, value);
    merged.where = merged.where ? logical_and(merged.where, where) : where;
  }
  PrimFunc f = replace(ctx.func(), p.producer.stmt, make::block(std::move(merged)));
  f = replace(f, p.consumer.stmt, Stmt());
  const bool unused = writers(f, p.temporary).empty() && readers(f, p.temporary).empty();
  return unused && is_temporary(f, p.temporary) ? without_decl(f, p.temporary) : f;
}

}  // namespace

Primitive reverse_compute_inline_row() {
  return {
      "reverse_compute_inline",
      "",
      {{ArgKind::block, "C"}},
      {},
      "Removes a consumer; the block that computes its input computes its result directly.",
      {"the block is one store, a map, and the only writer of its buffer",
       "its producer, the last block that writes its input, is one store, indexed by distinct plain "
       "iterators",
       semantic("nothing else accesses the producer's buffer, which is a temporary"),
       "it reads that buffer at distinct iterators plus constants, which determine all its iterators",
       semantic("if its other inputs are computed in loops that it shares with the producer, it runs in the "
                "same iterations of these loops as before. No later block computes them in earlier "
                "iterations of the loops that it leaves"),
       semantic(
           "it reads that buffer at one place, and each element that it reads is written by the producer"),
       "its buffers are in scope at the producer"},
      {examples::kChain, "reverse_compute_inline Y"},
      run};
}

}  // namespace nestor::schedules

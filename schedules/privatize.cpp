// A temporary that conflicts only because the iterations of a loop share it becomes private to each
// iteration: its allocation moves into the loop. This requires that an iteration writes every element before
// it reads it, and that nothing outside of the loop accesses it.
#include "schedules/privatize.h"

#include <algorithm>

#include "schedules/exact_region.h"
#include "schedules/independence.h"
#include "schedules/move.h"
#include "schedules/primitive.h"
#include "schedules/region.h"

namespace nestor::schedules {

namespace {

bool covers(const PrimFunc& f, const Place& writer, const BlockAccess& write, const Place& reader,
            const BlockAccess& read) {
  std::vector<Stmt> standing;  // the loops that both are under
  for (const Stmt& l : writer.loops())
    if (reader.under(l)) standing.push_back(l);
  const auto counted = exact_region(writer, write, standing);
  if (!(counted && counted->full) && !fills_region(writer, write, standing)) return false;
  for (const IterVar& i : writer.block().iters) {
    if (!is_guard(writer.block(), i)) continue;
    for (const Var& v :
         vars_of(i.binding)) {  // one on a standing loop: nothing is written in some iterations
      const bool stands =
          std::any_of(standing.begin(), standing.end(), [&](const Stmt& l) { return as_for(l).var == v; });
      if (stands || !(counted && counted->full)) return false;
    }
  }
  const BufferDecl decl = decl_of(f, write.buffer);
  const auto w = counted && counted->full ? counted->dims : region_of(writer, write, standing);
  const auto counted_reads = exact_region(reader, read, standing);
  const auto r = counted_reads ? counted_reads->dims : region_of(reader, read, standing);
  for (size_t d = 0; d < w.size(); ++d) {
    if (!w[d]) return false;
    const Bound& x = *w[d];
    const auto extent = as_int(decl.shape[d]);
    if (x.base.is_constant() && extent && x.base.constant + x.lo <= 0 &&
        x.base.constant + x.hi >= *extent - 1)
      continue;
    if (!r[d]) return false;
    const Linear difference = add(r[d]->base, x.base, -1);
    if (!difference.is_constant()) return false;
    if (r[d]->lo + difference.constant < x.lo || r[d]->hi + difference.constant > x.hi) return false;
  }
  return true;
}

}  // namespace

bool written_before_read(const PrimFunc& f, const Stmt& loop, const Buffer& b) {
  if (!is_temporary(f, b)) return false;
  const std::vector<Place> all = places_touching(f.body, b);
  const Place* first = nullptr;
  BlockAccess write;
  for (const Place& p : all) {
    for (const BlockAccess& a : accesses_at(p, [&](const Buffer& other) { return other == b; })) {
      if (!p.under(loop)) return false;
      if (a.write)
        for (const IterVar& i : p.block().iters)
          if (i.kind == IterKind::reduce && uses_var(i.binding, as_for(loop).var)) return false;
      if (!first) {
        // The first writer defines its elements by itself: a store, or an update with an init.
        bool defines = a.write && !p.block().where && inspect(p.block()).kind != BlockKind::other &&
                       (!inspect(p.block()).update || p.block().init);
        for (const IterVar& i : p.block().iters)
          defines = defines && (i.kind == IterKind::spatial || begins_at_zero(p, i));
        if (!defines) return false;
        first = &p;
        write = a;
      }
      if (&p != first && a.read && !covers(f, *first, write, p, a)) return false;
    }
  }
  return first != nullptr;
}

namespace {

PrimFunc move_allocation(const PrimFunc& f, const Stmt& loop, const Buffer& b) {
  const BufferDecl decl = decl_of(f, b);
  PrimFunc out = f;
  Stmt moved = with_body(loop, make::alloc(decl, as_for(loop).body));
  out = replace(out, loop, moved);
  const auto at =
      std::find_if(out.allocs.begin(), out.allocs.end(), [&](const BufferDecl& d) { return d.buffer == b; });
  if (at != out.allocs.end()) {
    out.allocs.erase(at);
    return out;
  }
  Stmt old;  // an allocation further out, inside the body
  for_each_stmt(out.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>(); a && a->decl.buffer == b && !old) old = s;
  });
  return replace(out, old, old.as<Alloc>()->body);
}

}  // namespace

std::optional<Conflict> make_independent(PrimFunc& f, const Var& var, bool may_privatize) {
  PrimFunc work = f;
  for (;;) {
    const Stmt loop = loop_with(work, var);
    NESTOR_CHECK(loop) << "no loop " << var->name;
    auto conflict = [&] {
      const QuietRefusals quiet;  // most of them will be resolved
      return find_conflict(work, loop);
    }();
    if (!conflict) break;
    if (!may_privatize || !written_before_read(work, loop, conflict->buffer)) {
      // The blocks are of `work`; give those of f, which the caller can print.
      Conflict out = *find_conflict(work, loop);
      for (Stmt& b : out.blocks)
        if (const auto p = find_place(f, b.as<Block>()->id->name)) b = p->stmt;
      return out;
    }
    work = move_allocation(work, loop, conflict->buffer);
  }
  f = std::move(work);
  return std::nullopt;
}

}  // namespace nestor::schedules

#include "schedules/definition.h"

#include <algorithm>

#include "schedules/region.h"

namespace nestor::schedules {

std::optional<Definition> definition_of(const Block& b, std::string* why) {
  const auto no = [&](const std::string& reason) {
    *why = "block " + b.id->name + " " + reason;
    return std::nullopt;
  };
  Definition d;
  d.store = b.body.as<Store>();
  if (!d.store || b.init) return no("is not a single store");
  const BlockInfo info = inspect(b);
  if (info.kind != BlockKind::map) {
    *why = info.why;
    return std::nullopt;
  }
  for (const Expr& e : d.store->indices) {
    int found = -1;
    for (size_t k = 0; k < b.iters.size(); ++k)
      if (e.as<VarRef>() && e.as<VarRef>()->var == b.iters[k].var) found = static_cast<int>(k);
    const bool twice = found >= 0 && std::count(d.iterator_of_dim.begin(), d.iterator_of_dim.end(), found);
    if (twice || (found < 0 && !as_int(e))) return no("stores at something other than its iterators");
    d.iterator_of_dim.push_back(found);
  }
  for (size_t k = 0; k < b.iters.size(); ++k) {
    const bool used = std::count(d.iterator_of_dim.begin(), d.iterator_of_dim.end(), static_cast<int>(k)) > 0;
    if (!used && !is_guard(b, b.iters[k]) && !is_const_int(b.iters[k].extent, 1))
      return no("has the iterator " + b.iters[k].var->name + " beside its element's place");
  }
  return d;
}

bool writes_whole(const PrimFunc& f, const Place& p, const Buffer& b) {
  const BlockInfo info = inspect(p.block());
  if (info.kind == BlockKind::other || info.out != b || p.block().where) return false;
  if (info.kind == BlockKind::reduction && !p.block().init) return false;
  for (const IterVar& i : p.block().iters)  // else its init never runs: it goes on with what is there
    if (i.kind == IterKind::reduce && !begins_at_zero(p, i)) return false;
  const BufferDecl decl = decl_of(f, b);
  const auto never = [](const Stmt& l) { return extent_of(l) == 0; };
  const auto empty = [](const Expr& e) { return is_const_int(e, 0); };
  const std::vector<Stmt> loops = p.loops();
  if (std::any_of(loops.begin(), loops.end(), never) &&
      std::none_of(decl.shape.begin(), decl.shape.end(), empty))
    return false;  // it never runs
  for (const BlockAccess& a : accesses_of(p.block())) {
    if (!a.write) continue;
    std::vector<Var> used;
    for (size_t d = 0; d < a.indices.size(); ++d) {
      const auto* r = a.indices[d].as<VarRef>();
      if (!r && is_const_int(a.indices[d], 0) && is_const_int(decl.shape[d], 1)) continue;
      if (!r || std::count(used.begin(), used.end(), r->var)) return false;
      used.push_back(r->var);
      for (const IterVar& i : p.block().iters)
        if (i.var == r->var && !same_expr(i.extent, decl.shape[d])) return false;
    }
    break;
  }
  for (const BlockAccess& a : accesses_at(p)) {
    if (!a.write) continue;
    const auto bounds = region_of(p, a, {});
    for (size_t d = 0; d < bounds.size(); ++d) {
      if (!bounds[d] || !bounds[d]->base.is_constant()) return false;
      const Linear base = bounds[d]->base, extent = linear_of(decl.shape[d]);
      if (base.constant + bounds[d]->lo > 0) return false;
      if (!surely_le(extent, add(add(base, bounds[d]->last()), number(1)))) return false;
    }
    return fills_region(p, a, {});
  }
  return false;
}

namespace {

// Do the loops run through the whole domain of each guard? A part of a loop may be nothing but its overhang.
bool guards_pass(const Place& p) {
  for (const IterVar& i : p.block().iters) {
    if (!is_guard(p.block(), i)) continue;
    const auto extent = as_int(i.extent), always = as_int(i.binding);
    if (always && extent && 0 <= *always && *always < *extent) continue;
    if (always || !covers_domain(p, i)) return false;
    if (!gapless(p, {nullptr, {i.binding}}, {})) return false;
  }
  return true;
}

}  // namespace

bool reaches(const Place& writer, const Buffer& b, size_t d, int64_t lo, const Linear& hi) {
  for (const BlockAccess& a : accesses_at(writer, [&](const Buffer& other) { return other == b; })) {
    if (!a.write) continue;
    const auto bound = region_of(writer, a, {})[d];
    if (!bound || !bound->base.is_constant()) return false;
    bool in_domain = true;
    for (const BlockAccess& logical : accesses_of(writer.block()))
      if (logical.write && logical.buffer == b)
        for (const IterVar& i : writer.block().iters)
          if (logical.indices[d].as<VarRef>() && logical.indices[d].as<VarRef>()->var == i.var)
            in_domain = surely_le(add(hi, number(1)), linear_of(i.extent));
    return bound->base.constant + bound->lo <= lo && in_domain &&
           surely_le(hi, add(bound->base, bound->last())) && gapless(writer, a, {}) && guards_pass(writer) &&
           runs_where_elements_are(writer, a, {});
  }
  return false;
}

PrimFunc without_decl(const PrimFunc& f, const Buffer& b) {
  PrimFunc out = f;
  std::erase_if(out.allocs, [&](const BufferDecl& d) { return d.buffer == b; });
  if (out.allocs.size() != f.allocs.size()) return out;
  Stmt at;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>(); a && a->decl.buffer == b) at = s;
  });
  return at ? replace(f, at, at.as<Alloc>()->body) : out;
}

Stmt root_of(const PrimFunc& f, const Place& p) {
  for (size_t i = 0; i < p.path.size(); ++i)
    if (!p.path[i].as<Seq>() && !p.path[i].as<Alloc>() && !p.path[i].as<LetStmt>()) return p.path[i];
  return p.path.empty() ? f.body : p.stmt;
}

void forbid_incomplete(const StepContext& ctx, int requirement, int arg, const Place& p, const Buffer& b) {
  const Stmt root = root_of(ctx.func(), p);
  bool whole = find_param(ctx.func(), b) && find_param(ctx.func(), b)->role != Role::out;
  std::vector<Place> before = places(ctx.func().body);
  const size_t mine = [&] {
    for (size_t i = 0; i < before.size(); ++i)
      if (before[i].under(root)) return i;
    return before.size();
  }();
  for (const Place& w : writers(ctx.func(), b)) {
    size_t at = 0;
    while (!before[at].stmt.same_as(w.stmt)) ++at;
    if (at >= mine)
      ctx.forbid(requirement, arg, "block " + w.name() + " writes it in or after the same loops",
                 {w.stmt, p.stmt});
    whole = whole || writes_whole(ctx.func(), w, b);
  }
  if (!whole) ctx.forbid(requirement, arg, "no block is seen to write the whole of " + b->name, {p.stmt});
}

Stmt copy_nest(const std::string& name, const BufferDecl& to, const Buffer& from,
               const std::vector<std::string>& stems) {
  Block b;
  b.id = make_block_id(name);
  std::vector<NewLoop> loops;
  std::vector<Expr> place;
  std::set<std::string> taken;
  for (size_t d = 0; d < to.shape.size(); ++d) {
    const std::string stem = unique_name(stems[d], taken);
    const Var loop = make_var(stem), iterator = make_var("v" + stem);
    taken.insert(stem);
    taken.insert("v" + stem);
    loops.push_back({loop, to.shape[d]});
    b.iters.push_back({iterator, IterKind::spatial, to.shape[d], Expr(loop)});
    place.emplace_back(iterator);
  }
  b.body = make::store(to.buffer, place, make::load(from, place));
  return nest(loops, make::block(std::move(b)));
}

std::vector<std::string> dim_stems(const Block& block, const BufferDecl& b) {
  std::vector<std::string> out;
  for (size_t d = 0; d < b.shape.size(); ++d) {
    std::string stem = "d" + std::to_string(d);
    for (const BlockAccess& a : accesses_of(block))
      if (a.buffer == b.buffer && a.indices[d].as<VarRef>())
        stem = loop_stem(a.indices[d].as<VarRef>()->var->name);
    out.push_back(stem);
  }
  return out;
}

}  // namespace nestor::schedules

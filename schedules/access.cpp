#include "schedules/access.h"

#include <algorithm>

#include "nestor/error.h"

namespace nestor {

namespace {

struct AccessCollector : Walker {
  explicit AccessCollector(const BufferTest& w) : wanted(w) {}
  const BufferTest& wanted;
  std::vector<BlockAccess> out;

  void add(const Buffer& b, const std::vector<Expr>& indices, bool write, bool read) {
    if (wanted(b)) out.push_back({b, indices, write, read});
  }
  void expr(const Expr& e) override {
    if (const auto* l = e.as<Load>()) add(l->buffer, l->indices, false, true);
    children(e);
  }
  void stmt(const Stmt& s) override {
    if (s.as<Block>()) return;  // has accesses of its own
    children(s);
    if (const auto* st = s.as<Store>()) add(st->buffer, st->indices, true, false);
    if (const auto* u = s.as<Update>()) add(u->buffer, u->indices, true, true);
  }
};

bool any_buffer(const Buffer&) {
  return true;
}

}  // namespace

std::vector<BlockAccess> accesses_of(const Block& b) {
  return accesses_of(b, any_buffer);
}
std::vector<BlockAccess> accesses_of(const Block& b, const BufferTest& wanted) {
  AccessCollector c(wanted);
  if (b.where) c.expr(b.where);
  if (b.init) c.stmt(b.init);
  c.stmt(b.body);
  return std::move(c.out);
}

namespace schedules {

VarMap bindings_of(const Block& b) {
  VarMap map;
  for (const IterVar& i : b.iters) map[i.var] = i.binding;
  return map;
}

std::vector<BlockAccess> accesses_at(const Place& p) {
  return accesses_at(p, any_buffer);
}
std::vector<BlockAccess> accesses_at(const Place& p, const BufferTest& wanted) {
  std::vector<BlockAccess> out = accesses_of(p.block(), wanted);
  if (out.empty()) return out;
  const VarMap map = bindings_of(p.block());
  // Simplified, so that what is equal mostly looks equal: bases of bounds are compared term by term.
  const Facts facts = facts_at(p);
  std::vector<std::pair<Expr, Expr>> known;  // an update's indices are mostly its init's
  for (BlockAccess& a : out)
    for (Expr& i : a.indices) {
      auto at =
          std::find_if(known.begin(), known.end(), [&](const auto& k) { return same_expr(k.first, i); });
      if (at == known.end()) at = known.insert(at, {i, simplify(substitute(i, map), facts)});
      i = at->second;
    }
  return out;
}

bool is_guard(const Block& b, const IterVar& i) {
  if (i.kind != IterKind::spatial) return false;
  return !uses_var(b.body, i.var) && !(b.init && uses_var(b.init, i.var)) &&
         !(b.where && uses_var(b.where, i.var));
}

Interval range_of_loop(const Stmt& loop) {
  const int64_t extent = extent_of(loop);
  return {0, extent < 0 ? Interval::kMax : extent - 1};
}

Facts facts_at(const Place& p) {
  Facts facts;
  for (const Var& size : sizes_at(p)) facts.set(size, {0, Interval::kMax});
  for (const Stmt& l : p.loops()) facts.set(as_for(l).var, range_of_loop(l));
  return facts;
}

std::unordered_set<Var> sizes_at(const Place& p) {
  std::unordered_set<Var> out;
  const auto add = [&](const Expr& extent) {
    if (!as_int(extent))
      for (const Var& v : vars_of(extent)) out.insert(v);
  };
  for (const IterVar& i : p.block().iters) add(i.extent);
  for (const Stmt& s : p.path) {
    if (s.as<For>()) add(as_for(s).extent);
    if (const auto* b = s.as<Block>())
      for (const IterVar& i : b->iters) add(i.extent);
  }
  for (const Stmt& s : p.path) {
    if (s.as<For>()) out.erase(as_for(s).var);
    if (const auto* l = s.as<LetStmt>()) out.erase(l->var);
    if (const auto* b = s.as<Block>())
      for (const IterVar& i : b->iters) out.erase(i.var);
  }
  for (const IterVar& i : p.block().iters) out.erase(i.var);
  return out;
}

bool is_open(const Stmt& loop, const std::unordered_set<Var>& sizes) {
  if (extent_of(loop) >= 0) return false;
  const std::vector<Var> vars = vars_of(as_for(loop).extent);
  return !has_load(as_for(loop).extent) &&
         std::all_of(vars.begin(), vars.end(), [&](const Var& v) { return sizes.count(v) > 0; });
}

namespace {

bool may_touch(const Block& b, const Buffer& buffer) {
  const uint64_t inside =
      b.body->inside.buffers | (b.init ? b.init->inside.buffers : 0) | (b.where ? b.where->buffers : 0);
  return inside & Inside::bit_of(buffer);
}

}  // namespace

bool writes(const Block& b, const Buffer& buffer) {
  if (!may_touch(b, buffer)) return false;
  const auto all = accesses_of(b, [&](const Buffer& x) { return x == buffer; });
  return std::any_of(all.begin(), all.end(), [](const BlockAccess& a) { return a.write; });
}
bool reads(const Block& b, const Buffer& buffer) {
  if (!may_touch(b, buffer)) return false;
  const auto all = accesses_of(b, [&](const Buffer& x) { return x == buffer; });
  return std::any_of(all.begin(), all.end(), [](const BlockAccess& a) { return a.read; });
}

std::vector<Place> writers(const PrimFunc& f, const Buffer& b) {
  std::vector<Place> out;
  for (Place& p : places_touching(f.body, b))
    if (writes(p.block(), b)) out.push_back(std::move(p));
  return out;
}
std::vector<Place> readers(const PrimFunc& f, const Buffer& b) {
  std::vector<Place> out;
  for (Place& p : places_touching(f.body, b))
    if (reads(p.block(), b)) out.push_back(std::move(p));
  return out;
}

std::vector<Buffer> read_buffers(const Block& b) {
  std::vector<Buffer> out;
  for (const BlockAccess& a : accesses_of(b))
    if (a.read && std::find(out.begin(), out.end(), a.buffer) == out.end()) out.push_back(a.buffer);
  return out;
}

namespace {

// Do the indices tell the value of every S iterator that the work uses?
bool tells_spatial(const Block& b, const std::vector<Expr>& indices) {
  Solver solver;
  for (const IterVar& i : b.iters)
    if (const auto extent = as_int(i.extent))
      solver.range(i.var, {0, *extent - 1});
    else
      solver.range(i.var, {0, Interval::kMax});
  const auto is_iterator = [&](const Var& v) {
    return std::any_of(b.iters.begin(), b.iters.end(), [&](const IterVar& i) { return i.var == v; });
  };
  for (const Expr& index : indices) {
    solver.know(index);
    for_each_expr(index, [&](const Expr& e) {  // others are sizes
      if (const auto* r = e.as<VarRef>(); r && !is_iterator(r->var)) solver.know(r->var);
    });
  }
  solver.solve();
  return std::all_of(b.iters.begin(), b.iters.end(), [&](const IterVar& i) {
    return i.kind == IterKind::reduce || is_guard(b, i) || solver.knows(i.var);
  });
}

bool same_indices(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same_expr(a[i], b[i])) return false;
  return true;
}

bool has_loops(const Stmt& s) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& inner) { found = found || inner.as<For>() || inner.as<Block>(); });
  return found;
}

const Update* only_update(const Block& b, int* count) {
  const Update* update = nullptr;
  for_each_stmt(b.body, [&](const Stmt& s) {
    if (const auto* u = s.as<Update>()) {
      update = u;
      ++*count;
    }
  });
  return update;
}

}  // namespace

BlockInfo inspect(const Block& b) {
  BlockInfo info;
  const auto other = [&](std::string why) {
    info.kind = BlockKind::other;
    info.why = "block " + b.id->name + " " + std::move(why);
    return info;
  };
  if (holds_blocks(b)) return other("holds a block inside");
  if (has_loops(b.body)) return other("has loops of its own inside");
  const std::vector<BlockAccess> all = accesses_of(b);
  std::vector<const BlockAccess*> stores;
  for (const BlockAccess& a : all)
    if (a.write) stores.push_back(&a);
  if (stores.empty()) return other("writes nothing");
  info.out = stores[0]->buffer;
  int updates = 0;
  info.update = only_update(b, &updates);
  if (updates > 1) return other("has several updates");
  if (b.init && updates == 0) return other("has an init but no update");

  for (const BlockAccess& a : all) {
    if (a.buffer != info.out) {
      if (a.write) return other("writes several buffers");
      continue;
    }
    // An update's own element counts as both read and written; any other read of what is written carries
    // values over.
    if (!same_indices(a.indices, stores[0]->indices))
      return other("accesses several elements of " + info.out->name);
    if (a.read && !a.write) return other("reads " + info.out->name + ", which it writes");
  }
  if (!tells_spatial(b, stores[0]->indices))
    return other("writes one element of " + info.out->name + " at several points of its iterators");
  const bool reduces = std::any_of(b.iters.begin(), b.iters.end(),
                                   [](const IterVar& i) { return i.kind == IterKind::reduce; });
  if (updates == 0 && reduces) return other("has reduction iterators but no update");
  if (updates == 1)
    for (const BlockAccess& a : all)
      if (a.write && !a.read && !b.init) return other("mixes stores and an update");
  info.kind = updates ? BlockKind::reduction : BlockKind::map;
  return info;
}

bool distinct_instances(const Place& p, const std::vector<Stmt>& moving) {
  const auto moves = [&](const Stmt& l) {
    return std::any_of(moving.begin(), moving.end(), [&](const Stmt& m) { return m.same_as(l); });
  };
  Solver solver;
  for (const Var& size : sizes_at(p)) solver.know(size);
  for (const Stmt& l : p.loops()) {
    solver.range(as_for(l).var, range_of_loop(l));
    if (!moves(l)) solver.know(as_for(l).var);
  }
  for (const IterVar& i : p.block().iters) {
    if (const auto extent = as_int(i.extent)) solver.constrain(i.binding, *extent);
    if (!is_guard(p.block(), i)) solver.know(i.binding);
  }
  solver.solve();
  return std::all_of(moving.begin(), moving.end(),
                     [&](const Stmt& l) { return solver.knows(as_for(l).var); });
}

std::optional<int> declared_at(const PrimFunc& f, const std::vector<Stmt>& path, const Buffer& b) {
  for (size_t i = 0; i < path.size(); ++i)
    if (const auto* a = path[i].as<Alloc>(); a && a->decl.buffer == b) return static_cast<int>(i);
  if (find_param(f, b)) return -1;
  for (const BufferDecl& d : f.allocs)
    if (d.buffer == b) return -1;
  return std::nullopt;
}

LoopUse use_of(const Block& b, const Var& loop) {
  LoopUse use;
  for (const IterVar& i : b.iters) {
    if (is_guard(b, i) || !uses_var(i.binding, loop)) continue;
    (i.kind == IterKind::reduce ? use.reduce : use.spatial) = true;
  }
  return use;
}

namespace {

// Whether the block's result has elements of its own for each point of the iterator; a slot of a pipeline's
// buffer has none.
bool tells_results_apart(const Block& b, const IterVar& i) {
  const std::vector<BlockAccess> all = accesses_of(b);
  return std::any_of(all.begin(), all.end(), [&](const BlockAccess& a) {
    return a.write &&
           std::any_of(a.indices.begin(), a.indices.end(), [&](const Expr& e) { return uses_var(e, i.var); });
  });
}

}  // namespace

const IterVar* bound_to(const Block& b, const Var& loop) {
  for (const IterVar& i : b.iters)
    if (const auto* v = i.binding.as<VarRef>();
        v && v->var == loop && i.kind == IterKind::spatial && !is_guard(b, i) && tells_results_apart(b, i))
      return &i;
  return nullptr;
}

LoopUse own_use_of(const Block& b, const Var& loop) {
  LoopUse use = use_of(b, loop);
  if (bound_to(b, loop)) use.reduce = false;
  return use;
}

namespace {

struct BindingSimplifier : Rewriter {
  Facts facts;
  Expr expr(const Expr& e) override { return e; }
  Stmt stmt(const Stmt& s) override {
    if (const auto* l = s.as<For>()) facts.set(l->var, range_of_loop(s));
    if (!s.as<Block>()) return children(s);
    Block copy = *s.as<Block>();
    bool changed = false;
    if (holds_blocks(copy)) {
      for (const IterVar& i : copy.iters)
        if (const auto extent = as_int(i.extent)) facts.set(i.var, {0, *extent - 1});
      const Stmt body = stmt(copy.body);
      changed = !body.same_as(copy.body);
      copy.body = body;
    }
    for (IterVar& i : copy.iters) {
      const Expr simple = simplify(i.binding, facts);
      changed = changed || !simple.same_as(i.binding);
      i.binding = simple;
    }
    return changed ? make::block(std::move(copy)) : s;
  }
};

}  // namespace

Stmt simplify_bindings(const Stmt& s, Facts facts) {
  BindingSimplifier b;
  b.facts = std::move(facts);
  return b.stmt(s);
}

BufferDecl decl_of(const PrimFunc& f, const Buffer& b) {
  const auto all = declarations(f);
  const auto it = all.find(b);
  NESTOR_CHECK(it != all.end()) << b->name << " has no declaration";
  return it->second;
}

bool is_temporary(const PrimFunc& f, const Buffer& b) {
  return find_param(f, b) == nullptr;
}

namespace {

// What the iterator is where the loops of R iterators alone are 0.
Interval beginning_of(const Place& p, const IterVar& i) {
  Facts facts = facts_at(p);
  for (const Stmt& l : p.loops())
    if (!use_of(p.block(), as_for(l).var).spatial) facts.set(as_for(l).var, {0, 0});
  return range_of(i.binding, facts);
}

}  // namespace

bool begins_at_zero(const Place& p, const IterVar& i) {
  VarMap zero;
  for (const Stmt& l : p.loops()) zero[as_for(l).var] = Expr(0);
  return is_const_int(simplify(substitute(i.binding, zero)), 0) && beginning_of(p, i).hi <= 0;
}

bool begins_below_zero(const Place& p, const IterVar& i) {
  return beginning_of(p, i).lo < 0;
}

}  // namespace schedules

}  // namespace nestor

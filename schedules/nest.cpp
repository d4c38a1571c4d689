#include "schedules/nest.h"

#include <algorithm>

#include "nestor/simplify.h"

namespace nestor::schedules {

namespace {

// The block at the end of the path as seen from the loops: each iterator of a block around it that isn't seen
// to lie in its domain is a guard, and its `where` holds too.
std::shared_ptr<const Block> seen_from_loops(const Block& b, const std::vector<Stmt>& path) {
  VarMap over_loops;
  Facts facts;
  Block seen = b;
  std::vector<IterVar> guards;
  for (const Stmt& s : path) {
    if (const auto* l = s.as<For>()) {
      const int64_t extent = extent_of(s);
      facts.set(l->var, {0, extent < 0 ? Interval::kMax : extent - 1});
    }
    const auto* outer = s.as<Block>();
    if (!outer) continue;
    for (const IterVar& i : outer->iters) {
      const Expr binding = simplify(substitute(i.binding, over_loops), facts);
      const Interval range = range_of(binding, facts);
      const auto extent = as_int(i.extent);
      const bool asked = outer->where && uses_var(outer->where, i.var);
      if (asked || !extent || range.lo < 0 || range.hi >= *extent)
        guards.push_back({i.var, IterKind::spatial, i.extent, binding});
      over_loops[i.var] = binding;
    }
    if (outer->where) seen.where = seen.where ? logical_and(outer->where, seen.where) : outer->where;
  }
  for (IterVar& i : seen.iters) i.binding = simplify(substitute(i.binding, over_loops), facts);
  seen.iters.insert(seen.iters.end(), guards.begin(), guards.end());
  return std::make_shared<const Block>(std::move(seen));
}

// Collects places: all, or those that may matter by the bits of what a statement holds inside.
struct Collector {
  uint64_t blocks = 0, buffers = 0;   // 0: whatever there is
  const std::string* only = nullptr;  // the first block of this name
  std::vector<Stmt> path = {};
  std::vector<Place> out = {};

  bool may_hold(const Stmt& s) const {
    return (!blocks || (s->inside.blocks & blocks)) && (!buffers || (s->inside.buffers & buffers));
  }
  void inside(const Stmt& s, std::initializer_list<Stmt> bodies) {
    path.push_back(s);
    for (const Stmt& b : bodies)
      if (b) collect(b);
    path.pop_back();
  }
  void collect(const Stmt& s) {
    if ((only && !out.empty()) || !may_hold(s)) return;
    match(
        s,
        [&](const Seq& q) {
          path.push_back(s);
          for (const Stmt& child : q.stmts) collect(child);
          path.pop_back();
        },
        [&](const For& f) { inside(s, {f.body}); },
        [&](const Block& b) {
          const bool enclosed = std::any_of(path.begin(), path.end(),
                                            [](const Stmt& outer) { return outer.as<Block>() != nullptr; });
          if (!only || b.id->name == *only)
            out.push_back({s, path, enclosed ? seen_from_loops(b, path) : nullptr});
          inside(s, {b.body});
        },
        [&](const If& i) {
          inside(s, {i.then_case, i.else_case});
        },
        [&](const Alloc& a) { inside(s, {a.body}); }, [&](const LetStmt& l) { inside(s, {l.body}); },
        [](const Store&) {}, [](const Update&) {}, [](const Evaluate&) {});
  }
};

bool may_hold(const Stmt& root, const Stmt& s) {
  return !(s->inside.blocks & ~root->inside.blocks) && !(s->inside.buffers & ~root->inside.buffers);
}

struct Renamer : Rewriter {
  const std::function<std::string(const std::string&)>& block_name;
  std::set<std::string>& taken;
  Renamer(const std::function<std::string(const std::string&)>& b, std::set<std::string>& t)
      : block_name(b), taken(t) {}
  Expr expr(const Expr& e) override { return e; }
  Stmt stmt(const Stmt& s) override {
    if (const auto* b = s.as<Block>()) {
      Block copy = *b;
      copy.id = make_block_id(block_name(b->id->name), b->id->origin);
      copy.body = stmt(b->body);
      return make::block(std::move(copy));
    }
    const auto* a = s.as<Alloc>();
    if (!a) return children(s);
    BufferDecl decl = a->decl;
    decl.buffer = make_buffer(unique_name(decl.buffer->name, taken), decl.buffer->type);
    taken.insert(decl.buffer->name);
    return make::alloc(decl, substitute(stmt(a->body), BufferMap{{a->decl.buffer, decl.buffer}}));
  }
};

// A statement stands in a tree once: behind it all is as it was.
struct Replacer : Rewriter {
  Stmt target, with;
  bool done = false;
  Expr expr(const Expr& e) override { return e; }
  Stmt stmt(const Stmt& s) override {
    if (done) return s;
    done = s.same_as(target);
    if (done) return with;
    if (!may_hold(s, target)) return s;
    return s.as<Store>() || s.as<Update>() || s.as<Evaluate>() ? s : children(s);
  }
};

void add_loop_names(const Stmt& s, std::set<std::string>& names) {
  for_each_stmt(s, [&](const Stmt& inner) {
    if (const auto* f = inner.as<For>()) names.insert(f->var->name);
    if (const auto* l = inner.as<LetStmt>()) names.insert(l->var->name);
    if (const auto* b = inner.as<Block>())
      for (const IterVar& i : b->iters) names.insert(i.var->name);
  });
}

}  // namespace

bool holds_blocks(const Block& b) {
  bool found = false;
  for_each_stmt(b.body, [&](const Stmt& s) { found = found || s.as<Block>(); });
  return found;
}

size_t Place::inside() const {
  for (size_t i = path.size(); i > 0; --i)
    if (path[i - 1].as<Block>()) return i;
  return 0;
}

std::vector<Stmt> Place::own_loops() const {
  std::vector<Stmt> out;
  for (size_t i = inside(); i < path.size(); ++i)
    if (path[i].as<For>()) out.push_back(path[i]);
  return out;
}

std::vector<Stmt> Place::loops() const {
  std::vector<Stmt> out;
  for (const Stmt& s : path)
    if (s.as<For>()) out.push_back(s);
  return out;
}

bool Place::under(const Stmt& s) const {
  return stmt.same_as(s) || depth_of(s) < path.size();
}

size_t Place::depth_of(const Stmt& s) const {
  for (size_t i = 0; i < path.size(); ++i)
    if (path[i].same_as(s)) return i;
  return path.size();
}

std::vector<Place> places(const Stmt& root) {
  Collector c;
  c.collect(root);
  return std::move(c.out);
}

std::vector<Place> places_touching(const Stmt& root, const Buffer& b) {
  Collector c{.buffers = Inside::bit_of(b)};
  c.collect(root);
  return std::move(c.out);
}

std::vector<Place> places_under(const Stmt& root, const Stmt& s) {
  Collector c{.path = path_to(root, s)};
  if (root.same_as(s) || !c.path.empty()) c.collect(s);
  return std::move(c.out);
}

std::optional<Place> find_place(const PrimFunc& f, const std::string& block) {
  Collector c{.blocks = Inside::bit_of(block), .only = &block};
  c.collect(f.body);
  if (c.out.empty()) return std::nullopt;
  return std::move(c.out.front());
}

std::vector<Stmt> path_to(const Stmt& root, const Stmt& s) {
  struct Finder : Walker {
    const Stmt& target;
    std::vector<Stmt> path;
    bool found = false;
    explicit Finder(const Stmt& t) : target(t) {}
    void expr(const Expr&) override {}
    void stmt(const Stmt& s) override {
      if (found || !may_hold(s, target)) return;
      if ((found = s.same_as(target))) return;
      path.push_back(s);
      children(s);
      if (!found) path.pop_back();
    }
  } finder(s);
  finder.stmt(root);
  return std::move(finder.path);
}

const std::string& loop_name(const Stmt& s) {
  return as_for(s).var->name;
}
int64_t extent_of(const Stmt& loop) {
  return as_int(as_for(loop).extent).value_or(-1);
}

Stmt replace(const Stmt& root, const Stmt& target, const Stmt& with) {
  Replacer r;
  r.target = target;
  r.with = with;
  return r.stmt(root);
}

PrimFunc replace(const PrimFunc& f, const Stmt& target, const Stmt& with) {
  PrimFunc out = f;
  out.body = replace(f.body, target, with);
  if (!out.body) out.body = make::seq({});
  return out;
}

bool contains(const Stmt& root, const Stmt& s) {
  return root.same_as(s) || !path_to(root, s).empty();
}

Stmt with_body(const Stmt& s, Stmt body) {
  if (const auto* f = s.as<For>()) return with_extent(s, f->var, f->extent, std::move(body));
  if (const auto* l = s.as<LetStmt>()) return make::let_stmt(l->var, l->value, std::move(body));
  return make::alloc(s.as<Alloc>()->decl, std::move(body));
}

Stmt with_extent(const Stmt& loop, Var var, Expr extent, Stmt body) {
  const For& f = as_for(loop);
  return make::loop(std::move(var), std::move(extent), std::move(body), f.kind, f.thread, f.annotations);
}

std::set<std::string> names_around(const PrimFunc& f, const Stmt& where) {
  std::set<std::string> names;
  for (const Var& d : f.dims) names.insert(d->name);
  for (const Stmt& s : path_to(f.body, where)) {
    if (const auto* loop = s.as<For>()) names.insert(loop->var->name);
    if (const auto* let = s.as<LetStmt>()) names.insert(let->var->name);
    if (const auto* outer = s.as<Block>())
      for (const IterVar& v : outer->iters) names.insert(v.var->name);
  }
  add_loop_names(where, names);
  return names;
}

std::string unique_name(const std::string& base, const std::set<std::string>& taken) {
  if (!taken.count(base)) return base;
  for (int i = 1;; ++i) {
    std::string name = base + "_" + std::to_string(i);
    if (!taken.count(name)) return name;
  }
}

std::set<std::string> block_and_buffer_names(const PrimFunc& f) {
  std::set<std::string> names;
  for (const Param& p : f.params) names.insert(p.decl.buffer->name);
  for (const BufferDecl& d : f.allocs) names.insert(d.buffer->name);
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>()) names.insert(a->decl.buffer->name);
    if (const auto* b = s.as<Block>()) names.insert(b->id->name);
  });
  return names;
}

std::string loop_stem(const std::string& iterator) {
  return iterator.size() > 1 && iterator[0] == 'v' ? iterator.substr(1) : iterator;
}

Stmt nest(const std::vector<NewLoop>& loops, Stmt body) {
  for (auto it = loops.rbegin(); it != loops.rend(); ++it)
    body = make::loop(it->var, it->extent, std::move(body));
  return body;
}

Stmt renamed_copy(const Stmt& s, const std::function<std::string(const std::string&)>& block,
                  std::set<std::string>& taken) {
  Renamer r(block, taken);
  return r.stmt(fresh_copy(s));
}

std::vector<Var> vars_of(const Expr& e) {
  std::vector<Var> out;
  for_each_expr(e, [&](const Expr& inner) {
    if (const auto* r = inner.as<VarRef>())
      if (std::find(out.begin(), out.end(), r->var) == out.end()) out.push_back(r->var);
  });
  return out;
}

}  // namespace nestor::schedules

// split_buffer: a temporary whose parts are written and read separately becomes two buffers, so that each can
// have its own place and layout: after loop_partition, one part's sums can be in the registers of one tile
// and the other's in those of another.
//
// The new buffer gets what the block touches, what the blocks that overlap with it touch, and so on. Two
// accesses overlap unless their bounds over all loops are disjoint in some dimension. Each buffer has the
// shape of what is touched of it, row major, and the domains of the blocks' S iterators shrink to what their
// loops reach. Both parts then look as if they had been written separately, as other primitives require.
// Dimensions of open size stay whole.
#include <algorithm>

#include "nestor/walk.h"
#include "schedules/access.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "schedules/region.h"

namespace nestor::schedules {

PrimFunc with_decl(const PrimFunc& f, const BufferDecl& decl);  // set_scope.cpp
std::string cached_steps(const StepContext& ctx, const Buffer& b, const std::string& scope);

namespace {

using Box = std::vector<Interval>;
constexpr Interval kWhole{0, Interval::kMax};  // of a dimension of open size

struct User {
  Place place;
  std::vector<Box> boxes;  // of its accesses
  bool moves = false;      // to the new buffer
};

struct Part {
  Buffer from, to;
  Box box;
};

bool meet(const User& a, const User& b) {
  for (const Box& x : a.boxes)
    for (const Box& y : b.boxes) {
      bool apart = false;
      for (size_t d = 0; d < x.size(); ++d) apart |= x[d].hi < y[d].lo || y[d].hi < x[d].lo;
      if (!apart) return true;
    }
  return false;
}

std::vector<User> users_of(const StepContext& ctx, const BufferDecl& decl) {
  std::vector<User> out;
  for (const Place& p : places(ctx.func().body)) {
    if (holds_blocks(p.own())) continue;
    User u{p, {}, false};
    for (const BlockAccess& a : accesses_at(p, [&](const Buffer& other) { return other == decl.buffer; })) {
      Box box;
      bool nothing = false;  // a guard that never holds keeps it from outside
      const auto bounds = region_of(p, a, {});
      for (size_t d = 0; d < bounds.size(); ++d) {
        const auto extent = as_int(decl.shape[d]);
        if (!extent) {
          box.push_back(kWhole);
          continue;
        }
        if (!bounds[d] || !bounds[d]->base.is_constant() || !is_zero(bounds[d]->span))
          ctx.refuse(2, 0, "what " + p.name() + " accesses of " + decl.buffer->name + " is not known",
                     {p.stmt}, "cache_read " + p.name() + " " + decl.buffer->name + " global");
        const int64_t base = bounds[d]->base.constant;
        box.push_back(
            {std::max<int64_t>(0, base + bounds[d]->lo), std::min(*extent - 1, base + bounds[d]->hi)});
        nothing |= box.back().lo > box.back().hi;
      }
      if (!nothing) u.boxes.push_back(std::move(box));
    }
    if (!u.boxes.empty()) out.push_back(std::move(u));
  }
  return out;
}

// Marks what `first` meets, and what those meet.
void mark(std::vector<User>& users, const Stmt& first) {
  for (User& u : users) u.moves = u.place.stmt.same_as(first);
  for (bool more = true; std::exchange(more, false);)
    for (User& u : users)
      for (const User& other : users)
        if (!u.moves && other.moves && meet(u, other)) u.moves = more = true;
}

Part part_of(const std::vector<User>& users, bool moves, const Buffer& from, const Buffer& to) {
  Part part{from, to, {}};
  for (const User& u : users)
    for (const Box& box : u.boxes) {
      if (u.moves != moves) continue;
      if (part.box.empty()) part.box = box;
      for (size_t d = 0; d < box.size(); ++d)
        part.box[d] = {std::min(part.box[d].lo, box[d].lo), std::max(part.box[d].hi, box[d].hi)};
    }
  return part;
}

BufferDecl decl_of_part(BufferDecl decl, const Part& part) {
  decl.buffer = part.to;
  decl.layout.reset();
  decl.align.clear();
  for (size_t d = 0; d < part.box.size(); ++d)
    if (as_int(decl.shape[d])) decl.shape[d] = Expr(part.box[d].hi - part.box[d].lo + 1);
  return decl;
}

// Every access to the part's old buffer as one to its new one.
struct Rebase : Rewriter {
  const Part& part;
  const Facts& facts;
  Rebase(const Part& p, const Facts& f) : part(p), facts(f) {}

  std::vector<Expr> moved(const std::vector<Expr>& indices) {
    std::vector<Expr> out;
    for (size_t d = 0; d < indices.size(); ++d)
      out.push_back(simplify(expr(indices[d]) - Expr(part.box[d].lo), facts));
    return out;
  }
  Expr expr(const Expr& e) override {
    const auto* l = e.as<Load>();
    return l && l->buffer == part.from ? make::load(part.to, moved(l->indices), l->mask) : children(e);
  }
  Stmt stmt(const Stmt& s) override {
    if (const auto* st = s.as<Store>(); st && st->buffer == part.from)
      return make::store(part.to, moved(st->indices), expr(st->value), st->mask, st->streaming);
    if (const auto* u = s.as<Update>(); u && u->buffer == part.from)
      return make::update(u->op, part.to, moved(u->indices), expr(u->value));
    return children(s);
  }
};

// S iterators over no more than the loops around the block reach. (What a block around it tells its iterators
// is left alone.)
Block with_iterators_trimmed(Block b, const Facts& facts) {
  VarMap map;
  for (IterVar& i : b.iters) {
    const auto extent = as_int(i.extent);
    if (!extent || i.kind == IterKind::reduce) continue;
    const Interval there = range_of(i.binding, facts);
    const int64_t lo = std::max<int64_t>(0, there.lo), hi = std::min(*extent - 1, there.hi);
    if (lo > hi || (lo == 0 && hi == *extent - 1)) continue;
    const Var var = make_var(i.var->name);
    map[i.var] = lo == 0 ? Expr(var) : Expr(var) + Expr(lo);
    i = {var, i.kind, Expr(hi - lo + 1), simplify(i.binding - Expr(lo), facts)};
  }
  if (b.where) b.where = substitute(b.where, map);
  if (b.init) b.init = substitute(b.init, map);
  b.body = substitute(b.body, map);
  return b;
}

Stmt changed_block(const Place& p, const Part& part) {
  Block b = p.enclosed() ? p.own() : with_iterators_trimmed(p.own(), facts_at(p));
  Facts facts;
  for (const IterVar& i : b.iters)
    if (const auto extent = as_int(i.extent)) facts.set(i.var, {0, *extent - 1});
  Rebase rebase(part, facts);
  if (b.where) b.where = rebase.expr(b.where);
  if (b.init) b.init = rebase.stmt(b.init);
  b.body = rebase.stmt(b.body);
  return make::block(std::move(b));
}

// f with one more temporary, where `beside` is declared.
PrimFunc declare(PrimFunc f, const Buffer& beside, const BufferDecl& decl) {
  const auto is_beside = [&](const BufferDecl& d) { return d.buffer == beside; };
  if (std::any_of(f.allocs.begin(), f.allocs.end(), is_beside)) {
    f.allocs.push_back(decl);
    return f;
  }
  Stmt at;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>(); a && is_beside(a->decl)) at = s;
  });
  return replace(f, at, make::alloc(decl, at));
}

// A step that makes two parts of the block.
std::string cut_of(const Place& p) {
  for (const Stmt& l : p.own_loops())
    if (const int64_t extent = extent_of(l); extent > 1)
      return "loop_partition " + p.name() + "." + loop_name(l) + " [" + std::to_string(extent / 2) + "]";
  return "";
}

PrimFunc run(StepContext& ctx) {
  const Place p = ctx.block(0);
  const BlockInfo info = inspect(p.block());
  if (!info.out) ctx.refuse(1, 0, info.why, {p.stmt});
  if (!is_temporary(ctx.func(), info.out))
    ctx.refuse(1, 0, info.out->name + " is a parameter", {p.stmt}, cached_steps(ctx, info.out, "global"));
  const BufferDecl old = decl_of(ctx.func(), info.out);
  std::vector<User> users = users_of(ctx, old);
  mark(users, p.stmt);
  if (std::all_of(users.begin(), users.end(), [](const User& u) { return u.moves; }))
    ctx.refuse(3, 0, "all that uses " + info.out->name + " meets what " + p.name() + " writes", {p.stmt},
               cut_of(p));

  ctx.expect_results(1);
  std::set<std::string> taken = block_and_buffer_names(ctx.func());
  const Buffer made = make_buffer(ctx.new_name(0, info.out->name + "_part", taken), info.out->type);
  const Part moving = part_of(users, true, info.out, made);
  const Part staying = part_of(users, false, info.out, info.out);
  PrimFunc f = ctx.func();
  for (const User& u : users)
    f = replace(f, u.place.stmt, changed_block(u.place, u.moves ? moving : staying));
  return declare(with_decl(f, decl_of_part(old, staying)), info.out, decl_of_part(old, moving));
}

}  // namespace

Primitive split_buffer_row() {
  return {"split_buffer",
          "T_part",
          {{ArgKind::block, "T"}},
          {},
          "Gives the part of a temporary that one block writes a buffer of its own; blocks that access this "
          "part use the new buffer.",
          {"the block writes one buffer, a temporary",
           "the part of it that is accessed has constant bounds, along dimensions of known size",
           "some block uses the buffer and never accesses this part"},
          {examples::kChain,
           "T1 = loop_partition T.i [6]\nY1 = loop_partition Y.i [6]\nT_part = split_buffer T1"},
          run};
}

}  // namespace nestor::schedules

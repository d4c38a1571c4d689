// `local` buffers become registers: each vector or scalar that is accessed under one constant index becomes
// an element of its own, in a buffer of vector type without an address. The code generator makes a variable
// of each element, and an accumulator of a loop becomes a phi. An index that isn't constant is an error that
// names the loop: a stack slot in the inner loop is what the schedule wanted to avoid.
//
// Masks are dropped if all stores of an element have the same mask and loads use no other lanes. If masks
// differ, a masked store keeps the other lanes by a select, and the element starts at 0.
#include <algorithm>
#include <map>
#include <set>

#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"
#include "src/passes/refuse.h"

namespace nestor::passes {

namespace {

struct Element {
  int lanes = 1;
  int64_t stride = 1;   // between lanes: registers don't mind
  Expr mask;            // of the stores, where they agree
  bool blends = false;  // they don't
  int ordinal = 0;      // in the register buffer of its width
};

struct Place {
  int64_t offset;
  int lanes;
  int64_t stride;
};

[[noreturn]] void fail_varying(const Buffer& b, const Expr& index, const std::set<std::string>& loops) {
  std::string names;
  for (const std::string& n : loops) names += (names.empty() ? "`" : ", `") + n + "`";
  refuse("buffer " + b->name + " is `local` (registers), but its index " + print(index) +
             " is not constant: it depends on loop " + names,
         "unroll loop " + names + " or vectorize it, around each block that uses " + b->name +
             " (an init that was decomposed has loops of its own), or keep " + b->name +
             " in memory: set_scope " + b->name + " global");
}

std::string shape_of(int lanes, int64_t stride) {
  if (lanes == 1) return "single elements";
  return "vectors of " + std::to_string(lanes) +
         (stride == 1 ? "" : " elements " + std::to_string(stride) + " apart");
}

Place place_of(const Buffer& b, const Expr& index) {
  if (const auto* i = index.as<IntImm>()) return {i->value, 1, 1};
  if (const auto* r = index.as<Ramp>())
    if (const auto base = as_int(r->base), stride = as_int(r->stride); base && stride)
      return {*base, index.type().lanes, *stride};
  std::set<std::string> loops;
  for_each_expr(index, [&](const Expr& e) {
    if (const auto* v = e.as<VarRef>()) loops.insert(v->var->name);
  });
  if (!loops.empty()) fail_varying(b, index, loops);
  refuse(
      "buffer " + b->name + " is `local` (registers), but its lanes are not evenly spaced at " + print(index),
      "vectorize a loop of one of its dimensions");
}

// The number of leading lanes that a mask `ramp(0,1) < n` leaves.
std::optional<int64_t> prefix_of(const Expr& mask) {
  const auto* b = mask.as<Binary>();
  if (!b || b->op != BinaryOp::lt) return std::nullopt;
  const auto* r = b->a.as<Ramp>();
  if (!r || !is_const_int(r->base, 0) || !is_const_int(r->stride, 1)) return std::nullopt;
  return as_int(b->b);
}

// Whether lanes that `mask` leaves are among those that `of` leaves: a conditional load has both conditions.
bool implies(const Expr& mask, const Expr& of) {
  if (same_expr(mask, of)) return true;
  const auto* b = mask.as<Binary>();
  return b && b->op == BinaryOp::logical_and && (implies(b->a, of) || implies(b->b, of));
}

class Promotion : public Rewriter {
 public:
  explicit Promotion(const Alloc& alloc) : buffer_(alloc.decl.buffer) {
    for_each_stmt(alloc.body, [&](const Stmt& s) {
      if (const auto* f = s.as<For>()) bound_.insert(f->var.get());
      if (const auto* l = s.as<LetStmt>()) bound_.insert(l->var.get());
      if (const auto* st = s.as<Store>(); st && st->buffer == buffer_)
        see(st->indices[0], st->mask, same_expr);
    });
    for_each_expr(alloc.body, [&](const Expr& e) {
      if (const auto* l = e.as<Load>(); l && l->buffer == buffer_) see(l->indices[0], l->mask, implies);
    });
    check_overlaps();
    std::map<int, int> counts;
    for (auto& [offset, element] : elements_) element.ordinal = counts[element.lanes]++;
    for (const auto& [lanes, count] : counts) {
      const std::string name =
          counts.size() == 1 ? buffer_->name : buffer_->name + "_x" + std::to_string(lanes);
      registers_[lanes] = {
          make_buffer(name, buffer_->type.with_lanes(lanes)), {count}, Scope::local, std::nullopt};
    }
  }

  Stmt run(const Stmt& body) {
    std::vector<Stmt> out;
    for (const auto& [offset, e] : elements_)
      if (e.blends)
        out.push_back(
            make::store(buffer_of(e), {e.ordinal}, make::imm(0, buffer_->type.with_lanes(e.lanes))));
    out.push_back(stmt(body));
    Stmt s = make::seq(std::move(out));
    for (const auto& [lanes, decl] : registers_) s = make::alloc(decl, std::move(s));
    return s;
  }

  Expr expr(const Expr& e) override {
    Expr out = children(e);
    const auto* l = out.as<Load>();
    return l && l->buffer == buffer_ ? read(element_at(l->indices[0])) : out;
  }
  Stmt stmt(const Stmt& s) override {
    Stmt out = children(s);
    const auto* st = out.as<Store>();
    if (!st || st->buffer != buffer_) return out;
    const Element& e = element_at(st->indices[0]);
    Expr value = st->value;
    if (e.blends && st->mask) value = make::select(st->mask, value, read(e));
    return make::store(buffer_of(e), {e.ordinal}, std::move(value));
  }

 private:
  void see(const Expr& index, const Expr& mask, bool (*fits)(const Expr&, const Expr&)) {
    const Place p = place_of(buffer_, index);
    const auto [it, is_new] = elements_.try_emplace(p.offset, Element{p.lanes, p.stride, mask, false, 0});
    Element& e = it->second;
    if (e.lanes != p.lanes || e.stride != p.stride)
      refuse("buffer " + buffer_->name + " is `local` (registers), but is used in " +
                 shape_of(e.lanes, e.stride) + " and in " + shape_of(p.lanes, p.stride),
             "vectorize the same dimension, by the same factor, wherever " + buffer_->name + " is used");
    if (is_new ? mask && depends_on_bound(mask)
               : static_cast<bool>(e.mask) != static_cast<bool>(mask) || (mask && !fits(mask, e.mask)))
      e.blends = true;
  }
  bool depends_on_bound(const Expr& mask) const {
    bool found = false;
    for_each_expr(mask, [&](const Expr& e) {
      const auto* v = e.as<VarRef>();
      found = found || (v && bound_.count(v->var.get())) || e.as<Load>();
    });
    return found;
  }
  void check_overlaps() const {
    std::set<int64_t> taken;
    for (const auto& [offset, e] : elements_) {
      const auto prefix = e.mask && !e.blends ? prefix_of(e.mask) : std::nullopt;
      for (int64_t lane = 0; lane < prefix.value_or(e.lanes); ++lane)
        if (const int64_t at = offset + lane * e.stride; !taken.insert(at).second)
          refuse("buffer " + buffer_->name +
                     " is `local` (registers), but vectors of it overlap at element " + std::to_string(at),
                 "vectorize the same dimension, by the same factor, wherever " + buffer_->name + " is used");
    }
  }
  const Element& element_at(const Expr& index) const { return elements_.at(place_of(buffer_, index).offset); }
  const Buffer& buffer_of(const Element& e) const { return registers_.at(e.lanes).buffer; }
  Expr read(const Element& e) const { return make::load(buffer_of(e), {e.ordinal}); }

  Buffer buffer_;
  std::set<const VarNode*> bound_;       // only asked for membership
  std::map<int64_t, Element> elements_;  // by offset
  std::map<int, BufferDecl> registers_;  // by lanes
};

struct Promoter : Rewriter {
  Stmt stmt(const Stmt& s) override {
    Stmt out = children(s);
    const auto* a = out ? out.as<Alloc>() : nullptr;
    // Vectors that `vectorize` made are registers already.
    const bool promotes = a && a->decl.scope == Scope::local && !a->decl.buffer->type.is_vector();
    return promotes ? Promotion(*a).run(a->body) : out;
  }
};

}  // namespace

PrimFunc promote_local(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Promoter().stmt(f.body);
  return out;
}

}  // namespace nestor::passes

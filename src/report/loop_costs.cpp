#include "src/report/loop_costs.h"

#include <algorithm>
#include <optional>

#include "nestor/error.h"
#include "nestor/walk.h"
#include "schedules/affine.h"
#include "src/passes/passes.h"

namespace nestor::report {

namespace {

using schedules::Bound;

// One place where memory is read or written; the indices are over loop variables.
struct Touch {
  Buffer buffer;
  std::vector<Expr> indices;
  std::vector<const For*> loops;  // outermost first
};

class Collector : public Walker {
 public:
  explicit Collector(const Stmt& body) { stmt(body); }
  std::vector<Touch> touches;

 private:
  void expr(const Expr& e) override {
    if (const auto* l = e.as<Load>()) touch(l->buffer, l->indices);
    if (const auto* l = e.as<Let>()) values_[l->var] = substitute(l->value, values_);
    children(e);
  }
  void stmt(const Stmt& s) override {
    if (const auto* st = s.as<Store>()) touch(st->buffer, st->indices);
    if (const auto* u = s.as<Update>()) touch(u->buffer, u->indices);
    if (const auto* l = s.as<LetStmt>()) values_[l->var] = substitute(l->value, values_);
    if (const auto* b = s.as<Block>()) {
      for (const IterVar& i : b->iters) values_[i.var] = substitute(i.binding, values_);
    }
    const auto* loop = s.as<For>();
    if (loop) loops_.push_back(loop);
    children(s);
    if (loop) loops_.pop_back();
  }
  void touch(const Buffer& b, const std::vector<Expr>& indices) {
    Touch t{b, {}, loops_};
    for (const Expr& i : indices) t.indices.push_back(substitute(i, values_));
    touches.push_back(std::move(t));
  }

  std::vector<const For*> loops_;
  VarMap values_;  // of iterators and lets, which are all different objects
};

int64_t extent_of(const For& loop) {
  return std::max<int64_t>(as_int(loop.extent).value_or(1), 0);
}

// A box of elements, each dimension's bounds over loops that stand still.
struct Box {
  std::vector<Bound> dims;
  const Touch* of = nullptr;  // an access that reaches them
  int64_t elements = 1;       // in it that are reached, at most
  bool exact = true;
};

bool uses(const Expr& e, const For* loop) {
  return uses_var(e, loop->var);
}

// What an access reaches while the loops of its path from `first` on run.
Box box_of(const Touch& t, size_t first, const BufferDecl& decl) {
  std::unordered_map<Var, Interval> moving;
  std::unordered_set<Var> fixed;
  for (size_t i = 0; i < t.loops.size(); ++i) {
    const int64_t extent = extent_of(*t.loops[i]);
    if (i < first)
      fixed.insert(t.loops[i]->var);
    else
      moving[t.loops[i]->var] = {0, std::max<int64_t>(extent - 1, 0)};
  }
  // Iterations that loops of this subset make: no index tells more values apart.
  const auto iterations = [&](const auto& counts) {
    int64_t product = 1;
    for (size_t i = first; i < t.loops.size(); ++i)
      if (counts(t.loops[i])) product *= std::max<int64_t>(extent_of(*t.loops[i]), 1);
    return product;
  };
  Box box;
  box.of = &t;
  for (size_t d = 0; d < t.indices.size(); ++d) {
    const int64_t size = as_int(decl.shape[d]).value_or(Interval::kMax);
    std::optional<Bound> bound = schedules::bound_of(t.indices[d], moving, fixed);
    if (!bound) {
      box.exact = false;
      bound = Bound{{}, 0, size - 1};
    }
    if (bound->base.is_constant()) {
      bound->lo = std::max<int64_t>(bound->lo + bound->base.constant, 0);
      bound->hi = std::min(bound->hi + bound->base.constant, size - 1);
      bound->base.constant = 0;
    }
    const int64_t values = iterations([&](const For* l) { return uses(t.indices[d], l); });
    box.elements *= std::max<int64_t>(std::min({bound->hi - bound->lo + 1, size, values}), 0);
    box.dims.push_back(std::move(*bound));
  }
  box.elements = std::min(box.elements, iterations([&](const For* l) {
                            return std::any_of(t.indices.begin(), t.indices.end(),
                                               [&](const Expr& e) { return uses(e, l); });
                          }));
  return box;
}

// The smallest box with both, where that holds no more than the two apart. Of the same box they may reach
// different elements, unless they name them alike.
std::optional<Box> join(const Box& a, const Box& b) {
  Box out;
  out.of = a.of;
  bool same = true;
  for (size_t d = 0; d < a.dims.size(); ++d) {
    std::optional<Bound> both = schedules::unite(a.dims[d], b.dims[d]);
    if (!both) return std::nullopt;
    const auto size = [](const Bound& x) { return x.hi - x.lo; };
    same = same && size(*both) == size(a.dims[d]) && size(*both) == size(b.dims[d]);
    out.elements *= size(*both) + 1;
    out.dims.push_back(std::move(*both));
  }
  out.exact = a.exact && b.exact;
  const bool alike = std::equal(a.of->indices.begin(), a.of->indices.end(), b.of->indices.begin(), same_expr);
  if (same && alike) out.elements = std::max(a.elements, b.elements);
  if (same && !alike) out.elements = std::min(out.elements, a.elements + b.elements);
  if (out.elements > a.elements + b.elements) return std::nullopt;
  return out;
}

void add(std::vector<Box>& boxes, Box box) {
  if (box.elements == 0) return;  // no instance lies inside of the bounds
  for (size_t i = 0; i < boxes.size(); ++i)
    if (auto both = join(boxes[i], box)) {
      boxes.erase(boxes.begin() + static_cast<std::ptrdiff_t>(i));
      return add(boxes, std::move(*both));
    }
  boxes.push_back(std::move(box));
}

class Costs {
 public:
  explicit Costs(const PrimFunc& f) : decls_(declarations(f)) { touches_ = Collector(f.body).touches; }

  // The distinct bytes that the loop's accesses reach with the loops at `first` and deeper running.
  std::vector<BufferUse> reach(const For* loop, size_t depth, size_t first, bool& exact) const {
    std::vector<Buffer> order;
    std::unordered_map<Buffer, std::vector<Box>> boxes;
    for (const Touch& t : touches_) {
      if (t.loops.size() <= depth || t.loops[depth] != loop) continue;
      if (!boxes.count(t.buffer)) order.push_back(t.buffer);
      add(boxes[t.buffer], box_of(t, first, decls_.at(t.buffer)));
    }
    std::vector<BufferUse> uses;
    for (const Buffer& b : order) {
      const BufferDecl& decl = decls_.at(b);
      int64_t elements = 0, size = 1;
      for (const Expr& e : decl.shape) size *= as_int(e).value_or(1);
      for (const Box& box : boxes[b]) {
        elements += box.elements;
        exact = exact && box.exact;
      }
      uses.push_back({b->name, decl.scope, std::min(elements, size) * bytes_of(b->type.dtype)});
    }
    return uses;
  }

 private:
  std::unordered_map<Buffer, BufferDecl> decls_;
  std::vector<Touch> touches_;
};

int64_t sum(const std::vector<BufferUse>& uses, bool registers) {
  int64_t total = 0;
  for (const BufferUse& u : uses)
    if ((u.scope == Scope::local) == registers) total += u.bytes;
  return total;
}

class Visitor : public Walker {
 public:
  Visitor(const Costs& costs, const Stmt& body) : costs_(costs) { stmt(body); }
  std::vector<LoopCost> out;

 private:
  void stmt(const Stmt& s) override {
    const auto* loop = s.as<For>();
    if (!loop) return children(s);
    LoopCost cost;
    cost.extent = extent_of(*loop);
    cost.trips = trips_ * cost.extent;
    cost.exact = as_int(loop->extent).has_value();
    cost.touched = sum(costs_.reach(loop, depth_, depth_, cost.exact), false);
    cost.body = costs_.reach(loop, depth_, depth_ + 1, cost.exact);
    cost.footprint = sum(cost.body, false);
    cost.registers = sum(cost.body, true);
    out.push_back(cost);
    const int64_t outside = std::exchange(trips_, cost.trips);
    ++depth_;
    children(s);
    --depth_;
    trips_ = outside;
  }

  const Costs& costs_;
  int64_t trips_ = 1;
  size_t depth_ = 0;
};

}  // namespace

std::vector<const For*> loops_in(const Stmt& s) {
  std::vector<const For*> loops;
  for_each_stmt(s, [&](const Stmt& x) {
    if (const auto* loop = x.as<For>()) loops.push_back(loop);
  });
  return loops;
}

std::vector<LoopCost> loop_costs(const PrimFunc& scheduled) {
  const PrimFunc f = passes::compact(scheduled, Target{});
  const Costs costs(f);
  Visitor visitor(costs, f.body);
  NESTOR_CHECK(visitor.out.size() == loops_in(scheduled.body).size())
      << "compact changed the loops of " << f.name;
  const std::vector<double> flops = flops_of_loops(scheduled);
  for (size_t i = 0; i < flops.size(); ++i) visitor.out[i].flops = flops[i];
  return visitor.out;
}

}  // namespace nestor::report

#include "src/cost/nests.h"

#include <algorithm>
#include <functional>

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor::cost {

namespace {

double cost_of(const Call& c) {
  switch (c.fn) {
    case Intrinsic::sqrt:
      return 6;
    case Intrinsic::abs:
      return 1;
    default:
      return 12;
  }
}

// In those of an FMA port; 0 where it is none.
double operations_of(const Expr& e) {
  if (const auto* b = e.as<Binary>()) return b->op == BinaryOp::div && is_float(e.dtype()) ? 6 : 1;
  if (e.as<Select>() || e.as<Cast>()) return 1;
  const auto* c = e.as<Call>();
  return c ? cost_of(*c) : 0;
}

// The operations of an expression, without those of indices, which addresses and loop counters take.
class Operations : public Walker {
 public:
  explicit Operations(const std::function<void(const Expr&, double)>& take) : take_(take) {}
  void expr(const Expr& e) override {
    if (e.as<Load>()) return;
    if (const double n = operations_of(e); n > 0) take_(e, n);
    children(e);
  }

 private:
  const std::function<void(const Expr&, double)>& take_;
};

class Collector {
 public:
  Collector(const PrimFunc& f, const Target& target) : declarations_(declarations(f)), target_(target) {
    visit(f.body);
  }
  std::vector<Nest> nests;

 private:
  void visit(const Stmt& s) {
    match(
        s,
        [&](const Seq& q) {
          for (const Stmt& x : q.stmts) visit(x);
        },
        [&](const For& l) {
          loops_.push_back(
              {l.var, static_cast<double>(std::max<int64_t>(1, as_int(l.extent).value_or(1))), l.kind});
          facts_.set(l.var, {0, std::max<int64_t>(1, as_int(l.extent).value_or(1)) - 1});
          visit(l.body);
          loops_.pop_back();
        },
        [&](const Block& b) {
          const auto outer = bindings_;
          for (const IterVar& i : b.iters) bindings_[i.var] = substitute(i.binding, bindings_);
          take(b);
          bindings_ = outer;
        },
        [&](const If& i) {
          visit(i.then_case);
          if (i.else_case) visit(i.else_case);
        },
        [&](const Alloc& a) { visit(a.body); }, [&](const LetStmt& l) { visit(l.body); }, [](const auto&) {});
  }

  void take(const Block& b) {
    Nest n;
    n.loops = loops_;
    n.streams = b.annotations.count("streaming") > 0;
    for_each_expr(b.body, [&](const Expr& e) {
      if (const auto* l = e.as<Load>()) touch(n, l->buffer, l->indices, true, false);
    });
    for_each_stmt(b.body, [&](const Stmt& s) {
      if (const auto* store = s.as<Store>()) touch(n, store->buffer, store->indices, false, true);
      if (const auto* update = s.as<Update>()) touch(n, update->buffer, update->indices, true, true);
    });
    for_each_stmt(b.body, [&](const Stmt& s) {
      if (const auto* store = s.as<Store>()) work(n, store->value);
      if (const auto* update = s.as<Update>()) {
        work(n, update->value);
        // A product added to a sum is one operation.
        const auto* product = update->value.as<Binary>();
        const bool fused = update->op == ReduceOp::add && product && product->op == BinaryOp::mul;
        if (!fused) n.operations[kEachLoop] += 1;
      }
    });
    nests.push_back(std::move(n));
  }

  // Sorts the operations by the loops that move their operands; one on what the block writes is in each.
  void work(Nest& n, const Expr& value) const {
    const std::function<void(const Expr&, double)> take = [&](const Expr& e, double operations) {
      uint64_t moved = 0;
      for_each_expr(substitute(e, bindings_), [&](const Expr& x) {
        if (const auto* l = x.as<Load>())
          for (const Touch& t : n.touches)
            if (t.write && t.buffer == l->buffer) moved = kEachLoop;
        if (const auto* v = x.as<VarRef>())
          for (size_t i = 0; i < loops_.size(); ++i)
            if (loops_[i].var == v->var) moved |= bit_of(i);
      });
      n.operations[moved] += operations;
    };
    Operations(take).expr(value);
  }

  void touch(Nest& n, const Buffer& buffer, const std::vector<Expr>& indices, bool read, bool write) const {
    Touch t{buffer, {}, read, write, false, static_cast<double>(bytes_of(buffer->type.dtype))};
    const auto d = declarations_.find(buffer);
    std::vector<Expr> logical;
    for (const Expr& e : indices) logical.push_back(substitute(e, bindings_));
    if (d != declarations_.end() && d->second.layout) {
      VarMap at;
      for (size_t i = 0; i < logical.size(); ++i) at.emplace(d->second.layout->vars[i], logical[i]);
      logical.clear();
      for (const Expr& e : d->second.layout->exprs) logical.push_back(substitute(e, at));
    }
    for (const Expr& e : logical) t.indices.push_back(simplify(e, facts_));
    t.in_registers = d != declarations_.end() && d->second.scope == Scope::local;
    if (write) {
      n.reduces |= read;
      n.in_registers = t.in_registers;
      n.lanes = std::max(1, target_.lanes(std::max(4, static_cast<int>(t.element))));
    }
    n.touches.push_back(std::move(t));
  }

  std::unordered_map<Buffer, BufferDecl> declarations_;
  const Target& target_;
  std::vector<Loop> loops_;
  Facts facts_;
  VarMap bindings_;
};

}  // namespace

std::vector<Nest> nests_of(const PrimFunc& f, const Target& target) {
  return Collector(f, target).nests;
}

}  // namespace nestor::cost

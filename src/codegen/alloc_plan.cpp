// Temporaries that aren't needed at the same time share memory: the place of an Alloc is free again after its
// body. What is allocated inside a parallel loop exists once per worker. A parallel loop inside a parallel
// loop runs serially and uses the same slice.
#include "alloc_plan.h"

#include <algorithm>
#include <unordered_set>

#include "nestor/codegen.h"
#include "nestor/error.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

constexpr int64_t kSmall = 8 << 10;      // bytes of one buffer on the stack
constexpr int64_t kStack = 64 << 10;     // bytes of all of them in one frame
constexpr int64_t kRegisters = 4 << 10;  // elements of one buffer held in variables

int64_t round_up(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Buffers that can't be variables: indexed by something that isn't constant, or used in a parallel loop that
// doesn't contain their Alloc (the task that is made of the loop reaches them through a pointer).
class NeedsMemory : public Walker {
 public:
  explicit NeedsMemory(const PrimFunc& f) {
    for (const BufferDecl& d : f.allocs) depth_[d.buffer] = 0;
    stmt(f.body);
  }
  bool operator()(const Buffer& b) const { return found_.count(b) != 0; }

 private:
  void expr(const Expr& e) override {
    if (const auto* l = e.as<Load>()) access(l->buffer, l->indices);
    children(e);
  }
  void stmt(const Stmt& s) override {
    if (const auto* st = s.as<Store>()) access(st->buffer, st->indices);
    if (const auto* a = s.as<Alloc>()) depth_[a->decl.buffer] = parallel_;
    const auto* loop = s.as<For>();
    const bool outermost = loop && loop->kind == ForKind::parallel && parallel_ == 0;
    if (outermost) parallel_ = ++loops_;
    children(s);
    if (outermost) parallel_ = 0;
  }
  void access(const Buffer& b, const std::vector<Expr>& indices) {
    const auto it = depth_.find(b);
    if (it == depth_.end()) return;  // a parameter
    bool constant = it->second == parallel_;
    for (const Expr& i : indices) constant &= i.as<IntImm>() != nullptr;
    if (!constant) found_.insert(b);
  }

  int parallel_ = 0;  // number of the parallel loop we are in, 0 outside
  int loops_ = 0;
  std::unordered_map<Buffer, int> depth_;
  std::unordered_set<Buffer> found_;
};

class Planner {
 public:
  explicit Planner(const PrimFunc& f) : needs_memory_(f) {
    for (const BufferDecl& d : f.allocs) place(d);
    visit(f.body);
    plan_.serial_bytes = serial_.peak;
    plan_.worker_bytes = worker_.peak;
  }
  AllocPlan take() { return std::move(plan_); }

 private:
  struct Arena {
    int64_t used = 0, peak = 0, stack = 0;
  };

  void place(const BufferDecl& d) {
    AllocSlot slot;
    slot.elements = physical_size(d);
    const int64_t bytes = slot.elements * d.buffer->type.lanes * bytes_of(d.buffer->type.dtype);
    Arena& arena = in_parallel_ ? worker_ : serial_;
    if (d.scope == Scope::shared)
      throw UserError("buffer " + d.buffer->name + " is in the scope shared, which only cuda targets have");
    if (d.scope == Scope::local && !needs_memory_(d.buffer) && slot.elements <= kRegisters) {
      slot.place = Place::registers;
    } else if (bytes <= kSmall && arena.stack + round_up(bytes) <= kStack) {
      slot.place = Place::stack;
      arena.stack += round_up(bytes);
    } else {
      slot.place = in_parallel_ ? Place::worker : Place::serial;
      slot.offset = arena.used;
      arena.used += round_up(bytes);
      arena.peak = std::max(arena.peak, arena.used);
    }
    NESTOR_CHECK(plan_.slots.emplace(d.buffer, slot).second) << d.buffer->name << " is allocated twice";
  }

  void visit(const Stmt& s) {
    match(
        s,
        [&](const Seq& q) {
          for (const Stmt& c : q.stmts) visit(c);
        },
        [&](const For& f) {
          const bool outermost = f.kind == ForKind::parallel && !in_parallel_;
          if (outermost) {
            in_parallel_ = true;
            worker_.stack = 0;
          }
          visit(f.body);
          if (outermost) in_parallel_ = false;
        },
        [&](const If& i) {
          visit(i.then_case);
          if (i.else_case) visit(i.else_case);
        },
        [&](const Alloc& a) {
          const Arena before = in_parallel_ ? worker_ : serial_;
          place(a.decl);
          visit(a.body);
          (in_parallel_ ? worker_ : serial_).used = before.used;
        },
        [&](const LetStmt& l) { visit(l.body); }, [](const Store&) {}, [](const Evaluate&) {},
        [](const Block&) { throw InternalError("a block in a lowered function"); },
        [](const Update&) { throw InternalError("an update in a lowered function"); });
  }

  NeedsMemory needs_memory_;
  AllocPlan plan_;
  Arena serial_, worker_;
  bool in_parallel_ = false;
};

}  // namespace

AllocPlan plan_allocs(const PrimFunc& lowered) {
  return Planner(lowered).take();
}

int64_t workspace_bytes(const PrimFunc& lowered, int threads) {
  NESTOR_CHECK(threads >= 1) << threads << " threads";
  const AllocPlan plan = plan_allocs(lowered);
  return plan.serial_bytes + threads * plan.worker_bytes;
}

}  // namespace nestor

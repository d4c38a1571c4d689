// Within a warp, step d of 16, 8, 4, 2, 1 gives each thread the sum of its own and that of the thread whose
// number differs in bit d: after five steps all 32 have the same, added up in the same order. (Harris,
// Optimizing Parallel Reduction in CUDA, 2007; a butterfly, so that no thread has to tell the others.) Where
// a row has several warps, the first thread of each stores its warp's sum to shared memory, and every warp
// reduces these.
//
// A thread that has no iteration of the loop brings the operation's identity. The conditions of the block are
// the same for all threads of a row, so that all of its shuffles are met by all.
#include "src/passes/thread_tree.h"

#include <algorithm>

#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/passes/refuse.h"

namespace nestor::passes {

namespace {

constexpr int64_t kWarp = 32;

// The value of x in the thread whose number differs in bit d.
Expr from_thread(const Expr& x, int64_t d) {
  return make::instruction("shuffle_xor", x.type(), {x, Expr(d)});
}

class Tree {
 public:
  Tree(const For& loop, const ThreadGroup& threads, const std::function<Stmt(const Stmt&)>& guard,
       std::vector<BufferDecl>& temporaries)
      : loop_(loop), threads_(threads), guard_(guard), temporaries_(temporaries) {
    const int64_t n = threads_[2].extent;
    if ((n & (n - 1)) != 0)
      refuse("loop `" + loop.var->name + "` reduces over threadIdx.x, of which the kernel has " +
                 std::to_string(n) + ", no power of two",
             "split the kernel's loops bound to threadIdx.x by one power of two");
  }

  // Loops around the block stand around all of it.
  Stmt run(const Stmt& s) {
    if (const auto* f = s.as<For>()) {
      if (uses_var(f->extent, loop_.var) || f->kind == ForKind::thread) refuse_shape("holds " + f->var->name);
      return make::loop(f->var, f->extent, run(f->body), f->kind, f->thread, f->annotations);
    }
    const auto* b = s.as<Block>();
    if (!b) refuse_shape("holds more than one block");
    return in_block(*b);
  }

 private:
  [[noreturn]] void refuse_shape(const std::string& what) const {
    refuse("loop `" + loop_.var->name + "` reduces over threads, and " + what,
           "leave the loop that reduce_threads made as it is, with nothing but its block inside");
  }

  Stmt in_block(const Block& b) {
    const auto* u = b.body.as<Update>();
    const IterVar* reduced = nullptr;
    std::vector<IterVar> rows;
    for (const IterVar& i : b.iters) {
      if (i.kind == IterKind::reduce && !reduced && i.binding.as<VarRef>() &&
          i.binding.as<VarRef>()->var == loop_.var)
        reduced = &i;
      else if (uses_var(i.binding, loop_.var) || i.kind == IterKind::reduce)
        refuse_shape("its block " + b.id->name + " isn't over it alone");
      else
        rows.push_back(i);
    }
    const auto cells = reduced ? as_int(reduced->extent) : std::nullopt;
    const auto steps = as_int(loop_.extent);
    if (!u || !cells || !steps) refuse_shape("its block " + b.id->name + " isn't one update over it");
    for (const Expr& e : u->indices)
      if (uses_var(e, reduced->var)) refuse_shape("it chooses the element that is updated");
    if (b.where && uses_var(b.where, reduced->var)) refuse_shape("its block's condition is about it");
    const int64_t n = threads_[2].extent, has = std::min(*cells, *steps);
    if (has > n) refuse_shape("the kernel has only " + std::to_string(n) + " threads along threadIdx.x");

    const Type type = u->buffer->type;
    const Buffer sum = local(b.id->name + "_tree", type);
    // Each part is a block of its own; all have the conditions of the old one.
    const auto part = [&](const std::string& suffix, Stmt body, bool by_thread) {
      Block p = b;
      p.id = make_block_id(b.id->name + suffix, b.id);
      p.iters = rows;
      p.init = {};
      if (by_thread) {
        const Var v = thread_iter(2);
        p.iters.push_back({v, IterKind::spatial, Expr(n), Expr(threads_[2].var)});
        body = substitute(body, VarMap{{reduced->var, Expr(v)}});
        body = substitute(body, VarMap{{placeholder_, Expr(v)}});
      }
      p.body = std::move(body);
      return make::block(std::move(p));
    };

    std::vector<Stmt> leaves = {make::store(sum, {0}, guarded(u->value, reduced->var, has, n, u->op))};
    add_steps(leaves, sum, u->op, std::min(n, kWarp));
    std::vector<Stmt> parts = {part("_tree", make::seq(leaves), true)};
    if (n > kWarp) across_warps(parts, part, b, sum, u->op);
    const Expr total = make::load(sum, {0});
    Stmt store = make::update(u->op, u->buffer, u->indices, total);
    const auto* init = b.init ? b.init.as<Store>() : nullptr;
    if (init && structural_equal(init->value, identity_of(u->op, type)))
      store = make::store(u->buffer, u->indices, total);
    else if (b.init)
      store = make::seq({b.init, store});
    parts.push_back(guard_(part("", store, false)));
    for (Stmt& p : parts) p = fresh_copy(p);  // iterators of its own
    return make::seq(std::move(parts));
  }

  template <class Part>
  void across_warps(std::vector<Stmt>& parts, const Part& part, const Block& b, const Buffer& sum,
                    ReduceOp op) {
    const int64_t warps = threads_[2].extent / kWarp;
    BufferDecl shared{make_buffer(b.id->name + "_warps", sum->type), {}, Scope::shared, std::nullopt};
    std::vector<Expr> row;  // the threads of other rows have elements of their own
    std::vector<IterVar> row_iters;
    for (size_t d = 0; d < 2; ++d) {
      if (threads_[d].extent <= 1) continue;
      shared.shape.push_back(Expr(threads_[d].extent));
      row_iters.push_back(
          {thread_iter(d), IterKind::spatial, Expr(threads_[d].extent), Expr(threads_[d].var)});
      row.push_back(Expr(row_iters.back().var));
    }
    shared.shape.push_back(Expr(warps));
    temporaries_.push_back(shared);
    const auto at = [&](const Expr& warp) {
      std::vector<Expr> place = row;
      place.push_back(warp);
      return place;
    };
    const auto with_rows = [&](const Stmt& s, const Expr& where) {
      Block p = *s.as<Block>();
      p.iters.insert(p.iters.end(), row_iters.begin(), row_iters.end());
      if (where) p.where = p.where ? logical_and(p.where, where) : where;
      return make::block(std::move(p));
    };
    const Expr thread = placeholder_;
    const Stmt give =
        part("_give", make::store(shared.buffer, at(thread / kWarp), make::load(sum, {0})), true);
    const Expr first = eq(Expr(give.as<Block>()->iters.back().var) % kWarp, 0);
    parts.push_back(with_rows(give, first));
    std::vector<Stmt> take = {make::store(sum, {0}, make::load(shared.buffer, at(thread % warps)))};
    add_steps(take, sum, op, warps);
    parts.push_back(with_rows(part("_take", make::seq(take), true), {}));
  }

  static void add_steps(std::vector<Stmt>& out, const Buffer& sum, ReduceOp op, int64_t width) {
    for (int64_t d = width / 2; d > 0; d /= 2) {
      const Expr mine = make::load(sum, {0});
      out.push_back(make::store(sum, {0}, make::binary(binary_of(op), mine, from_thread(mine, d))));
    }
  }

  static Expr guarded(const Expr& value, const Var& thread, int64_t has, int64_t threads, ReduceOp op) {
    return has < threads ? make::select(lt(Expr(thread), has), value, identity_of(op, value.type())) : value;
  }

  Var thread_iter(size_t dimension) const { return make_var("v" + threads_[dimension].var->name); }

  Buffer local(const std::string& name, Type type) {
    temporaries_.push_back({make_buffer(name, type), {Expr(1)}, Scope::local, std::nullopt});
    return temporaries_.back().buffer;
  }

  const For& loop_;
  const ThreadGroup& threads_;
  const Var placeholder_ = make_var("thread");
  const std::function<Stmt(const Stmt&)>& guard_;
  std::vector<BufferDecl>& temporaries_;
};

// Of what the threads of a kernel have: a fold of each warp's, then of theirs.
class PlainTrees : public Rewriter {
 public:
  explicit PlainTrees(const Stmt& kernel) {
    for_each_stmt(kernel, [&](const Stmt& s) {
      const auto* f = s.as<For>();
      if (f && f->thread == ThreadTag::thread_x) threads_ = std::max(threads_, as_int(f->extent).value_or(0));
    });
  }
  std::vector<Buffer> shared;

  Stmt stmt(const Stmt& s) override {
    const auto* loop = s.as<For>();
    if (loop && threads_ > 0 && reduces_threads(*loop)) {
      inside_ = true;
      Stmt out = stmt(loop->body);
      inside_ = false;
      return out;
    }
    const auto* b = s.as<Block>();
    const auto* u = b && inside_ ? b->body.as<Update>() : nullptr;
    return u ? folded(*b, *u) : children(s);
  }

 private:
  Stmt folded(const Block& b, const Update& u) {
    Block out = b;
    std::erase_if(out.iters, [](const IterVar& i) { return i.kind == IterKind::reduce; });
    Expr all;
    for (const IterVar& i : b.iters)
      if (i.kind == IterKind::reduce) all = fold(u, i.var, as_int(i.extent).value_or(0));
    for_each_expr(u.value, [&](const Expr& e) {
      if (const auto* l = e.as<Load>()) shared.push_back(l->buffer);
    });
    out.body = make::update(u.op, u.buffer, u.indices, all);
    if (b.init) out.body = make::seq({b.init, out.body});
    out.init = {};
    return make::block(std::move(out));
  }

  Expr fold(const Update& u, const Var& thread, int64_t has) const {
    std::vector<Expr> leaves, warps;
    for (int64_t t = 0; t < threads_; ++t)
      leaves.push_back(t < has ? substitute(u.value, VarMap{{thread, Expr(t)}})
                               : identity_of(u.op, u.value.type()));
    for (size_t t = 0; t < leaves.size(); t += kWarp)
      warps.push_back(halved(
          u.op, {leaves.begin() + static_cast<std::ptrdiff_t>(t),
                 leaves.begin() +
                     std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(t) + kWarp, std::ssize(leaves))}));
    return halved(u.op, std::move(warps));
  }
  static Expr halved(ReduceOp op, std::vector<Expr> values) {
    while (values.size() > 1) {
      const size_t half = values.size() / 2;
      for (size_t i = 0; i < half; ++i) values[i] = make::binary(binary_of(op), values[i], values[i + half]);
      values.resize(half);
    }
    return values[0];
  }

  int64_t threads_ = 0;
  bool inside_ = false;
};

}  // namespace

bool reduces_threads(const For& loop) {
  return loop.annotations.count("reduce_threads") > 0;
}

Stmt thread_tree(const For& loop, const ThreadGroup& threads, const std::function<Stmt(const Stmt&)>& guard,
                 std::vector<BufferDecl>& temporaries) {
  return Tree(loop, threads, guard, temporaries).run(loop.body);
}

PrimFunc without_thread_trees(const PrimFunc& f) {
  PrimFunc out = f;
  std::vector<Stmt> kernels = {f.body};
  if (const auto* seq = f.body.as<Seq>()) kernels = seq->stmts;
  std::vector<Buffer> shared;
  for (Stmt& s : kernels) {
    PlainTrees trees(s);
    s = trees.stmt(s);
    shared.insert(shared.end(), trees.shared.begin(), trees.shared.end());
  }
  if (shared.empty()) return f;
  for (BufferDecl& d : out.allocs)
    if (d.scope == Scope::local && std::count(shared.begin(), shared.end(), d.buffer))
      d.scope = Scope::shared;
  out.body = make::seq(std::move(kernels));
  return out;
}

}  // namespace nestor::passes

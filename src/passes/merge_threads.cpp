// A kernel is one program that every thread runs. Schedules bind each block's loops separately, so a kernel
// may hold several loops bound to threadIdx.x, one after the other, with different extents: for example
// copying a tile to shared memory, then computing with it. This pass gives each kernel (each top-level
// statement of the function that has bound loops) one nest of block and thread loops around all of it:
//
//   blockIdx.x b in 8 { for k { threadIdx.x t in 32 {copy}; threadIdx.x u in 64 {compute} } }
//   ->  blockIdx.x b in 8 { threadIdx.x u in 64 { for k { if (u < 32) {copy}; {compute} } } }
//
// Work outside of any loop of a thread tag is done by the tag's first thread alone, except on a thread's own
// (local) memory. Block loops are outermost and contain the whole kernel, because blocks can't wait for each
// other. Parallel loops that weren't bound, and virtual threads, become serial.
#include <algorithm>
#include <array>
#include <set>

#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/passes/passes.h"
#include "src/passes/refuse.h"
#include "src/passes/thread_tree.h"

namespace nestor::passes {

namespace {

// Outermost first.
constexpr std::array<ThreadTag, 6> kOrder = {ThreadTag::block_z,  ThreadTag::block_y,  ThreadTag::block_x,
                                             ThreadTag::thread_z, ThreadTag::thread_y, ThreadTag::thread_x};

struct Dimension {
  Var var;
  int64_t extent = 0;  // the largest of the loops bound to the tag; 0: none
};

class Kernel : public Rewriter {
 public:
  explicit Kernel(const std::unordered_map<Buffer, BufferDecl>& decls) : decls_(decls) {}

  std::vector<BufferDecl> moved_out;  // allocations, to be the function's

  Stmt run(const Stmt& s) {
    for_each_stmt(s, [&](const Stmt& inner) {
      const auto* loop = inner.as<For>();
      if (!loop || loop->kind != ForKind::thread || loop->thread == ThreadTag::vthread) return;
      const auto extent = as_int(loop->extent);
      if (!extent)
        refuse(std::string("loop `") + loop->var->name + "` is bound to " + name_of(loop->thread) +
                   ", but its extent " + print(loop->extent) + " isn't constant",
               "split it by a constant and bind the inner loop");
      Dimension& d = dimension(loop->thread);
      if (d.var && is_block(loop->thread)) refuse_blocks(*loop, "in a kernel that has such blocks already");
      if (!d.var || *extent > d.extent) d = {make_var(loop->var->name), *extent};
    });
    keep_names_apart(s);
    Stmt body = stmt(s);
    if (!body) return {};
    for (size_t i = kOrder.size(); i-- > 0;)
      if (dims_[i].var)
        body = make::loop(dims_[i].var, dims_[i].extent, std::move(body), ForKind::thread, kOrder[i]);
    return body;
  }

  Stmt stmt(const Stmt& s) override {
    if (const auto* loop = s.as<For>()) return in_loop(*loop);
    if (const auto* a = s.as<Alloc>()) return in_allocation(*a);
    if (s.as<Block>()) return guarded(s);
    if (s.as<Store>() || s.as<Update>()) return guarded(s);
    return children(s);
  }

 private:
  static bool is_block(ThreadTag t) { return t >= ThreadTag::block_x && t <= ThreadTag::block_z; }

  // The nest stands around loops that keep their names, and a name may not repeat on a path.
  void keep_names_apart(const Stmt& s) {
    std::set<std::string> taken;
    for_each_stmt(s, [&](const Stmt& inner) {
      const auto* loop = inner.as<For>();
      if (loop && (loop->kind != ForKind::thread || loop->thread == ThreadTag::vthread))
        taken.insert(loop->var->name);
    });
    for (Dimension& d : dims_) {
      if (!d.var) continue;
      std::string name = d.var->name;
      for (int i = 0; !taken.insert(name).second; ++i)
        name = d.var->name + "t" + (i ? std::to_string(i) : "");
      if (name != d.var->name) d.var = make_var(name);
    }
  }

  Dimension& dimension(ThreadTag tag) {
    for (size_t i = 0; i < kOrder.size(); ++i)
      if (kOrder[i] == tag) return dims_[i];
    throw InternalError("no dimension for a thread tag");
  }

  // Blocks of one kernel can't wait for each other, so what they do must be one loop nest.
  [[noreturn]] static void refuse_blocks(const For& loop, const std::string& where) {
    refuse("loop `" + loop.var->name + "` is bound to " + name_of(loop.thread) + " " + where +
               ", and blocks can't wait for each other",
           "loops bound to blockIdx must be outermost, one per tag: use reorder and compute_at");
  }
  static void require_no_blocks(const For& serial) {
    if (is_const_int(serial.extent, 1)) return;
    for_each_stmt(serial.body, [&](const Stmt& inner) {
      const auto* loop = inner.as<For>();
      if (loop && is_block(loop->thread)) refuse_blocks(*loop, "inside of loop `" + serial.var->name + "`");
    });
  }

  Stmt in_loop(const For& loop) {
    if (reduces_threads(loop) && dimension(ThreadTag::thread_x).var) return reduce_threads(loop);
    if (loop.kind != ForKind::thread || loop.thread == ThreadTag::vthread) {
      require_no_blocks(loop);
      const bool kept = loop.kind == ForKind::unrolled || loop.kind == ForKind::vectorized;
      const ForKind kind = kept ? loop.kind : ForKind::serial;
      Stmt body = stmt(loop.body);
      return body
                 ? make::loop(loop.var, loop.extent, std::move(body), kind, ThreadTag::none, loop.annotations)
                 : Stmt();
    }
    const Dimension d = dimension(loop.thread);
    inside_.push_back(loop.thread);
    Stmt body = stmt(substitute(loop.body, VarMap{{loop.var, d.var}}));
    inside_.pop_back();
    return body && *as_int(loop.extent) < d.extent ? make::if_then(lt(d.var, loop.extent), std::move(body))
                                                   : body;
  }

  Stmt reduce_threads(const For& loop) {
    if (inside(ThreadTag::thread_x))
      refuse("loop `" + loop.var->name + "` reduces over threads, and stands inside of a loop bound to them",
             "compute the block " + loop.var->name + " belongs to outside of loops bound to threadIdx.x");
    ThreadGroup threads;
    for (size_t d = 0; d < threads.size(); ++d) threads[d] = {dims_[3 + d].var, dims_[3 + d].extent};
    return thread_tree(
        loop, threads, [this](const Stmt& s) { return guarded(s); }, moved_out);
  }

  // The nest will stand around the allocation. Only where all its thread loops did already is this its place;
  // `compact` finds the others theirs.
  Stmt in_allocation(const Alloc& a) {
    const auto is_thread = [](ThreadTag t) { return t >= ThreadTag::thread_x; };
    const bool by_thread = std::any_of(inside_.begin(), inside_.end(), is_thread);
    const BufferDecl& decl = a.decl;
    if (by_thread && decl.scope == Scope::shared)
      refuse("buffer " + decl.buffer->name + " is `shared`, but each thread has one of its own",
             "set_scope " + decl.buffer->name + " local");
    Stmt body = stmt(a.body);
    bool by_all = decl.scope != Scope::shared;
    for (size_t i = 0; i < kOrder.size() && decl.scope == Scope::local; ++i)
      by_all = by_all && (is_block(kOrder[i]) || dims_[i].extent <= 1 || inside(kOrder[i]));
    if (by_all && body) return make::alloc(decl, std::move(body));
    moved_out.push_back(decl);
    return body;
  }
  bool inside(ThreadTag tag) const { return std::find(inside_.begin(), inside_.end(), tag) != inside_.end(); }

  // A statement outside of some tag's loops.
  Stmt guarded(const Stmt& s) {
    if (writes_only_local(s)) return s;
    Expr first = make::bool_imm(true);
    for (size_t i = 0; i < kOrder.size(); ++i) {
      if (dims_[i].extent <= 1 || inside(kOrder[i])) continue;
      if (is_block(kOrder[i]))
        refuse("a part of the kernel is outside of loop `" + dims_[i].var->name + "`, bound to " +
                   name_of(kOrder[i]) + ", and its blocks can't wait for it",
               "move it into the loop, or out of the kernel to the function's top level");
      first = logical_and(first, eq(dims_[i].var, 0));
    }
    return is_const_int(first, 1) ? s : make::if_then(first, s);
  }
  bool writes_only_local(const Stmt& s) const {
    bool local = true;
    for_each_stmt(s, [&](const Stmt& inner) {
      const auto* st = inner.as<Store>();
      const auto* u = inner.as<Update>();
      const Buffer b = st ? st->buffer : u ? u->buffer : nullptr;
      if (b) local = local && decls_.at(b).scope == Scope::local;
    });
    return local;
  }

  const std::unordered_map<Buffer, BufferDecl>& decls_;
  std::array<Dimension, 6> dims_;
  std::vector<ThreadTag> inside_;
};

}  // namespace

PrimFunc merge_threads(const PrimFunc& f, const Target&) {
  const auto decls = declarations(f);
  std::vector<Stmt> kernels = {f.body};
  if (const auto* seq = f.body.as<Seq>()) kernels = seq->stmts;
  PrimFunc out = f;
  for (Stmt& s : kernels) {
    Kernel kernel(decls);
    s = kernel.run(s);
    out.allocs.insert(out.allocs.end(), kernel.moved_out.begin(), kernel.moved_out.end());
  }
  out.body = make::seq(std::move(kernels));
  return out;
}

}  // namespace nestor::passes

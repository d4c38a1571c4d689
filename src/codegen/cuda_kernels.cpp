// Kernels of one function run one after the other, so what a kernel leaves in device memory is there for the
// next one. Only device memory lives that long: a shared or local buffer used by two kernels is refused.
#include "src/codegen/cuda_kernels.h"

#include <algorithm>

#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

// What the hardware allows (CUDA C++ Programming Guide, "Compute Capabilities"); shared memory that a kernel
// may declare. More has to be asked for when it is launched.
constexpr int64_t kMostThreads = 1024, kMostDeclared = 48 << 10;
constexpr int64_t kMostBlocks = 2147483647, kMostBlocksOfYAndZ = 65535;

bool has_thread_loop(const Stmt& s) {
  bool found = false;
  for_each_stmt(
      s, [&](const Stmt& inner) { found |= inner.as<For>() && inner.as<For>()->kind == ForKind::thread; });
  return found;
}

class Cutter {
 public:
  Cutter(const PrimFunc& f, const Target& target) : f_(f), target_(target) {
    for (const BufferDecl& d : f.allocs) declare(d);
  }

  KernelParts run() {
    top(f_.body);
    flush();
    for (size_t k = 0; k < out_.kernels.size(); ++k) {
      KernelPart& part = out_.kernels[k];
      part.launch.name = "kernel" + (out_.kernels.size() > 1 ? std::to_string(k + 1) : "") + "_" + f_.name;
      find_arguments(part);
      find_extents(part);
      count_shared(part);
    }
    return std::move(out_);
  }

 private:
  void declare(const BufferDecl& d) {
    if (d.scope == Scope::global)
      out_.temporaries.push_back(d);
    else
      inner_.push_back(d);
  }

  void top(const Stmt& s) {
    if (const auto* seq = s.as<Seq>()) {
      for (const Stmt& inner : seq->stmts) top(inner);
    } else if (const auto* a = s.as<Alloc>()) {
      declare(a->decl);
      top(a->body);
    } else if (has_thread_loop(s)) {
      flush();
      out_.kernels.push_back({{}, {1, 1, 1}, s, {}, {}});
    } else {
      pending_.push_back(s);
    }
  }

  // Statements without threads, one after the other, are one kernel of one thread.
  void flush() {
    if (!pending_.empty()) out_.kernels.push_back({{}, {1, 1, 1}, make::seq(std::move(pending_)), {}, {}});
    pending_.clear();
  }

  void find_arguments(KernelPart& part) {
    int number = 0;
    const auto consider = [&](const BufferDecl& d) {
      if (uses_buffer(part.body, d.buffer)) {
        part.launch.args.push_back(number);
        part.arguments.push_back(d);
      }
      ++number;
    };
    for (const Param& p : f_.params) consider(p.decl);
    for (const BufferDecl& d : out_.temporaries) consider(d);
    for (const BufferDecl& d : inner_) {
      if (!uses_buffer(part.body, d.buffer)) continue;
      part.outer.push_back(d);
      for (const KernelPart& other : out_.kernels)
        if (&other != &part && uses_buffer(other.body, d.buffer))
          throw UserError(Diagnostic{f_.name + ": buffer " + d.buffer->name + " is `" + name_of(d.scope) +
                                         "`, but two kernels use it",
                                     {},
                                     {},
                                     "set_scope " + d.buffer->name + " global"});
    }
  }

  void find_extents(KernelPart& part) {
    for_each_stmt(part.body, [&](const Stmt& s) {
      const auto* loop = s.as<For>();
      if (!loop || loop->kind != ForKind::thread || loop->thread == ThreadTag::vthread) return;
      const auto extent = as_int(loop->extent);
      if (!extent)
        throw UserError(Diagnostic{f_.name + ": loop `" + loop->var->name + "` is bound to " +
                                       name_of(loop->thread) + ", but its extent " + print(loop->extent) +
                                       " isn't constant",
                                   {},
                                   {},
                                   "split it by a constant and bind the inner loop"});
      bool is_block = false;
      const int axis = axis_of(loop->thread, is_block);
      int64_t& d = (is_block ? part.blocks : part.launch.block)[static_cast<size_t>(axis)];
      const auto same = [&](ThreadTag t) { return t == loop->thread; };
      const bool first = std::none_of(seen_.begin(), seen_.end(), same);
      if (first) seen_.push_back(loop->thread);
      d = first ? *extent : std::max(d, *extent);
    });
    seen_.clear();
    const auto& [x, y, z] = part.launch.block;
    if (x * y * z > kMostThreads)
      throw UserError(Diagnostic{part.launch.name + " has " + std::to_string(x * y * z) +
                                     " threads a block, of at most " + std::to_string(kMostThreads),
                                 {},
                                 {},
                                 "split the loops bound to threadIdx"});
    lay_out_grid(part);
  }

  void lay_out_grid(KernelPart& part) const {
    const auto& [x, y, z] = part.blocks;
    const bool fits = y <= kMostBlocksOfYAndZ && z <= kMostBlocksOfYAndZ;
    part.launch.grid = fits ? part.blocks : std::array<int64_t, 3>{x * y * z, 1, 1};
    if (part.launch.grid[0] > kMostBlocks)
      throw UserError(Diagnostic{part.launch.name + " has " + std::to_string(part.launch.grid[0]) +
                                     " blocks, of at most " + std::to_string(kMostBlocks),
                                 {},
                                 {},
                                 "give each thread more to do: split the longest loop bound to blockIdx"});
  }

  void count_shared(KernelPart& part) {
    int64_t& bytes = part.launch.shared_bytes;
    const auto add = [&](const BufferDecl& d) {
      if (d.scope == Scope::shared) bytes += bytes_of_shared(d);
    };
    for (const BufferDecl& d : part.outer) add(d);
    for_each_stmt(part.body, [&](const Stmt& s) {
      const auto* a = s.as<Alloc>();
      if (!a) return;
      add(a->decl);
      if (a->decl.scope == Scope::global)
        throw UserError(Diagnostic{part.launch.name + ": buffer " + a->decl.buffer->name +
                                       " is device memory, but is allocated inside of the kernel",
                                   {},
                                   {},
                                   "set_scope " + a->decl.buffer->name + " local, or shared"});
    });
    const int64_t most = std::max(target_.l1_bytes, kMostDeclared);
    if (bytes > most)
      throw UserError(Diagnostic{part.launch.name + " needs " + std::to_string(bytes) +
                                     " bytes of shared memory, and a block of " + target_.sm +
                                     " has at most " + std::to_string(most),
                                 {},
                                 {},
                                 "make the tiles smaller"});
    if (bytes > kMostDeclared) part.launch.dynamic_shared = bytes;
  }

  const PrimFunc& f_;
  const Target& target_;
  KernelParts out_;
  std::vector<BufferDecl> inner_;
  std::vector<Stmt> pending_;
  std::vector<ThreadTag> seen_;
};

}  // namespace

int64_t bytes_of_shared(const BufferDecl& decl) {
  constexpr int64_t kAligned = 16;  // for vectors
  return ceil_div(elements_of(decl) * bytes_of(decl.buffer->type.dtype), kAligned) * kAligned;
}

int64_t elements_of(const BufferDecl& decl) {
  int64_t n = 1;
  for (const Expr& e : decl.shape) {
    const auto extent = as_int(e);
    if (!extent)
      throw UserError(
          Diagnostic{"buffer " + decl.buffer->name + " has an extent that isn't constant: " + print(e),
                     {},
                     {},
                     "give the model's symbolic dimensions values with --dim"});
    n *= *extent;
  }
  return n;
}

int axis_of(ThreadTag tag, bool& is_block) {
  is_block = tag >= ThreadTag::block_x && tag <= ThreadTag::block_z;
  return static_cast<int>(tag) - static_cast<int>(is_block ? ThreadTag::block_x : ThreadTag::thread_x);
}

KernelParts cut_kernels(const PrimFunc& lowered, const Target& target) {
  return Cutter(lowered, target).run();
}

}  // namespace nestor

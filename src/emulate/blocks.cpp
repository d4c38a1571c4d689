#include "src/emulate/blocks.h"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <numeric>

namespace nestor {

namespace {

namespace ctx = boost::context;
constexpr size_t kStack = 64 << 10;

size_t volume(Emulation::Index d) {
  return size_t{d.x} * d.y * d.z;
}

Emulation::Index index_of(size_t number, Emulation::Index d) {
  const auto n = static_cast<unsigned>(number);
  return {n % d.x, n / d.x % d.y, n / d.x / d.y};
}

// The threads of one block as fibers.
class BlockRun {
 public:
  BlockRun(Emulation& e, const EmulatedKernel& kernel, void** args, ctx::fixedsize_stack& stacks) : e_(e) {
    e.self = this;
    e.wait = [](void* self) { static_cast<BlockRun*>(self)->wait(); };
    for (size_t t = 0; t < volume(e.block_dim); ++t)
      fibers_.emplace_back(std::allocator_arg, stacks, [this, &kernel, args](ctx::fiber&& host) {
        host_ = std::move(host);
        kernel.thread(args);
        return std::move(host_);
      });
  }

  // Rounds from barrier to barrier. Threads that wait for ones that have finished are let go, so that all
  // come to an end, and reported afterwards.
  std::string run(const std::vector<size_t>& order) {
    std::string problem;
    for (;;) {
      size_t waiting = 0, finished = 0;
      for (const size_t t : order) {
        if (!fibers_[t]) {
          ++finished;
          continue;
        }
        e_.thread = index_of(t, e_.block_dim);
        fibers_[t] = std::move(fibers_[t]).resume();
        (fibers_[t] ? waiting : finished) += 1;
      }
      if (waiting == 0) return problem;
      if (finished > 0 && problem.empty())
        problem = std::to_string(waiting) + " threads wait at a barrier, " + std::to_string(finished) +
                  " have finished";
    }
  }

 private:
  void wait() {
    const Emulation::Index me = e_.thread;
    host_ = std::move(host_).resume();
    e_.thread = me;
  }

  Emulation& e_;
  std::vector<ctx::fiber> fibers_;
  ctx::fiber host_;
};

std::string run_calls(Emulation& e, const EmulatedKernel& kernel, void** args,
                      const std::vector<size_t>& order) {
  std::string problem;
  e.self = &problem;
  e.wait = [](void* self) { *static_cast<std::string*>(self) = "a barrier in a kernel without barriers"; };
  for (const size_t t : order) {
    e.thread = index_of(t, e.block_dim);
    kernel.thread(args);
  }
  return problem;
}

}  // namespace

std::string run_emulated(const EmulatedLibrary& library, const EmulatedKernel& kernel, void** args,
                         Emulation::Index grid, Emulation::Index block, const EmulatedOrder& order) {
  Emulation e{};
  e.grid_dim = grid;
  e.block_dim = block;
  library.attach(&e);
  std::vector<size_t> blocks(volume(grid)), threads(volume(block));
  std::iota(blocks.begin(), blocks.end(), size_t{0});
  std::iota(threads.begin(), threads.end(), size_t{0});
  if (order) blocks = order(blocks.size());
  ctx::fixedsize_stack stacks(kStack);
  for (const size_t b : blocks) {
    e.block = index_of(b, grid);
    if (order) threads = order(threads.size());
    library.poison();
    const std::string problem =
        kernel.waits ? BlockRun(e, kernel, args, stacks).run(threads) : run_calls(e, kernel, args, threads);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace nestor

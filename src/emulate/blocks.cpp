#include "src/emulate/blocks.h"

#include <numeric>

#include "src/emulate/block_run.h"
#include "src/emulate/lines.h"

namespace nestor {

size_t volume(Emulation::Index d) {
  return size_t{d.x} * d.y * d.z;
}

Emulation::Index index_of(size_t number, Emulation::Index d) {
  const auto n = static_cast<unsigned>(number);
  return {n % d.x, n / d.x % d.y, n / d.x / d.y};
}

BlockRun::BlockRun(Emulation& e, const EmulatedKernel& kernel, void** args, LaunchMemory& memory,
                   const std::vector<LaunchObserver*>& observers)
    : e_(e),
      kernel_(kernel),
      args_(args),
      observers_(observers),
      threads_(volume(e.block_dim)),
      memory_(memory) {
  e.self = this;
  e.meet = [](void* self, const Emulation::Meeting& m) { static_cast<BlockRun*>(self)->meet(m); };
  e.report = [](void* self, const char* what, int line, const void* site) {
    auto* run = static_cast<BlockRun*>(self);
    if (site) line = lines_of({site})[0];
    run->report(what + (line > 0 ? " at " + quoted(run->kernel_, line) : std::string()));
  };
  e.access = [](void* self, const void* at, unsigned bytes, bool write, const void* site) {
    static_cast<BlockRun*>(self)->access(at, bytes, write, site);
  };
}

std::string BlockRun::run(const std::vector<size_t>& order) {
  for (const size_t t : order) {
    start(t, __builtin_frame_address(0));
    kernel_.thread(args_);
  }
  return problem_;
}

void BlockRun::meet(const Emulation::Meeting& m) {
  report("waits for others at " + quoted(kernel_, m.line) + ", in a kernel that says its threads don't");
}

void BlockRun::start(size_t thread, void* stack) {
  running_ = thread;
  e_.stack = stack;
  e_.thread = index_of(thread, e_.block_dim);
}

void BlockRun::report(const std::string& what) {
  if (problem_.empty()) problem_ = name(running_) + " " + what;
}

std::string BlockRun::name(size_t thread) const {
  const auto list = [](Emulation::Index i) {
    return "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")";
  };
  return "thread " + list(index_of(thread, e_.block_dim)) + " of block " + list(e_.block);
}

void BlockRun::access(const void* at, unsigned bytes, bool write, const void* site) {
  const MemoryAccess a = memory_.find(at, bytes, write, site);
  if (a.buffer == LaunchMemory::ignored || !problem_.empty()) return;
  if (a.buffer == LaunchMemory::unknown)
    return report((write ? "writes " : "reads ") + memory_.describe(a) + ", at " +
                  quoted(kernel_, lines_of({site})[0]));
  for (LaunchObserver* o : observers_) o->access(running_, a);
}

std::string run_emulated(const EmulatedLibrary& library, const EmulatedKernel& kernel, void** args,
                         const EmulatedLaunch& launch, const EmulatedOrder& order) {
  Emulation e{};
  e.grid_dim = launch.grid;
  e.block_dim = launch.block;
  library.attach(&e);
  std::vector<size_t> blocks(volume(launch.grid)), threads(volume(launch.block));
  std::iota(blocks.begin(), blocks.end(), size_t{0});
  std::iota(threads.begin(), threads.end(), size_t{0});
  if (order) blocks = order(blocks.size());
  LaunchMemory memory(library, kernel, args, launch);
  e.dynamic_shared = memory.dynamic_shared();
  for (const size_t b : blocks) {
    e.block = index_of(b, launch.grid);
    if (order) threads = order(threads.size());
    memory.poison();
    for (LaunchObserver* o : launch.observers) o->block_starts(b, threads.size());
    std::string problem = kernel.waits ? run_fibers(e, kernel, args, memory, launch.observers, threads)
                                       : BlockRun(e, kernel, args, memory, launch.observers).run(threads);
    for (LaunchObserver* o : launch.observers) o->block_meets();
    if (problem.empty()) problem = memory.damage();
    for (const LaunchObserver* o : launch.observers)
      if (problem.empty()) problem = o->problem();
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace nestor

// The threads of one block, one of which runs at a time.
#pragma once

#include <string>
#include <vector>

#include "src/emulate/launch_memory.h"

namespace nestor {

class BlockRun {
 public:
  BlockRun(Emulation& e, const EmulatedKernel& kernel, void** args, LaunchMemory& memory,
           const std::vector<LaunchObserver*>& observers);
  virtual ~BlockRun() = default;
  BlockRun(const BlockRun&) = delete;

  // All threads, to their end or to the first problem, which it gives: "" for none.
  virtual std::string run(const std::vector<size_t>& order);

 protected:
  virtual void meet(const Emulation::Meeting& m);  // of the running thread
  void start(size_t thread, void* stack);          // it runs from now on
  void report(const std::string& what);            // of the running thread
  std::string name(size_t thread) const;

  Emulation& e_;
  const EmulatedKernel& kernel_;
  void** args_;
  const std::vector<LaunchObserver*>& observers_;
  size_t running_ = 0, threads_;
  std::string problem_;

 private:
  void access(const void* at, unsigned bytes, bool write, const void* site);
  LaunchMemory& memory_;
};

Emulation::Index index_of(size_t number, Emulation::Index extent);
size_t volume(Emulation::Index extent);

// Threads as fibers, which may wait for one another.
std::string run_fibers(Emulation& e, const EmulatedKernel& kernel, void** args, LaunchMemory& memory,
                       const std::vector<LaunchObserver*>& observers, const std::vector<size_t>& order);

}  // namespace nestor

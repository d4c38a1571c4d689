// What several threads bring kernels that have nothing to do with each other, on a machine whose cores aren't
// always this process' alone. No bound: each has all of the data for itself, where threads that share a work
// have a part of it each, and more of that in their caches.
#pragma once

#include <memory>
#include <vector>

#include "bench/cpu/ours.h"
#include "runtime/kernel_rt.h"

namespace nestor::bench {

// The work's kernel for one thread, once for each thread, with tensors and scratch of its own.
class Apart {
 public:
  Apart(const Problem& p, const Settings& settings, const std::vector<int32_t>& cpus);
  void run();  // all of them at once

 private:
  std::vector<Ours> kernels_;
  std::unique_ptr<nestor_pool, void (*)(nestor_pool*)> pool_;
};

}  // namespace nestor::bench

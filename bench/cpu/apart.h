// What several threads bring kernels that have nothing to do with each other: all that a kernel for several
// can have, on a machine whose cores aren't always this process' alone.
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

// What memory binds is compared with a copy of as many bytes.
#pragma once

#include <memory>
#include <vector>

#include "bench/cpu/work.h"
#include "runtime/kernel_rt.h"

namespace nestor::bench {

// From the work's own input where that is large enough: it meets the caches in the same state. `cpus` are
// where the threads stay, empty: anywhere.
class Copy {
 public:
  Copy(const Problem& p, int threads, const std::vector<int32_t>& cpus);
  void by_one();
  void by_all();  // a part on each of the threads

 private:
  int64_t bytes_;
  Tensor from_, to_;
  std::unique_ptr<nestor_pool, void (*)(nestor_pool*)> pool_{nullptr, nestor_pool_destroy};
};

}  // namespace nestor::bench

// What several threads bring arithmetic: a loop of multiply-adds in registers, which nothing else binds.
#pragma once

#include <memory>
#include <vector>

#include "nestor/measure.h"
#include "runtime/kernel_rt.h"

namespace nestor::bench {

// As much arithmetic as `flops`, and a call of the loop for each thread at least. `cpus` are where the
// threads stay, empty: anywhere.
class Arithmetic {
 public:
  Arithmetic(double flops, const Target& target, int threads, const std::vector<int32_t>& cpus);
  void by_all();         // a part on each of the threads
  double flops() const;  // 2 for a multiply-add

 private:
  FmaLoop loop_;
  int threads_;
  int64_t calls_;  // of each thread
  std::unique_ptr<nestor_pool, void (*)(nestor_pool*)> pool_;
};

}  // namespace nestor::bench

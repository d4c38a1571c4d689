#include "bench/cpu/arithmetic.h"

#include <algorithm>

namespace nestor::bench {

Arithmetic::Arithmetic(double flops, const Target& target, int threads, const std::vector<int32_t>& cpus)
    : loop_(target),
      threads_(threads),
      calls_(std::max<int64_t>(1, static_cast<int64_t>(flops / loop_.flops() / threads))),
      pool_(nestor_pool_create(threads), nestor_pool_destroy) {
  if (!cpus.empty()) nestor_pool_pin(pool_.get(), cpus.data());
}

void Arithmetic::by_all() {
  const auto part = [](void* self, int64_t begin, int64_t end, int32_t) {
    const auto& a = *static_cast<const Arithmetic*>(self);
    for (int64_t i = begin * a.calls_; i < end * a.calls_; ++i) a.loop_.run();
  };
  nestor_parallel_static(pool_.get(), threads_, part, this);
}

double Arithmetic::flops() const {
  return loop_.flops() * static_cast<double>(calls_ * threads_);
}

}  // namespace nestor::bench

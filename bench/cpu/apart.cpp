#include "bench/cpu/apart.h"

namespace nestor::bench {

Apart::Apart(const Problem& p, const Settings& settings, const std::vector<int32_t>& cpus)
    : pool_(nestor_pool_create(settings.threads), nestor_pool_destroy) {
  if (!cpus.empty()) nestor_pool_pin(pool_.get(), cpus.data());
  for (int i = 0; i < settings.threads; ++i) {
    kernels_.push_back(make_ours(p, settings, 1));
    Ours& k = kernels_.back();
    for (size_t j = 0; j < k.inputs.size(); ++j) {
      k.data[j] = k.data[j].clone();
      k.inputs[j] = k.data[j].data();
    }
  }
}

void Apart::run() {
  const auto part = [](void* self, int64_t begin, int64_t end, int32_t) {
    const auto& kernels = static_cast<const Apart*>(self)->kernels_;
    for (int64_t i = begin; i < end; ++i) kernels[static_cast<size_t>(i)].run();
  };
  nestor_parallel_static(pool_.get(), static_cast<int64_t>(kernels_.size()), part, this);
}

}  // namespace nestor::bench

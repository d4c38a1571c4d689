#include "bench/cpu/copy.h"

#include <algorithm>
#include <cstring>

#include "nestor/ir.h"

namespace nestor::bench {

namespace {

constexpr int64_t kLine = 64;

}  // namespace

Copy::Copy(const Problem& p, int threads, const std::vector<int32_t>& cpus)
    : bytes_(static_cast<int64_t>(p.bytes / 2)), to_(DType::u8, {bytes_}) {
  for (const Tensor& t : p.inputs)
    if (t.bytes() >= bytes_) from_ = t;
  if (!from_.defined()) {
    from_ = Tensor(DType::u8, {bytes_});
    std::memset(from_.data(), 1, static_cast<size_t>(bytes_));
  }
  if (threads < 2) return;
  pool_.reset(nestor_pool_create(threads));
  if (!cpus.empty()) nestor_pool_pin(pool_.get(), cpus.data());
}

void Copy::by_one() {
  std::memcpy(to_.data(), from_.data(), static_cast<size_t>(bytes_));
}

void Copy::by_all() {
  const auto part = [](void* self, int64_t begin, int64_t end, int32_t) {
    auto& c = *static_cast<Copy*>(self);
    const int64_t first = begin * kLine, last = std::min(end * kLine, c.bytes_);
    std::memcpy(static_cast<char*>(c.to_.data()) + first, static_cast<const char*>(c.from_.data()) + first,
                static_cast<size_t>(last - first));
  };
  nestor_parallel_static(pool_.get(), ceil_div(bytes_, kLine), part, this);
}

}  // namespace nestor::bench

// Arena planning when compiling, by the algorithm that runs with symbolic sizes use, too.
#include "nestor/error.h"
#include "nestor/runtime.h"
#include "runtime/sizes_rt.h"

namespace nestor {

ArenaLayout plan_arena(const std::vector<Lifetime>& lifetimes) {
  std::vector<int64_t> bytes, first, last;
  for (const Lifetime& l : lifetimes) {
    NESTOR_CHECK(l.first <= l.last) << "buffer " << bytes.size() << " ends before it begins";
    bytes.push_back(l.bytes);
    first.push_back(l.first);
    last.push_back(l.last);
  }
  ArenaLayout layout;
  layout.offsets.assign(lifetimes.size(), 0);
  layout.bytes = nestor_plan_arena(static_cast<int64_t>(lifetimes.size()), bytes.data(), first.data(),
                                   last.data(), layout.offsets.data());
  if (layout.bytes < 0) throw std::bad_alloc();
  return layout;
}

}  // namespace nestor

#include "nestor/run_trace.h"

#include <algorithm>

namespace nestor {

RunTrace::RunTrace(int threads) : spans_(static_cast<size_t>(std::max(1, threads))) {}

int64_t RunTrace::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
}

void RunTrace::begin(int call) {
  open_.push_back(spans_[0].size());
  spans_[0].push_back({0, call, now(), 0, 0, 0});
  call_ = call;
}

void RunTrace::end() {
  spans_[0][open_.back()].end_ns = now();
  open_.pop_back();
}

void RunTrace::watch(void* trace, int32_t worker, int64_t begin, int64_t end, int32_t done) {
  auto& self = *static_cast<RunTrace*>(trace);
  std::vector<Span>& spans = self.spans_[static_cast<size_t>(worker)];
  if (done)
    spans.back().end_ns = self.now();
  else
    spans.push_back({worker, self.call_, self.now(), 0, begin, end});
}

}  // namespace nestor

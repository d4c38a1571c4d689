// What does a parallel loop cost? Two iterations a thread that each take a given time, of which the ideal is
// known; what lies above it is the pool's. `following` loops find the workers awake, `after rest` ones must
// wake them.
//
//   bench_pool [THREADS] [none|compact|spread]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "nestor/error.h"
#include "nestor/pinning.h"
#include "runtime/kernel_rt.h"

namespace {

using Clock = std::chrono::steady_clock;
using Loop = void (*)(nestor_pool*, int64_t, nestor_task, void*);

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void busy(void* ctx, int64_t begin, int64_t end, int32_t) {
  for (int64_t i = begin; i < end; ++i)
    for (const auto start = Clock::now(); microseconds_since(start) < *static_cast<double*>(ctx);) {
    }
}

// The median of what a loop takes above `us` an iteration and thread.
double overhead(nestor_pool* pool, Loop loop, int threads, double us, bool rest) {
  std::vector<double> samples;
  for (int i = 0; i < (rest ? 300 : 2000); ++i) {
    if (rest) std::this_thread::sleep_for(std::chrono::microseconds(300));
    const auto start = Clock::now();
    loop(pool, 2 * threads, busy, &us);
    samples.push_back(microseconds_since(start) - 2 * us);
  }
  std::nth_element(samples.begin(), samples.begin() + static_cast<long>(samples.size() / 2), samples.end());
  return samples[samples.size() / 2];
}

}  // namespace

int main(int argc, char** argv) try {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  const auto cpus = nestor::cpus_for(threads, nestor::parse_pinning(argc > 2 ? argv[2] : "none"));
  const std::unique_ptr<nestor_pool, void (*)(nestor_pool*)> pool{nestor_pool_create(threads),
                                                                  nestor_pool_destroy};
  if (!cpus.empty()) {
    nestor::pin_thread(cpus[0]);
    nestor_pool_pin(pool.get(), cpus.data());
  }
  std::printf("%d threads; microseconds above the ideal, medians\n", threads);
  std::printf("%-12s %18s %18s %18s %18s\n", "iteration", "dynamic, following", "dynamic, after rest",
              "static, following", "static, after rest");
  for (const double us : {1.0, 3.0, 10.0, 100.0}) {
    std::printf("%9.0f us", us);
    for (const Loop loop : {nestor_parallel_for, nestor_parallel_static})
      for (const bool rest : {false, true})
        std::printf(" %18.2f", overhead(pool.get(), loop, threads, us, rest));
    std::printf("\n");
  }
  return 0;
} catch (const nestor::UserError& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

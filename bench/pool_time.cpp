// What does a parallel loop cost? Two iterations a thread that each take a given time, of which the ideal is
// known: what lies above it is the pool's. After a rest the threads may have to be woken; then what a loop
// takes above the caller's time for all of it alone is shown too, which should be 2 us at most, whatever the
// rest.
//
//   bench_pool [THREADS] [none|compact|spread]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
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

// Microseconds between loops, in which the caller works or sleeps.
struct Rest {
  const char* name;
  double us;
  bool sleeps;
};
constexpr Rest kRests[] = {
    {"none", 0, false}, {"50 us", 50, false}, {"500 us", 500, false}, {"asleep", 300, true}};

// The median time of a loop of two iterations of `us` a thread.
double time_of(nestor_pool* pool, Loop loop, int threads, double us, const Rest& rest) {
  std::vector<double> samples;
  for (int i = 0; i < (rest.us > 0 ? 300 : 2000); ++i) {
    if (rest.sleeps) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(rest.us));
    for (const auto start = Clock::now(); !rest.sleeps && microseconds_since(start) < rest.us;) {
    }
    const auto start = Clock::now();
    loop(pool, 2 * threads, busy, &us);
    samples.push_back(microseconds_since(start));
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
  std::printf("%d threads; microseconds, medians\n", threads);
  std::printf("%-8s %-9s %-8s %10s %12s %16s\n", "split", "iteration", "rest", "loop", "above ideal",
              "above one thread");
  const std::pair<const char*, Loop> splits[] = {{"dynamic", nestor_parallel_for},
                                                 {"static", nestor_parallel_static}};
  for (const auto& [name, loop] : splits)
    for (const double us : {1.0, 3.0, 10.0, 100.0})
      for (const Rest& rest : kRests) {
        const double time = time_of(pool.get(), loop, threads, us, rest);
        std::printf("%-8s %6.0f us %-8s %10.2f %12.2f %16.2f\n", name, us, rest.name, time, time - 2 * us,
                    time - 2 * threads * us);
      }
  return 0;
} catch (const nestor::UserError& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

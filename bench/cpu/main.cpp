// Are untuned kernels as fast as the libraries'? Every work of a list, on one thread or several, beside
// oneDNN and OpenBLAS on the same data, with the FMA peak and the copy bandwidth of this very process:
//
//   bench_cpu [--works=FILE] [--threads=N] [--target=NAME] [--pin=compact|spread] [--seconds=S]
//   [Google Benchmark's flags: --benchmark_filter, --benchmark_out ...]
//
// With several threads our own code for one thread is a contestant too: `x 1 thread` is what the others
// bring. Beside it (`machine's`) stands what they bring work that nothing of ours holds up, all that there is
// to have: where memory binds, a copy that is shared by as many threads over a copy by one; else the kernel
// for one thread on each of them at once, apart; both in the quietest third of the rounds (threads.h). With a
// target that has narrower vectors than this machine the peak is that of its vectors, and the peers are held
// to the same instructions.
//
// Contestants are interleaved call by call; `x peer` is the median over the rounds of (best peer's time / our
// time) with its 95 % interval, above 1 where we are faster. `bound` is the share reached of what the
// hardware allows, a contestant like the others: as many multiply-adds in registers, or, where memory binds,
// a copy of as many bytes, from the work's own input where that is large enough: it meets the caches in the
// same state.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "bench/cpu/arithmetic.h"
#include "bench/cpu/copy.h"
#include "bench/cpu/ours.h"
#include "bench/cpu/pairs.h"
#include "bench/cpu/threads.h"
#include "bench/peers/peer.h"
#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/measure.h"
#include "nestor/pinning.h"

namespace nestor::bench {

namespace {

// Relative to the largest element, so that a peer that does something else is found out and rounding is not.
double difference(const Tensor& got, const Tensor& want) {
  double largest = 1e-30, worst = 0;
  for (int64_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want.get(i)));
    worst = std::max(worst, std::abs(got.get(i) - want.get(i)));
  }
  return worst / largest;
}

constexpr double kHopeless =
    10;  // a peer so much slower gets a few rounds of its own: it would spend all the time

// Every contestant of a work: ours, what binds it, and the peers that aren't hopeless.
class Contest {
 public:
  Contest(const Problem& p, const Settings& settings)
      : problem_(p), seconds_(settings.seconds), ours(make_ours(p, settings, settings.threads)) {
    for (auto make : {onednn_peer, openblas_peer})
      if (auto peer = make(p)) peers_.push_back(std::move(*peer));
    peak = measure_fma_peak_gflops(50, parse_target(settings.target)) * settings.threads;
    const auto half = static_cast<int64_t>(p.bytes / 2);
    copy_gbs = measure_copy_gbs(half);
    our_run_ = [this] { ours.run(); };
    std::function<void()> bound;
    const std::vector<int32_t> cpus = cpus_for(settings.threads, parse_pinning(settings.pin));
    if (p.bytes / copy_gbs > p.flops / peak) {
      copy_.emplace(p, settings.threads, cpus);
      bound = [this] { copy_->by_all(); };
    } else {
      arithmetic_.emplace(p.flops, parse_target(settings.target), settings.threads, cpus);
      bound = [this] { arithmetic_->by_all(); };
    }
    contestants_ = {our_run_, bound};
    if (settings.threads > 1) gain_ = gain_of_threads(p, ours, settings, copy_ ? &*copy_ : nullptr);
    our_run_();
    const double once = milliseconds_of(our_run_);
    for (const Peer& peer : peers_) {
      peer.run();
      slow_.push_back(milliseconds_of(peer.run) > kHopeless * once);
      if (!slow_.back()) contestants_.push_back(peer.run);
    }
  }

  // Fills the figures; gives what went wrong, or nothing.
  std::string run(benchmark::UserCounters& out, std::string& label) {
    const auto times = time_rounds(contestants_, seconds_ * static_cast<double>(contestants_.size()));
    const Tensor output = result_of(ours);
    size_t next = 2;  // after us and what binds us
    us = median_interval(times[0]).median;
    if (gain_) {
      put(out, "x_one_thread", gain_->ours);
      put(out, copy_ ? "copy_x_one_thread" : "apart_x_one_thread", gain_->machine);
    }
    out["copy_gbs"] = copy_gbs;
    if (copy_) out["copy_gbs"] = problem_.bytes / median_interval(times[1]).median * 1e-3;
    const double share = copy_ ? 1 : problem_.flops / arithmetic_->flops();
    const Interval bound = ratio(times[1], times[0]);
    put(out, "of_bound", {share * bound.median, share * bound.low, share * bound.high});
    Interval best;
    for (size_t i = 0; i < peers_.size(); ++i) {
      const Peer& peer = peers_[i];
      const auto pair = slow_[i] ? time_rounds({our_run_, peer.run}, 0, 5)
                                 : std::vector<std::vector<double>>{times[0], times[next++]};
      const bool half = output.dtype() == DType::bf16 || output.dtype() == DType::f16;
      if (const double d = difference(peer.result(), output); d > (half ? 1e-2 : 1e-3))
        return peer.name + " computes something else: relative difference " + std::to_string(d);
      const Interval r = ratio(pair[1], pair[0]);
      out[peer.name + "_us"] = median_interval(pair[1]).median;
      out["x_" + peer.name] = r.median;
      if (i == 0 || r.median < best.median) best = r;
      label += "; " + peer.name + " " + peer.kernel;
    }
    if (!peers_.empty()) put(out, "x_best", best);
    return "";
  }

 private:
  static void put(benchmark::UserCounters& out, const std::string& name, const Interval& i) {
    out[name] = i.median;
    out[name + "_low"] = i.low;
    out[name + "_high"] = i.high;
  }

  const Problem& problem_;
  double seconds_;
  std::vector<Peer> peers_;
  std::vector<bool> slow_;
  std::optional<Gain> gain_;
  std::optional<Copy> copy_;              // where memory binds
  std::optional<Arithmetic> arithmetic_;  // else
  std::function<void()> our_run_;
  std::vector<std::function<void()>> contestants_;

 public:
  const Ours ours;
  double peak = 0, copy_gbs = 0, us = 0;
};

void run_work(benchmark::State& state, const Work& work, const Settings& settings) {
  Problem p = make_problem(work.spec);
  p.exact_conv = work.family == "exact";
  Contest contest(p, settings);
  for (auto _ : state) {
    std::string label = work.family;
    if (const std::string wrong = contest.run(state.counters, label); !wrong.empty()) {
      state.SkipWithError(wrong.c_str());
      return;
    }
    const double us = contest.us;
    state.SetIterationTime(us * 1e-6);
    state.counters["us"] = us;
    state.counters["gflops"] = p.flops / us * 1e-3;
    state.counters["gbs"] = p.bytes / us * 1e-3;
    state.counters["flops"] = p.flops;
    state.counters["bytes"] = p.bytes;
    state.counters["peak_gflops"] = contest.peak;
    state.counters["schedule_ms"] = contest.ours.schedule_ms;
    state.counters["compile_ms"] = contest.ours.compile_ms;
    state.SetLabel(label);
  }
}

// One line a work.
class Table : public benchmark::BenchmarkReporter {
 public:
  explicit Table(const Settings& s) : settings_(s) {}
  bool ReportContext(const Context&) override {
    std::printf("target %s, %d thread%s; ", settings_.target.c_str(), settings_.threads,
                settings_.threads > 1 ? "s" : "");
    std::printf("oneDNN %s; OpenBLAS %s\n", onednn_version().c_str(), openblas_version().c_str());
    std::printf("%-22s %10s %8s %6s %-17s %11s %11s  %-22s %8s %8s%s\n", "work", "us", "GFLOP/s", "GB/s",
                "bound [95 %]", "oneDNN us", "OpenBLAS us", "x best peer [95 %]", "sched ms", "comp ms",
                settings_.threads > 1 ? "  x 1 thread [95 %]    machine's" : "");
    return true;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& r : runs) {
      if (r.error_occurred) {
        std::printf("%-22s %s\n", r.run_name.function_name.c_str(), r.error_message.c_str());
        continue;
      }
      const auto get = [&](const char* name) {
        const auto it = r.counters.find(name);
        return it == r.counters.end() ? 0.0 : it->second.value;
      };
      char interval[32];
      std::snprintf(interval, sizeof interval, "[%.0f, %.0f]", 100 * get("of_bound_low"),
                    100 * get("of_bound_high"));
      std::printf("%-22s %10.2f %8.1f %6.1f %5.1f%% %-10s %11.2f %11.2f ", r.run_name.function_name.c_str(),
                  get("us"), get("gflops"), get("gbs"), 100 * get("of_bound"), interval, get("oneDNN_us"),
                  get("OpenBLAS_us"));
      std::printf(" %5.2f [%5.2f, %5.2f]    %8.2f %8.1f", get("x_best"), get("x_best_low"),
                  get("x_best_high"), get("schedule_ms"), get("compile_ms"));
      if (settings_.threads > 1)
        std::printf("   %5.2f [%5.2f, %5.2f]", get("x_one_thread"), get("x_one_thread_low"),
                    get("x_one_thread_high"));
      for (const auto& [what, counter] :
           {std::pair{"copy", "copy_x_one_thread"}, std::pair{"apart", "apart_x_one_thread"}})
        if (r.counters.count(counter))
          std::printf("   %s %5.2f (%.0f %%)", what, get(counter), 100 * get("x_one_thread") / get(counter));
      std::printf("\n");
      std::fflush(stdout);
    }
  }

 private:
  const Settings& settings_;
};

// Our own flags are taken out before Google Benchmark sees the rest.
Settings read_flags(int& argc, char** argv) {
  Settings s;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&](const char* flag) -> const char* {
      const size_t n = std::strlen(flag);
      return std::strncmp(argv[i], flag, n) == 0 ? argv[i] + n : nullptr;
    };
    if (const char* v = value("--works="))
      s.works = v;
    else if (const char* v = value("--threads="))
      s.threads = std::stoi(v);
    else if (const char* v = value("--target="))
      s.target = v;
    else if (const char* v = value("--pin="))
      s.pin = v;
    else if (const char* v = value("--seconds="))
      s.seconds = std::stod(v);
    else
      argv[kept++] = argv[i];
  }
  argc = kept;
  return s;
}

int run_all(int argc, char** argv) try {
  const Settings settings = read_flags(argc, argv);
  require_runs_here(parse_target(settings.target));
  if (const auto cpus = cpus_for(1, parse_pinning(settings.pin)); !cpus.empty()) pin_thread(cpus[0]);
  for (const Work& w : read_works(settings.works))
    benchmark::RegisterBenchmark(w.name.c_str(),
                                 [w, settings](benchmark::State& s) { run_work(s, w, settings); })
        ->UseManualTime()
        ->Iterations(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Table table(settings);
  if (benchmark::RunSpecifiedBenchmarks(&table) > 0) return 0;
  std::fprintf(stderr, "error: there is no such work; the list's names are in bench/cpu/works.txt\n");
  return 1;
} catch (const UserError& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

}  // namespace

// The libraries read their settings before main, so a process that lacks one sets it and starts itself again.
// On CPUs that OpenBLAS doesn't know it takes its AVX2 kernels; it is told to take those for AVX-512 where
// there is AVX-512, whatever the caller's environment says, and to find out the caches for itself.
void start_with_environment(int argc, char** argv) {
  int count = argc;
  std::vector<char*> copy(argv, argv + argc + 1);
  const Settings settings = read_flags(count, copy.data());
  const std::string threads = std::to_string(settings.threads);
  std::vector<std::pair<const char*, std::string>> wanted{{"OMP_NUM_THREADS", threads},
                                                          {"OPENBLAS_NUM_THREADS", threads}};
  if (settings.threads > 1)  // where their threads would go on spinning in our turn
    wanted.insert(wanted.end(), {{"OMP_WAIT_POLICY", "PASSIVE"}, {"OPENBLAS_THREAD_TIMEOUT", "4"}});
  if (settings.target == "x86-64-v2") {
    wanted.insert(wanted.end(), {{"OPENBLAS_CORETYPE", "NEHALEM"}, {"ONEDNN_MAX_CPU_ISA", "SSE41"}});
  } else if (settings.target == "x86-64-v3") {
    wanted.insert(wanted.end(), {{"OPENBLAS_CORETYPE", "HASWELL"}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}});
  } else if (__builtin_cpu_supports("avx512f")) {
    wanted.emplace_back("OPENBLAS_CORETYPE", "SKYLAKEX");
  }
  bool complete = !std::getenv("OPENBLAS_L2_SIZE");
  unsetenv("OPENBLAS_L2_SIZE");
  for (const auto& [name, value] : wanted) {
    const char* set = std::getenv(name);
    complete &= set && set == value;
    setenv(name, value.c_str(), 1);
  }
  if (complete) return;
  execv("/proc/self/exe", argv);
  std::perror("can't start again");
  std::exit(70);
}

int run_main(int argc, char** argv) {
  start_with_environment(argc, argv);
  return run_all(argc, argv);
}

}  // namespace nestor::bench

int main(int argc, char** argv) {
  return nestor::bench::run_main(argc, argv);
}

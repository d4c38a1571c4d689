// Are untuned kernels as fast as the libraries'? Every work of a list, on one thread or several, beside
// oneDNN and OpenBLAS on the same data, with the FMA peak and the copy bandwidth of this very process:
//
//   bench_cpu [--works=FILE] [--threads=N] [--seconds=S] [Google Benchmark's flags: --benchmark_filter,
//   --benchmark_out ...]
//
// Contestants are interleaved call by call; `x peer` is the median over the rounds of (best peer's time / our
// time) with its 95 % interval, above 1 where we are faster. `bound` is the share reached of what the
// hardware allows: the FMA peak, or, where memory binds, the time in which as many bytes are copied. That
// copy is a contestant like the others, from the work's own input where that is large enough: it meets the
// caches in the same state.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "bench/cpu/pairs.h"
#include "bench/peers/peer.h"
#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/layout.h"
#include "nestor/library.h"
#include "nestor/measure.h"

namespace nestor::bench {

namespace {

struct Settings {
  std::string works = NESTOR_SOURCE_DIR "/bench/cpu/works.txt";
  int threads = 1;
  double seconds = 1;
};

double milliseconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Our contestant, with what choosing its schedules and making its code took.
struct Ours {
  std::unique_ptr<Executor> executor;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<Tensor> data;  // what these point to
  std::optional<BufferDecl> blocked_output;
  double schedule_ms = 0, compile_ms = 0;
};

// A value whose channels lie in blocks, as a declaration that packs and unpacks it.
BufferDecl blocked_decl(const Tensor& t, int64_t block) {
  BufferDecl d;
  d.buffer = make_buffer("x", {t.dtype(), 1});
  IndexMap map;
  for (const int64_t extent : t.shape()) {
    d.shape.emplace_back(extent);
    map.vars.push_back(make_var("d" + std::to_string(map.vars.size())));
    map.exprs.emplace_back(map.vars.back());
  }
  map.exprs.push_back(map.exprs[1] % Expr(block));
  map.exprs[1] = map.exprs[1] / Expr(block);
  d.layout = map;
  return d;
}

// Convolutions and pooling are measured as they stand inside a network, oneDNN's and ours: their tensors in
// blocks of channels, where a library has such a layout.
Ours make_ours(const Problem& p, const Settings& settings) {
  Ours ours;
  CompileOptions options;
  options.threads = settings.threads;
  options.schedules = default_schedules();
  options.blocked_io = true;
  const CompiledModel model = compile_model(p.source, options);
  for (const PrimFunc& f : model.partition.funcs) {
    ours.schedule_ms += milliseconds_of([&] { default_schedule(f, model.target); });
    ours.compile_ms += milliseconds_of([&] {
      const CompiledFunction c = compile_function(f, options);
      JitModule::compile({c.lowered}, model.target);
    });
  }
  ours.executor = make_executor(model);
  const auto blocked = [&](ValueId v) { return model.partition.blocked.count(v) > 0; };
  const int64_t block = model.partition.channel_block;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const bool packs = blocked(p.source.graph.inputs[i]);
    ours.data.push_back(packs ? pack(p.inputs[i], blocked_decl(p.inputs[i], block)) : p.inputs[i]);
    ours.inputs.push_back(ours.data.back().data());
  }
  if (blocked(p.source.graph.outputs[0])) ours.blocked_output = blocked_decl(p.output, block);
  ours.data.emplace_back(p.output.dtype(),
                         ours.blocked_output ? physical_shape(*ours.blocked_output) : p.output.shape());
  ours.outputs = {ours.data.back().data()};
  return ours;
}

Tensor result_of(const Ours& ours) {
  const Tensor& out = ours.data.back();
  return ours.blocked_output ? unpack(out, *ours.blocked_output) : out;
}

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

// Moves as many bytes as the work has to.
class Copy {
 public:
  explicit Copy(const Problem& p) : bytes_(static_cast<int64_t>(p.bytes / 2)), to_(DType::u8, {bytes_}) {
    for (const Tensor& t : p.inputs)
      if (t.bytes() >= bytes_) from_ = t;
    if (!from_.defined()) {
      from_ = Tensor(DType::u8, {bytes_});
      std::memset(from_.data(), 1, static_cast<size_t>(bytes_));
    }
  }
  void operator()() { std::memcpy(to_.data(), from_.data(), static_cast<size_t>(bytes_)); }

 private:
  int64_t bytes_;
  Tensor from_, to_;
};

void run_work(benchmark::State& state, const Work& work, const Settings& settings) {
  const Problem p = make_problem(work.spec);
  const Ours ours = make_ours(p, settings);
  std::vector<Peer> peers;
  for (auto make : {onednn_peer, openblas_peer})
    if (auto peer = make(p)) peers.push_back(std::move(*peer));

  const std::function<void()> our_run = [&] {
    ours.executor->run_raw(ours.inputs.data(), ours.outputs.data());
  };
  std::vector<std::function<void()>> contestants{our_run};
  const double peak = measure_fma_peak_gflops() * settings.threads;
  const bool memory_binds = p.bytes / measure_copy_gbs(static_cast<int64_t>(p.bytes / 2)) > p.flops / peak;
  std::optional<Copy> copy;
  if (memory_binds) contestants.emplace_back([&copy = copy.emplace(p)] { copy(); });
  our_run();
  const double once = milliseconds_of(our_run);
  std::vector<bool> slow;
  for (const Peer& peer : peers) {
    peer.run();
    slow.push_back(milliseconds_of(peer.run) > kHopeless * once);
    if (!slow.back()) contestants.push_back(peer.run);
  }
  for (auto _ : state) {
    const auto times = time_rounds(contestants, settings.seconds * static_cast<double>(contestants.size()));
    const Tensor output = result_of(ours);
    std::vector<std::pair<std::vector<double>, std::vector<double>>> of_peer;  // ours beside theirs
    size_t next = memory_binds ? 2 : 1;
    for (size_t i = 0; i < peers.size(); ++i) {
      if (slow[i]) {
        const auto pair = time_rounds({our_run, peers[i].run}, 0, 5);
        of_peer.emplace_back(pair[0], pair[1]);
      } else {
        of_peer.emplace_back(times[0], times[next++]);
      }
      if (const double d = difference(peers[i].result(), output); d > 1e-3) {
        state.SkipWithError(
            (peers[i].name + " computes something else: relative difference " + std::to_string(d)).c_str());
        return;
      }
    }
    const double us = median_interval(times[0]).median;
    state.SetIterationTime(us * 1e-6);
    state.counters["us"] = us;
    state.counters["gflops"] = p.flops / us * 1e-3;
    state.counters["gbs"] = p.bytes / us * 1e-3;
    state.counters["flops"] = p.flops;
    state.counters["bytes"] = p.bytes;
    state.counters["peak_gflops"] = peak;
    if (memory_binds) {
      const Interval of_bound = ratio(times[1], times[0]);
      state.counters["copy_gbs"] = p.bytes / median_interval(times[1]).median * 1e-3;
      state.counters["of_bound"] = of_bound.median;
      state.counters["of_bound_low"] = of_bound.low;
      state.counters["of_bound_high"] = of_bound.high;
    } else {
      state.counters["copy_gbs"] = measure_copy_gbs(static_cast<int64_t>(p.bytes / 2));
      state.counters["of_bound"] = p.flops / peak * 1e-3 / us;
    }
    state.counters["schedule_ms"] = ours.schedule_ms;
    state.counters["compile_ms"] = ours.compile_ms;
    std::string label = work.family;
    Interval best;
    for (size_t i = 0; i < peers.size(); ++i) {
      const Interval r = ratio(of_peer[i].second, of_peer[i].first);
      state.counters[peers[i].name + "_us"] = median_interval(of_peer[i].second).median;
      state.counters["x_" + peers[i].name] = r.median;
      if (i == 0 || r.median < best.median) best = r;
      label += "; " + peers[i].name + " " + peers[i].kernel;
    }
    if (!peers.empty()) {
      state.counters["x_best"] = best.median;
      state.counters["x_best_low"] = best.low;
      state.counters["x_best_high"] = best.high;
    }
    state.SetLabel(label);
  }
}

// One line a work.
class Table : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override {
    std::printf("oneDNN %s; OpenBLAS %s\n", onednn_version().c_str(), openblas_version().c_str());
    std::printf("%-22s %10s %8s %6s %-17s %11s %11s  %-22s %8s %8s\n", "work", "us", "GFLOP/s", "GB/s",
                "bound [95 %]", "oneDNN us", "OpenBLAS us", "x best peer [95 %]", "sched ms", "comp ms");
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
      std::string interval;
      if (r.counters.count("of_bound_low")) {
        char text[32];
        std::snprintf(text, sizeof text, "[%.0f, %.0f]", 100 * get("of_bound_low"),
                      100 * get("of_bound_high"));
        interval = text;
      }
      std::printf("%-22s %10.2f %8.1f %6.1f %5.1f%% %-10s %11.2f %11.2f ", r.run_name.function_name.c_str(),
                  get("us"), get("gflops"), get("gbs"), 100 * get("of_bound"), interval.c_str(),
                  get("oneDNN_us"), get("OpenBLAS_us"));
      std::printf(" %5.2f [%5.2f, %5.2f]    %8.2f %8.1f\n", get("x_best"), get("x_best_low"),
                  get("x_best_high"), get("schedule_ms"), get("compile_ms"));
      std::fflush(stdout);
    }
  }
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
  for (const Work& w : read_works(settings.works))
    benchmark::RegisterBenchmark(w.name.c_str(),
                                 [w, settings](benchmark::State& s) { run_work(s, w, settings); })
        ->UseManualTime()
        ->Iterations(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Table table;
  benchmark::RunSpecifiedBenchmarks(&table);
  return 0;
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
  const std::string threads = std::to_string(read_flags(count, copy.data()).threads);
  std::vector<std::pair<const char*, std::string>> wanted{{"OMP_NUM_THREADS", threads},
                                                          {"OPENBLAS_NUM_THREADS", threads}};
  if (__builtin_cpu_supports("avx512f")) wanted.emplace_back("OPENBLAS_CORETYPE", "SKYLAKEX");
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

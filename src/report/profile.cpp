#include "src/report/profile.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "nestor/nest_file.h"

namespace nestor::report {

namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

struct Times {
  std::vector<std::vector<double>> ns;  // by call and run
  std::vector<double> calls;            // how often each is made in a run
};

Times times_of_calls(Executor& executor, const std::function<void()>& run, double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kLeast = 20, kMost = 1000;  // runs
  Times out;
  out.ns.resize(executor.plan().calls.size());
  run();
  executor.set_timing(true);
  std::vector<int64_t> before = executor.call_ns();
  const auto start = Clock::now();
  const auto time_left = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count() < seconds;
  };
  for (size_t n = 0; n < kLeast || (n < kMost && time_left()); ++n) {
    run();
    for (size_t i = 0; i < out.ns.size(); ++i)
      out.ns[i].push_back(static_cast<double>(executor.call_ns()[i] - before[i]));
    before = executor.call_ns();
  }
  for (size_t i = 0; i < out.ns.size(); ++i)
    out.calls.push_back(static_cast<double>(executor.call_runs()[i]) / static_cast<double>(out.ns[i].size()));
  executor.set_timing(false);
  return out;
}

FunctionWork work_of_call(const CompiledModel& model, const PlanCall& call) {
  if (call.kernel >= 0) {
    const Partition& p = model.partition;
    return least_work(with_dims(p.funcs[static_cast<size_t>(call.kernel)], p.typical));
  }
  FunctionWork w;
  w.bytes = 2.0 * static_cast<double>(call.bytes);
  return w;
}

std::vector<double> sum(const std::vector<const std::vector<double>*>& all) {
  std::vector<double> out(all.empty() ? 0 : all[0]->size());
  for (const std::vector<double>* one : all)
    for (size_t i = 0; i < out.size(); ++i) out[i] += (*one)[i];
  return out;
}

}  // namespace

Profile profile(Executor& executor, const CompiledModel& model, const std::function<void()>& run,
                double seconds) {
  const Plan& plan = executor.plan();
  Roofline roofline(model.target, plan.threads);
  const Times times = times_of_calls(executor, run, seconds);
  std::map<int, FunctionTime> by_function;
  std::map<int, std::vector<const std::vector<double>*>> times_of;
  std::vector<const std::vector<double>*> all;
  Profile out;
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    const PlanCall& call = plan.calls[i];
    const int kind = std::max(call.kernel, kPoint);  // all of control flow is one row
    const double calls = times.calls[i];
    FunctionTime& f = by_function[kind];
    FunctionWork w = work_of_call(model, call);
    if (kind == kPoint) w.bytes = 0;
    f.name = function_of(plan, call);
    f.func = kind;
    f.nodes.push_back(call.label);
    f.calls += calls;
    if (call.kernel >= 0) f.flops += calls * plan.kernel_flops[static_cast<size_t>(call.kernel)];
    f.work.operations += calls * w.operations;
    f.work.bytes += calls * w.bytes;
    f.work.operations_at_once = w.operations_at_once;
    times_of[kind].push_back(&times.ns[i]);
    all.push_back(&times.ns[i]);
    out.calls.emplace_back(call.kernel, median_of(times.ns[i]));
    roofline.bound_of(w);  // so that its copies are measured
  }
  roofline.measure_peak(20);
  roofline.measure_copies();
  for (auto& [kernel, f] : by_function) {
    f.ns = median_of(sum(times_of[kernel]));
    FunctionWork one = f.work;  // a call's: its data are copied by themselves
    const double calls = std::max(f.calls, 1.0);
    one.operations /= calls;
    one.bytes /= calls;
    f.bound = roofline.bound_of(one);
    f.bound.operations_ns *= calls;
    f.bound.bytes_ns *= calls;
    out.functions.push_back(std::move(f));
  }
  std::stable_sort(out.functions.begin(), out.functions.end(),
                   [](const FunctionTime& x, const FunctionTime& y) { return x.ns > y.ns; });
  const std::vector<double> runs = sum(all);
  out.ns = median_of(runs);
  out.runs = static_cast<int>(runs.size());
  out.peak_gflops = roofline.peak_gflops();
  out.copies = roofline.copies();
  return out;
}

}  // namespace nestor::report

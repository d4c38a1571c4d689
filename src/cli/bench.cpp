// `nestor bench`: run times of a model under several schedules, interleaved in one process, beside the FMA
// peak measured in that process. Compile time stands apart from run time.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "nestor/flops.h"
#include "nestor/layout.h"
#include "nestor/measure.h"
#include "nestor/pinning.h"
#include "src/cli/common.h"
#include "src/cli/timing.h"

namespace nestor::cli {

namespace {

struct Entry {
  std::string schedule;
  double compile_s = 0;
  std::unique_ptr<Runnable> runnable;
  double flops = 0;
  std::vector<Tensor> held;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

// Inputs drawn at random and outputs, laid out as `model` says; an artifact has none, and takes row major
// ones.
void bind(Entry& e, const CompiledModel* model) {
  const auto blocks = [&](const std::vector<ValueId> Graph::*side, size_t i) {
    return model ? channel_blocks(*model, (model->graph.*side)[i]) : std::nullopt;
  };
  const NamedTensors given = read_inputs({}, e.runnable->inputs(), 1);
  for (size_t i = 0; i < e.runnable->inputs().size(); ++i) {
    const Tensor& t = given.at(e.runnable->inputs()[i].name);
    const auto decl = blocks(&Graph::inputs, i);
    e.held.push_back(decl ? pack(t, *decl) : t);
    e.inputs.push_back(e.held.back().data());
  }
  for (size_t i = 0; i < e.runnable->outputs().size(); ++i) {
    const PlanTensor& t = e.runnable->outputs()[i];
    const auto decl = blocks(&Graph::outputs, i);
    e.held.emplace_back(t.dtype, decl ? physical_shape(*decl) : t.shape);
    e.outputs.push_back(e.held.back().data());
  }
}

Entry make_entry(const BenchVerb& v, const std::string& schedule, const std::vector<int32_t>& cpus,
                 Placement placement) {
  Entry e;
  e.schedule = schedule;
  const auto start = std::chrono::steady_clock::now();
  std::optional<CompiledModel> model;
  if (is_artifact(v.common.model)) {
    if (v.common.blocked_io)
      throw UserError(
          Diagnostic{"an artifact's inputs and outputs lie as it was compiled", {}, {}, "give the model"});
    e.runnable = load_artifact(v.common.model, v.common.threads, cpus, placement);
  } else {
    model = compile_model(v.common.model, compile_options(v.common, schedule));
    for (const KernelCall& c : model->partition.calls) {
      e.flops += flops_of(model->partition.funcs[static_cast<size_t>(c.func)]);
    }
    auto executor = make_executor(*model);
    if (!cpus.empty()) executor->pin(cpus);
    executor->place(cpus, placement);
    e.runnable = std::move(executor);
  }
  e.compile_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  bind(e, model ? &*model : nullptr);
  return e;
}

// Functions fused as for ours, each in Halide's hands.
Entry make_halide_entry(const BenchVerb& v, const std::string& backend) {
  Entry e;
  e.schedule = backend == "halide" ? "halide:mullapudi2016" : backend;
  if (is_artifact(v.common.model))
    throw UserError(Diagnostic{
        "an artifact is machine code already: " + backend + " can't compile it", {}, {}, "give the model"});
  const auto start = std::chrono::steady_clock::now();
  CompileOptions options = compile_options(v.common, "default");
  options.schedules = nullptr;
  const CompiledModel model = compile_model(v.common.model, options);
  for (const KernelCall& c : model.partition.calls)
    e.flops += flops_of(model.partition.funcs[static_cast<size_t>(c.func)]);
  e.runnable = make_halide_executor(model, e.schedule.substr(e.schedule.find(':') + 1));
  e.compile_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  bind(e, &model);
  return e;
}

// Time of each kernel, over some runs of the first schedule given.
void print_per_func(Entry& e, double peak, bool json) {
  auto* executor = dynamic_cast<Executor*>(e.runnable.get());
  if (!executor)
    throw UserError(Diagnostic{"--per-func can't look into an artifact", {}, {}, "give the model"});
  executor->set_timing(true);
  const std::vector<int64_t> before = executor->call_ns();
  constexpr int kRuns = 20;
  for (int i = 0; i < kRuns; ++i) executor->run_raw(e.inputs.data(), e.outputs.data());
  const Plan& plan = executor->plan();
  nlohmann::json rows = nlohmann::json::array();
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    const double ns =
        static_cast<double>(executor->call_ns()[i] - (i < before.size() ? before[i] : 0)) / kRuns;
    const int which = plan.calls[i].kernel;
    const std::string kernel = which == kCopy    ? "copy"
                               : which == kCheck ? "check"
                                                 : plan.kernels[static_cast<size_t>(which)];
    if (json)
      rows.push_back({{"func", kernel}, {"nodes", plan.calls[i].label}, {"mean_us", ns / 1e3}});
    else
      fmt::print("  {:>10.2f} us  {:<36} {}\n", ns / 1e3, kernel, plan.calls[i].label);
  }
  if (json)
    fmt::print("{}\n",
               nlohmann::json{{"schedule", e.schedule}, {"peak_gflops", peak}, {"funcs", rows}}.dump());
}

}  // namespace

int run(const BenchVerb& v) {
  if (!(v.seconds > 0)) throw UserError("--seconds must be above zero");
  std::vector<std::string> schedules = v.schedules;
  if (schedules.empty()) schedules.push_back(usual_schedule(v.common));
  if (is_artifact(v.common.model)) schedules = {"artifact"};
  const Target target = target_of(v.common);
  const int threads = threads_of(v.common, target);
  std::vector<Entry> entries;
  const std::vector<int32_t> cpus = cpus_for(threads, parse_pinning(v.pin));
  const Placement placement = parse_placement(v.numa, cpus);
  if (placement != Placement::anywhere && memory_nodes_of(cpus) == 1)
    fmt::print(stderr, "note: these threads run on one memory node; --numa {} changes nothing\n", v.numa);
  if (!cpus.empty()) pin_thread(cpus[0]);
  for (const std::string& backend : v.backends.empty() ? std::vector<std::string>{"llvm"} : v.backends) {
    if (backend == "llvm")
      for (const std::string& s : schedules) entries.push_back(make_entry(v, s, cpus, placement));
    else if (backend == "halide" || backend.starts_with("halide:"))
      entries.push_back(make_halide_entry(v, backend));
    else
      throw UserError(Diagnostic{"there is no back end '" + backend + "'",
                                 {},
                                 {},
                                 "llvm, halide, halide:mullapudi2016, halide:adams2019, halide:none"});
  }

  const double peak_before = measure_fma_peak_gflops(50, target);
  std::vector<std::function<void()>> calls;
  for (Entry& e : entries) calls.push_back([&e] { e.runnable->run_raw(e.inputs.data(), e.outputs.data()); });
  const std::vector<Timing> times = time_interleaved(calls, v.seconds);
  const double peak = std::max(peak_before, measure_fma_peak_gflops(50, target)) * threads;

  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = entries[i];
    const Timing& t = times[i];
    const double gflops = e.flops / 1e6 / t.median();
    if (v.common.json) {
      fmt::print("{}\n", nlohmann::json{{"model", v.common.model},
                                        {"target", v.common.target},
                                        {"threads", threads},
                                        {"schedule", e.schedule},
                                        {"compile_s", e.compile_s},
                                        {"runs", t.samples_ms.size()},
                                        {"median_ms", t.median()},
                                        {"min_ms", t.quantile(0)},
                                        {"p90_ms", t.quantile(0.9)},
                                        {"gflops", gflops},
                                        {"peak_gflops", peak}}
                             .dump());
      continue;
    }
    if (i == 0)
      fmt::print("{}  {} thread{}, FMA peak {:.0f} GFLOP/s\n{:<24} {:>11} {:>11} {:>11} {:>9} {:>7} {:>10}\n",
                 v.common.model, threads, threads > 1 ? "s" : "", peak, "schedule", "median ms", "min ms",
                 "p90 ms", "GFLOP/s", "% peak", "compile s");
    fmt::print("{:<24} {:>11.4f} {:>11.4f} {:>11.4f} {:>9.1f} {:>7.1f} {:>10.3f}\n", e.schedule, t.median(),
               t.quantile(0), t.quantile(0.9), gflops, 100 * gflops / peak, e.compile_s);
  }
  if (v.per_func) print_per_func(entries[0], peak, v.common.json);
  return 0;
}

}  // namespace nestor::cli

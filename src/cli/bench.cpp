// `nestor bench`: run times of a model under several schedules, interleaved in one process, beside the FMA
// peak measured in that process. Compile time stands apart from run time.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "nestor/artifact.h"
#include "nestor/cuda.h"
#include "nestor/device_memory.h"
#include "nestor/layout.h"
#include "nestor/measure.h"
#include "nestor/pinning.h"
#include "nestor/report.h"
#include "nestor/run_trace.h"
#include "src/cli/beside.h"
#include "src/cli/common.h"
#include "src/cli/outputs.h"
#include "src/cli/profile.h"
#include "src/cli/records_used.h"
#include "src/cli/timing.h"
#include "src/report/chrome_trace.h"

namespace nestor::cli {

namespace {

struct Entry {
  std::string schedule;
  double compile_s = 0;
  std::shared_ptr<OnDevice> model;  // null: an artifact, or Halide's
  std::unique_ptr<Runnable> runnable;
  std::vector<Tensor> held;
  std::vector<std::unique_ptr<DeviceMemory>> on_device;
  std::vector<Runnable::Shape> shapes;  // of the inputs
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

// Inputs drawn at random and outputs, laid out as `model` says; an artifact has none, and takes row major
// ones. Those of a CUDA device lie there: copies from and to the host aren't timed.
void bind(Entry& e, const BenchVerb& v, const CompiledModel* model, bool cuda = false) {
  const auto memory = [&]() -> void* {
    if (!cuda) return e.held.back().data();
    e.on_device.push_back(std::make_unique<DeviceMemory>(e.held.back()));
    return e.on_device.back()->data();
  };
  const auto blocks = [&](const std::vector<ValueId> Graph::*side, size_t i) {
    return model ? channel_blocks(*model, (model->graph.*side)[i]) : std::nullopt;
  };
  Sizes sizes = sizes_of(v.common);
  if (model && model->graph.symbols)
    for (const Symbol& s : model->graph.symbols->all()) sizes.emplace(s.var->name, s.typical);
  const NamedTensors given = read_inputs({}, *e.runnable, 1, sizes);
  for (const PlanTensor& t : e.runnable->inputs()) e.shapes.push_back(given.at(t.name).shape());
  const std::vector<Runnable::Shape> made = e.runnable->fit(e.shapes);
  for (size_t i = 0; i < e.runnable->inputs().size(); ++i) {
    const Tensor& t = given.at(e.runnable->inputs()[i].name);
    const auto decl = blocks(&Graph::inputs, i);
    e.held.push_back(decl ? pack(t, *decl) : t);
    e.inputs.push_back(memory());
  }
  for (size_t i = 0; i < e.runnable->outputs().size(); ++i) {
    const PlanTensor& t = e.runnable->outputs()[i];
    const auto decl = blocks(&Graph::outputs, i);
    e.held.emplace_back(t.dtype, decl ? physical_shape(*decl) : made[i]);
    e.outputs.push_back(memory());
  }
}

// "f32[1,3,224,224], i64[1,128]"
std::string counted_inputs(const Runnable& r) {
  std::string out;
  for (size_t i = 0; i < r.inputs().size(); ++i)
    out += (i ? ", " : "") + to_string(r.inputs()[i].dtype, r.flops().of[i]);
  return out;
}

bool is_for_cuda(const BenchVerb& v, const Target& target) {
  return is_artifact(v.common.model) ? artifact_target(v.common.model).starts_with("cuda:")
                                     : target.kind == TargetKind::cuda;
}

Entry make_entry(const BenchVerb& v, const std::string& schedule, const std::vector<int32_t>& cpus,
                 Placement placement) {
  Entry e;
  e.schedule = schedule;
  const auto start = std::chrono::steady_clock::now();
  if (is_artifact(v.common.model)) {
    if (v.common.blocked_io)
      throw UserError(
          Diagnostic{"the layout of an artifact's inputs and outputs was fixed when it was compiled",
                     {},
                     {},
                     "give the model"});
    e.runnable = load_artifact(v.common.model, v.common.threads, cpus, placement);
  } else {
    e.model =
        std::make_shared<OnDevice>(compile_model(v.common.model, compile_options(v.common, schedule)), false);
    say_records_used(e.model->model, v.common, schedule);
    e.runnable = e.model->device.make_runnable();
    if (auto* executor = dynamic_cast<Executor*>(e.runnable.get())) {
      if (!cpus.empty()) executor->pin(cpus);
      executor->place(cpus, placement);
    }
  }
  e.compile_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  bind(e, v, e.model ? &e.model->model : nullptr, is_for_cuda(v, target_of(v.common)));
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
  e.runnable = make_halide_executor(model, e.schedule.substr(e.schedule.find(':') + 1));
  e.compile_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  bind(e, v, &model);
  return e;
}

// What looks into the first schedule's functions.
void look_inside(const BenchVerb& v, Entry& e) {
  auto* executor = dynamic_cast<Executor*>(e.runnable.get());
  const std::string flag = v.profile ? "--profile" : v.trace.empty() ? "--html" : "--trace";
  if (!executor && e.model)
    throw UserError(flag + " times functions on a CPU; on a CUDA device only the whole model is timed");
  if (!executor) throw UserError(Diagnostic{flag + " can't look into an artifact", {}, {}, "give the model"});
  const auto run = [&] { executor->run_raw(e.inputs.data(), e.outputs.data()); };
  std::FILE* const notes = v.common.json ? stderr : stdout;
  if (v.profile || !v.html.empty()) {
    if (!e.model) throw UserError(flag + " can't look into Halide's code");
    const CompiledModel& model = e.model->model;
    const report::Profile p = report::profile(*executor, model, run, v.seconds);
    if (v.profile) v.common.json ? print_json(p, e.schedule) : print_table(p);
    if (!v.html.empty()) {
      const HtmlReport report =
          html_report(model, compile_options(v.common, e.schedule), report_title(v.common.model),
                      select(model.partition.funcs, "*"), &p);
      write_text(v.html, report.html);
      fmt::print(notes, "{}: {:.1f} KiB, {}\n", v.html, static_cast<double>(report.html.size()) / 1024,
                 counted(model.funcs.size(), "function"));
    }
  }
  if (!v.trace.empty()) {
    run();
    RunTrace trace(executor->threads());
    executor->set_trace(&trace);
    constexpr int kRuns = 10;
    for (int i = 0; i < kRuns; ++i) run();
    executor->set_trace(nullptr);
    write_text(v.trace, report::chrome_trace(trace, executor->plan()));
    fmt::print(notes, "{}: {} runs, for chrome://tracing or ui.perfetto.dev\n", v.trace, kRuns);
  }
}

}  // namespace

int run(const BenchVerb& v) {
  if (!(v.seconds > 0)) throw UserError("--seconds must be above zero");
  require_ending("--trace", v.trace, {".json"});
  require_ending("--html", v.html, {".html", ".htm"});
  if (!v.beside.empty()) return bench_beside(v);
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

  const bool cuda = is_for_cuda(v, target);
  const CudaStatus device = cuda ? cuda_status() : CudaStatus{};
  const double peak_before = cuda ? device.gflops : measure_fma_peak_gflops(50, target);
  std::vector<std::function<void()>> calls;
  for (Entry& e : entries) calls.push_back([&e] { e.runnable->run_raw(e.inputs.data(), e.outputs.data()); });
  const std::vector<Timing> times = time_interleaved(calls, v.seconds);
  const int running = entries[0].runnable->threads();  // an artifact's are those it was compiled for
  const int cores =
      std::max(1, std::min(running, host_target().cores));  // more threads have no peak of their own
  const double peak = cuda ? peak_before : std::max(peak_before, measure_fma_peak_gflops(50, target)) * cores;
  const bool winograd = std::any_of(entries.begin(), entries.end(), [](const Entry& e) {
    return e.runnable->flops().effective > e.runnable->flops().done;
  });

  bool all_counted = true;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = entries[i];
    const Timing& t = times[i];
    const FlopCount flops = e.runnable->flops();
    const bool counted = flops.counts(e.shapes);
    const double gflops = flops.done / 1e6 / t.median(), effective = flops.effective / 1e6 / t.median();
    const auto figure = [&](double f, int width) {
      return counted ? fmt::format("{:>{}.1f}", f, width) : fmt::format("{:>{}}", "", width);
    };
    all_counted = all_counted && counted;
    if (v.common.json) {
      nlohmann::json row = {{"model", v.common.model},   {"target", v.common.target},
                            {"threads", running},        {"schedule", e.schedule},
                            {"compile_s", e.compile_s},  {"runs", t.samples_ms.size()},
                            {"median_ms", t.median()},   {"min_ms", t.quantile(0)},
                            {"p90_ms", t.quantile(0.9)}, {"peak_gflops", peak}};
      if (counted) row.update({{"gflops", gflops}, {"effective_gflops", effective}});
      fmt::print("{}\n", row.dump());
      continue;
    }
    if (i == 0)
      fmt::print("{}  {}, FMA peak {:.0f} GFLOP/s\n{:<24} {:>11} {:>11} {:>11} {:>9} {:>7}{} {:>11}\n",
                 v.common.model,
                 cuda ? device.gpu : fmt::format("{} thread{}", running, running > 1 ? "s" : ""), peak,
                 "schedule", "median", "min", "90 %", "GFLOP/s", "% peak", winograd ? "  effective" : "",
                 "compiled in");
    fmt::print("{:<24} {:>11} {:>11} {:>11} {} {}{} {:>11}\n", e.schedule, time_text(t.median()),
               time_text(t.quantile(0)), time_text(t.quantile(0.9)), figure(gflops, 9),
               figure(100 * gflops / peak, 7), winograd ? " " + figure(effective, 10) : "",
               time_text(e.compile_s * 1e3));
  }
  if (!all_counted && !v.common.json)
    fmt::print("GFLOP/s: operations were counted for {} alone\n", counted_inputs(*entries[0].runnable));
  if (winograd && !v.common.json)
    fmt::print("effective: GFLOP/s of the direct convolutions that Winograd's algorithm replaces\n");
  if (v.profile || !v.trace.empty() || !v.html.empty()) look_inside(v, entries[0]);
  return 0;
}

}  // namespace nestor::cli

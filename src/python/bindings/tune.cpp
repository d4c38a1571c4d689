// The tuner: searches from Python, and the worker that they start.
#include "nestor/tune.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>

#include <chrono>

#include "nestor/print.h"
#include "src/python/bindings/threads.h"

namespace nestor::python {

namespace {

std::map<std::string, int64_t> counted(const std::vector<int64_t>& outcomes) {
  std::map<std::string, int64_t> out;
  for (size_t i = 0; i < outcomes.size(); ++i)
    if (outcomes[i] > 0) out[name_of(static_cast<Outcome>(i))] = outcomes[i];
  return out;
}

nb::dict described(const TuneProgress& p, double seconds) {
  nb::dict out;
  out["func"] = p.func;
  out["measured"] = p.measured;
  out["default_us"] = p.default_ns / 1e3;
  out["best_us"] = p.best_ns / 1e3;
  out["outcomes"] = counted(p.outcomes);
  out["elapsed_s"] = p.elapsed_s;
  out["left_s"] = std::max(0.0, seconds - p.elapsed_s);
  return out;
}

nb::dict described(const TuneResult& r) {
  nb::dict out;
  out["func"] = r.func;
  out["default_us"] = r.default_ns / 1e3;
  out["best_us"] = r.best_ns / 1e3;
  out["gain_beyond_noise"] = r.gain_beyond_noise;
  out["schedule"] = print(r.best);
  out["plan"] = r.plan;
  out["outcomes"] = counted(r.outcomes);
  out["measured"] = r.measured;
  out["end"] = describe(r.end);
  std::vector<std::pair<double, double>> curve;
  for (const auto& [seconds, ns] : r.improvements) curve.emplace_back(seconds, ns / 1e3);
  out["improvements"] = curve;
  return out;
}

using Callback = std::function<void(nb::dict)>;

nb::list run_tune(const std::string& spec, const ModelKeywords& k, const std::string& db, double seconds,
                  int64_t trials, uint64_t seed, int local, const std::vector<std::string>& commands,
                  const std::vector<std::string>& families, const std::vector<std::string>& schedules,
                  const std::optional<Callback>& progress) {
  if (!(seconds > 0)) throw UserError("seconds must be above zero");
  const CompileOptions compile = compile_options(k);
  TuneOptions options;
  options.seconds = seconds;
  options.trials = trials;
  options.seed = seed;
  options.threads = compile.threads;
  options.target = compile.target;
  options.families = families;
  for (const std::string& file : schedules) options.own.push_back(file_schedules(file));
  options.workers.local = local;
  options.workers.commands = commands;
  options.workers.warn = options.warn = warn;
  bool interrupted = false;  // or its callback threw
  options.stop = [&] {
    if (interrupted) return true;
    const nb::gil_scoped_acquire held;
    interrupted = PyErr_CheckSignals() != 0;
    return interrupted;
  };
  if (progress)
    options.on_progress = [&](const TuneProgress& p) {
      const nb::gil_scoped_acquire held;
      if (interrupted) return;
      try {
        (*progress)(described(p, seconds));
      } catch (nb::python_error& e) {
        e.restore();
        interrupted = true;
      }
    };
  const auto tasks = interruptibly(
      [spec, compile] { return tune_tasks(partition_model(load(spec, compile), compile).partition); });
  std::vector<TuneResult> results;
  {
    const OthersRun others;
    Database database(db, Database::Mode::create);
    results = tune(tasks, database, options);
  }
  if (interrupted) throw nb::python_error();
  nb::list out;
  for (const TuneResult& r : results) out.append(described(r));
  return out;
}

}  // namespace

void add_tuner(nb::module_& m) {
  m.def("tune", &run_tune, nb::arg("spec"), nb::arg("keywords"), nb::arg("db"), nb::arg("seconds"),
        nb::arg("trials"), nb::arg("seed"), nb::arg("local"), nb::arg("commands"), nb::arg("families"),
        nb::arg("schedules"), nb::arg("progress").none());
  m.def("set_own_command", &set_own_command);
}

}  // namespace nestor::python

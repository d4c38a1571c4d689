// `nestor tune`: a search with a budget that holds, best so far at any moment, resumable.
#include "nestor/tune.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "src/cli/common.h"
#include "src/cli/stop.h"

namespace nestor::cli {

namespace {

// "90s", "5m", "1h", or plain seconds.
double parse_seconds(const std::string& text) {
  try {
    size_t used = 0;
    const double value = std::stod(text, &used);
    const std::string unit = text.substr(used);
    const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
    if (scale > 0 && value > 0) return value * scale;
  } catch (const std::exception&) {
  }
  throw UserError(Diagnostic{"--time " + text + " is no span of time", {}, {}, "90s, 5m or 1h"});
}

std::string causes(const std::vector<int64_t>& outcomes) {
  std::string out;
  for (size_t i = 0; i < outcomes.size(); ++i)
    if (outcomes[i] > 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", outcomes[i], name_of(static_cast<Outcome>(i)));
  return out;
}

nlohmann::json counts_of(const std::vector<int64_t>& outcomes) {
  nlohmann::json counts;
  for (size_t i = 0; i < outcomes.size(); ++i) counts[name_of(static_cast<Outcome>(i))] = outcomes[i];
  return counts;
}

WorkerPoolOptions worker_options(const TuneVerb& v) {
  constexpr int kMostWorkers = 1024;
  WorkerPoolOptions options;
  options.local = 0;
  for (const std::string& w : v.workers) {
    if (w == "ray" || w.starts_with("ray:")) {
      for (std::string& command : ray_workers(w.size() > 4 ? w.substr(4) : "auto"))
        options.commands.push_back(std::move(command));
      continue;
    }
    if (w.empty() || w.find_first_not_of("0123456789") != std::string::npos) {
      options.commands.push_back(w);
      continue;
    }
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), options.local);
    if (error != std::errc() || options.local > kMostWorkers)
      throw UserError("--workers " + w + ": at most " + std::to_string(kMostWorkers) + " processes");
  }
  if (v.workers.empty()) options.local = 1;
  constexpr double kDay = 86400;
  if (!(v.job_timeout > 0 && v.job_timeout <= kDay))
    throw UserError(fmt::format("--job-timeout {} is no time up to a day, in seconds", v.job_timeout));
  options.timeout_s = v.job_timeout;
  return options;
}

// To stderr: one line that changes in a terminal; else a line where a function's best has got faster; with
// --json an object for each batch.
class Progress {
 public:
  Progress(double seconds, bool json)
      : seconds_(seconds), json_(json), live_(isatty(STDERR_FILENO) && !json) {}

  void show(const TuneProgress& p) {
    const double left = std::max(0.0, seconds_ - p.elapsed_s);
    if (json_) {
      fmt::print(stderr, "{}\n",
                 nlohmann::json{{"event", "progress"},
                                {"func", p.func},
                                {"measured", p.measured},
                                {"default_us", p.default_ns / 1e3},
                                {"best_us", p.best_ns / 1e3},
                                {"outcomes", counts_of(p.outcomes)},
                                {"elapsed_s", p.elapsed_s},
                                {"left_s", left}}
                     .dump());
      return;
    }
    const std::string line =
        fmt::format("{:6.1f} s, {:.0f} s left  {:<28} default {:.1f} us  best {:.1f} us  {}", p.elapsed_s,
                    left, p.func, p.default_ns / 1e3, p.best_ns / 1e3, causes(p.outcomes));
    if (live_) {
      fmt::print(stderr, "\r{}\x1b[K", line);
      std::fflush(stderr);
      return;
    }
    double& best = best_[p.func];
    if (p.best_ns <= 0 || p.default_ns <= 0 || (best > 0 && p.best_ns > 0.99 * best)) return;
    best = p.best_ns;
    fmt::print(stderr, "{}\n", line);
  }
  void end() const {
    if (live_) fmt::print(stderr, "\n");
  }

 private:
  double seconds_;
  bool json_, live_;
  std::map<std::string, double> best_;
};

// The user's families; each must be one of some function.
std::vector<ScheduleTemplate> templates_for(const TuneVerb& v, const std::vector<TuneTask>& tasks,
                                            const Target& target) {
  std::vector<ScheduleTemplate> all;
  if (!v.templates.empty()) all = read_templates(v.templates);
  for (const ScheduleTemplate& t : all) {
    std::string reasons;
    const bool matches = std::any_of(tasks.begin(), tasks.end(), [&](const TuneTask& task) {
      std::string why;
      const bool is_for = t.match(task.func, target, &why).has_value();
      if (reasons.size() < 400)
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", task.func.name, why);
      return is_for;
    });
    if (!matches) warn_of_record(fmt::format("{} matches no function: {}", t.path(), reasons));
  }
  std::vector<std::string> names = {"any", "default"};
  for (const ScheduleTemplate& t : all) names.push_back(t.name());
  for (const std::string& family : v.families)
    if (!std::count(names.begin(), names.end(), family))
      throw UserError(Diagnostic{"--family " + family + ": there is no such family",
                                 {},
                                 {},
                                 fmt::format("{}; --template adds others", fmt::join(names, ", "))});
  return all;
}

}  // namespace

int run(const TuneVerb& v) {
  watch_interrupt();
  TuneOptions options;  // its time begins
  ModelOptions untuned = v.common;
  untuned.db.clear();
  const CompileOptions compile = compile_options(untuned, "default");
  const CompiledModel model = compile_model(v.common.model, compile);
  std::vector<TuneTask> tasks;
  for (const CompiledFunction* f : select(model, v.func)) {
    TuneTask task{f->func, 0};
    for (const KernelCall& c : model.partition.calls)
      task.calls += model.partition.funcs[static_cast<size_t>(c.func)].name == f->func.name;
    tasks.push_back(task);
  }

  Database db(v.common.db, Database::Mode::create);
  options.seconds = parse_seconds(v.time);
  options.trials = v.trials;
  options.seed = v.seed;
  options.threads = compile.threads;
  options.target = compile.target;
  options.families = v.families;
  options.learned_rank = v.rank == "learned";
  for (const std::string& file : v.schedules) options.own.push_back(file_schedules(file));
  options.templates = templates_for(v, tasks, options.target);
  options.workers = worker_options(v);
  options.workers.warn = warn_of_record;
  options.warn = warn_of_record;
  options.stop = interrupted;
  Progress progress(options.seconds, v.common.json);
  options.on_progress = [&](const TuneProgress& p) { progress.show(p); };
  for (size_t i = 0; i < v.schedules.size(); ++i) {
    const bool of_any = std::any_of(tasks.begin(), tasks.end(), [&](const TuneTask& t) {
      return options.own[i](t.func, options.target).has_value();
    });
    if (!of_any)
      throw UserError(
          Diagnostic{v.schedules[i] + " has a schedule for none of the functions of " + v.common.model,
                     {},
                     {},
                     "`schedule NAME {` names the function; without it the steps are for every one"});
  }
  if (options.workers.commands.empty()) {
    if (options.target.kind == TargetKind::cuda)
      throw UserError("candidates for " + options.target.name + " can't be measured: CUDA isn't tuned yet");
    require_runs_here(options.target);
  }
  const std::vector<TuneResult> results = tune(tasks, db, options);
  progress.end();

  for (const TuneResult& r : results) {
    if (v.common.json) {
      fmt::print("{}\n", nlohmann::json{{"func", r.func},
                                        {"default_us", r.default_ns / 1e3},
                                        {"best_us", r.best_ns / 1e3},
                                        {"compared", r.compared},
                                        {"gain_beyond_noise", r.gain_beyond_noise},
                                        {"measured", r.measured},
                                        {"resumed", r.resumed},
                                        {"outcomes", counts_of(r.outcomes)},
                                        {"end", describe(r.end)},
                                        {"untried", r.untried},
                                        {"plan", r.plan},
                                        {"trace", print(r.best)}}
                             .dump());
      continue;
    }
    const std::string ratio = fmt::format("{:.2f}x", r.default_ns / std::max(r.best_ns, 1e-9));
    const std::string gain = !r.compared && r.best_ns < r.default_ns ? ratio + ", not compared again"
                             : r.gain_beyond_noise                   ? ratio
                                                                     : "no gain beyond noise";
    fmt::print("{:<32} default {:>10.2f} us  best {:>10.2f} us  {:<20} {} candidates{}: {}\n", r.func,
               r.default_ns / 1e3, r.best_ns / 1e3, gain, r.measured,
               r.resumed ? fmt::format(" (+ {} resumed)", r.resumed) : "", causes(r.outcomes));
    std::string history;
    for (const auto& [seconds, ns] : r.improvements)
      history += fmt::format("{}{:.2f} us at {:.1f} s", history.empty() ? "" : ", ", ns / 1e3, seconds);
    if (!history.empty()) fmt::print("    best so far: {}\n", history);
    if (!r.plan.empty()) fmt::print("    plan: {}\n", r.plan);
    fmt::print("    {}{}\n", describe(r.end),
               r.untried > 0 ? fmt::format(", {} proposed and not measured", r.untried) : "");
  }
  for (const TuneResult& r : results) {
    if (r.end == TuneEnd::not_stored)
      throw UserError("tuning ended early, with what " + v.common.db + " has: " + describe(r.end));
    if (r.measured > 0 && r.default_ns <= 0 && r.best_ns <= 0)
      throw UserError(
          Diagnostic{"no candidate for " + r.func + " could be measured",
                     {},
                     {causes(r.outcomes)},
                     r.outcomes[static_cast<size_t>(Outcome::timeout)] > 0
                         ? fmt::format("--time and --job-timeout {} give each more time", 10 * v.job_timeout)
                         : "`nestor db " + v.common.db + " list` says why for each candidate"});
  }
  return 0;
}

}  // namespace nestor::cli

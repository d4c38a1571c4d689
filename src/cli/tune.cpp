// `nestor tune`: a search with a time limit that holds. It shows the best so far at any moment, and can be
// continued.
#include "nestor/tune.h"

#include <fmt/format.h>

#include <charconv>

#include "nestor/files.h"
#include "src/cli/common.h"
#include "src/cli/outputs.h"
#include "src/cli/stop.h"
#include "src/cli/tune_display.h"
#include "src/cli/tune_priced.h"
#include "src/cli/tune_report.h"
#include "src/report/roofline.h"
#include "tuner/space.h"

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
  throw UserError(Diagnostic{"--time " + text + " isn't a duration", {}, {}, "90s, 5m or 1h"});
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
    if (w.starts_with('-'))
      throw UserError(Diagnostic{"--workers " + w + " is neither a number of processes nor a command",
                                 {},
                                 {},
                                 "--workers 2, or --workers \"ssh board nestor worker\""});
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
    throw UserError(fmt::format("--job-timeout {} isn't a time of at most a day, in seconds", v.job_timeout));
  options.timeout_s = v.job_timeout;
  return options;
}

std::vector<TunedFunction> functions_of(const std::vector<TuneTask>& tasks, report::Roofline* roofline) {
  std::vector<TunedFunction> out;
  for (const TuneTask& t : tasks) {
    out.push_back({t.func.name, t.calls, report::least_work(t.func), {}});
    if (roofline) out.back().bound = roofline->bound_of(out.back().work);
  }
  return out;
}

void write_report(const TuneVerb& v, const Database& db, const std::vector<TuneTask>& tasks,
                  const std::vector<TuneResult>& results, const TuneOptions& options,
                  report::Roofline* roofline, PendingFiles& files) {
  report::TuningPage page;
  page.title = v.common.model;
  page.facts = machine_facts(options.target, options.threads, roofline);
  page.facts.emplace_back("command", command_line());
  page.facts.emplace_back("records", v.common.db);
  for (size_t i = 0; i < tasks.size(); ++i) {
    page.functions.push_back(reported(
        db, {tasks[i].func, tasks[i].calls, options.target, options.threads, record_target(options.target)},
        roofline));
    add_result(results[i], page.functions.back());
  }
  files.write(v.report, report::tuning_page(page));
  files.commit();
  fmt::print(v.common.json ? stderr : stdout, "{}: the report\n", v.report);
}

// A value that can't be is never tried; whoever wrote it will look for it among the candidates.
void warn_of_illegal_choices(const TuneOptions& options, const std::vector<TuneTask>& tasks,
                             TuneDisplay& display) {
  const auto look = [&](const PrimFunc& f, const Trace& trace) {
    for (const IllegalChoice& c : illegal_choices(f, trace))
      display.warn(fmt::format("{}:{}: {} = {} isn't tried for {}: {}", c.loc.file, c.loc.line, c.name,
                               c.value, f.name, c.why));
  };
  for (const TuneTask& t : tasks) {
    for (const ScheduleProvider& own : options.own)
      if (const auto choice = own(t.func, options.target)) look(t.func, choice->trace);
    for (const ScheduleTemplate& family : options.templates)
      if (const auto trace = family.match(t.func, options.target)) look(t.func, *trace);
  }
}

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
  if (v.common.emulate) return tune_by_price(v);
  if (v.common.db.empty())
    throw UserError(
        Diagnostic{"tune keeps what it measures in a database, and --db isn't given", {}, {}, "--db t.db"});
  require_ending("--report", v.report, {".html", ".htm"});
  watch_interrupt();
  TuneOptions options;  // its time begins
  PendingFiles files;
  if (!v.report.empty()) files.add(v.report);  // a bad path fails before the work
  ModelOptions untuned = v.common;
  untuned.db.clear();
  const CompileOptions compile = compile_options(untuned, "default");
  const CompiledModel model = partition_model(load(v.common.model, compile), compile);
  const std::vector<TuneTask> all = tune_tasks(model.partition);
  std::vector<TuneTask> tasks;
  size_t open = 0;
  for (const size_t i : select(model.partition.funcs, v.func)) {
    if (all[i].func.dims.empty())
      tasks.push_back(all[i]);
    else
      ++open;
  }
  if (tasks.empty() && open > 0)
    throw UserError(Diagnostic{"tune works for known sizes", {}, {}, model.graph.symbols->hint()});

  options.seconds = parse_seconds(v.time);
  options.trials = v.trials;
  options.seed = v.seed;
  options.threads = compile.threads;
  options.target = compile.target;
  options.families = v.families;
  for (const std::string& file : v.schedules) options.own.push_back(file_schedules(file));
  options.templates = templates_for(v, tasks, options.target);
  options.workers = worker_options(v);
  options.stop = interrupted;
  if (options.workers.commands.empty()) {
    if (options.target.kind == TargetKind::cuda)
      throw UserError(Diagnostic{"candidates for " + options.target.name + " aren't measured on a device yet",
                                 {},
                                 {},
                                 "--emulate orders them by their price and runs the best on the CPU"});
    require_runs_here(options.target);
  }
  // Candidates may be measured elsewhere, and then this machine says nothing of bounds.
  std::optional<report::Roofline> roofline;
  if (options.workers.commands.empty()) roofline.emplace(options.target, options.threads);
  report::Roofline* const known = roofline ? &*roofline : nullptr;
  TuneDisplay display(functions_of(tasks, known), known, options.seconds, v.common.json);
  if (open > 0)
    display.warn(fmt::format(
        "{} {} sizes that runs decide and keep{} the default schedule{}", open,
        open == 1 ? "function has" : "functions have", open == 1 ? "s" : "",
        model.graph.symbols->hint().empty() ? "" : "; known ones: " + model.graph.symbols->hint()));
  options.on_progress = [&](const TuneProgress& p) { display.show(p); };
  options.warn = options.workers.warn = [&](const std::string& what) { display.warn(what); };
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
  warn_of_illegal_choices(options, tasks, display);
  Database db(v.common.db, Database::Mode::create);  // nothing that is refused leaves a file
  const std::vector<TuneResult> results = tune(tasks, db, options);
  if (known) known->measure_copies();
  const std::vector<TunedFunction> functions = functions_of(tasks, known);
  print_results(results, functions, v.common.json);
  if (!v.report.empty()) write_report(v, db, tasks, results, options, known, files);
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

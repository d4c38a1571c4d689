// The command line: flags to plain structs (options.h), verbs to functions, errors to exit codes.
// 0 fine, 1 the input or the request is at fault, 2 usage, 3 a comparison failed, 70 a bug of ours.
#include "src/cli/program.h"

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <system_error>

#include "nestor/error.h"
#include "nestor/files.h"
#include "nestor/nearest.h"
#include "schedules/primitive.h"
#include "src/cli/deep_stack.h"
#include "src/cli/help_examples.h"
#include "src/cli/options.h"
#include "src/cli/output.h"
#include "src/cli/usage.h"
#include "src/cli/version.h"

namespace nestor::cli {

namespace {

constexpr const char* kModelHelp =
    "a .onnx, a .json, a text function (.nest), or an operator: 'MatMul(f32[512,512], const f32[512,512])'";
constexpr const char* kInputHelp =
    "NAME=@x.npy | NAME=@x.npz:KEY | @all.npz | NAME=random:SEED | NAME=zeros | NAME=1,2,3";
constexpr const char* kScheduleHelp =
    "naive, default, tuned or a .sched file; by default: tuned if --db is given, else default";

void add_json(CLI::App* app, bool& json) {
  app->add_flag("--json", json, "results as JSON, one object per line");
}

void add_model(CLI::App* app, ModelOptions& o, const char* help = kModelHelp) {
  app->add_option("MODEL", o.model, help)->required();
  app->add_option(
      "--dim", o.dims,
      "value of a symbolic dimension, NAME=VALUE or INPUT.AXIS=VALUE; or an input's shape, x=1,3,224,224");
  app->add_option(
      "--const", o.constants,
      "value of an input or a weight, constant from then on: NAME=VALUE, NAME=@x.npy, NAME=random:SEED");
  app->add_option("--op", o.ops, "a .nest file with operators of your own");
  app->add_option("--target", o.target,
                  "native, x86-64-v3, aarch64, a processor by LLVM's name (cortex-a76, znver4), cuda:sm_80; "
                  "several for an artifact: cuda:sm_80,sm_90")
      ->capture_default_str();
  app->add_option(
         "--threads", o.threads,
         "threads of a run (0: the cores of the target: this machine, or the processor that --target names)")
      ->capture_default_str();
  app->add_option("--db", o.db, "tuning records to take schedules from");
  app->add_flag("--exact-conv", o.exact_conv, "no Winograd: all convolutions are computed directly");
  app->add_option("--winograd-budget", o.winograd_budget,
                  "memory that Winograd's transformed weights may add, such as 64M; by default: as much as "
                  "the weights of the model, but at least 64M")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::NonNegativeNumber);
  app->add_option("--max-trips", o.max_trips,
                  "a run fails where a loop whose end isn't known when compiling goes on for more iterations")
      ->check(CLI::PositiveNumber);
  app->add_option("--max-memory", o.limits.memory, "end with an error above this memory: 512M, 4G")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  const std::map<std::string, double> units = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  app->add_option("--time-limit", o.limits.seconds, "end with an error after this time: 30s, 5m, 1h")
      ->transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::CASE_INSENSITIVE))
      ->check(CLI::PositiveNumber);
  app->add_flag("--check-indices", o.check_indices,
                "an index out of range (Gather, Scatter ...) is an error; without this option it is clamped");
}

// For an operator as it stands inside a network; what `run` and `compile` make has its tensors row major.
void add_blocked_io(CLI::App* app, ModelOptions& o) {
  app->add_flag("--blocked-io", o.blocked_io,
                "inputs and outputs in a blocked layout (NCHW16c), as inside a network");
}

// For verbs that leave sizes open.
void add_specialize(CLI::App* app, ModelOptions& o) {
  app->add_option("--specialize", o.specialize,
                  "kernels for these values of an open size too, as fast as those of a fixed size: "
                  "NAME=VALUE,VALUE,...; may be repeated");
}

void add_emulate(CLI::App* app, ModelOptions& o) {
  app->add_flag("--emulate", o.emulate,
                "run the kernels of a CUDA target on the CPU, compiled by the system's C++ compiler");
}

// How loops are scheduled: one choice, or several.
template <class Choice>
void add_schedule(CLI::App* app, Choice& choice, ModelOptions& o, const char* help = kScheduleHelp) {
  app->add_option("--schedule", choice, help);
  app->add_flag_callback(
      "--no-proof", [&o] { o.proof = false; },
      "apply a .sched file without proving that it keeps the results");
}

// Registers a verb: its options are kept alive by the callback, which stores the exit code.
template <class Verb, class AddOptions>
void add_verb(CLI::App& app, int& code, const char* name, const char* help, AddOptions add_options) {
  auto verb = std::make_shared<Verb>();
  CLI::App* sub = app.add_subcommand(name, help);
  sub->footer(help_examples(name));
  add_options(sub, *verb);
  sub->callback([verb, &code] {
    if constexpr (requires { verb->common; }) apply(verb->common.limits);
    code = run(*verb);
  });
}

void add_verbs(CLI::App& app, int& code) {
  add_verb<CompileVerb>(
      app, code, "compile", "compile a model to a shared object and a C header",
      [](CLI::App* a, CompileVerb& v) {
        add_model(a, v.common);
        add_specialize(a, v.common);
        a->add_option("-o,--output", v.output,
                      "where to write: m.so, m.a (an archive), m.o (an object), or as --emit says")
            ->required();
        add_schedule(a, v.schedule, v.common);
        a->add_option(
             "--emit", v.emit,
             "so, archive, obj, header, ir, llvm, asm, cuda, ptx; by default: as the ending of -o says")
            ->delimiter(',');
        a->add_option("--weights", v.weights, "inside the object, beside it, or auto: inside if they fit")
            ->check(CLI::IsMember({"auto", "inside", "beside"}))
            ->capture_default_str();
        a->add_option("--name", v.name, "prefix of the C functions");
        a->add_option("--backend", v.backend, "llvm; Halide compiles for bench and verify only")
            ->capture_default_str();
        a->add_flag("--report", v.report, "print a line for each function");
        add_json(a, v.common.json);
      });
  add_verb<RunVerb>(app, code, "run", "run a model or an artifact", [](CLI::App* a, RunVerb& v) {
    add_model(a, v.common);
    add_emulate(a, v.common);
    a->add_option("--input", v.inputs, kInputHelp);
    a->add_option("-o,--output", v.output, "outputs as .npz, keyed by name");
    add_json(a, v.common.json);
    add_schedule(a, v.schedule, v.common);
  });
  add_verb<TuneVerb>(
      app, code, "tune", "search for faster schedules; can be stopped and continued",
      [](CLI::App* a, TuneVerb& v) {
        add_model(a, v.common);
        a->get_option("--db")->description(
            "the database of records, needed without --emulate; created if it doesn't exist");
        a->add_flag("--emulate", v.common.emulate,
                    "for a CUDA target: order candidates by the cost model, verify the best on the CPU, and "
                    "print the best schedule");
        a->add_option("--time", v.time, "time limit: 90s, 5m, 1h")->capture_default_str();
        a->add_option("--trials", v.trials, "largest number of candidates to measure (0: no limit)")
            ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
        a->add_option("--func", v.func, "only functions whose name matches")->capture_default_str();
        a->add_option("--seed", v.seed, "seed of the search")->capture_default_str();
        a->add_option(
            "--schedule", v.schedules,
            "a .sched file whose sample_* steps are searched (only these, unless --family is given)");
        a->add_option("--template", v.templates,
                      "a folder of templates: .sched files that begin with `when` (docs/tune.md)");
        a->add_option("--family", v.families,
                      "families of plans to search: `any`, `default`, or a template's name; by default all")
            ->delimiter(',');
        a->add_option("--job-timeout", v.job_timeout, "time limit of one candidate, in seconds")
            ->check(CLI::PositiveNumber)
            ->capture_default_str();
        a->add_option("--workers", v.workers,
                      "number of processes on this machine, or a command that starts one elsewhere, or "
                      "ray[:ADDRESS]; may be repeated");
        a->add_option("--report", v.report,
                      "write an HTML page: gains, curves, how the best schedules differ");
        add_json(a, v.common.json);
      });
  add_verb<InspectVerb>(
      app, code, "inspect", "show a stage of the compilation", [](CLI::App* a, InspectVerb& v) {
        add_model(a, v.common);
        add_specialize(a, v.common);
        add_blocked_io(a, v.common);
        a->add_option("--stage", v.stage, "graph, fused, func, schedule, lowered, llvm, asm, cuda or ptx")
            ->check(CLI::IsMember(
                {"graph", "fused", "func", "schedule", "lowered", "llvm", "asm", "cuda", "ptx"}))
            ->capture_default_str();
        a->add_option("--func", v.func, "only functions whose name matches")->capture_default_str();
        add_schedule(a, v.schedule, v.common);
        a->add_flag("--steps", v.steps, "print the function after each primitive, with changed lines marked");
        a->add_flag("--why", v.why,
                    "give reasons: of the default schedule's decisions (--stage schedule or --steps), or of "
                    "the chosen algorithms (--stage fused); for CUDA also what bounds each kernel");
        a->add_option("--html", v.html,
                      "write an HTML page: the graph, each function's steps, its machine code");
        a->add_option("--dump-after", v.dump_after, "print the function after these lowering passes, or all")
            ->delimiter(',');
      });
  add_verb<BenchVerb>(
      app, code, "bench", "measure the time of a model or an artifact", [](CLI::App* a, BenchVerb& v) {
        add_model(a, v.common);
        add_blocked_io(a, v.common);
        add_schedule(a, v.schedules, v.common,
                     "naive, default, tuned or a .sched file; several are measured in turn");
        CLI::Option* profile = a->add_flag(
            "--profile,--per-func", v.profile,
            "the time of each function of the first schedule, and what bounds it: operations or bytes");
        CLI::Option* html = a->add_option(
            "--html", v.html, "write the page of `inspect --html` with times, and what bounds each function");
        CLI::Option* trace =
            a->add_option("--trace", v.trace,
                          "write a FILE.json of some runs for Chrome's and Perfetto's viewers: "
                          "calls and pieces of loops, by thread");
        add_json(a, v.common.json);
        CLI::Option* backend = a->add_option(
            "--backend", v.backends, "llvm, halide or halide:SCHEDULER; several are measured in turn");
        a->add_option("--seconds", v.seconds, "seconds of measuring for each schedule")
            ->capture_default_str();
        CLI::Option* pin =
            a->add_option(
                 "--pin", v.pin,
                 "bind each thread to a core: compact (neighbouring cores) or spread (round the NUMA nodes)")
                ->check(CLI::IsMember({"none", "compact", "spread"}))
                ->capture_default_str();
        CLI::Option* numa =
            a->add_option(
                 "--numa", v.numa,
                 "place memory: parts (the i-th part on thread i's NUMA node) or interleave (page by page)")
                ->capture_default_str();
        CLI::Option* beside = a->add_option("--beside", v.beside,
                                            "measure other runtimes in turn, on the same inputs: "
                                            "onnxruntime, openvino, as installed for python3 "
                                            "or NESTOR_PYTHON=FILE")
                                  ->delimiter(',');
        for (CLI::Option* other : {profile, trace, html, backend, pin, numa, a->get_option("--blocked-io")})
          beside->excludes(other);
        a->add_option("--tolerance", v.tolerance,
                      "with --beside: largest difference of outputs, relative to the largest element")
            ->needs(beside)
            ->check(CLI::NonNegativeNumber)
            ->capture_default_str();
      });
  add_verb<VerifyVerb>(
      app, code, "verify", "prove schedules, and compare results with a reference or with given outputs",
      [](CLI::App* a, VerifyVerb& v) {
        add_model(a, v.common);
        add_specialize(a, v.common);
        add_emulate(a, v.common);
        add_blocked_io(a, v.common);
        a->add_option("--against", v.against,
                      "what to compare with: for each function, oracle (naive loops compiled in f64), "
                      "interpreter, lowered (interpreted, bit for bit) or halide; for the model, graph (as "
                      "it was read); by default oracle, and graph if it takes less than a minute")
            ->check(CLI::IsMember({"oracle", "graph", "interpreter", "lowered", "halide"}));
        a->add_option("--input", v.inputs, kInputHelp);
        a->add_option("--expect", v.expect, "expected outputs, .npz keyed by name");
        add_json(a, v.common.json);
        add_schedule(a, v.schedule, v.common);
        a->add_flag(
            "--why", v.why,
            "say which plans the default schedule gave up; for CUDA also what bounds each kernel, and "
            "with --emulate what it does to memory");
        a->add_flag("--prove", v.prove, "only prove the schedule of every function, and run nothing");
        a->add_option("--rtol", v.rtol, "relative tolerance");
        a->add_option("--atol", v.atol, "absolute tolerance");
      });
  add_verb<DbVerb>(app, code, "db", "show and edit tuning records", [](CLI::App* a, DbVerb& v) {
    a->add_option("DB", v.path, "the database")->required();
    a->add_option("ACTION", v.action,
                  "list; best (of each function); show ID; report -o FILE.html; export FILE, import FILE "
                  "(JSON lines); merge DB; prune; retry ID (measure it again)")
        ->required()
        ->check(
            CLI::IsMember({"list", "best", "show", "report", "export", "import", "merge", "prune", "retry"}));
    a->add_option("WHAT", v.what,
                  "show, retry: number of a record; export, import: a file; merge: a database");
    a->add_option("-o,--output", v.output, "report: the page to write, FILE.html");
    a->add_option("--func", v.func, "only functions whose name matches")->capture_default_str();
    a->add_option("--target", v.target, "only targets that match: 'native znver*'")->capture_default_str();
    a->add_option("--threads", v.threads, "only records for this number of threads");
    a->add_option("--outcome", v.outcome,
                  "only records with this outcome: ok, failed (whatever the cause), illegal, crash ...");
    a->add_option("--keep", v.keep,
                  "prune: how many records of each function are kept: the one that tune marked as best, then "
                  "the fastest; by default 10")
        ->check(CLI::Range(1, 1 << 30));
    a->add_flag(
        "--stale", v.stale,
        "prune: only records whose schedules this version refuses: unreadable, illegal, or not proved");
    a->add_flag("--failed", v.failed, "prune: only records that failed");
    add_json(a, v.json);
  });
  add_verb<WorkerVerb>(app, code, "worker", "measure candidates for a tuner: JSON lines on stdin and stdout",
                       [](CLI::App* a, WorkerVerb& v) {
                         a->add_flag("--null", v.null,
                                     "run nothing, and report the time that the cost model predicts: makes "
                                     "searches repeatable, to test the tuner");
                       });
  add_verb<DoctorVerb>(app, code, "doctor", "show what this machine has, and the supported operators",
                       [](CLI::App* a, DoctorVerb& v) { add_json(a, v.json); });
  add_verb<PrimitivesVerb>(
      app, code, "primitives", "show the primitives of schedules: all in a table, or one in full",
      [](CLI::App* a, PrimitivesVerb& v) {
        a->add_option("NAME", v.name, "a primitive, such as split; by default the table of all");
      });
}

// Why this word isn't a verb; the library would only say that one is missing. Empty where it is one.
std::string unknown_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> verbs;
  std::string list;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(verb->get_name());
    list += (list.empty() ? "" : ", ") + verb->get_name();
  }
  if (std::count(verbs.begin(), verbs.end(), word)) return "";
  std::string hint = did_you_mean(word, verbs);
  if (schedules::find_primitive(word)) hint = "it is a primitive: nestor primitives " + word;
  if (hint.empty()) hint = "the verbs are " + list;
  return render({"there is no verb `" + word + "`", {}, {}, hint});
}

// `nestor help VERB` says what `nestor VERB --help` does.
void add_help(CLI::App& app, int& code) {
  auto verb = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("help", "show the options of a verb, and examples");
  sub->footer(help_examples("help"));
  sub->add_option("VERB", *verb, "one of the verbs; by default their list");
  sub->callback([verb, &app, &code] {
    if (const std::string why = verb->empty() ? "" : unknown_verb(app, *verb); !why.empty()) {
      std::fprintf(stderr, "%s\n", why.c_str());
      code = 2;
      return;
    }
    // App::help of the whole would go on to the verb that was given, which is `help`.
    const std::string text = verb->empty()
                                 ? app.get_formatter()->make_help(&app, "nestor", CLI::AppFormatMode::Normal)
                                 : app.get_subcommand(*verb)->help("nestor");
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace

}  // namespace nestor::cli

namespace {

int run_words(int argc, char** argv) {
  CLI::App app{"Nestor: a tensor program scheduling compiler", "nestor"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "nestor " + nestor::cli::version());
  app.footer("`nestor help VERB` shows the options of a verb, and examples.");
  int code = 0;
  nestor::cli::watch_output();
  nestor::remove_pending_files_on_signals();
  try {
    nestor::cli::add_verbs(app, code);
    nestor::cli::add_help(app, code);
    if (argc < 2) {
      std::fputs(app.help().c_str(), stderr);
      return 2;
    }
    const std::string why = argv[1][0] == '-' ? "" : nestor::cli::unknown_verb(app, argv[1]);
    if (!why.empty()) {
      std::fprintf(stderr, "%s\n", why.c_str());
      return 2;
    }
    app.parse(argc, argv);
    return nestor::cli::finish_output(code);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return nestor::cli::finish_output(app.exit(e));
    std::fprintf(stderr, "%s\n", nestor::UserError(nestor::cli::usage_error(app, e, argc, argv)).what());
    return nestor::cli::finish_output(2);
  } catch (const nestor::UserError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: not enough memory\n");
    return 1;
  } catch (const std::system_error& e) {  // files, pipes, threads
    if (e.code() == std::errc::broken_pipe) nestor::cli::end_by_closed_pipe();
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\nThis is a bug in Nestor; please report it with the command.\n", e.what());
    return 70;
  }
}

}  // namespace

int nestor::cli::run_program(int argc, char** argv) {
  // Tensors have mappings of their own, which go back to the system when they go; by itself malloc keeps ever
  // larger ones once it has seen some.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 32 << 20);
  return on_deep_stack([&] { return run_words(argc, argv); });
}

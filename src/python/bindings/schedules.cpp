// Functions and their schedules: steps applied one at a time, proved, timed, and shown as any stage.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "nestor/cuda.h"
#include "nestor/interpret.h"
#include "nestor/library.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/tune.h"
#include "schedules/primitive.h"
#include "schedules/sched_file.h"
#include "src/python/bindings/threads.h"
#include "src/report/diff.h"
#include "src/report/steps.h"

namespace nestor::python {

namespace {

struct Function {
  PrimFunc func;
  Target target;
  int threads = 1;
};

std::vector<Function> functions(const std::string& spec, const ModelKeywords& k) {
  const CompileOptions options = compile_options(k);
  return interruptibly([spec, options] {
    std::vector<Function> out;
    for (PrimFunc& f : partition_model(load(spec, options), options).partition.funcs)
      out.push_back({std::move(f), options.target, options.threads});
    return out;
  });
}

// A function and the steps so far. Names of results are kept in the trace's text, so that it can be read
// again.
class Steps {
 public:
  explicit Steps(Function f) : function_(std::move(f)), schedule_(function_.func) {}
  Steps(Function f, const Trace& trace) : Steps(std::move(f)) {
    for (const Step& s : trace.steps) schedule_.step(s);
  }

  void step(const std::string& line) { schedule_(line); }
  const Function& function() const { return function_; }
  const PrimFunc& scheduled() const { return schedule_.func(); }
  const Trace& trace() const { return schedule_.trace(); }

  CompiledFunction compiled(const Target& target) const {
    CompiledFunction out{function_.func, {trace(), "given"}, scheduled(), {}};
    out.lowered = lower(scheduled(), target);
    return out;
  }

 private:
  Function function_;
  Schedule schedule_;
};

Steps by_text(const Function& f, const std::string& text) {
  if (text.empty() || text == "naive") return Steps(f);
  if (text == "default") return interruptibly([f] { return Steps(f, default_schedule(f.func, f.target)); });
  const std::vector<Trace> traces = parse_schedules(text, "<schedule>");
  for (const Trace& t : traces)
    if (t.func.empty() || t.func == f.func.name) return {f, t};
  throw UserError("the text holds no schedule of " + f.func.name);
}

// Nanoseconds of a call, on random arguments: samples as a tuning worker takes them.
std::vector<double> bench(const Steps& s, double seconds) {
  if (!(seconds > 0)) throw UserError("seconds must be above zero");
  Job job;
  job.func = print(s.function().func);
  job.trace = print(s.trace());
  job.target = s.function().target.name;
  job.threads = s.function().threads;
  job.seconds = seconds;
  const Record r = interruptibly([job] { return measure(job); });
  if (r.outcome != Outcome::ok) throw UserError(std::string(name_of(r.outcome)) + ": " + r.detail);
  return r.samples_ns;
}

struct Verified {
  bool ok = false;
  std::string text;
};
Verified verify(const Steps& s, uint64_t seed) {
  const ScheduleReview review = review_schedule(s.function().func, s.scheduled());
  Verified out{review.is_right(), "the schedule is " + describe(review)};
  if (!out.ok || s.function().target.kind != TargetKind::cpu) return out;
  for (const OutputCheck& c :
       check_function(s.compiled(s.function().target), Against::oracle, s.function().target, seed)) {
    out.ok &= c.comparison.ok();
    out.text += "\n" + describe(c.comparison, c.name, c.want);
  }
  return out;
}

std::string stage(const Steps& s, const std::string& name, const std::string& target_name) {
  const Target target = target_name.empty() ? s.function().target : parse_target(target_name);
  if (name == "lowered") return print(lower(s.scheduled(), target));
  if (name == "cuda") {
    if (target.kind != TargetKind::cuda)
      throw UserError(
          Diagnostic{"CUDA code isn't made for " + target.name, {}, {}, "s.cuda(\"cuda:sm_80\")"});
    return emit_cuda(lower(s.scheduled(), target), target);
  }
  const CompiledFunction f = s.compiled(target);
  if (target.kind != TargetKind::cpu)
    throw UserError(Diagnostic{name + " isn't made for " + target.name, {}, {}, "s.cuda()"});
  return name == "llvm" ? emit_llvm_ir({f.lowered}, target) : emit_asm({f.lowered}, target);
}

// (step, reason, the lines of the loop nest: ' ', '+' or '-' and a line) for each step.
std::vector<std::tuple<std::string, std::string, std::string>> walk(const Steps& s) {
  const report::Walk walked = report::walk_trace(s.function().func, {s.trace(), "given"});
  std::vector<std::tuple<std::string, std::string, std::string>> out;
  report::Lines before = report::split_lines(print(walked.start));
  for (const report::StepTaken& step : walked.steps) {
    const report::Lines after = report::split_lines(print(step.after));
    out.emplace_back(step.text, step.why, report::show_diff(report::diff(before, after), false));
    before = after;
  }
  return out;
}

// (name, usage, summary, requirements, options as (key, values, meaning), arguments as (name, kind), results)
// of each.
nb::list primitive_rows() {
  constexpr const char* kKinds[] = {"loop", "loops",   "location", "block", "target", "buffer",  "buffers",
                                    "ints", "integer", "words",    "map",   "word",   "decision"};
  nb::list out;
  for (const schedules::Primitive& p : schedules::primitives()) {
    nb::list requirements, options, args;
    for (const schedules::Requirement& r : p.requirements) requirements.append(r.text);
    for (const schedules::OptionSpec& o : p.options)
      options.append(nb::make_tuple(o.key, o.values, o.meaning));
    for (const schedules::ArgSpec& a : p.args)
      args.append(nb::make_tuple(a.name, kKinds[static_cast<size_t>(a.kind)]));
    out.append(nb::make_tuple(p.name, schedules::usage(p), p.summary, nb::tuple(requirements),
                              nb::tuple(options), nb::tuple(args), p.results));
  }
  return out;
}

}  // namespace

void add_schedules(nb::module_& m) {
  nb::class_<Function>(m, "Function")
      .def_prop_ro("name", [](const Function& f) { return f.func.name; })
      .def_prop_ro("target", [](const Function& f) { return f.target.name; })
      .def_ro("threads", &Function::threads)
      .def("__str__", [](const Function& f) { return print(f.func); })
      .def_prop_ro("blocks", [](const Function& f) { return block_names(f.func); })
      .def("_for",
           [](const Function& f, const std::string& target) {
             return Function{f.func, parse_target(target), f.threads};
           })
      .def("_schedule", &by_text);
  nb::class_<Steps>(m, "Steps")
      .def("step", &Steps::step)
      .def("copy", [](const Steps& s) { return s; })
      .def_prop_ro("function", &Steps::function)
      .def("__str__", [](const Steps& s) { return print(s.scheduled()); })
      .def_prop_ro("name", [](const Steps& s) { return s.function().func.name; })
      .def_prop_ro("text", [](const Steps& s) { return print(s.trace()); })
      .def_prop_ro("steps",
                   [](const Steps& s) {
                     std::vector<std::pair<std::string, std::string>> out;
                     for (const Step& step : s.trace().steps) out.emplace_back(print(step), step.why);
                     return out;
                   })
      .def("loops",
           [](const Steps& s, const std::string& block) {
             std::vector<std::pair<std::string, int64_t>> out;
             for (const LoopInfo& l : loops_of(s.scheduled(), block)) out.emplace_back(l.name, l.extent);
             return out;
           })
      .def("bench", &bench)
      .def("verify",
           [](const Steps& s, uint64_t seed) {
             const Verified v = interruptibly([s, seed] { return verify(s, seed); });
             return std::make_pair(v.ok, v.text);
           })
      .def("stage",
           [](const Steps& s, const std::string& name, const std::string& target) {
             return interruptibly([=] { return stage(s, name, target); });
           })
      .def("walk", &walk);
  m.def("functions", &functions);
  m.def("primitives", &primitive_rows);
}

}  // namespace nestor::python

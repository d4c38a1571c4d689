// `nestor inspect`: any stage between the model and the machine, as text that (up to `lowered`) parses back.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "nestor/cuda.h"
#include "nestor/print.h"
#include "nestor/report.h"
#include "src/cli/common.h"
#include "src/cli/outputs.h"
#include "src/cli/why.h"
#include "src/graph/control_flow.h"
#include "src/report/diff.h"
#include "src/report/steps.h"

namespace nestor::cli {

namespace {

bool use_color() {
  return isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
}

void show_fused(const CompiledModel& m, bool why) {
  for (size_t i = 0; i < m.partition.calls.size(); ++i) {
    const KernelCall& call = m.partition.calls[i];
    if (call.control) {
      fmt::print("{:3}  {}\n", i, describe_mark(m.graph, call));
      continue;
    }
    std::string ops, args;
    for (int n : call.nodes) ops += (ops.empty() ? "" : " + ") + m.graph.nodes[static_cast<size_t>(n)].op;
    for (ValueId a : call.args) {
      const Value& value = m.graph.values[static_cast<size_t>(a)];
      args += (args.empty() ? "" : ", ") + value.name + ": " + to_string(value.type);
    }
    fmt::print("{:3}  {}  = {}\n     ({})\n", i, m.partition.funcs[static_cast<size_t>(call.func)].name, ops,
               args);
    for (const int n : call.nodes)
      if (const std::string& reason = m.graph.nodes[static_cast<size_t>(n)].why; why && !reason.empty())
        fmt::print("     because {}\n", reason);
  }
}

// Each step, then the loop nest with the lines that it changed marked. A refused one ends the walk as its
// error.
void show_steps(const report::Walk& walk, bool why) {
  const bool color = use_color();
  const char *bold = color ? "\033[1m" : "", *plain = color ? "\033[0m" : "";
  const std::string start = print(walk.start);
  fmt::print("{}# {}: {} steps ({} schedule){}\n{}\n", bold, walk.start.name, walk.steps.size(), walk.origin,
             plain, start);
  report::Lines before = report::split_lines(start);
  for (size_t i = 0; i < walk.steps.size(); ++i) {
    const report::Lines after = report::split_lines(print(walk.steps[i].after));
    fmt::print("{}# step {}: {}{}\n", bold, i + 1, walk.steps[i].text, plain);
    if (why && !walk.steps[i].why.empty()) fmt::print("#   because {}\n", walk.steps[i].why);
    fmt::print("{}\n", before == after ? "  (the loop nest is unchanged)\n"
                                       : report::show_diff(report::diff(before, after), color));
    before = after;
  }
  if (!walk.refused) return;
  fmt::print("{}# step {}: {}{}\n", bold, walk.steps.size() + 1, walk.refused_step, plain);
  std::fflush(stdout);
  throw *walk.refused;
}

// The page is written even where a schedule is refused: it shows the steps up to there. The refusal is still
// an error.
int inspect_html(const InspectVerb& v, const CompileOptions& options) {
  const CompiledModel model = partition_model(load(v.common.model, options), options);
  const std::vector<size_t> shown = select(model.partition.funcs, v.func);
  const HtmlReport report = html_report(model, options, report_title(v.common.model), shown);
  write_text(v.html, report.html);
  if (!report.refused.empty()) throw report.refused.front();
  if (options.review)
    for (const size_t f : shown) {
      const PrimFunc& func = model.partition.funcs[f];
      const ScheduleChoice choice = choose_schedule(func, options);
      options.review(func, choice, apply(func, choice.trace));
    }
  const size_t count = model.partition.funcs.size();
  fmt::print("{}: {:.1f} KiB, {} function{}\n", v.html, static_cast<double>(report.html.size()) / 1024, count,
             count == 1 ? "" : "s");
  return 0;
}

int inspect_steps(const InspectVerb& v, const CompileOptions& options) {
  const CompiledModel model = partition_model(load(v.common.model, options), options);
  for (const size_t f : select(model.partition.funcs, v.func)) {
    const PrimFunc& func = model.partition.funcs[f];
    const ScheduleChoice choice = choose_schedule(func, options);
    const report::Walk walk = report::walk_trace(func, choice);
    if (v.why) show_given_up(choice.trace);
    show_steps(walk, v.why);
    if (options.review) options.review(func, choice, walk.last());
  }
  return 0;
}

void show_schedule(const CompiledFunction& f, bool why, const Target& target, const char* rows = "") {
  fmt::print("# {} schedule of {}{}\n", f.choice.origin, f.func.name, rows);
  if (why) show_given_up(f.choice.trace);
  for (const Step& step : f.choice.trace.steps) {
    fmt::print("#   {}\n", print(step));
    if (why && !step.why.empty()) fmt::print("#     because {}\n", step.why);
  }
  if (why && target.kind == TargetKind::cuda) show_kernels(f, target, "#");
  fmt::print("{}\n", print(f.scheduled));
  if (f.fewest_rows) show_schedule(*f.fewest_rows, why, target, ", of the fewest rows");
}

void show_dumps(const CompiledFunction& f, const Target& target, const std::vector<std::string>& passes) {
  LowerOptions options;
  const bool all = std::find(passes.begin(), passes.end(), "all") != passes.end();
  for (const std::string& name : passes) {
    std::string known;
    bool found = name == "all";
    for (const Pass& p : pipeline(target.kind)) {
      found = found || name == p.name;
      known += (known.empty() ? "" : ", ") + std::string(p.name);
    }
    if (!found) throw UserError(Diagnostic{"there is no pass " + name, {}, {}, "passes are " + known});
  }
  options.on_pass = [&](const Pass& pass, const PrimFunc& g, double ms, bool changed) {
    if (!all && std::find(passes.begin(), passes.end(), pass.name) == passes.end()) return;
    fmt::print("# after {}: {} ({:.2f} ms)\n{}\n", pass.name, pass.summary, ms,
               changed || !all ? print(g) : "# unchanged\n");
  };
  lower(f.scheduled, target, options);
}

// Machine code and CUDA are different roads from `lowered` on.
void check_stage(const std::string& stage, const Target& target) {
  const bool cuda = target.kind == TargetKind::cuda;
  if ((stage == "cuda" || stage == "ptx") && !cuda)
    throw UserError(Diagnostic{"--stage " + stage + " needs a CUDA target", {}, {}, "--target cuda:sm_80"});
  if ((stage == "llvm" || stage == "asm") && cuda)
    throw UserError(Diagnostic{"--stage " + stage + " isn't made for " + target.name,
                               {},
                               {},
                               "--stage cuda or ptx, or --target native"});
}

}  // namespace

int run(const InspectVerb& v) {
  require_ending("--html", v.html, {".html", ".htm"});
  const CompileOptions options = compile_options(v.common, v.schedule, true);
  check_stage(v.stage, options.target);
  if (v.why && v.stage != "schedule" && v.stage != "fused" && v.stage != "cuda")
    throw UserError(
        Diagnostic{"--why has reasons for schedules, algorithms and kernels, not for --stage " + v.stage,
                   {},
                   {},
                   "--stage schedule, fused or cuda, or --steps"});
  if (!v.common.specialize.empty() &&
      (v.stage == "graph" || v.stage == "fused" || v.steps || !v.html.empty()))
    throw UserError(Diagnostic{"--specialize shows single functions",
                               {},
                               {},
                               "--stage func, schedule, lowered, llvm or asm; or --dim for given sizes"});
  if (v.stage == "graph") {
    fmt::print("{}", print(load(v.common.model, options).graph));
    return 0;
  }
  if (!v.html.empty()) return inspect_html(v, options);
  if (v.steps) return inspect_steps(v, options);
  const CompiledModel model = compile_model(v.common.model, options, chosen_sizes(v.common)).model;
  if (v.stage == "fused") {
    show_fused(model, v.why);
    return 0;
  }
  for (const CompiledFunction* f : select(model, v.func)) {
    if (!v.dump_after.empty())
      show_dumps(*f, model.target, v.dump_after);
    else if (v.stage == "func")
      fmt::print("{}\n", print(f->func));
    else if (v.stage == "schedule")
      show_schedule(*f, v.why, model.target);
    else if (v.stage == "lowered")
      fmt::print("{}\n", print(f->lowered));
    else if (v.stage == "llvm")
      fmt::print("{}\n", emit_llvm_ir({f->lowered}, model.target));
    else if (v.stage == "asm")
      fmt::print("{}\n", emit_asm({f->lowered}, model.target));
    else if (v.stage == "cuda") {
      if (v.why) show_kernels(*f, model.target, "//");
      fmt::print("{}\n", emit_cuda(f->lowered, model.target));
    } else
      fmt::print("{}\n", compile_ptx(emit_cuda(f->lowered, model.target), model.target));
  }
  return 0;
}

}  // namespace nestor::cli

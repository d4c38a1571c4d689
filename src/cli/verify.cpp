// `nestor verify` checks results. The reference can be given outputs (--expect); for each function the oracle
// (the unscheduled loop nest in f64 with a bound on rounding errors), the interpreter, or the interpreted
// lowered function, which must agree bit for bit; or, for the whole model, the graph as it was read, which no
// pass has changed.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "nestor/flops.h"
#include "nestor/graph_oracle.h"
#include "nestor/interpret.h"
#include "nestor/npz.h"
#include "src/cli/common.h"
#include "src/cli/records_used.h"
#include "src/cli/why.h"

namespace nestor::cli {

namespace {

// One line a comparison; counts those that failed.
struct Report {
  bool json = false;
  int failed = 0;
  nlohmann::json rows = nlohmann::json::array(), proofs = nlohmann::json::array(),
                 skipped = nlohmann::json::array();

  void add(const Comparison& c, const std::string& name, const Tensor& want) {
    failed += !c.ok();
    rows.push_back({{"name", name},
                    {"ok", c.ok()},
                    {"elements", c.elements},
                    {"mismatches", c.mismatches},
                    {"max_abs", c.max_abs},
                    {"of_allowed", c.allowed > 0 ? std::abs(c.got - c.want) / c.allowed : 0},
                    {"max_rel", c.max_rel}});
    if (!json) fmt::print("{}  {}\n", c.ok() ? "ok  " : "FAIL", describe(c, name, want));
  }
  void skip(const std::string& what, const std::string& why) {
    skipped.push_back({{"name", what}, {"why", why}});
    if (!json) fmt::print("skipped  {}: {}\n", what, why);
  }
  // `open`: sizes of the function are.
  void add(const ScheduleReview& r, const std::string& name, bool open = false) {
    failed += r.wrong;
    const Proof& p = r.proof;
    proofs.push_back({{"name", name},
                      {"ok", !r.wrong},
                      {"verdict", p.ok()                        ? "proved"
                                  : p.verdict == Verdict::wrong ? "wrong"
                                                                : "unproved"},
                      {"reason", p.reason},
                      {"witness", p.witness},
                      {"sizes", !open    ? "known"
                                : p.ok() ? "all of at least 1"
                                         : "given"},
                      {"interpreted", r.interpreted},
                      {"seconds", p.seconds}});
    const char* sizes = open && p.ok() ? "for all sizes of at least 1 " : "";
    if (!json)
      fmt::print("{}  {}: {}the schedule is {}\n", r.wrong ? "FAIL" : "ok  ", name, sizes, describe(r));
  }
  int finish() const {
    const bool nothing = rows.empty() && proofs.empty() && !skipped.empty(), ok = failed == 0 && !nothing;
    nlohmann::json all{{"ok", ok}, {"compared", rows}};
    if (!proofs.empty()) all["proofs"] = proofs;
    if (!skipped.empty()) all["skipped"] = skipped;
    if (json)
      fmt::print("{}\n", all.dump());
    else if (rows.empty() && proofs.empty())
      fmt::print("{}\n",
                 skipped.empty()
                     ? "nothing to verify: no function is left, all outputs are inputs or known constants"
                     : "nothing was compared; with --input and --expect, results of another program are");
    return ok ? 0 : kExitComparisonFailed;
  }
};

int against_expected(const VerifyVerb& v) {
  const InputSources given = read_sources(v.inputs);
  std::optional<OnDevice> model;
  std::unique_ptr<Runnable> runnable;
  if (is_artifact(v.common.model)) {
    runnable = load_artifact(v.common.model, v.common.threads);
  } else {
    CompileOptions options = compile_options(v.common, v.schedule);
    shapes_from(given, options.build);
    model.emplace(compile_model(v.common.model, options), v.common.emulate);
    say_records_used(model->model, v.common, v.schedule);
    runnable = model->device.make_runnable();
  }
  const auto expected = read_npz(v.expect);
  const NamedTensors got = runnable->run(read_inputs(given, *runnable, -1));
  Tolerance tolerance;
  if (v.rtol >= 0) tolerance.rtol = v.rtol;
  if (v.atol >= 0) tolerance.atol = v.atol;
  Report report{v.common.json};
  for (const PlanTensor& o : runnable->outputs()) {
    const auto it = expected.find(o.name);
    if (it == expected.end()) throw UserError(v.expect + " has no output \"" + o.name + "\"");
    report.add(compare(got.at(o.name), it->second, tolerance), o.name, it->second);
  }
  return report.finish();
}

// Loop nests written by hand may reach outside of a buffer, which compiled code doesn't notice: those with up
// to this much work are interpreted first.
constexpr double kInterpretedFlops = 5e6;

// Schedules are applied and proved. Functions of open sizes are lowered, too: which schedule they get depends
// on whether it can be. Those computed sample by sample are proved for one.
int prove(const VerifyVerb& v) {
  Report report{v.common.json};
  CompileOptions options = compile_options(v.common, v.schedule, true);
  const CompiledModel model = partition_model(load(v.common.model, options), options);
  const std::vector<PrimFunc>& funcs = model.partition.funcs;
  std::vector<Expr> conditions;
  if (model.graph.symbols)
    for (const Symbols::Requirement& r : model.graph.symbols->requirements())
      conditions.push_back(r.condition);
  for (size_t i = 0; i < funcs.size(); ++i) {
    if (funcs[i].dims.empty()) {
      report.add(review_schedule(funcs[i], scheduled_by(funcs[i], choose_schedule(funcs[i], options))),
                 funcs[i].name);
      continue;
    }
    std::map<bool, std::pair<PrimFunc, PrimFunc>> last;  // by whether sizes are known
    options.review = [&](const PrimFunc& func, const ScheduleChoice&, const PrimFunc& scheduled) {
      last.insert_or_assign(func.dims.empty(), std::pair(func, scheduled));
    };
    compile_function(model.partition, i, options);
    for (const auto& [known, reviewed] : last)
      report.add(review_possible_sizes(reviewed.first, reviewed.second, conditions),
                 funcs[i].name + (known && last.size() > 1 ? ", of the fewest rows" : ""), !known);
  }
  return report.finish();
}

// Why the model isn't compared with its graph as it was read; "" where it can be.
std::string no_graph(const VerifyVerb& v) {
  if (v.common.blocked_io)
    return "with --blocked-io the model's tensors have another layout than the graph's";
  if (v.common.check_indices && v.inputs.empty())
    return "random indices are out of range, which --check-indices refuses; give indices with --input";
  return "";
}

// The whole model, on inputs that are given or drawn, beside its graph as it was read.
void against_graph(const VerifyVerb& v, const Device& device, std::optional<GraphOracle>& oracle,
                   Report& report) {
  constexpr double kLongest = 60;  // seconds, where nobody asked for it
  const std::string what = "the graph as it was read, node by node";
  if (!oracle) return report.skip(what, no_graph(v));
  if (v.against != "graph" && oracle->seconds() > kLongest)
    return report.skip(what,
                       fmt::format("it would take about {:.0f} minutes; --against graph compares with it",
                                   std::ceil(oracle->seconds() / 60)));
  const auto runnable = device.make_runnable();
  const NamedTensors inputs = read_inputs(read_sources(v.inputs), runnable->inputs(), 1);
  for (const GraphOracle::Check& c : oracle->check(inputs, runnable->run(inputs)))
    report.add(c.comparison, c.name + " compared with the graph as read", c.want);
}

// What symbols are in one of the runs that are compared: the least, what is usual, 1 where less is allowed,
// then drawn ones; of several, one is the least at first.
Sizes draw_sizes(const Symbols& symbols, int run, std::mt19937_64& rng) {
  Sizes out;
  for (const Symbol& s : symbols.all()) {
    if (s.bound) continue;  // the run finds it
    const int64_t most = std::min(s.most, std::max(4 * s.typical, s.least + 8));
    std::uniform_int_distribution<int64_t> any(s.least, most);
    const bool one = run == 2 && s.least < 1 && s.most >= 1;
    const bool alone = run == 3 && symbols.all().size() > 1 && &s == &symbols.all().back();
    out[s.var->name] = run == 0 || alone ? s.least : run == 1 ? s.typical : one ? 1 : any(rng);
  }
  return out;
}

// One compiled model, whose runs decide its sizes, beside the graphs of several sizes as they are read.
int over_sizes(const VerifyVerb& v, const SpecializedModel& specialized, const CompileOptions& options) {
  constexpr int kDrawn = 6;
  const CompiledModel& model = specialized.model;
  const auto chosen = static_cast<int>(specialized.sizes.size());
  Report report{v.common.json};
  const auto executor = make_executor(model);
  std::mt19937_64 rng(1);
  for (int run = 0; run < kDrawn + chosen; ++run) {
    Sizes sizes = draw_sizes(*model.graph.symbols, run, rng);
    if (run >= kDrawn)
      for (const auto& [name, size] : specialized.sizes[static_cast<size_t>(run - kDrawn)])
        sizes[model.graph.symbols->find(name)->var->name] = size;
    std::string at;
    for (const auto& [name, size] : sizes) at += fmt::format("{}{}={}", at.empty() ? "at " : " ", name, size);
    CompileOptions fixed = options;
    fixed.build.open.clear();
    fixed.build.symbolic = false;
    NamedTensors inputs, outputs;
    std::optional<GraphOracle> oracle;
    try {
      inputs = read_inputs({}, *executor, run + 1, sizes);
      for (const auto& [name, tensor] : inputs) fixed.build.shapes[name] = tensor.shape();
      outputs = executor->run(inputs);
      fixed.build.found = executor->found();
      for (const auto& [name, size] : fixed.build.found) {
        fixed.build.open[name] = {.least = size, .most = size};
        at += fmt::format("{}{}={}", at.empty() ? "at " : " ", name, size);
      }
      auto again = load_with_oracle(v.common.model, fixed).second;
      if (!again) {
        report.skip(at, "iterations find other sizes than these, which isn't evaluated");
        continue;
      }
      oracle.emplace(std::move(*again));
    } catch (const UserError& e) {
      report.skip(at, e.diagnostic().message);
      continue;
    }
    for (const GraphOracle::Check& c : oracle->check(inputs, outputs))
      report.add(c.comparison, c.name + " " + at, c.want);
  }
  return report.finish();
}

int against_oracle(const VerifyVerb& v) {
  Report report{v.common.json};
  CompileOptions options = compile_options(v.common, v.schedule, true);
  if (options.review)
    options.review = [&](const PrimFunc& func, const ScheduleChoice& choice, const PrimFunc& scheduled) {
      if (choice.origin == v.schedule) report.add(review_schedule(func, scheduled), func.name);
    };
  const bool by_hand = std::filesystem::path(v.common.model).extension() == ".nest";
  const bool beside_graph = v.against == "graph" || (v.against.empty() && !by_hand);
  if (by_hand && beside_graph)
    throw UserError(v.common.model + " has functions, which graph passes don't change");
  Source source;
  std::optional<GraphOracle> oracle;
  if (beside_graph && no_graph(v).empty()) {
    auto [read, its_oracle] = load_with_oracle(v.common.model, options);
    source = std::move(read);
    if (its_oracle) oracle.emplace(std::move(*its_oracle));
  } else {
    source = load(v.common.model, options);
  }
  const ChosenSizes chosen = chosen_sizes(v.common);
  if (source.graph.symbols || !chosen.empty()) {
    SpecializedModel compiled;
    if (chosen.empty())
      compiled.model = compile_model(std::move(source), options);
    else
      compiled = compile_model(v.common.model, options, chosen);
    const std::string hint = compiled.model.graph.symbols->hint();
    if (!v.against.empty() && v.against != "graph")
      throw UserError(Diagnostic{"--against " + v.against + " needs known sizes", {}, {}, hint});
    if (!v.inputs.empty())
      throw UserError(Diagnostic{"--input needs known sizes: open ones are drawn", {}, {}, hint});
    return over_sizes(v, compiled, options);
  }
  CompiledModel compiled = compile_model(std::move(source), options);
  say_records_used(compiled, v.common, v.schedule);
  if (report.failed) return report.finish();  // what is wrong isn't run
  if (v.why && !v.common.json) show_reasons(compiled, v.common.emulate);
  const OnDevice made(std::move(compiled), v.common.emulate);
  const CompiledModel& model = made.model;
  const Against against = v.against == "lowered"       ? Against::lowered
                          : v.against == "interpreter" ? Against::interpreter
                          : v.against == "halide"      ? Against::halide
                                                       : Against::oracle;
  if (v.against == "graph") {
    against_graph(v, made.device, oracle, report);
    return report.finish();
  }
  for (const CompiledFunction& f : model.funcs) {
    if (by_hand && flops_of(f.func) <= kInterpretedFlops) {
      std::vector<Tensor> args = random_args(f.func, 1);
      interpret(f.func, args);
    }
    for (const OutputCheck& c : check_function(f, against, model.target, made.device))
      report.add(c.comparison, c.name, c.want);
  }
  if (against == Against::oracle)
    for (size_t i = 0; i < model.partition.calls.size(); ++i)
      for (const OutputCheck& c : check_algorithm(model, i, made.device))
        report.add(c.comparison, c.name, c.want);
  if (beside_graph) against_graph(v, made.device, oracle, report);
  return report.finish();
}

}  // namespace

int run(const VerifyVerb& v) {
  if (!v.common.specialize.empty() && (v.prove || !v.expect.empty()))
    throw UserError(Diagnostic{"--specialize is for comparing with the graph as it was read",
                               {},
                               {},
                               "leave out --prove and --expect, or give the sizes by --dim"});
  if (!v.expect.empty()) return against_expected(v);
  if (is_artifact(v.common.model))
    throw UserError(Diagnostic{
        "an artifact has no reference inside", {}, {}, "give --expect outputs.npz, or verify the model"});
  if (!v.inputs.empty() && v.against != "graph")
    throw UserError(Diagnostic{"--input is for whole models: functions are compared on random inputs",
                               {},
                               {},
                               "--against graph, or --expect outputs.npz"});
  return v.prove ? prove(v) : against_oracle(v);
}

}  // namespace nestor::cli

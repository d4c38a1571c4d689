// `nestor verify`: is what runs right? Compared with outputs that someone else computed (--expect), or
// function by function with the oracle: the unscheduled loop nest, in f64 with a bound on rounding, or
// interpreted; or the lowered function interpreted, which must agree bit for bit.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "nestor/flops.h"
#include "nestor/interpret.h"
#include "nestor/npz.h"
#include "src/cli/common.h"

namespace nestor::cli {

namespace {

// One line a comparison; counts those that failed.
struct Report {
  bool json = false;
  int failed = 0;
  nlohmann::json rows = nlohmann::json::array(), proofs = nlohmann::json::array();

  void add(const Comparison& c, const std::string& name, const Tensor& want) {
    failed += !c.ok();
    rows.push_back({{"name", name},
                    {"ok", c.ok()},
                    {"elements", c.elements},
                    {"mismatches", c.mismatches},
                    {"max_abs", c.max_abs},
                    {"max_rel", c.max_rel}});
    if (!json) fmt::print("{}  {}\n", c.ok() ? "ok  " : "FAIL", describe(c, name, want));
  }
  void add(const ScheduleReview& r, const std::string& name) {
    failed += r.wrong;
    const Proof& p = r.proof;
    proofs.push_back({{"name", name},
                      {"ok", !r.wrong},
                      {"verdict", p.ok()                        ? "proved"
                                  : p.verdict == Verdict::wrong ? "wrong"
                                                                : "unproved"},
                      {"reason", p.reason},
                      {"witness", p.witness},
                      {"interpreted", r.interpreted},
                      {"seconds", p.seconds}});
    if (!json) fmt::print("{}  {}: the schedule is {}\n", r.wrong ? "FAIL" : "ok  ", name, describe(r));
  }
  int finish() const {
    nlohmann::json all{{"ok", failed == 0}, {"compared", rows}};
    if (!proofs.empty()) all["proofs"] = proofs;
    if (json)
      fmt::print("{}\n", all.dump());
    else if (rows.empty() && proofs.empty())
      fmt::print("nothing to verify: no function is left, all outputs are inputs or known constants\n");
    return failed == 0 ? 0 : kExitComparisonFailed;
  }
};

int against_expected(const VerifyVerb& v) {
  const InputSources given = read_sources(v.inputs);
  std::unique_ptr<Runnable> runnable;
  if (is_artifact(v.common.model)) {
    runnable = load_artifact(v.common.model, v.common.threads);
  } else {
    CompileOptions options = compile_options(v.common, v.schedule);
    shapes_from(given, options.build);
    runnable = make_executor(compile_model(v.common.model, options));
  }
  const auto expected = read_npz(v.expect);
  const NamedTensors got = runnable->run(read_inputs(given, runnable->inputs(), -1));
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

// Schedules are applied and proved; nothing is lowered.
int prove(const VerifyVerb& v) {
  Report report{v.common.json};
  const CompileOptions options = compile_options(v.common, v.schedule);
  for (const PrimFunc& f : partition_model(load(v.common.model, options), options).partition.funcs)
    report.add(review_schedule(f, scheduled_by(f, choose_schedule(f, options))), f.name);
  return report.finish();
}

int against_oracle(const VerifyVerb& v) {
  Report report{v.common.json};
  CompileOptions options = compile_options(v.common, v.schedule);
  if (options.review)
    options.review = [&](const PrimFunc& func, const ScheduleChoice& choice, const PrimFunc& scheduled) {
      if (choice.origin == v.schedule) report.add(review_schedule(func, scheduled), func.name);
    };
  const CompiledModel model = compile_model(v.common.model, options);
  if (report.failed) return report.finish();  // what is wrong isn't run
  const Against against = v.against == "lowered"       ? Against::lowered
                          : v.against == "interpreter" ? Against::interpreter
                          : v.against == "halide"      ? Against::halide
                                                       : Against::oracle;
  const bool by_hand = std::filesystem::path(v.common.model).extension() == ".nest";
  for (const CompiledFunction& f : model.funcs) {
    if (by_hand && flops_of(f.func) <= kInterpretedFlops) {
      std::vector<Tensor> args = random_args(f.func, 1);
      interpret(f.func, args);
    }
    for (const OutputCheck& c : check_function(f, against, model.target))
      report.add(c.comparison, c.name, c.want);
  }
  if (against == Against::oracle)
    for (size_t i = 0; i < model.partition.calls.size(); ++i)
      for (const OutputCheck& c : check_algorithm(model, i)) report.add(c.comparison, c.name, c.want);
  return report.finish();
}

}  // namespace

int run(const VerifyVerb& v) {
  if (!v.expect.empty()) return against_expected(v);
  if (is_artifact(v.common.model))
    throw UserError(Diagnostic{
        "an artifact has no oracle inside", {}, {}, "give --expect outputs.npz, or verify the model"});
  if (!v.inputs.empty())
    throw UserError(Diagnostic{"--input is for outputs that are given: the oracle draws its own inputs",
                               {},
                               {},
                               "--expect outputs.npz, or run the model with that input"});
  return v.prove ? prove(v) : against_oracle(v);
}

}  // namespace nestor::cli

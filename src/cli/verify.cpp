// `nestor verify`: is what runs right? Compared with outputs that someone else computed (--expect), or function by function
// with the oracle: the unscheduled loop nest, in f64 with a bound on rounding, or interpreted; or the lowered function
// interpreted, which must agree bit for bit.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "nestor/interpret.h"
#include "nestor/layout.h"
#include "nestor/npz.h"
#include "nestor/verify.h"
#include "src/cli/common.h"

namespace nestor::cli {

namespace {

// One line a comparison; counts those that failed.
struct Report {
  bool json = false;
  int failed = 0;
  nlohmann::json rows = nlohmann::json::array();

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
  int finish() const {
    if (json) fmt::print("{}\n", nlohmann::json{{"ok", failed == 0}, {"compared", rows}}.dump());
    return failed == 0 ? 0 : kExitComparisonFailed;
  }
};

int against_expected(const VerifyVerb& v) {
  std::unique_ptr<Runnable> runnable;
  if (is_artifact(v.common.model))
    runnable = load_artifact(v.common.model, v.common.threads);
  else
    runnable = make_executor(compile_model(v.common.model, compile_options(v.common, v.schedule)));
  const auto expected = read_npz(v.expect);
  const NamedTensors got = runnable->run(read_inputs(v.inputs, runnable->inputs(), -1));
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

// Interprets f on args; the outputs in parameter order.
std::vector<Tensor> interpreted(const PrimFunc& f, std::vector<Tensor> args) {
  for (size_t i = 0; i < args.size(); ++i)
    if (f.params[i].role == Role::out) args[i] = args[i].clone();
  interpret(f, args);
  std::vector<Tensor> out;
  for (size_t i = 0; i < args.size(); ++i)
    if (f.params[i].role == Role::out) out.push_back(args[i]);
  return out;
}

// The lowered function interpreted: the machine must agree with it bit for bit.
std::vector<Tensor> interpreted_lowered(const CompiledFunction& f, const std::vector<Tensor>& args) {
  std::vector<Tensor> flat, out;
  for (size_t i = 0; i < args.size(); ++i) {
    const BufferDecl& decl = f.scheduled.params[i].decl;
    const Tensor t = f.func.params[i].role == Role::out ? args[i].clone() : decl.layout ? pack(args[i], decl) : args[i];
    flat.push_back(t.reshaped({t.size()}));
  }
  interpret(f.lowered, flat);
  for (size_t i = 0; i < flat.size(); ++i)
    if (f.func.params[i].role == Role::out) out.push_back(flat[i].reshaped(args[i].shape()));
  return out;
}

int against_oracle(const VerifyVerb& v) {
  const CompileOptions options = compile_options(v.common, v.schedule);
  const CompiledModel model = compile_model(v.common.model, options);
  Report report{v.common.json};
  for (const CompiledFunction& f : model.funcs) {
    const std::vector<Tensor> args = random_args(f.func, 1);
    std::vector<Tensor> inputs, exact;
    for (size_t i = 0; i < args.size(); ++i) {
      if (f.func.params[i].role == Role::out) continue;
      inputs.push_back(args[i]);
      exact.push_back(is_float(args[i].dtype()) ? args[i].cast(DType::f64) : args[i]);
    }
    const std::vector<Tensor> got = run_function(f, inputs, model.target);
    const auto bounded = with_error_bound(f.func);
    const auto label = [&](size_t i) { return got.size() > 1 ? f.func.name + "#" + std::to_string(i) : f.func.name; };
    if (v.against == "lowered") {
      const std::vector<Tensor> want = interpreted_lowered(f, args);
      for (size_t i = 0; i < got.size(); ++i) report.add(compare(got[i], want[i], Tolerance{0, 0}), label(i), want[i]);
      continue;
    }
    if (v.against == "interpreter") {
      const std::vector<Tensor> want = interpreted(f.func, args);
      for (size_t i = 0; i < got.size(); ++i) report.add(compare(got[i], want[i]), label(i), want[i]);
      continue;
    }
    const std::vector<Tensor> want =
        run_function(compile_function(bounded ? *bounded : to_f64(f.func), ScheduleChoice{}, model.target), exact, model.target);
    for (size_t i = 0, next = got.size(); i < got.size(); ++i) {
      const bool has_bound = bounded && is_float(want[i].dtype());
      report.add(has_bound ? compare(got[i], want[i], want[next++]) : compare(got[i], want[i]), label(i), want[i]);
    }
  }
  return report.finish();
}

}  // namespace

int run(const VerifyVerb& v) {
  if (!v.expect.empty()) return against_expected(v);
  if (is_artifact(v.common.model))
    throw UserError(Diagnostic{"an artifact has no oracle inside", {}, {}, "give --expect outputs.npz, or verify the model"});
  return against_oracle(v);
}

}  // namespace nestor::cli

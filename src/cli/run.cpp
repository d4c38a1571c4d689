// `nestor run`: a model or an artifact on given inputs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "nestor/npz.h"
#include "src/cli/common.h"
#include "src/cli/outputs.h"
#include "src/cli/records_used.h"

namespace nestor::cli {

namespace {

// The first elements, and for floats what tells a sane result from garbage at a glance.
std::string summary(const Tensor& t) {
  std::string first;
  double lo = 0, hi = 0, sum = 0;
  for (int64_t i = 0; i < t.size(); ++i) {
    const double v = t.get(i);
    if (i < 8) first += fmt::format("{}{:.6g}", i ? ", " : "", v);
    lo = i == 0 ? v : std::min(lo, v);
    hi = i == 0 ? v : std::max(hi, v);
    sum += v;
  }
  if (t.size() == 0) return "empty";
  return fmt::format("[{}{}]  min {:.6g}  max {:.6g}  mean {:.6g}", first, t.size() > 8 ? ", ..." : "", lo,
                     hi, sum / static_cast<double>(t.size()));
}

// NumPy has no bf16; f32 holds the same numbers.
void write_outputs(const std::string& path, std::vector<std::pair<std::string, Tensor>> outputs) {
  for (auto& [name, t] : outputs) {
    if (t.dtype() != DType::bf16) continue;
    t = t.cast(DType::f32);
    std::fprintf(stderr, "note: NumPy has no bf16: `%s` is written as f32\n", name.c_str());
  }
  write_npz(path, outputs);
}

// The model with those inputs as constants whose values shapes depend on; they are taken out of `given`.
CompiledModel compile_bound(const RunVerb& v, CompileOptions options, InputSources& given) {
  for (;;) try {
      return compile_model(v.common.model, options);
    } catch (const NeedsValues& e) {
      bool bound = false;
      for (const std::string& name : e.inputs)
        if (const auto it = given.find(name); it != given.end()) {
          std::fprintf(stderr, "note: shapes depend on the value of `%s`: it is compiled in\n", name.c_str());
          options.build.constants.emplace(name, it->second);
          options.build.shapes.erase(name);
          given.erase(it);
          bound = true;
        }
      if (!bound) throw;
    }
}

}  // namespace

int run(const RunVerb& v) {
  require_ending("-o", v.output, {".npz"});
  InputSources given = read_sources(v.inputs);
  std::optional<OnDevice> model;
  std::unique_ptr<Runnable> runnable;
  if (is_artifact(v.common.model)) {
    runnable = load_artifact(v.common.model, v.common.threads);
  } else {
    CompileOptions options = compile_options(v.common, v.schedule);
    options.refused = warn_of_refusal;
    options.keep_constants = false;
    shapes_from(given, options.build);
    model.emplace(compile_bound(v, std::move(options), given), v.common.emulate);
    say_records_used(model->model, v.common, v.schedule);
    runnable = model->device.make_runnable();
  }
  const NamedTensors outputs = runnable->run(read_inputs(given, *runnable, -1, sizes_of(v.common)));
  nlohmann::json json = nlohmann::json::object();
  std::vector<std::pair<std::string, Tensor>> ordered;
  for (const PlanTensor& o : runnable->outputs()) {
    const Tensor& t = outputs.at(o.name);
    ordered.emplace_back(o.name, t);
    json[o.name] = {{"dtype", name_of(t.dtype())}, {"shape", t.shape()}};
    if (!v.common.json) fmt::print("{}: {}  {}\n", o.name, to_string(t.dtype(), t.shape()), summary(t));
  }
  if (!v.output.empty()) write_outputs(v.output, std::move(ordered));
  if (v.common.json) fmt::print("{}\n", nlohmann::json{{"outputs", json}, {"file", v.output}}.dump());
  return 0;
}

}  // namespace nestor::cli

// A model whose sizes stay open, compiled once, and beside it the same model compiled for given shapes.
#pragma once

#include <string>

#include "catch.h"
#include "nestor/artifact.h"
#include "nestor/driver.h"
#include "tests/graph/files.h"

namespace nestor::testing {

// Two sizes that must be one.
inline const char* const kTwoInputs = R"({
  "name": "sum", "opset": 17,
  "inputs": [{"name": "a", "dtype": "f32", "shape": ["n", 4]}, {"name": "b", "dtype": "f32", "shape": ["m", 4]}],
  "outputs": ["y"],
  "nodes": [{"op": "Add", "inputs": ["a", "b"], "outputs": ["y"]}]
})";

struct OpenModel {
  explicit OpenModel(const std::string& text) : path(folder.write("model.json", text)) {
    options.schedules = default_schedules();
    options.build.symbolic = true;
  }
  CompiledModel compiled() const { return compile_model(path, options); }
  CompiledModel known(const NamedTensors& inputs) const {  // for their shapes
    CompileOptions known = options;
    known.build.symbolic = false;
    known.build.open.clear();
    for (const auto& [name, tensor] : inputs) known.build.shapes[name] = tensor.shape();
    return compile_model(path, known);
  }
  NamedTensors fixed(const NamedTensors& inputs) const { return make_executor(known(inputs))->run(inputs); }

  Folder folder;
  CompileOptions options;
  std::string path;
};

inline std::unique_ptr<Runnable> artifact_of(const OpenModel& m, const CompiledModel& model) {
  ArtifactOptions artifact;
  artifact.path = m.folder / "m.so";
  write_artifact(*model.plan, model.lowered(), model.target, artifact);
  return load_artifact(artifact.path);
}

// With values for a weight that is only interesting by its shape, whose data is "ramp" in the text.
inline std::string with_ramp(std::string text, int count, double step) {
  const size_t at = text.find("\"ramp\"");
  if (at == std::string::npos) return text;
  std::string values = "[";
  for (int i = 0; i < count; ++i) values += (i ? "," : "") + std::to_string((i * 7 % 11 - 5) * step);
  return text.replace(at, 6, values + "]");
}

inline void check_equal(const NamedTensors& got, const NamedTensors& want, const Tolerance& tolerance = {}) {
  for (const auto& [name, tensor] : want) {
    REQUIRE(got.at(name).shape() == tensor.shape());
    const Comparison c = compare(got.at(name), tensor, tolerance);
    INFO(describe(c, name, tensor));
    CHECK(c.ok());
  }
}

}  // namespace nestor::testing

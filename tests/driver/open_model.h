// A model whose sizes stay open, compiled once, and beside it the same model compiled for given shapes.
#pragma once

#include <string>

#include "catch.h"
#include "nestor/driver.h"
#include "tests/graph/files.h"

namespace nestor::testing {

struct OpenModel {
  explicit OpenModel(const std::string& text) : path(folder.write("model.json", text)) {
    options.schedules = default_schedules();
    options.build.symbolic = true;
  }
  CompiledModel compiled() const { return compile_model(path, options); }
  NamedTensors fixed(const NamedTensors& inputs) const {
    CompileOptions known = options;
    known.build.symbolic = false;
    known.build.open.clear();
    for (const auto& [name, tensor] : inputs) known.build.shapes[name] = tensor.shape();
    return make_executor(compile_model(path, known))->run(inputs);
  }

  Folder folder;
  CompileOptions options;
  std::string path;
};

inline void check_equal(const NamedTensors& got, const NamedTensors& want) {
  for (const auto& [name, tensor] : want) {
    REQUIRE(got.at(name).shape() == tensor.shape());
    const Comparison c = compare(got.at(name), tensor, Tolerance{});
    INFO(describe(c, name, tensor));
    CHECK(c.ok());
  }
}

}  // namespace nestor::testing

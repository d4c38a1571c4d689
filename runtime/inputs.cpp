// Checks the inputs of a run, for plans and artifacts alike, with one clear message per mistake.

#include <algorithm>

#include "nestor/error.h"
#include "nestor/runtime.h"

namespace nestor {

namespace {

std::string list_of(const std::vector<PlanTensor>& tensors) {
  std::string out;
  for (const PlanTensor& t : tensors)
    out += (out.empty() ? "" : ", ") + t.name + ": " + to_string(t.dtype, t.shape);
  return out.empty() ? "none" : out;
}

bool has_name(const std::vector<PlanTensor>& tensors, const std::string& name) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const PlanTensor& t) { return t.name == name; });
}

}  // namespace

std::vector<Tensor> check_inputs(const std::vector<PlanTensor>& expected, const NamedTensors& given) {
  const std::string all = "the model's inputs are " + list_of(expected);
  for (const auto& [name, tensor] : given) {
    if (!has_name(expected, name))
      throw UserError(Diagnostic{"the model has no input named '" + name + "'", {}, {all}, {}});
  }
  std::vector<Tensor> ordered;
  for (const PlanTensor& e : expected) {
    auto it = given.find(e.name);
    if (it == given.end() || !it->second.defined())
      throw UserError(Diagnostic{"input '" + e.name + "' is not given", {}, {all}, {}});
    const Tensor& t = it->second;
    if (t.dtype() != e.dtype || t.shape() != e.shape) {
      const char* what = t.dtype() != e.dtype ? "type" : "shape";
      throw UserError("input '" + e.name + "' has the wrong " + what + ": the model takes " +
                      to_string(e.dtype, e.shape) + ", given is " + to_string(t.dtype(), t.shape()));
    }
    ordered.push_back(t);
  }
  return ordered;
}

NamedTensors Runnable::run(const NamedTensors& given) {
  const std::vector<Tensor> ordered = check_inputs(inputs(), given);
  std::vector<const void*> in;
  for (const Tensor& t : ordered) in.push_back(t.data());
  NamedTensors result;
  std::vector<void*> out;
  for (const PlanTensor& o : outputs()) {
    Tensor t(o.dtype, o.shape);
    out.push_back(t.data());
    result.emplace(o.name, std::move(t));
  }
  run_raw(in.data(), out.data());
  return result;
}

}  // namespace nestor

// Checks the inputs of a run, for plans and artifacts alike, with one clear message per mistake.

#include <algorithm>
#include <cstring>

#include "nestor/error.h"
#include "nestor/runtime.h"
#include "runtime/fitted_sizes.h"

namespace nestor {

namespace {

std::string list_of(const std::vector<PlanTensor>& tensors) {
  std::string out;
  for (const PlanTensor& t : tensors) out += (out.empty() ? "" : ", ") + t.name + ": " + to_string(t);
  return out.empty() ? "none" : out;
}

bool has_name(const std::vector<PlanTensor>& tensors, const std::string& name) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const PlanTensor& t) { return t.name == name; });
}

}  // namespace

std::string to_string(const PlanTensor& t) {
  if (t.symbols.empty()) return to_string(t.dtype, t.shape);
  std::string out = std::string(name_of(t.dtype)) + "[";
  for (size_t d = 0; d < t.symbols.size(); ++d) out += (d ? "," : "") + t.symbols[d];
  return out + "]";
}

bool fits(const std::vector<int64_t>& shape, const PlanTensor& t) {
  return std::equal(shape.begin(), shape.end(), t.shape.begin(), t.shape.end(),
                    [](int64_t size, int64_t of_t) { return size == of_t || of_t == kOpenSize; });
}

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
    if (t.dtype() != e.dtype || !fits(t.shape(), e)) {
      const char* what = t.dtype() != e.dtype ? "type" : "shape";
      throw UserError("input '" + e.name + "' has the wrong " + what + ": the model takes " + to_string(e) +
                      ", given is " + to_string(t.dtype(), t.shape()));
    }
    ordered.push_back(t);
  }
  return ordered;
}

std::vector<int64_t> dims_of(const std::vector<PlanTensor>& inputs,
                             const std::vector<Runnable::Shape>& shapes) {
  if (shapes.size() != inputs.size())
    throw UserError(std::to_string(shapes.size()) + " shapes are given; the model's inputs are " +
                    list_of(inputs));
  std::vector<int64_t> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (shapes[i].size() != inputs[i].shape.size())
      throw UserError("input '" + inputs[i].name + "' is given with " + std::to_string(shapes[i].size()) +
                      " dimensions: the model takes " + to_string(inputs[i]));
    out.insert(out.end(), shapes[i].begin(), shapes[i].end());
  }
  return out;
}

std::vector<Runnable::Shape> Runnable::fit(const std::vector<Shape>&) {
  std::vector<Shape> out;
  for (const PlanTensor& t : outputs()) out.push_back(t.shape);
  return out;
}

namespace {

// What stands in front of a tensor that is larger than that.
Tensor in_front(const Tensor& t, const std::vector<int64_t>& shape) {
  if (t.shape() == shape) return t;
  Tensor out(t.dtype(), shape);
  if (out.bytes() > 0) std::memcpy(out.data(), t.data(), static_cast<size_t>(out.bytes()));
  return out;
}

}  // namespace

NamedTensors Runnable::run(const NamedTensors& given) {
  const std::vector<Tensor> ordered = check_inputs(inputs(), given);
  std::vector<const void*> in;
  std::vector<Shape> shapes;
  for (const Tensor& t : ordered) {
    in.push_back(t.data());
    shapes.push_back(t.shape());
  }
  const std::vector<Shape> most = fit(shapes);
  std::vector<Tensor> results;
  std::vector<void*> out;
  for (size_t i = 0; i < most.size(); ++i) {
    results.emplace_back(outputs()[i].dtype, most[i]);
    out.push_back(results.back().data());
  }
  run_raw(in.data(), out.data());
  const std::vector<Shape> shape = made();
  NamedTensors named;
  for (size_t i = 0; i < results.size(); ++i)
    named.emplace(outputs()[i].name, shape.empty() ? results[i] : in_front(results[i], shape[i]));
  return named;
}

}  // namespace nestor

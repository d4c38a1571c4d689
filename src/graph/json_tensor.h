// Tensors in shorthand JSON: {"dtype","shape","data"}, {"npz","key"} or {"file","offset","dtype","shape"}.
#pragma once

#include <map>
#include <string>

#include "nestor/tensor.h"
#include "src/graph/json_at.h"

namespace nestor {

class TensorReader {
 public:
  explicit TensorReader(const std::string& file) : file_(file) {}
  Tensor read(const JsonAt& at) const;
  static DType dtype(const JsonAt& at);

 private:
  Tensor from_data(const JsonAt& at) const;
  Tensor from_npz(const JsonAt& at) const;
  Tensor from_file(const JsonAt& at) const;

  const std::string& file_;
  mutable std::map<std::string, std::map<std::string, Tensor>> archives_;  // read once each
};

}  // namespace nestor

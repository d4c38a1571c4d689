// The value of a tensor as the command line gives it (--input, --const):
//   @x.npy    @x.npz:KEY    random:SEED    zeros    or its elements: 16000, or [1,2,3] in row-major order
#pragma once

#include <string>

#include "nestor/tensor_type.h"

namespace nestor {

class TensorSource {
 public:
  // `what` names it in errors: "--const sr". A file is read here; an .npz without a KEY is asked for `key`.
  TensorSource(std::string what, const std::string& text, const std::string& key);
  TensorSource(std::string what, Tensor file) : what_(std::move(what)), file_(std::move(file)) {}

  const std::string& what() const { return what_; }
  const Tensor& file() const { return file_; }  // defined() where it is one, which has its own type

  // As a tensor of that type; a file's is given as it is. UserError where elements are too many, too few, or
  // don't fit the type.
  Tensor of(const TensorType& wanted) const;
  // The same, where a file's type must be that one too.
  Tensor exactly(const TensorType& wanted) const;

 private:
  Tensor elements(const TensorType& wanted) const;
  Tensor as_bf16() const;
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const;

  std::string what_, text_;
  Tensor file_;
};

}  // namespace nestor

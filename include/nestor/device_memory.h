// Memory of the machine's first CUDA device, for tensors that stay there.
#pragma once

#include <memory>

#include "nestor/tensor.h"

namespace nestor {

class DeviceMemory {
 public:
  // A copy of the tensor. UserError where there is no device, or it has too little memory.
  explicit DeviceMemory(const Tensor& content);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;

  void* data() const;  // its address on the device

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nestor

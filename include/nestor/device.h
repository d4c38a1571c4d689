// Where a compiled model runs: in this process, on a CUDA device, or on an emulated device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nestor/driver.h"

namespace nestor {

class Device {
 public:
  // All functions as code for the device. emulate: for a CUDA target, without a device. UserError where there
  // is none, or where it can't run code for the target.
  explicit Device(const CompiledModel& model, bool emulate = false);
  ~Device();

  std::unique_ptr<Runnable> make_runnable() const;  // lives as long as the device
  // One of the model's functions, once: the outputs in parameter order.
  std::vector<Tensor> run(const CompiledFunction& f, const std::vector<Tensor>& inputs) const;

 private:
  struct Cuda;
  const CompiledModel& model_;
  std::unique_ptr<Cuda> cuda_;  // null for a CPU
};

// As of driver.h, with functions run by the device.
std::vector<OutputCheck> check_function(const CompiledFunction& f, Against against, const Target& target,
                                        const Device& device, uint64_t seed = 1);
std::vector<OutputCheck> check_algorithm(const CompiledModel& m, size_t call, const Device& device,
                                         uint64_t seed = 1);

// What a few blocks of each kernel do to memory when they are emulated, with zeros as inputs: a line a
// kernel.
std::vector<std::string> emulated_memory(const CompiledFunction& f, const Target& target);

}  // namespace nestor

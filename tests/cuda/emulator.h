// Single programs on the emulated device's blocks, in an order that the test chooses: a program that is right
// does not depend on it. Run forward, backward and in random order, with garbage in shared memory at the
// start of each block, one that lacks a barrier gives a wrong result in at least one of them.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "nestor/cuda.h"
#include "nestor/interpret.h"
#include "nestor/tensor.h"

namespace nestor::testing {

class EmulationError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Emulator {
 public:
  // All programs in one compilation; their kernels' names must differ. Throws EmulationError with the
  // compiler's output.
  explicit Emulator(const std::vector<CudaProgram>& programs);
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // Device memory of temporaries holds garbage at the start. Throws EmulationError where some threads of a
  // block wait at a barrier and others have finished.
  void run(const CudaProgram& program, std::vector<Tensor>& args, LoopOrder order, uint64_t seed = 1) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nestor::testing

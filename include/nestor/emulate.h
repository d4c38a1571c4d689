// Runs emitted CUDA code on the CPU. The text is compiled unchanged by the system's C++ compiler (c++, or
// what NESTOR_CXX names), with src/emulate/emulation*.h included before it. The result is a library that the
// emulated device loads as a real device loads machine code. The host code, runtime/cuda_rt.c, is the same
// for both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nestor/cuda.h"
#include "nestor/interpret.h"
#include "nestor/memory_counts.h"
#include "nestor/tensor.h"

namespace nestor {

// The library may tell of each access to memory, for counts and the race check: it is some ten times slower.
enum class Tracing { off, on };

class EmulatedCode {
 public:
  struct Part {
    std::string source;
    std::vector<CudaKernel> kernels;  // whose names differ among all parts
  };
  // All parts in one library. UserError where there is no compiler, with its words where it refuses the text.
  explicit EmulatedCode(const std::vector<Part>& parts, Tracing tracing = Tracing::off);
  explicit EmulatedCode(const CudaModule& module, Tracing tracing = Tracing::off);
  ~EmulatedCode();
  EmulatedCode(const EmulatedCode&) = delete;
  EmulatedCode& operator=(const EmulatedCode&) = delete;

  const std::string& library() const { return library_; }  // its path, as long as this lives
  CudaImage image() const { return {library_, 0, CudaForm::emulated}; }

 private:
  std::string library_;
};

const nestor_cuda_driver& emulated_driver();

// Programs by themselves, on tensors and without a driver.
class Emulator {
 public:
  // Their kernels' names differ. UserError as of EmulatedCode.
  explicit Emulator(const std::vector<CudaProgram>& programs, Tracing tracing = Tracing::off);
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // In which order the threads of a block and the blocks run: a program that is right doesn't depend on it.
  // Device memory of temporaries holds garbage at the start. UserError where a kernel does what it may not:
  // where tracing is on, races among it.
  void run(const CudaProgram& program, std::vector<Tensor>& args, LoopOrder order = LoopOrder::forward,
           uint64_t seed = 1) const;

  // The same, with what each kernel does to memory counted. Tracing is on. most_blocks: of each kernel only
  // so many run, evenly chosen, and the arguments are left half done; 0 for all.
  std::vector<MemoryCounts> count(const CudaProgram& program, std::vector<Tensor>& args,
                                  int64_t most_blocks = 0) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nestor

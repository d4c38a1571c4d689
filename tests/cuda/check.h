// The check of every CUDA test: the emitted text of a scheduled function, compiled and emulated, agrees with
// the interpreter.
#pragma once

#include <string>
#include <vector>

#include "nestor/cuda.h"
#include "nestor/emulate.h"
#include "nestor/ir.h"
#include "nestor/target.h"

namespace nestor::testing {

std::string read_text(const std::string& path);  // InternalError where it can't
std::pair<PrimFunc, PrimFunc> example(
    const std::string& name);  // tests/cuda/NAME.nest, and scheduled by NAME.sched
bool has_nvrtc();              // says SKIPPED once where there is none

// A function, lowered for CUDA and emitted.
struct CudaCase {
  PrimFunc func, lowered;  // unscheduled, lowered
  PrimFunc meant;          // lowered, but trees of shuffles are expressions: the interpreter runs it
  CudaProgram program;
  std::vector<Tensor> inputs, lowered_inputs;
};
CudaCase make_case(const PrimFunc& func, const PrimFunc& scheduled,
                   const Target& target = parse_target("cuda:sm_80"));

// "" where the emulation gives what the lowered function gives, bit for bit, forward, backward and in three
// random orders; else what is wrong.
std::string emulate(const Emulator& emulator, const CudaCase& c, const CudaProgram& program);

// The lowered function has no races, agrees with the unscheduled one (to `tolerance`, relative above 1) and
// with its emulated text. All cases share one compilation.
void check_cases(const std::vector<CudaCase>& cases, double tolerance = 1e-5);

}  // namespace nestor::testing

// The roads: from scheduled functions to machine code, to emulated CUDA, and to a proof.
#pragma once

#include "tests/fuzz/check_trace.h"

namespace nestor {

// "cpu": lowered, compiled by LLVM in batches, run on two threads; bit for bit what the lowered function is
// when interpreted, and as near to the unscheduled function in f64 as rounding allows.
std::unique_ptr<Road> cpu_road();
// "cuda": lowered, emitted, compiled in batches as C++ behind src/emulate/emulation.h, run in three orders of
// threads; bit for bit what the lowered function is when interpreted.
std::unique_ptr<Road> cuda_road();

// "proof": verify_schedule calls none wrong, and proves them all where no data decide what is read.
std::unique_ptr<Road> proof_road();

Roads fuzz_roads();

}  // namespace nestor

// The driver's functions on the emulated device (device.h).
#pragma once

#include "runtime/cuda_driver_rt.h"

namespace nestor {

namespace emulated {
#define NESTOR_DECLARE(member, symbol, parameters, arguments) int member parameters;
NESTOR_CUDA_FUNCTIONS(NESTOR_DECLARE)
NESTOR_CUDA_GRAPH_FUNCTIONS(NESTOR_DECLARE)
#undef NESTOR_DECLARE
}  // namespace emulated

const nestor_cuda_driver& emulated_driver();

}  // namespace nestor

// A CUDA device that isn't there: the driver's functions over emulated kernels. Memory of the device is
// memory of the host that holds garbage at first; a stream does at once what it is told, other than while it
// is captured.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/cuda_driver_rt.h"

namespace nestor {

// What the device says of itself, for all of the process; to be set before it is used.
struct EmulatedDevice {
  std::string name = "an emulated device";
  int sm = 90;
  int driver_version = 13000;
  size_t memory = size_t{1} << 40;
  std::string
      kernels;  // libraries that stand for the kernels in real images, colons between; empty: none is taken
  bool refuses = false;                  // every real image, as a driver does that is older than its compiler
  int launches = 0, graph_launches = 0;  // done so far
};
EmulatedDevice& emulated_device();

}  // namespace nestor

// The plan of a model whose kernels run on a device: build_plan without the workspace of CPU kernels.
// Temporaries of its functions come in with their kernels (make_cuda_plan).
#pragma once

#include "nestor/driver.h"

namespace nestor {

std::shared_ptr<const Plan> build_device_plan(Graph& g, const Partition& p,
                                              const std::vector<CompiledFunction>& funcs,
                                              bool keep_constants);

}  // namespace nestor

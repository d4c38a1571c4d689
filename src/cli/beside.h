// `nestor bench --beside`: a model's artifacts and other runtimes for ONNX, timed in turns in one process.
#pragma once

#include "src/cli/options.h"

namespace nestor::cli {

int bench_beside(const BenchVerb& verb);

}  // namespace nestor::cli

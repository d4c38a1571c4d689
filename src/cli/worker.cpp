#include <iostream>

#include "nestor/tune.h"
#include "src/cli/options.h"

namespace nestor::cli {

int run(const WorkerVerb& v) {
  return serve_worker(std::cin, std::cout, v.null ? measure_on_null_device : measure);
}

}  // namespace nestor::cli

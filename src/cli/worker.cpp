#include <iostream>

#include "nestor/tune.h"
#include "src/cli/options.h"

namespace nestor::cli {

int run(const WorkerVerb&) {
  return serve_worker(std::cin, std::cout);
}

}  // namespace nestor::cli

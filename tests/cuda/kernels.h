// Kernels of all families whose threads synchronize: by default schedules, or by hand where there is none.
#pragma once

#include <string>
#include <vector>

#include "check.h"

namespace nestor::testing {

struct NamedCase {
  std::string name;
  CudaCase made;
};
std::vector<NamedCase> waiting_kernels();

// The function of an operator, scheduled by the text, or by default where it is empty.
CudaCase make_operator_case(const std::string& spec, const std::string& schedule, const std::string& name);

}  // namespace nestor::testing

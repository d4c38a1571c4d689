// Kernels for chosen sizes in a model whose sizes are open: `--specialize batch=1,8`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nestor/driver.h"

namespace nestor {

using ChosenSizes = std::map<std::string, std::vector<int64_t>>;  // values by the size's name

// Adds "batch=1,8". UserError, which begins with `flag`, where the text isn't that.
void add_chosen_sizes(const std::string& flag, const std::string& text, ChosenSizes& sizes);

struct SpecializedModel {
  CompiledModel model;                                // its plan chooses by the sizes of a run
  std::vector<std::map<std::string, int64_t>> sizes;  // each combination that it has kernels for
  int64_t weight_bytes = 0;                           // that only these kernels read
};
// The model, which has kernels for each combination of the chosen values too. The first value of a size is
// its usual one unless the options say another. UserError where a value can't be that size.
SpecializedModel compile_model(const std::string& spec, const CompileOptions& options,
                               const ChosenSizes& sizes);

}  // namespace nestor

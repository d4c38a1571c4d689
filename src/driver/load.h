// Reading a model without building its graph.
#pragma once

#include "nestor/driver.h"

namespace nestor {

// Of a file or an operator; tells `options.drawn` of weights that it draws.
Model model_of(const std::string& spec, const CompileOptions& options);

// As its graph is built: with loops and branches of run time where the target has them.
BuildOptions build_options(const CompileOptions& options);

}  // namespace nestor

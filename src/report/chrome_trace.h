#pragma once

#include <string>

#include "nestor/run_trace.h"

namespace nestor::report {

// A file that Chrome's and Perfetto's viewers open, in the trace event format: complete events ("X") of named
// threads, in microseconds. A call has its function's name, and its nodes among the arguments.
std::string chrome_trace(const RunTrace& trace, const Plan& plan);

}  // namespace nestor::report

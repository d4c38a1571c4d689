// The HTML report: one self-contained page with the graph, and each function's schedule to walk through step
// by step.
#pragma once

#include <string>
#include <vector>

#include "nestor/driver.h"

namespace nestor::report {
struct Profile;
}

namespace nestor {

struct HtmlReport {
  std::string html;
  std::vector<ScheduleError> refused;  // of functions whose schedule is; the page shows them too
};

// `model` as partition_model gives it; pages for the functions `funcs`, by index. With a profile
// (src/report/profile.h) it has times, and a chart of what bounds them.
HtmlReport html_report(const CompiledModel& model, const CompileOptions& options, const std::string& title,
                       const std::vector<size_t>& funcs, const report::Profile* profile = nullptr);

// "nets/m.onnx" is m.onnx; an operator is its text.
std::string report_title(const std::string& spec);

}  // namespace nestor

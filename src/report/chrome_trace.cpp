#include "src/report/chrome_trace.h"

#include "src/report/shared.h"

namespace nestor::report {

std::string chrome_trace(const RunTrace& trace, const Plan& plan) {
  constexpr int kProcess = 1;
  Json events = Json::array();
  const auto named = [&](const char* what, int thread, const std::string& name) {
    events.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  named("process_name", 0, plan.name);
  for (int t = 0; t < trace.threads(); ++t)
    named("thread_name", t, t == 0 ? "caller" : "worker " + std::to_string(t));
  int64_t runs = 0;
  for (int t = 0; t < trace.threads(); ++t) {
    for (const RunTrace::Span& s : trace.of_thread(t)) {
      Json args = Json::object();
      std::string name = "run " + std::to_string(runs), kind = "run";
      if (s.call < 0) {
        ++runs;
      } else {
        const PlanCall& call = plan.calls[static_cast<size_t>(s.call)];
        const bool piece = s.end > s.first;
        name = function_of(plan, call);
        kind = piece ? "piece" : "call";
        args["nodes"] = call.label;
        args["call"] = s.call;
        if (piece) args["iterations"] = std::to_string(s.first) + " to " + std::to_string(s.end - 1);
      }
      events.push_back({{"ph", "X"},
                        {"name", name},
                        {"cat", kind},
                        {"pid", kProcess},
                        {"tid", t},
                        {"ts", static_cast<double>(s.begin_ns) / 1e3},
                        {"dur", static_cast<double>(s.end_ns - s.begin_ns) / 1e3},
                        {"args", args}});
    }
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ns"}}.dump(-1, ' ', false,
                                                                       Json::error_handler_t::replace);
}

}  // namespace nestor::report

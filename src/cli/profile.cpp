#include "src/cli/profile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/report/time_text.h"

namespace nestor::cli {

using report::FunctionTime;
using report::Profile;
using report::time_text;

void print_table(const Profile& p) {
  fmt::print("{:>11} {:>7} {:>6} {:>9} {:>7} {:>8}  {:<10} {:>8}  {}\n", "median", "% time", "calls",
             "GFLOP/s", "% peak", "GB/s", "bound by", "of bound", "function");
  for (const FunctionTime& f : p.functions) {
    const double gflops = f.ns > 0 ? f.flops / f.ns : 0, gbs = f.ns > 0 ? f.work.bytes / f.ns : 0;
    const std::string what = f.nodes.size() == 1 ? fmt::format("{:<36} {}", f.name, f.nodes[0]) : f.name;
    fmt::print("{:>11} {:>7.1f} {:>6.0f} {:>9.1f} {:>7.1f} {:>8.1f}  {:<10} {:>6.0f} %  {}\n",
               time_text(f.ns / 1e6), p.ns > 0 ? 100 * f.ns / p.ns : 0, f.calls, gflops,
               100 * gflops / p.peak_gflops, gbs, f.bound.by(), 100 * f.of_bound(), what);
  }
  fmt::print(
      "bound by: which takes longer at least, the function's operations at the FMA peak or its bytes at the "
      "speed of a\n"
      "copy; of bound: how near the function is to that time\n");
}

void print_json(const Profile& p, const std::string& schedule) {
  nlohmann::json list = nlohmann::json::array();
  for (const FunctionTime& f : p.functions)
    list.push_back({{"func", f.name},
                    {"nodes", f.nodes},
                    {"calls", f.calls},
                    {"median_us", f.ns / 1e3},
                    {"percent", p.ns > 0 ? 100 * f.ns / p.ns : 0},
                    {"gflops", f.ns > 0 ? f.flops / f.ns : 0},
                    {"operations", f.work.operations},
                    {"bytes", f.work.bytes},
                    {"bound_by", f.bound.by()},
                    {"bound_us", f.bound.ns() / 1e3}});
  fmt::print("{}\n", nlohmann::json{{"schedule", schedule},
                                    {"peak_gflops", p.peak_gflops},
                                    {"runs", p.runs},
                                    {"median_us", p.ns / 1e3},
                                    {"funcs", list}}
                         .dump());
}

}  // namespace nestor::cli

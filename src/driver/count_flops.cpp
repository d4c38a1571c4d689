// Operations are counted on the functions before scheduling, so that what a schedule computes twice counts
// once. Winograd's are counted after lowering: its transforms are written as sums with constant factors, most
// of which are 0 or 1 and disappear there. Where sizes are open, those of the usual ones are counted.
#include "src/driver/count_flops.h"

#include <algorithm>

#include "nestor/flops.h"
#include "nestor/nest_file.h"
#include "src/graph/control_flow.h"

namespace nestor {

namespace {

// What a convolution's direct sum takes.
double direct_flops(const Graph& g, const Node& winograd) {
  const auto shape_of = [&](ValueId v) { return g.values[static_cast<size_t>(v)].type.shape; };
  double count = 2;
  for (const int64_t extent : shape_of(winograd.outputs[0]).typical()) count *= static_cast<double>(extent);
  const std::vector<int64_t> weights = shape_of(winograd.inputs[3]);
  for (size_t d = 1; d < weights.size(); ++d) count *= static_cast<double>(weights[d]);
  return count;
}

}  // namespace

void count_flops(Plan& plan, const Graph& g, const Partition& p, const std::vector<CompiledFunction>& funcs) {
  for (const CompiledFunction& f : funcs) plan.kernel_flops.push_back(flops_of(with_dims(f.func, p.typical)));
  std::vector<double> times = {1};  // of a call, by the loops around it; those of unknown length count once
  for (const KernelCall& call : p.calls) {
    if (call.func == kLoopBegins)
      times.push_back(times.back() * static_cast<double>(least_trips(*call.control)));
    if (call.func == kLoopEnds) times.pop_back();
    if (call.control) continue;
    double direct = 0;
    for (const int n : call.nodes)
      if (const Node& node = g.nodes[static_cast<size_t>(n)]; node.op == "WinogradConv")
        direct += direct_flops(g, node);
    double& done = plan.kernel_flops[static_cast<size_t>(call.func)];
    if (direct > 0) done = flops_of(with_dims(funcs[static_cast<size_t>(call.func)].lowered, p.typical));
    plan.flops.done += times.back() * done;
    plan.flops.effective += times.back() * std::max(done, direct);
  }
}

}  // namespace nestor

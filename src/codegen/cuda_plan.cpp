// Replaces a plan's calls of functions by launches of their kernels. Functions run one after the other, so
// their temporaries share one place, after the values in the arena.
#include <fmt/format.h>

#include <algorithm>

#include "nestor/cuda.h"
#include "nestor/error.h"

namespace nestor {

namespace {

int64_t bytes_of_all(const std::vector<int64_t>& temporaries) {
  int64_t bytes = 0;
  for (const int64_t t : temporaries) bytes += align_up(t);
  return bytes;
}

// Names of tensors may hold anything; a comment ends with its line.
std::string one_line(std::string name) {
  for (char& c : name)
    if (static_cast<unsigned char>(c) < ' ' || c == '\\') c = '?';
  return name;
}

bool is_launched(const CudaKernel& k) {
  return std::min(*std::min_element(k.grid.begin(), k.grid.end()),
                  *std::min_element(k.block.begin(), k.block.end())) > 0;
}

}  // namespace

std::string describe(const CudaPlan& plan) {
  const Plan& p = plan.plan;
  const auto place = [&](const Place& at) {
    switch (at.region) {
      case Region::input:
        return p.inputs[static_cast<size_t>(at.at)].name;
      case Region::output:
        return p.outputs[static_cast<size_t>(at.at)].name;
      case Region::arena:
        return "arena+" + std::to_string(at.at);
      case Region::weights:
        return "weights+" + std::to_string(at.at);
      case Region::sizes:
      case Region::moving:
        break;  // of open sizes and of loops, which plans for CUDA don't have
    }
    return std::string();
  };
  std::string out = fmt::format("// {}: {} bytes of weights, an arena of {}. In this order, on one stream:\n",
                                p.name, p.weights.bytes(), p.arena_bytes);
  for (const PlanCall& call : p.calls) {
    std::vector<std::string> args;
    for (const Place& at : call.args) args.push_back(one_line(place(at)));
    out += fmt::format("//   {}({})\n",
                       call.kernel == kCopy    ? fmt::format("copy of {} bytes", call.bytes)
                       : call.kernel == kCheck ? "end where this isn't 0: " + one_line(call.label)
                                               : p.kernels[static_cast<size_t>(call.kernel)],
                       fmt::join(args, ", "));
  }
  return out + "\n";
}

CudaPlan make_cuda_plan(const Plan& plan, const CudaModule& module) {
  NESTOR_CHECK(module.functions.size() == plan.kernels.size()) << "another model's module";
  CudaPlan out{plan, {}};
  out.plan.kernels.clear();
  out.plan.kernel_flops.clear();
  out.plan.calls.clear();
  std::vector<int> first;  // kernel of each function
  for (size_t f = 0; f < module.functions.size(); ++f) {
    const CudaProgram& program = module.functions[f];
    first.push_back(static_cast<int>(out.plan.kernels.size()));
    out.plan.arena_bytes =
        std::max(out.plan.arena_bytes, plan.arena_bytes + bytes_of_all(program.temporary_bytes));
    double flops = plan.kernel_flops.at(f);  // counted for the first of its kernels
    for (const CudaKernel& k : program.kernels) {
      if (!is_launched(k)) continue;
      out.plan.kernels.push_back(k.name);
      out.plan.kernel_flops.push_back(flops);
      out.launches.push_back({k.grid, k.block, k.dynamic_shared});
      flops = 0;
    }
  }
  for (const PlanCall& call : plan.calls) {
    if (call.kernel < 0) {
      out.plan.calls.push_back(call);
      continue;
    }
    const auto f = static_cast<size_t>(call.kernel);
    std::vector<Place> places = call.args;
    int64_t at = plan.arena_bytes;
    for (const int64_t bytes : module.functions[f].temporary_bytes) {
      places.push_back({Region::arena, at});
      at += align_up(bytes);
    }
    int kernel = first[f];
    for (const CudaKernel& k : module.functions[f].kernels) {
      if (!is_launched(k)) continue;
      PlanCall launch{kernel++, {}, 0, call.label};
      for (const int a : k.args) launch.args.push_back(places.at(static_cast<size_t>(a)));
      out.plan.calls.push_back(std::move(launch));
    }
  }
  return out;
}

}  // namespace nestor

// A model whose functions are Halide's, each scheduled by one of its autoschedulers: the same plan, other
// kernels.
#include "nestor/halide.h"

#include "nestor/driver.h"
#include "nestor/error.h"

namespace nestor {

std::unique_ptr<Executor> make_halide_executor(const CompiledModel& model, const std::string& scheduler) {
  if (model.target.kind != TargetKind::cpu)
    throw UserError("Halide's back end compiles for this machine, not for " + model.target.name);
  std::vector<Kernel> kernels;
  for (const std::string& name : model.plan->kernels) {
    const CompiledFunction* f = nullptr;
    for (const CompiledFunction& c : model.funcs)
      if (c.lowered.name == name) f = &c;
    NESTOR_CHECK(f) << name;
    for (const Param& p : f->scheduled.params)
      NESTOR_CHECK(!p.decl.layout) << name << " was scheduled, which packs its weights in our way";
    const auto code = std::make_shared<const HalideFunction>(f->func, scheduler, model.plan->threads);
    kernels.emplace_back([code](void* const* args, void*, void*) {
      code->run(args);
      return 0;
    });
  }
  return std::make_unique<Executor>(model.plan, std::move(kernels), nullptr);
}

}  // namespace nestor

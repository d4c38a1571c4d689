#include "nestor/device.h"

#include <fmt/format.h>

#include "nestor/cuda.h"
#include "nestor/emulate.h"
#include "nestor/layout.h"
#include "runtime/cuda_driver_rt.h"

namespace nestor {

namespace {

// Code for the machine's first device. Machine code runs on devices of its own major version; for a newer one
// the driver compiles PTX.
CudaImage compile_for_first_device(const std::string& source, const Target& target) {
  nestor_cuda_driver driver{};
  const char* missing = nestor_find_cuda_driver(&driver);
  int device = 0;
  if (!missing && driver.device(&device, 0) != 0) missing = "there is no CUDA device on this machine";
  if (missing)
    throw UserError(Diagnostic{"code for " + target.name + " can't run here: " + missing,
                               {},
                               {},
                               "--emulate runs the kernels on the CPU"});
  const int sm = nestor_cuda_capability(&driver, device), wanted = std::stoi(target.sm.substr(3));
  const bool specific = target.sm.back() == 'a';
  if (sm < wanted || (specific && sm != wanted))
    throw UserError(
        Diagnostic{"this machine's GPU is sm_" + std::to_string(sm) + ", it can't run code for " + target.sm,
                   {},
                   {},
                   "--target cuda:sm_" + std::to_string(sm)});
  if (sm / 10 != wanted / 10) return {compile_ptx(source, target), wanted, CudaForm::ptx};
  return {compile_cubin(source, target), wanted, specific ? CudaForm::specific_code : CudaForm::code};
}

Place place_at(Region region, size_t index) {
  return {region, static_cast<int64_t>(index)};
}

// Of one call of the function, its parameters as they come.
Plan plan_of(const CompiledFunction& f) {
  Plan plan;
  plan.name = f.lowered.name;
  plan.kernels = {f.lowered.name};
  plan.kernel_flops = {0};
  plan.weights = Tensor(DType::u8, {0});
  PlanCall call{0, {}, 0, f.lowered.name};
  for (const Param& p : f.scheduled.params) {
    const bool out = p.role == Role::out;
    std::vector<PlanTensor>& side = out ? plan.outputs : plan.inputs;
    call.args.push_back(place_at(out ? Region::output : Region::input, side.size()));
    side.push_back({p.decl.buffer->name, p.decl.buffer->type.dtype,
                    p.decl.layout ? physical_shape(p.decl) : logical_shape(p.decl)});
  }
  plan.calls.push_back(std::move(call));
  return plan;
}

}  // namespace

struct Device::Cuda {
  CudaModule module;
  std::unique_ptr<EmulatedCode> emulated;  // null: on a real device
  CudaImage image;

  std::unique_ptr<CudaExecutor> executor(const Plan& plan, const CudaModule& of_plan) const {
    return std::make_unique<CudaExecutor>(make_cuda_plan(plan, of_plan), std::vector<CudaImage>{image},
                                          emulated ? 0 : nvrtc_version(),
                                          emulated ? &emulated_driver() : nullptr);
  }
};

Device::Device(const CompiledModel& model, bool emulate) : model_(model) {
  if (model.target.kind == TargetKind::cpu) {
    if (emulate)
      throw UserError(Diagnostic{"--emulate is for CUDA targets, not for " + model.target.name,
                                 {},
                                 {},
                                 "--target cuda:sm_80 --emulate"});
    return;
  }
  cuda_ = std::make_unique<Cuda>();
  cuda_->module = make_cuda_module(model.lowered(), model.target);
  if (emulate) {
    cuda_->emulated = std::make_unique<EmulatedCode>(cuda_->module, Tracing::on);
    cuda_->image = cuda_->emulated->image();
  } else {
    cuda_->image = compile_for_first_device(cuda_->module.source, model.target);
  }
}

Device::~Device() = default;

std::unique_ptr<Runnable> Device::make_runnable() const {
  if (!cuda_) return make_executor(model_);
  return cuda_->executor(*model_.plan, cuda_->module);
}

std::vector<Tensor> Device::run(const CompiledFunction& f, const std::vector<Tensor>& inputs) const {
  if (!cuda_) return run_function(f, inputs, model_.target);
  CudaModule alone;
  for (size_t i = 0; i < model_.funcs.size(); ++i)
    if (model_.funcs[i].lowered.name == f.lowered.name) alone.functions = {cuda_->module.functions[i]};
  NESTOR_CHECK(!alone.functions.empty()) << f.lowered.name << " isn't a function of the model";
  const auto executor = cuda_->executor(plan_of(f), alone);
  std::vector<Tensor> held, out;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (size_t i = 0, next = 0; i < f.scheduled.params.size(); ++i) {
    const Param& p = f.scheduled.params[i];
    if (p.role == Role::out) {
      out.emplace_back(p.decl.buffer->type.dtype, logical_shape(p.decl));
      to.push_back(out.back().data());
    } else {
      const Tensor& t = inputs.at(next++);
      held.push_back(p.decl.layout ? pack(t, p.decl) : t);
      from.push_back(held.back().data());
    }
  }
  executor->run_raw(from.data(), to.data());
  return out;
}

namespace {

std::string ratio(int64_t did, int64_t ideal) {
  return ideal > 0 ? fmt::format("{:.2f}", static_cast<double>(did) / static_cast<double>(ideal)) : "none";
}

}  // namespace

std::vector<std::string> emulated_memory(const CompiledFunction& f, const Target& target) {
  constexpr int64_t kBlocks = 4;
  const CudaProgram program = make_cuda(f.lowered, target);
  std::vector<Tensor> args;
  for (const Param& p : f.lowered.params) {
    const auto size = as_int(p.decl.shape.at(0));
    if (!size) return {};
    args.emplace_back(p.decl.buffer->type.dtype, std::vector<int64_t>{*size});
  }
  std::vector<std::string> out;
  for (const MemoryCounts& c : Emulator({program}, Tracing::on).count(program, args, kBlocks))
    out.push_back(
        fmt::format("as emulated, {} blocks at most: sectors of device memory {} of the ideal, "
                    "wavefronts of shared memory {}",
                    kBlocks, ratio(c.sectors, c.ideal_sectors), ratio(c.wavefronts, c.ideal_wavefronts)));
  return out;
}

}  // namespace nestor

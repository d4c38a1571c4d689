// Runs a model on a CUDA device, real or emulated. The plan is the CPU's (runtime.h), with one call per
// kernel launch. Values and weights have the same places; temporaries of functions are at the arena's end.
// runtime/cuda_rt.c executes the plan, here and in artifacts.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "nestor/runtime.h"

struct nestor_cuda;
struct nestor_cuda_driver;

namespace nestor {

// Kernels as a device loads them (enum nestor_cuda_form of runtime/cuda_rt.h).
enum class CudaForm : uint8_t { code, specific_code, ptx, emulated };
struct CudaImage {
  std::string bytes;
  int sm = 0;  // 80
  CudaForm form = CudaForm::code;
};

struct CudaPlan {
  Plan plan;  // kernels are symbols of the images
  struct Launch {
    std::array<int64_t, 3> grid, block;  // none is 0
    int64_t dynamic_shared = 0;
  };
  std::vector<Launch> launches;  // of plan.kernels
};

class CudaExecutor : public Runnable {
 public:
  // driver: null for the machine's own. cuda_version: of the compiler that made the images, 13000 for 13.0.
  // UserError with the reason where there is no device, it can't run these images, or has too little memory.
  CudaExecutor(CudaPlan plan, std::vector<CudaImage> images, int cuda_version,
               const nestor_cuda_driver* driver = nullptr);
  ~CudaExecutor() override;
  CudaExecutor(const CudaExecutor&) = delete;

  const std::string& name() const override { return plan_.plan.name; }
  const std::vector<PlanTensor>& inputs() const override { return plan_.plan.inputs; }
  const std::vector<PlanTensor>& outputs() const override { return plan_.plan.outputs; }
  FlopCount flops() const override { return plan_.plan.flops; }
  int threads() const override { return 1; }  // of the host
  void run_raw(const void* const* inputs, void* const* outputs) override;

 private:
  struct Tables;
  CudaPlan plan_;
  std::unique_ptr<Tables> tables_;
  nestor_cuda* instance_ = nullptr;
};

}  // namespace nestor

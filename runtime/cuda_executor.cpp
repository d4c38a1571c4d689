#include "nestor/cuda_executor.h"

#include "nestor/error.h"
#include "runtime/call_words.h"
#include "runtime/cuda_rt.h"

namespace nestor {

// What the instance refers to.
struct CudaExecutor::Tables {
  std::vector<CudaImage> bytes;
  std::vector<nestor_cuda_kernel> kernels;
  std::vector<nestor_cuda_image> images;
  std::vector<int64_t> words, input_bytes, output_bytes;
  nestor_cuda_model model{};
  nestor_weights weights{};
};

namespace {

int64_t count_of(const auto& list) {
  return static_cast<int64_t>(list.size());
}

}  // namespace

CudaExecutor::CudaExecutor(CudaPlan plan, std::vector<CudaImage> images, int cuda_version,
                           const nestor_cuda_driver* driver)
    : plan_(std::move(plan)), tables_(std::make_unique<Tables>()) {
  Tables& t = *tables_;
  const Plan& p = plan_.plan;
  check_plan(p);
  t.bytes = std::move(images);
  for (size_t k = 0; k < p.kernels.size(); ++k) {
    nestor_cuda_kernel kernel{
        p.kernels[k].c_str(), {}, {}, static_cast<int32_t>(plan_.launches[k].dynamic_shared)};
    for (size_t a = 0; a < 3; ++a) {
      kernel.grid[a] = static_cast<int32_t>(plan_.launches[k].grid[a]);
      kernel.block[a] = static_cast<int32_t>(plan_.launches[k].block[a]);
    }
    t.kernels.push_back(kernel);
  }
  for (const CudaImage& i : t.bytes)
    t.images.push_back({i.bytes.c_str(), i.sm, static_cast<int32_t>(i.form)});
  t.input_bytes = bytes_of_all(p.inputs);
  t.output_bytes = bytes_of_all(p.outputs);
  t.words = call_words(p);
  t.model.kernels = t.kernels.data();
  t.model.images = t.images.data();
  t.model.words = t.words.data();
  t.model.input_bytes = t.input_bytes.data();
  t.model.output_bytes = t.output_bytes.data();
  t.model.kernel_count = count_of(t.kernels);
  t.model.image_count = count_of(t.images);
  t.model.calls = count_of(p.calls);
  t.model.inputs = count_of(p.inputs);
  t.model.outputs = count_of(p.outputs);
  t.model.checks = count_checks(p);
  t.model.most_args = most_args(p);
  t.model.arena_bytes = p.arena_bytes;
  t.model.cuda_version = cuda_version;
  t.weights.inside = p.weights.data();
  t.weights.bytes = p.weights.bytes();
  nestor_options options{};
  std::array<char, 1024> why{};
  options.why = why.data();
  options.why_bytes = why.size();
  instance_ = nestor_cuda_create(&options, &t.model, &t.weights, driver);
  if (!instance_) throw UserError(p.name + " can't run on a CUDA device: " + why.data());
}

CudaExecutor::~CudaExecutor() {
  nestor_cuda_destroy(instance_);
}

void CudaExecutor::run_raw(const void* const* inputs, void* const* outputs) {
  const int32_t result = nestor_cuda_run(instance_, inputs, outputs);
  if (result == NESTOR_BUSY) throw UserError(name() + " is in a run of another thread: one run at a time");
  if (result == NESTOR_BAD_INDEX) {
    int64_t left = nestor_cuda_failed_check(instance_);
    for (const PlanCall& call : plan_.plan.calls)
      if (call.kernel == kCheck && left-- == 0) throw UserError(call.label);
  }
  if (result != 0) throw UserError(name() + " failed on the device: " + nestor_cuda_why(instance_));
}

}  // namespace nestor

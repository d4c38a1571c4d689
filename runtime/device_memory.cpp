#include "nestor/device_memory.h"

#include "nestor/error.h"
#include "runtime/cuda_driver_rt.h"

namespace nestor {

// The device's primary context is current while this makes, copies or frees.
struct DeviceMemory::Impl {
  nestor_cuda_driver driver{};
  int device = 0;
  void* context = nullptr;
  nestor_device_pointer memory = 0;

  Impl() {
    if (const char* missing = nestor_find_cuda_driver(&driver)) throw UserError(missing);
    check(driver.device(&device, 0));
    check(driver.retain(&context, device));
  }
  ~Impl() {
    if (memory && driver.push(context) == 0) {
      driver.free(memory);
      driver.pop(nullptr);
    }
    driver.release(device);
  }
  Impl(const Impl&) = delete;

  void check(int status) const {
    const char* text = nullptr;
    if (status == 0) return;
    driver.error_text(status, &text);
    throw UserError(std::string("memory of the CUDA device: ") + (text ? text : "unknown error"));
  }

  void fill(const Tensor& content) {
    const auto bytes = static_cast<size_t>(content.bytes());
    check(driver.push(context));
    int status = driver.allocate(&memory, bytes > 0 ? bytes : 1);
    if (status == 0 && bytes > 0) status = driver.to_device(memory, content.data(), bytes, nullptr);
    if (status == 0) status = driver.synchronize(nullptr);
    driver.pop(nullptr);
    check(status);
  }
};

DeviceMemory::DeviceMemory(const Tensor& content) : impl_(std::make_unique<Impl>()) {
  impl_->fill(content);
}

DeviceMemory::~DeviceMemory() = default;

void* DeviceMemory::data() const {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(impl_->memory));
}

}  // namespace nestor

// A dense host tensor, row major, 64-byte aligned. Shared by the compiler (constants, oracles) and the
// runtime.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nestor/dtype.h"

namespace nestor {

class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, std::vector<int64_t> shape);  // zero filled; throws UserError where the size overflows

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t size() const { return size_; }  // elements
  int64_t bytes() const { return size_ * bytes_of(dtype_); }
  bool defined() const { return data_ != nullptr; }

  void* data() { return data_.get(); }  // shared between copies of the handle
  const void* data() const { return data_.get(); }
  template <class T>
  std::span<T> as() {
    return {static_cast<T*>(data()), static_cast<size_t>(size_)};
  }
  template <class T>
  std::span<const T> as() const {
    return {static_cast<const T*>(data()), static_cast<size_t>(size_)};
  }

  // Element by flat index, whatever the dtype (exact for integers up to 2^53; use get_int for i64).
  double get(int64_t i) const;
  void set(int64_t i, double value);  // rounded to the dtype
  int64_t get_int(int64_t i) const;
  void set_int(int64_t i, int64_t value);

  Tensor clone() const;
  Tensor reshaped(std::vector<int64_t> shape) const;  // shares the data
  Tensor cast(DType dtype) const;

  static Tensor random(DType dtype, std::vector<int64_t> shape,
                       uint64_t seed);  // floats in [-0.5, 0.5), ints in [0, 8)

 private:
  DType dtype_ = DType::f32;
  std::vector<int64_t> shape_;
  int64_t size_ = 0;
  std::shared_ptr<void> data_;
};

int64_t product(std::span<const int64_t> shape);
std::string to_string(DType dtype, std::span<const int64_t> shape);  // "f32[1,64,56,56]"

}  // namespace nestor

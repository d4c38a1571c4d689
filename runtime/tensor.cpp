#include "nestor/tensor.h"

#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "nestor/error.h"
#include "nestor/half.h"
#include "runtime/large_pages.h"

namespace nestor {

int64_t product(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(n, d, &n))
      throw UserError("a tensor's dimensions are negative or overflow");
  return n;
}

std::string to_string(DType dtype, std::span<const int64_t> shape) {
  std::string out(name_of(dtype));
  out += "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + std::to_string(shape[i]);
  return out + "]";
}

namespace {

// Zeros in a mapping of their own that begins with a page of 2 MB and shares none, so that all of it may lie
// in such pages if someone asks (large_pages.cpp); until then it has as many small ones as are written to.
std::shared_ptr<void> map_large(size_t bytes) {
  constexpr size_t kLarge = NESTOR_LARGE_PAGE;
  const size_t whole = (bytes + kLarge - 1) / kLarge * kLarge;
  void* p = mmap(nullptr, whole + kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* const mapped = static_cast<char*>(p);
  const size_t before = (kLarge - reinterpret_cast<uintptr_t>(mapped) % kLarge) % kLarge;
  char* const begin = mapped + before;
  if (before > 0) munmap(mapped, before);
  if (before < kLarge) munmap(begin + whole, kLarge - before);
  return {begin, [whole](void* memory) { munmap(memory, whole); }};
}

}  // namespace

Tensor::Tensor(DType dtype, std::vector<int64_t> shape)
    : dtype_(dtype), shape_(std::move(shape)), size_(product(shape_)) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(size_, int64_t{bytes_of(dtype)}, &bytes) || bytes > (int64_t{1} << 46))
    throw UserError("a tensor of type " + to_string(dtype_, shape_) + " is too large");
  const size_t padded = (static_cast<size_t>(bytes) + 127) / 64 * 64;
  const bool raw = dtype_ == DType::u8 && shape_.size() == 1;  // weights, temporaries, scratch
  if (raw && bytes >= NESTOR_LEAST_IN_LARGE_PAGES) {
    data_ = map_large(padded);
    if (data_) return;
  }
  constexpr size_t kAligned = 64;
  void* p = std::calloc(padded + kAligned, 1);  // large memory comes as zeros, and is touched when it is used
  if (!p) throw UserError("not enough memory for a tensor of type " + to_string(dtype_, shape_));
  auto* const aligned =
      static_cast<char*>(p) + (kAligned - reinterpret_cast<uintptr_t>(p) % kAligned) % kAligned;
  data_ = std::shared_ptr<void>(aligned, [p](void*) { std::free(p); });
}

namespace {

// Calls f with a typed pointer to the element storage: the arithmetic type, or uint16_t for the half formats.
template <class F>
decltype(auto) with_type(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::i64:
      return f(int64_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::i8:
      return f(int8_t{});
    case DType::u64:
      return f(uint64_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::u8:
    case DType::boolean:
      return f(uint8_t{});
    default:
      return f(uint16_t{});
  }
}

// As casts between tensors do: truncated, saturated, NaN gives 0.
template <class T>
T converted(double v) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(v);
  } else {
    using Limits = std::numeric_limits<T>;
    if (std::isnan(v)) return 0;
    if (v <= static_cast<double>(Limits::min())) return Limits::min();
    return v >= std::ldexp(1.0, Limits::digits) ? Limits::max() : static_cast<T>(v);
  }
}

}  // namespace

double Tensor::get(int64_t i) const {
  if (dtype_ == DType::f16) return from_f16(as<uint16_t>()[static_cast<size_t>(i)]);
  if (dtype_ == DType::bf16) return from_bf16(as<uint16_t>()[static_cast<size_t>(i)]);
  return with_type(dtype_,
                   [&](auto t) { return static_cast<double>(as<decltype(t)>()[static_cast<size_t>(i)]); });
}

void Tensor::set(int64_t i, double value) {
  if (dtype_ == DType::f16) {
    as<uint16_t>()[static_cast<size_t>(i)] = to_f16(value);
  } else if (dtype_ == DType::bf16) {
    as<uint16_t>()[static_cast<size_t>(i)] = to_bf16(value);
  } else if (dtype_ == DType::boolean) {
    as<uint8_t>()[static_cast<size_t>(i)] = value != 0;
  } else {
    with_type(dtype_,
              [&](auto t) { as<decltype(t)>()[static_cast<size_t>(i)] = converted<decltype(t)>(value); });
  }
}

int64_t Tensor::get_int(int64_t i) const {
  if (is_float(dtype_)) return converted<int64_t>(get(i));
  return with_type(dtype_,
                   [&](auto t) { return static_cast<int64_t>(as<decltype(t)>()[static_cast<size_t>(i)]); });
}

void Tensor::set_int(int64_t i, int64_t value) {
  if (is_float(dtype_)) return set(i, static_cast<double>(value));
  if (dtype_ == DType::boolean) value = value != 0;
  with_type(dtype_,
            [&](auto t) { as<decltype(t)>()[static_cast<size_t>(i)] = static_cast<decltype(t)>(value); });
}

Tensor Tensor::clone() const {
  Tensor out(dtype_, shape_);
  std::memcpy(out.data(), data(), static_cast<size_t>(bytes()));
  return out;
}

Tensor Tensor::reshaped(std::vector<int64_t> shape) const {
  if (product(shape) != size_)
    throw UserError("can't view " + to_string(dtype_, shape_) + " as " + to_string(dtype_, shape));
  Tensor out = *this;
  out.shape_ = std::move(shape);
  return out;
}

Tensor Tensor::cast(DType dtype) const {
  Tensor out(dtype, shape_);
  const bool through_int = !is_float(dtype) && !is_float(dtype_);
  for (int64_t i = 0; i < size_; ++i) {
    if (through_int)
      out.set_int(i, get_int(i));
    else
      out.set(i, get(i));
  }
  return out;
}

Tensor Tensor::random(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  Tensor out(dtype, std::move(shape));
  std::mt19937_64 rng(seed);
  // Own scaling: the standard distributions differ between libraries.
  for (int64_t i = 0; i < out.size_; ++i) {
    const uint64_t bits = rng();
    if (is_float(dtype))
      out.set(i, static_cast<double>(bits >> 40) / (1 << 24) - 0.5);
    else
      out.set_int(i, static_cast<int64_t>(bits >> 61));
  }
  return out;
}

}  // namespace nestor

// Runs a lowered function through the interpreter and through the JIT on the same data and compares the
// outputs bit for bit (any NaN equals any NaN, whatever its sign and payload).
#pragma once

#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/tensor.h"
#include "runtime/kernel_rt.h"

namespace nestor::testing {

// Values at which implementations part: signed zeros, denormals, ties, extremes, infinities, NaN, and
// ordinary ones.
inline Tensor hard_values(DType dtype, int64_t n, uint64_t seed) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  static const double floats[] = {0.0,   -0.0,  1,    -1,           0.5,    -0.5,   1.5,  2.5,
                                  -2.5,  inf,   -inf, std::nan(""), 1e-40,  -1e-42, 1e-6, 3e38,
                                  -3e38, 65504, 1e-7, 127.5,        -128.5, 3.1415, 1e10, -7.25};
  static const int64_t ints[] = {0,
                                 1,
                                 -1,
                                 2,
                                 3,
                                 -3,
                                 7,
                                 -8,
                                 16,
                                 100,
                                 127,
                                 -128,
                                 255,
                                 32767,
                                 -32768,
                                 std::numeric_limits<int32_t>::max(),
                                 std::numeric_limits<int32_t>::min(),
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
  std::mt19937_64 rng(seed);
  Tensor t(dtype, {n});
  for (int64_t i = 0; i < n; ++i) {
    if (is_float(dtype))
      t.set(i, rng() % 3 ? floats[rng() % std::size(floats)] : static_cast<double>(rng() % 4000) / 200 - 10);
    else
      t.set_int(i, rng() % 2 ? ints[rng() % std::size(ints)] : static_cast<int64_t>(rng() % 50) - 20);
  }
  return t;
}

inline bool same_bits(const Tensor& a, const Tensor& b, int64_t i) {
  if (is_float(a.dtype()) && std::isnan(a.get(i)) && std::isnan(b.get(i))) return true;
  const auto bytes = static_cast<size_t>(bytes_of(a.dtype()));
  const auto at = static_cast<size_t>(i) * bytes;
  return std::memcmp(static_cast<const char*>(a.data()) + at, static_cast<const char*>(b.data()) + at,
                     bytes) == 0;
}

inline std::vector<Tensor> hard_args(const PrimFunc& f, uint64_t seed) {
  std::vector<Tensor> args;
  for (const Param& p : f.params) {
    const int64_t n = physical_size(p.decl);
    const DType dtype = p.decl.buffer->type.dtype;
    args.push_back(p.role == Role::out ? Tensor(dtype, {n}) : hard_values(dtype, n, seed + args.size()));
  }
  return args;
}

inline void run_jit(const PrimFunc& f, std::vector<Tensor>& args, int threads, const Target& target) {
  const auto module = JitModule::compile({f}, target);
  std::vector<void*> pointers;
  for (Tensor& t : args) pointers.push_back(t.data());
  Tensor workspace(DType::u8, {workspace_bytes(f, threads)});
  std::memset(workspace.data(), 0xff, static_cast<size_t>(workspace.bytes()));  // NaN everywhere
  nestor_pool* pool = threads > 1 ? nestor_pool_create(threads) : nullptr;
  CHECK(module->lookup(f.name)(pointers.data(), workspace.data(), pool) == 0);
  nestor_pool_destroy(pool);
}

inline void compare(const PrimFunc& f, const std::vector<Tensor>& expected,
                    const std::vector<Tensor>& actual) {
  for (size_t a = 0; a < expected.size(); ++a)
    for (int64_t i = 0; i < expected[a].size(); ++i)
      if (!same_bits(expected[a], actual[a], i)) {
        INFO(f.params[a].decl.buffer->name << "[" << i << "]: the interpreter says " << expected[a].get(i)
                                           << ", the machine " << actual[a].get(i));
        FAIL("they differ");
      }
}

inline void check_agree(const PrimFunc& f, uint64_t seed = 1, const Target& target = host_target(),
                        int threads = 2) {
  INFO(print(f));
  std::vector<Tensor> expected = hard_args(f, seed), actual = hard_args(f, seed);
  interpret(f, expected);
  run_jit(f, actual, threads, target);
  compare(f, expected, actual);
}

inline void check_agree(const std::string& text, uint64_t seed = 1) {
  check_agree(parse_func(text), seed);
}

}  // namespace nestor::testing

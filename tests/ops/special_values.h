// NaN, infinities, zeros, denormals, the largest and smallest floats as an operator's operands, and when two
// results are of one class.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "nestor/interpret.h"
#include "nestor/layout.h"
#include "tests/ops/catalog.h"

namespace nestor::testing {

using Args = std::vector<Tensor>;

inline const std::vector<double>& special_values() {
  static const std::vector<double> all = {std::nan(""),
                                          INFINITY,
                                          -INFINITY,
                                          0.0,
                                          -0.0,
                                          0x1p-149,
                                          -0x1p-149,
                                          0x1p-130,
                                          -0x1p-130,
                                          0x1p-126,
                                          -0x1p-126,
                                          0x1p127,
                                          -0x1p127,
                                          3.4028234663852886e38,
                                          -3.4028234663852886e38};
  return all;
}

// Sums of several of the largest floats overflow, or not, by the order of their terms.
inline bool is_calm(double v) {
  return !(std::isfinite(v) && std::abs(v) > 1e30);
}

// Operands of a function: ordinary values with one special value in some place; all of one value; and a
// mixture, of calm values unless the operator is `elementwise`.
inline std::vector<Args> special_args(const PrimFunc& f, bool elementwise) {
  std::vector<Args> out;
  const auto add = [&](const std::function<double(int64_t i, double ordinary)>& value) {
    Args args = random_args(f, 3);
    int64_t place = 0;
    for (size_t p = 0; p < args.size(); ++p) {
      if (f.params[p].role != Role::in || !is_float(args[p].dtype())) continue;
      for (int64_t i = 0; i < args[p].size(); ++i, ++place) args[p].set(i, value(place, args[p].get(i)));
    }
    out.push_back(std::move(args));
  };
  const std::vector<double>& all = special_values();
  const auto count = static_cast<int64_t>(all.size());
  for (int64_t s = 0; s < count; ++s) {
    const double v = all[static_cast<size_t>(s)];
    for (const int64_t at : {int64_t{0}, s + 1, 3 * s + 5})
      add([&](int64_t i, double ordinary) { return i == at ? v : ordinary; });
    if (elementwise || is_calm(v)) add([&](int64_t, double) { return v; });
  }
  for (int64_t step = 1; step <= 5; step += 2)
    add([&](int64_t i, double ordinary) {
      const double v = all[static_cast<size_t>((i * step + i / count) % count)];
      return i % 3 == 2 || (!elementwise && !is_calm(v)) ? ordinary : v;
    });
  return out;
}

inline bool has_halves(const PrimFunc& f) {
  return std::any_of(f.params.begin(), f.params.end(), [](const Param& p) {
    const DType t = p.decl.buffer->type.dtype;
    return t == DType::f16 || t == DType::bf16;
  });
}

// Operands as a scheduled function has them in memory.
inline Args laid_out(const PrimFunc& f, const Args& args) {
  Args out;
  for (size_t p = 0; p < args.size(); ++p) {
    const Tensor t = pack(args[p].clone(), f.params[p].decl);
    out.push_back(t.reshaped({t.size()}));
  }
  return out;
}

// Where the results differ in class (NaN, an infinity, a number) or by more than rounding does; "" where not.
inline std::string class_difference(const Tensor& got, const Tensor& wanted) {
  for (int64_t i = 0; i < wanted.size(); ++i) {
    const double g = got.get(i), w = wanted.get(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (!std::isfinite(g) || !std::isfinite(w) || std::abs(g - w) > 1e-3 * std::max(1.0, std::abs(w)))
      return "element " + std::to_string(i) + " is " + std::to_string(g) + " instead of " + std::to_string(w);
  }
  return "";
}

// What the test runs: operators with float operands, less those whose algorithm mixes elements that the
// operator keeps apart.
inline std::vector<CatalogEntry> floating_operators() {
  std::vector<CatalogEntry> out;
  for (CatalogEntry& e : catalog()) {
    bool floats = false;
    for (const int id : e.node.node().inputs)
      floats |= id >= 0 && is_float(e.node.graph().values[static_cast<size_t>(id)].type.dtype);
    if (floats && !e.node.node().op.starts_with("Winograd")) out.push_back(std::move(e));
  }
  return out;
}

}  // namespace nestor::testing

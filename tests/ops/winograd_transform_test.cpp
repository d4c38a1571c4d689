// The matrices of Winograd's convolutions: they convolve, their constants are exact, and they amplify no more
// than docs/winograd.md says.
#include "src/ops/winograd_transform.h"

#include <cmath>

#include "catch.h"
#include "nestor/tensor.h"

using namespace nestor;

TEST_CASE("Winograd's matrices convolve") {
  for (const int64_t tile : {2, 3, 4}) {
    const ops::Winograd& w = ops::winograd(tile);
    const Tensor data = Tensor::random(DType::f64, {w.reads}, 1), filter = Tensor::random(DType::f64, {3}, 2);
    for (int64_t i = 0; i < tile; ++i) {
      double direct = 0, sum = 0;
      for (int64_t r = 0; r < 3; ++r) direct += data.get(i + r) * filter.get(r);
      for (size_t k = 0; k < w.input.size(); ++k) {
        double v = 0, u = 0;
        for (int64_t j = 0; j < w.reads; ++j) v += w.input[k][static_cast<size_t>(j)] * data.get(j);
        for (int64_t r = 0; r < 3; ++r) u += w.weight[k][static_cast<size_t>(r)] * filter.get(r);
        sum += w.output[static_cast<size_t>(i)][k] * u * v;
      }
      CHECK(std::abs(sum - direct) < 1e-13);
    }
  }
}

TEST_CASE("Constants of Winograd's transforms at run time are exact in f32") {
  for (const int64_t tile : {2, 3, 4})
    for (const auto* m : {&ops::winograd(tile).input, &ops::winograd(tile).output})
      for (const auto& row : *m)
        for (const double v : row) CHECK(static_cast<double>(static_cast<float>(v)) == v);
}

TEST_CASE("Winograd's growth of rounding is what the manual says") {
  CHECK(std::abs(ops::winograd_growth(2) - 7.1) < 0.05);
  CHECK(std::abs(ops::winograd_growth(3) - 21.7) < 0.05);
  CHECK(std::abs(ops::winograd_growth(4) - 62.7) < 0.05);
}

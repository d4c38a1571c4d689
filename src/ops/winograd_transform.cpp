#include "src/ops/winograd_transform.h"

#include <algorithm>
#include <cmath>

#include "nestor/error.h"

namespace nestor::ops {

namespace {

using Row = std::vector<double>;

// Coefficients, the constant first, of the product of (x - p).
Row product_of_roots(const Row& roots) {
  Row c{1};
  for (const double p : roots) {
    Row next(c.size() + 1, 0);
    for (size_t k = 0; k < c.size(); ++k) {
      next[k + 1] += c[k];
      next[k] -= p * c[k];
    }
    c = std::move(next);
  }
  return c;
}

Winograd make(int64_t tile, const Row& points) {
  constexpr int kTaps = 3;
  Winograd w;
  w.tile = tile;
  w.reads = tile + kTaps - 1;
  const auto reads = static_cast<size_t>(w.reads);
  for (size_t j = 0; j < points.size(); ++j) {
    Row others = points;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(j));
    double scale = 1;
    for (const double p : others) scale *= points[j] - p;
    w.weight.push_back({1 / scale, points[j] / scale, points[j] * points[j] / scale});
    w.input.push_back(product_of_roots(others));
    w.input.back().resize(reads, 0);
  }
  w.weight.push_back({0, 0, 1});
  w.input.push_back(product_of_roots(points));
  for (int64_t i = 0; i < tile; ++i) {
    Row row;
    for (const double p : points) row.push_back(std::pow(p, static_cast<double>(i)));
    row.push_back(i == tile - 1 ? 1 : 0);
    w.output.push_back(std::move(row));
  }
  return w;
}

}  // namespace

const Winograd& winograd(int64_t tile) {
  static const Winograd known[] = {make(2, {0, 1, -1}), make(3, {0.375, -0.375, 1.375, -1.375}),
                                   make(4, {0, 0.625, -0.625, 1.5, -1.5})};
  NESTOR_CHECK(tile >= 2 && tile <= 4) << "Winograd tiles of " << tile;
  return known[tile - 2];
}

double winograd_growth(int64_t tile) {
  const Winograd& w = winograd(tile);
  const auto sum = [](const Row& r) {
    double total = 0;
    for (const double v : r) total += std::abs(v);
    return total;
  };
  double most = 0;
  for (const Row& row : w.output) {
    double total = 0;
    for (size_t k = 0; k < row.size(); ++k) total += std::abs(row[k]) * sum(w.weight[k]) * sum(w.input[k]);
    most = std::max(most, total);
  }
  return most * most / 9;
}

}  // namespace nestor::ops

// TopK, place by place, beside a stable sort of each row.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "catch.h"
#include "nestor/error.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

struct Case {
  DType type = DType::f32;
  int64_t outer = 1, n = 1, inner = 1, k = 1;  // along the dimension in the middle
  bool largest = true;

  Graph graph() const {
    return graph_of(fmt::format(
        R"({{"opset": 11, "inputs": [{{"name": "x", "dtype": "{}", "shape": [{}, {}, {}]}}],
            "outputs": ["y", "i"], "weights": {{"k": {{"dtype": "i64", "shape": [1], "data": [{}]}}}},
            "nodes": [{{"op": "TopK", "inputs": ["x", "k"], "outputs": ["y", "i"],
                       "attrs": {{"axis": 1, "largest": {}}}}}]}})",
        name_of(type), outer, n, inner, k, largest ? 1 : 0));
  }

  Values wanted(const Tensor& x) const {
    Values out = {{"y", Tensor(type, {outer, k, inner})}, {"i", Tensor(DType::i64, {outer, k, inner})}};
    const auto before = [&](int64_t a, int64_t b) {  // NaN is the largest
      if (!is_float(type)) return largest ? x.get_int(a) > x.get_int(b) : x.get_int(a) < x.get_int(b);
      const double u = x.get(a), v = x.get(b);
      if (std::isnan(u) || std::isnan(v)) return largest ? !std::isnan(v) : !std::isnan(u);
      return largest ? u > v : u < v;
    };
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t e = 0; e < inner; ++e) {
        const auto at = [&](int64_t j) { return (o * n + j) * inner + e; };
        std::vector<int64_t> order(static_cast<size_t>(n));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return before(at(a), at(b)); });
        for (int64_t p = 0; p < k; ++p) {
          const int64_t to = (o * k + p) * inner + e, from = order[static_cast<size_t>(p)];
          out["i"].set_int(to, from);
          if (is_float(type))
            out["y"].set(to, x.get(at(from)));
          else
            out["y"].set_int(to, x.get_int(at(from)));
        }
      }
    return out;
  }
};

bool same(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double u = a.get(i), v = b.get(i);
    const bool alike =
        is_float(a.dtype()) ? u == v || (std::isnan(u) && std::isnan(v)) : a.get_int(i) == b.get_int(i);
    if (!alike || std::signbit(u) != std::signbit(v)) return false;
  }
  return true;
}

// Few different values, so that many are equal.
void fill(Tensor& x, std::mt19937_64& rng) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto r = static_cast<int64_t>(rng() % 24);
    if (is_float(x.dtype()))
      x.set(i, r < 14 ? 0.25 * static_cast<double>(r - 7)
                      : std::vector<double>{0.0, -0.0, kInf, -kInf, NAN, -NAN, 1e-42, -1e-42, 3e38,
                                            -3e38}[static_cast<size_t>(r - 14)]);
    else if (x.dtype() == DType::u8)
      x.set_int(i, r < 20 ? r : 255);
    else
      x.set_int(i, r == 0 && x.dtype() == DType::i32  ? std::numeric_limits<int32_t>::min()
                   : r < 8 && x.dtype() == DType::i64 ? (r % 2 ? std::numeric_limits<int64_t>::max() - r / 4
                                                               : std::numeric_limits<int64_t>::min() + r / 4)
                   : r == 1                           ? std::numeric_limits<int8_t>::max()
                                                      : r - 12);
  }
}

}  // namespace

TEST_CASE("TopK is the beginning of a stable sort") {
  std::mt19937_64 rng(11);
  for (int round = 0; round < 60; ++round) {
    Case c;
    c.type =
        std::vector<DType>{DType::f32, DType::f64, DType::i64, DType::i32, DType::i8, DType::u8}[rng() % 6];
    c.outer = 1 + static_cast<int64_t>(rng() % 3);
    c.inner = 1 + static_cast<int64_t>(rng() % 3);
    c.n = std::vector<int64_t>{1, 2, 5, 33, 257, 700}[rng() % 6];
    c.k = std::min<int64_t>(c.n, std::vector<int64_t>{0, 1, 3, 40}[rng() % 4]);
    c.largest = rng() % 2;
    INFO(name_of(c.type) << " " << c.outer << "x" << c.n << "x" << c.inner << " k " << c.k << " "
                         << c.largest);
    Graph g = c.graph();
    CHECK(count(g, "TopK") == 0);
    Values in = random_inputs(g);
    fill(in.at("x"), rng);
    const Values wanted = c.wanted(in.at("x"));
    const Values plain = run_unfused(g, in);
    optimize(g, evaluate_by_interpreter);
    const Partition p = partition(g);
    CHECK(p.funcs.size() <= 10);
    const Values fused = run(g, p, in);
    for (const char* name : {"y", "i"}) {
      CHECK(same(plain.at(name), wanted.at(name)));
      CHECK(same(fused.at(name), wanted.at(name)));
    }
  }
}

TEST_CASE("TopK of many places puts all elements in order") {
  std::mt19937_64 rng(12);
  for (const DType type : {DType::f32, DType::i64}) {
    const Case c{type, 2, 4100, 1, 4097};
    const Graph g = c.graph();
    CHECK(count(g, "Order") == 1);
    Values in = random_inputs(g);
    fill(in.at("x"), rng);
    const Values wanted = c.wanted(in.at("x")), got = run_unfused(g, in);
    for (const char* name : {"y", "i"}) CHECK(same(got.at(name), wanted.at(name)));
  }
}

TEST_CASE("TopK that can't be is refused by name") {
  const auto error_of = [](const Case& c) -> std::string {
    try {
      c.graph();
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  CHECK(error_of({DType::f32, 1, 5, 1, 6}).find("`k` is 6, along an axis of 5 elements") !=
        std::string::npos);
  CHECK(error_of({DType::f32, 1, 5, 1, -1}).find("`k` is -1") != std::string::npos);
  CHECK(error_of({DType::boolean, 1, 5, 1, 2}).find("bool") != std::string::npos);
}

// Pools that round up, over images of any size: the last window may begin in the image and end behind it.
#include <cmath>

#include "catch.h"
#include "tests/driver/open_model.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Row {
  int kernel, stride, begin, end;
};

std::string pool(const Row& r, const char* height) {
  const auto text = [](int n) { return std::to_string(n); };
  return R"({"name": "pool", "opset": 19, "outputs": ["y"],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 3, )" +
         std::string(height) + R"(, 4]}],
    "nodes": [{"op": "MaxPool", "inputs": ["x"], "outputs": ["y"], "attrs": {"ceil_mode": 1,
      "kernel_shape": [)" +
         text(r.kernel) + R"(, 1], "strides": [)" + text(r.stride) + R"(, 1], "pads": [)" + text(r.begin) +
         ", 0, " + text(r.end) + ", 0]}}]}";
}

// As ONNX Runtime and PyTorch have it: windows begin in the image or in the padding before it.
int64_t windows(const Row& r, int64_t in) {
  const double span = static_cast<double>(in + r.begin + r.end - r.kernel);
  const auto out = static_cast<int64_t>(std::ceil(span / r.stride)) + 1;
  return (out - 1) * r.stride >= in + r.begin ? out - 1 : out;
}

Tensor largest(const Row& r, const Tensor& x, int64_t in) {
  const int64_t out = windows(r, in);
  Tensor y(DType::f32, {1, 3, out, 4});
  for (int64_t i = 0; i < 3 * out * 4; ++i) {
    const int64_t c = i / 4 / out, first = i / 4 % out * r.stride - r.begin;
    double most = -INFINITY;
    for (int64_t row = std::max<int64_t>(first, 0); row < std::min(first + r.kernel, in); ++row)
      most = std::max(most, x.get((c * in + row) * 4 + i % 4));
    y.set(i, most);
  }
  return y;
}

}  // namespace

TEST_CASE("a pool that rounds up has the windows that begin in the image, whatever its size") {
  for (const Row& r : {Row{3, 2, 0, 0},
                       {2, 2, 0, 0},
                       {3, 2, 1, 1},
                       {1, 2, 0, 0},
                       {2, 4, 0, 0},
                       {5, 3, 0, 0},
                       {3, 4, 1, 0},
                       {2, 3, 0, 1}}) {
    const OpenModel m(pool(r, "\"h\""));
    const auto run = make_executor(m.compiled());
    for (int64_t h = std::max(1, r.kernel - r.begin - r.end - r.stride + 1); h < 12; ++h) {
      INFO("windows of " << r.kernel << " by " << r.stride << " over " << r.begin << "+" << h << "+"
                         << r.end);
      const NamedTensors x = {{"x", Tensor::random(DType::f32, {1, 3, h, 4}, 5)}};
      const NamedTensors want = {{"y", largest(r, x.at("x"), h)}};
      check_equal(run->run(x), want);
      check_equal(m.fixed(x), want);
    }
  }
}

TEST_CASE("a pool whose window is larger than the image by its stride is refused") {
  const OpenModel m(pool({5, 3, 0, 0}, "\"h\""));
  auto run = make_executor(m.compiled());
  CHECK_THROWS_WITH(run->fit({{1, 3, 2, 4}}), Catch::Matchers::ContainsSubstring("3 <= h must hold"));
}

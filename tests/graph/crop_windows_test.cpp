// Parts of a convolution's weights that only meet padding are removed; the sums stay the same.
#include "catch.h"
#include "nestor/ops.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

using Ints = std::vector<int64_t>;

// The kernel and the paddings that are left.
std::pair<Ints, Ints> left(const std::string& attrs, const Ints& x, const Ints& w) {
  INFO(attrs);
  std::string shape;
  for (const int64_t n : x) shape += (shape.empty() ? "" : ",") + std::to_string(n);
  Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [)" + shape +
                     R"(]}], "outputs": ["y"], "nodes": [{"op": "Conv", "inputs": ["x", "w"],
                     "outputs": ["y"], "attrs": {)" +
                     attrs + "}}]}");
  m.initializers.emplace_back("w", Tensor::random(DType::f32, w, 3));
  Graph g = build_graph(m);
  const Values inputs = {{"x", Tensor::random(DType::f32, x, 4)}}, before = run_unfused(g, inputs);
  crop_windows(g, evaluate_by_interpreter);
  check_close(run_unfused(g, inputs), before, 1e-6);
  const Node& n = g.nodes.at(0);
  const Ints& kernel = g.values[static_cast<size_t>(n.inputs[1])].constant.shape();
  return {Ints(kernel.begin() + 2, kernel.end()), OpContext(g, n).get_ints("pads", {})};
}

using Left = std::pair<Ints, Ints>;

}  // namespace

TEST_CASE("taps that meet nothing but padding are cut off, at both ends and in each dimension") {
  CHECK(left(R"("pads": [24,0], "dilations": [4])", {1, 2, 16}, {3, 2, 7}) == Left{{4}, {12, 0}});
  CHECK(left(R"("pads": [0,24], "dilations": [4])", {1, 2, 16}, {3, 2, 7}) == Left{{4}, {0, 12}});
  CHECK(left(R"("pads": [36,36,36,36], "dilations": [36,36])", {1, 2, 5, 6}, {3, 2, 3, 3}) ==
        Left{{1, 1}, {0, 0, 0, 0}});
  CHECK(left(R"("auto_pad": "SAME_UPPER", "dilations": [1,8], "kernel_shape": [3,3])", {1, 2, 5, 6},
             {3, 2, 3, 3}) == Left{{3, 1}, {1, 0, 1, 0}});
  CHECK(left(R"("pads": [9,2,4,5], "strides": [3,2], "dilations": [3,1], "group": 2)", {2, 4, 4, 3},
             {4, 2, 4, 3})
            .first[0] < 4);
  CHECK(left(R"("pads": [2,2,2,2,2,2], "dilations": [2,2,2])", {1, 1, 2, 2, 9}, {1, 1, 3, 3, 3}).first ==
        Ints{1, 1, 3});
}

TEST_CASE("taps that meet the image somewhere stay, and so does what no padding could stand for") {
  CHECK(left(R"("pads": [1,1,1,1])", {1, 2, 5, 5}, {3, 2, 3, 3}) == Left{{3, 3}, {1, 1, 1, 1}});
  CHECK(left(R"("pads": [3,0])", {1, 1, 1}, {1, 1, 4}) == Left{{1}, {0, 0}});
  CHECK(left(R"("pads": [2,0], "strides": [9])", {1, 1, 4}, {1, 1, 3}).first == Ints{1});
  CHECK(left(R"("pads": [4,0], "dilations": [3])", {1, 1, 1}, {1, 1, 2}).first == Ints{1});
  CHECK(left(R"("pads": [7,7])", {1, 2, 3}, {1, 2, 1}) == Left{{1}, {7, 7}});  // outputs of padding alone
}

TEST_CASE("random windows make the same sums without the taps that were cut off") {
  uint64_t seed = 1;
  const auto draw = [&](int64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(seed >> 33) % below;
  };
  int cut = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t in = 1 + draw(7), kernel = 1 + draw(5), dilation = 1 + draw(5), stride = 1 + draw(4);
    const int64_t begin = draw(12), end = draw(12), extent = (kernel - 1) * dilation + 1;
    if (in + begin + end < extent) continue;
    const auto list = [](const Ints& v) {
      std::string out;
      for (const int64_t n : v) out += (out.empty() ? "[" : ",") + std::to_string(n);
      return out + "]";
    };
    cut += left("\"pads\": " + list({begin, end}) + ", \"strides\": " + list({stride}) +
                    ", \"dilations\": " + list({dilation}),
                {1, 2, in}, {2, 2, kernel})
               .first[0] < kernel;
  }
  CHECK(cut > 20);
}

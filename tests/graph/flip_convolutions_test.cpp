// A ConvTranspose without strides is a Conv with its filters turned around.
#include "catch.h"
#include "nestor/ops.h"
#include "src/graph/passes.h"
#include "tests/graph/run.h"

using namespace nestor;

namespace {

struct Case {
  std::string attrs;
  std::vector<int64_t> x, w;
  bool flips = true;
};

void check(const Case& c) {
  INFO(c.attrs);
  std::string shape;
  for (const int64_t n : c.x) shape += (shape.empty() ? "" : ",") + std::to_string(n);
  Model m = model_of(R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [)" + shape +
                     R"(]}], "outputs": ["y"], "nodes": [{"op": "ConvTranspose", "inputs": ["x", "w"],
                     "outputs": ["y"], "attrs": {)" +
                     c.attrs + "}}]}");
  m.initializers.emplace_back("w", Tensor::random(DType::f32, c.w, 3));
  Graph g = build_graph(m);
  const Values inputs = {{"x", Tensor::random(DType::f32, c.x, 4)}}, before = run_unfused(g, inputs);
  flip_convolutions(g, {});
  CHECK(count(g, "Conv") == c.flips);
  CHECK(count(g, "ConvTranspose") == !c.flips);
  check_close(run_unfused(g, inputs), before, 1e-6);
}

}  // namespace

TEST_CASE("A ConvTranspose without strides becomes a Conv, others stay") {
  for (const Case& c : std::vector<Case>{
           {R"("pads": [1,1,1,1])", {2, 3, 5, 4}, {3, 4, 3, 3}},
           {R"("pads": [0,2], "dilations": [2])", {1, 2, 6}, {2, 3, 3}},
           {R"("group": 2, "dilations": [1,2])", {1, 4, 3, 5}, {4, 3, 2, 3}},
           {R"("auto_pad": "SAME_LOWER")", {1, 2, 3, 4, 3}, {2, 2, 2, 3, 4}},
           {R"("auto_pad": "SAME_UPPER")", {1, 2, 7}, {2, 2, 4}},
           {R"("auto_pad": "VALID", "dilations": [3], "output_padding": [2])", {1, 2, 7}, {2, 2, 2}},
           {R"("output_shape": [7])", {1, 2, 6}, {2, 2, 5}},
           {R"("pads": [3,0])", {1, 2, 7}, {2, 2, 3}, false},
           {R"("strides": [2])", {1, 2, 7}, {2, 2, 3}, false},
           {R"("pads": [4,4])", {1, 2, 2}, {2, 2, 7}, false},
           {R"("group": 2, "strides": [2])", {1, 4, 5}, {4, 3, 3}, false}})
    check(c);
}

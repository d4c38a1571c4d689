// Resize to sizes that runs decide: by constant scales, and to the size of another input.
#include "catch.h"
#include "nestor/schedule.h"
#include "nestor/walk.h"
#include "tests/driver/open_model.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

std::string resize(const std::string& inputs, const std::string& nodes, const std::string& weights,
                   const std::string& mode, const std::string& where) {
  return R"({"name": "resize", "opset": 18, "outputs": ["y"],
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 3, "h", "w"]})" +
         inputs + R"(], "nodes": [)" + nodes + R"(, "outputs": ["y"], "attrs": {"mode": ")" + mode +
         R"(", "coordinate_transformation_mode": ")" + where + R"("}}], "weights": {)" + weights + "}}";
}

std::string by_scales(const std::string& scale, const std::string& mode, const std::string& where) {
  return resize("", R"({"op": "Resize", "inputs": ["x", "", "s"])",
                R"("s": {"dtype": "f32", "shape": [4], "data": [1, 1, )" + scale + ", " + scale + "]}", mode,
                where);
}

std::string as_large_as(const std::string& mode, const std::string& where) {
  return resize(R"(, {"name": "like", "dtype": "f32", "shape": [1, "h2", "w2"]})", R"(
    {"op": "Shape", "inputs": ["x"], "outputs": ["nc"], "attrs": {"start": 0, "end": 2}},
    {"op": "Shape", "inputs": ["like"], "outputs": ["hw"], "attrs": {"start": 1}},
    {"op": "Concat", "inputs": ["nc", "hw"], "outputs": ["to"], "attrs": {"axis": 0}},
    {"op": "Resize", "inputs": ["x", "", "", "to"])",
                "", mode, where);
}

const char* const kModes[] = {"nearest", "linear", "cubic"};
const char* const kWheres[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"};

}  // namespace

TEST_CASE("an image of any size is resized by a scale as one of known size is") {
  for (const char* scale : {"2", "1.5", "0.4"})
    for (const std::string mode : kModes)
      for (const std::string where : kWheres) {
        INFO(mode << ", " << where << ", by " << scale);
        const OpenModel m(by_scales(scale, mode, where));
        const auto run = make_executor(m.compiled());
        for (const std::vector<int64_t>& shape :
             {std::vector<int64_t>{1, 3, 3, 3}, {2, 3, 40, 33}, {1, 3, 7, 64}}) {
          const NamedTensors x = {{"x", Tensor::random(DType::f32, shape, 5)}};
          check_equal(run->run(x), m.fixed(x), Tolerance{1e-4, 1e-4});
        }
      }
}

TEST_CASE("an image is resized to the size that another input has, one pixel too") {
  for (const std::string mode : kModes)
    for (const std::string where : kWheres) {
      INFO(mode << ", " << where);
      const OpenModel m(as_large_as(mode, where));
      const auto run = make_executor(m.compiled());
      for (const std::vector<int64_t>& s :
           {std::vector<int64_t>{5, 7, 1, 1}, {33, 40, 20, 75}, {4, 80, 30, 9}, {6, 6, 6, 6}}) {
        const NamedTensors x = {{"x", Tensor::random(DType::f32, {1, 3, s[0], s[1]}, 5)},
                                {"like", Tensor(DType::f32, {1, s[2], s[3]})}};
        check_equal(run->run(x), m.fixed(x), Tolerance{1e-4, 1e-4});
      }
    }
}

TEST_CASE("where pixels lie is computed once for each column, not in every row") {
  for (const std::string mode : kModes)
    for (const std::string& text : {as_large_as(mode, "half_pixel"), by_scales("2", mode, "half_pixel")}) {
      const CompiledModel open = OpenModel(text).compiled();
      REQUIRE(open.funcs.size() == 1);
      const PrimFunc& f = open.funcs[0].scheduled;
      for (const std::string& block : block_names(f)) {
        const bool of_rows = find_block(f, block)->iters.size() > 1;
        for_each_expr(find_block(f, block)->body, [&](const Expr& e) {
          const auto* b = e.as<Binary>();
          if (of_rows && b) CHECK((b->op != BinaryOp::div && b->op != BinaryOp::mod));
        });
      }
    }
}

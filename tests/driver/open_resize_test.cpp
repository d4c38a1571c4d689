// Resize to sizes that runs decide: by constant scales, and to the size of another input.
#include <algorithm>

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

namespace {

// Of rows, half_pixel: the mean of two neighbours by their distances.
double between(const Tensor& x, int64_t row, int64_t in, int64_t out, int64_t i) {
  const double at =
      std::clamp((static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5,
                 0.0, static_cast<double>(in - 1));
  const auto first = static_cast<int64_t>(at);
  const double rest = at - static_cast<double>(first);
  return x.get(row * in + first) * (1 - rest) + x.get(row * in + std::min(first + 1, in - 1)) * rest;
}

}  // namespace

TEST_CASE("rows that are long are resized as short ones are, of known sizes and of open ones") {
  for (const char* width : {"\"w\"", "90", "300"})
    for (const int64_t out : {100, 113, 130, 260}) {
      const std::string text = R"({"name": "rows", "opset": 18, "outputs": ["y"],
        "inputs": [{"name": "x", "dtype": "f32", "shape": [2, )" +
                               std::string(width) + R"(]}],
        "nodes": [{"op": "Resize", "inputs": ["x", "", "", "to"], "outputs": ["y"], "attrs": {"mode": "linear"}}],
        "weights": {"to": {"dtype": "i64", "shape": [2], "data": [2, )" +
                               std::to_string(out) + "]}}}";
      const auto run = make_executor(OpenModel(text).compiled());
      const int64_t in = width[0] == '"' ? 90 : std::stoll(width);
      INFO(width << " to " << out);
      const Tensor x = Tensor::random(DType::f32, {2, in}, 5);
      Tensor want(DType::f32, {2, out});
      for (int64_t i = 0; i < 2 * out; ++i) want.set(i, between(x, i / out, in, out, i % out));
      check_equal(run->run({{"x", x}}), {{"y", want}}, Tolerance{1e-5, 1e-5});
    }
}

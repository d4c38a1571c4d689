// Operators from text files.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/interpret.h"
#include "nestor/print.h"
#include "tests/ops/op_case.h"
#include "tests/own_file.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

// Writes a file and registers it; gives back the error's text, or "".
std::string registered(const std::string& name, const std::string& text) {
  const std::string path = own_file(name + ".nest");
  std::ofstream(path) << text;
  try {
    register_nest_file(path);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

const char* kScale = R"(# domain: test.scale
func Scale2[N, M](in X: f32[N, M], const W: f32[M], out Y: f32[N, M*2]) {
  for i in N, j in M*2 {
    block Y(vi: S N = i, vj: S M*2 = j) {
      Y[vi, vj] = X[vi, vj % M] * W[vj % M]
    }
  }
}
)";

void ensure_scale() {
  static const std::string error = registered("scale", kScale);
  REQUIRE(error == "");
}

}  // namespace

TEST_CASE("An operator from a file computes what its text says") {
  for (int twice = 0; twice < 2; ++twice)
    register_nest_file(NESTOR_SOURCE_DIR "/examples/custom_op/rms_norm.nest");
  const PrimFunc f =
      OpCase("RmsNorm", 1, "com.example").input({3, 5}).constant(Tensor(DType::f32, {5})).build();
  INFO(print(f));
  CHECK(f.dims.empty());
  std::vector<Tensor> args = random_args(f, 11);
  REQUIRE(args.size() == 3);
  interpret(f, args);
  for (int64_t i = 0; i < 3; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < 5; ++j) squares += args[0].get(i * 5 + j) * args[0].get(i * 5 + j);
    for (int64_t j = 0; j < 5; ++j) {
      const double wanted = args[0].get(i * 5 + j) / std::sqrt(squares / 5 + 1e-5) * args[1].get(j);
      CHECK(std::abs(args[2].get(i * 5 + j) - wanted) < 1e-6);
    }
  }
}

TEST_CASE("Dimensions come from the inputs, and outputs may compute with them") {
  ensure_scale();
  OpCase c("Scale2", 1, "test.scale");
  c.input({3, 4}).input({4});
  CHECK(c.infer() == std::vector<TensorType>{{DType::f32, {3, 8}}});
  const std::string text = print(c.build());
  CHECK_THAT(text, ContainsSubstring("for i in 3, j in 8") && ContainsSubstring("vj%4"));
}

TEST_CASE("A constant of one element replaces a parameter of a file's operator") {
  ensure_scale();
  Tensor three(DType::f32, {1});
  three.set(0, 3);
  const PrimFunc f = OpCase("Scale2", 1, "test.scale").input({2, 1}).constant(three).build();
  INFO(print(f));
  REQUIRE(f.params.size() == 2);
  std::vector<Tensor> args = random_args(f, 5);
  interpret(f, args);
  CHECK(args[1].get(3) == 3 * args[0].get(1));
}

TEST_CASE("Shapes that don't fit are refused with the parameter and the dimensions") {
  ensure_scale();
  const auto node = [] { return OpCase("Scale2", 1, "test.scale"); };
  CHECK_THAT(node().input({3, 4}).input({5}).error(),
             ContainsSubstring("input 1 is f32[5], W of Scale2 is f32[M]") && ContainsSubstring("M = 4"));
  CHECK_THAT(node().input({3}).input({5}).error(), ContainsSubstring("X of Scale2 is f32[N,M]"));
  CHECK_THAT(node().input(DType::f64, {3, 4}).input({4}).error(), ContainsSubstring("f64[3,4]"));
}

TEST_CASE("A dimension that no input has is an attribute") {
  REQUIRE(registered("ramp", R"(# domain: test.ramp
func Ramp[K](in X: f32[1], out Y: f32[K]) {
  for i in K {
    block Y(vi: S K = i) {
      Y[vi] = X[0] + f32(vi)
    }
  }
}
)") == "");
  OpCase c("Ramp", 1, "test.ramp");
  c.input({1});
  CHECK_THAT(c.error(), ContainsSubstring("dimension K") && ContainsSubstring("attribute `K`"));
  c.attr("K", int64_t{6});
  CHECK(c.infer() == std::vector<TensorType>{{DType::f32, {6}}});
  CHECK_THAT(OpCase("Ramp", 1, "test.ramp").input({1}).attr("K", int64_t{-2}).error(),
             ContainsSubstring("K is -2"));
}

TEST_CASE("Files that can't be registered say why") {
  CHECK_THAT(registered("relu",
                        "func Relu(in X: f32[2], out Y: f32[2]) {\n  for i in 2 {\n    block Y(vi: S 2 = i) "
                        "{\n      Y[vi] = X[vi]\n    }\n  }\n}\n"),
             ContainsSubstring("`Relu` is there already") && ContainsSubstring("# domain"));
  CHECK_THAT(registered("broken", "func F(in X: f32[2], out Y: f32[2]) {\n  Y[0] = \n}\n"),
             ContainsSubstring("broken.nest:"));
  CHECK_THAT(registered("empty", "# domain: d\n"), ContainsSubstring("no function"));
  CHECK_THAT(registered("pattern", "# pattern: fancy\n"), ContainsSubstring("no pattern `fancy`"));
  CHECK_THROWS_AS(register_nest_file("/nowhere/x.nest"), UserError);
}

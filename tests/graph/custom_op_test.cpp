// A model with an operator that only a text file defines.
#include <cmath>

#include "catch.h"
#include "nestor/ops.h"
#include "nestor/print.h"
#include "tests/graph/run.h"

using namespace nestor;

TEST_CASE("A model uses an operator of a .nest file, fused like any other") {
  const std::string folder = NESTOR_SOURCE_DIR "/examples/custom_op";
  register_nest_file(folder + "/rms_norm.nest");
  const Graph g = build_graph(read_model(folder + "/model.json"));
  const Partition p = partition(g);
  REQUIRE(p.funcs.size() == 1);  // the Relu is in the operator's function
  INFO(print(p.funcs[0]));
  CHECK(p.funcs[0].allocs.size() == 3);

  const Values inputs = random_inputs(g);
  const Tensor y = run(g, p, inputs).at("y");
  check_close(run_unfused(g, inputs), {{"y", y}}, 1e-6);
  const double weights[] = {1, 0.5, 2, -1, 0.25, 1.5, -0.5, 1};
  const Tensor& x = inputs.at("x");
  for (int64_t i = 0; i < 4; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < 8; ++j) squares += x.get(i * 8 + j) * x.get(i * 8 + j);
    for (int64_t j = 0; j < 8; ++j) {
      const double wanted = x.get(i * 8 + j) / std::sqrt(squares / 8 + 1e-5) * weights[j];
      CHECK(std::abs(y.get(i * 8 + j) - std::max(0.0, wanted)) < 1e-5);
    }
  }
}

TEST_CASE("An operator without its domain is refused with the domain that has it") {
  register_nest_file(NESTOR_SOURCE_DIR "/examples/custom_op/rms_norm.nest");
  Model m = read_model(NESTOR_SOURCE_DIR "/examples/custom_op/model.json");
  m.nodes[0].domain = "";
  try {
    build_graph(m);
    FAIL("accepted");
  } catch (const UserError& e) {
    INFO(e.what());
    CHECK(e.diagnostic().message.find("isn't supported in ONNX's domain") != std::string::npos);
    CHECK(e.diagnostic().hint == "there is one in the domain `com.example`");
  }
}

// Products whose rows are a size that a run decides: one kernel with a body for few rows and one for many.
#include "catch.h"
#include "nestor/specialize.h"
#include "tests/driver/open_model.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

// x times weights of inner x columns, and a vector that is added.
std::string product(const std::string& shape, int inner, int columns) {
  const std::string n = std::to_string(columns);
  const std::string text = R"({"name": "layer", "opset": 17, "outputs": ["y"],
  "inputs": [{"name": "x", "dtype": "f32", "shape": )" +
                           shape + R"(}],
  "nodes": [
    {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["p"]},
    {"op": "Add", "inputs": ["p", "b"], "outputs": ["q"]},
    {"op": "Relu", "inputs": ["q"], "outputs": ["y"]}],
  "weights": {"w": {"dtype": "f32", "shape": [)" +
                           std::to_string(inner) + ", " + n + R"(], "data": "ramp"},
              "b": {"dtype": "f32", "shape": [)" +
                           n + R"(], "data": "ramp"}}})";
  return with_ramp(with_ramp(text, inner * columns, 0.01), columns, 0.1);
}

void check_at(const OpenModel& m, Executor& executor, const std::vector<int64_t>& shape) {
  const NamedTensors x = {{"x", Tensor::random(DType::f32, shape, 5)}};
  check_equal(executor.run(x), m.fixed(x), Tolerance{1e-4, 1e-4});
}

}  // namespace

TEST_CASE("one row and many rows of a product have a body each, over the same weights") {
  for (const int columns : {3, 10, 64, 150})
    for (const int threads : {1, 2}) {
      OpenModel m(product(R"(["batch", 40])", 40, columns));
      m.options.threads = m.options.target.cores = threads;
      INFO(columns << " columns, " << threads << " threads");

      const CompiledModel open = m.compiled();
      CHECK(open.funcs.at(0).choice.origin == "default");
      CHECK_FALSE(open.funcs.at(0).choice.reduced);
      const Tensor one = Tensor::random(DType::f32, {1, 40}, 5);
      CHECK(open.plan->weights.bytes() <= m.known({{"x", one}}).plan->weights.bytes() * 5 / 4 + 64 * 40);
      auto executor = make_executor(open);
      for (const int64_t batch : {0, 1, 2, 3, 5, 6, 7, 8, 31, 33}) check_at(m, *executor, {batch, 40});
    }
}

TEST_CASE("products of open rows are compiled for all vector widths") {
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "znver3", "cortex-a76"})
    for (const int columns : {16, 48, 100, 768}) {
      OpenModel m(product(R"(["batch", 40])", 40, columns));
      m.options.target = parse_target(target);
      INFO(target << ", " << columns << " columns");

      const CompiledModel open = m.compiled();
      CHECK(open.funcs.at(0).choice.origin == "default");
      CHECK(open.funcs[0].fewest_rows);
    }
}

TEST_CASE("a sum over rows of several samples that lies in memory has their size") {
  OpenModel m(product(R"(["batch", "seq", 40])", 40, 64));
  m.options.schedules = naive_schedules();

  auto executor = make_executor(m.compiled());
  for (const auto& [batch, seq] : {std::pair{1, 1}, {0, 3}, {4, 16}, {30, 70}})
    check_at(m, *executor, {batch, seq, 40});
}

TEST_CASE("rows of several samples are rows of one product") {
  const OpenModel m(product(R"(["batch", "seq", 40])", 40, 64));

  const CompiledModel open = m.compiled();
  REQUIRE(open.funcs.size() == 1);
  REQUIRE(open.funcs[0].fewest_rows);
  CHECK(open.funcs[0].scheduled.dims.size() == 1);
  auto executor = make_executor(open);
  for (const auto& [batch, seq] : {std::pair{1, 1}, {0, 3}, {3, 0}, {1, 5}, {5, 1}, {4, 16}, {3, 7}})
    check_at(m, *executor, {batch, seq, 40});
}

TEST_CASE("the fewest rows are those of one sample") {
  const OpenModel m(product(R"(["batch", 12, 40])", 40, 64));

  const CompiledModel open = m.compiled();
  REQUIRE(open.funcs.at(0).fewest_rows);
  CHECK(as_int(open.funcs[0].fewest_rows->func.params.at(0).decl.shape.at(0)) == 12);
  auto executor = make_executor(open);
  for (const int64_t batch : {0, 1, 2, 3, 7}) check_at(m, *executor, {batch, 12, 40});
}

TEST_CASE("samples of many rows are computed one after the other") {
  const OpenModel m(product(R"(["batch", 64, 40])", 40, 64));

  const CompiledModel open = m.compiled();
  CHECK_FALSE(open.funcs.at(0).fewest_rows);
  CHECK(open.funcs[0].scheduled.dims.empty());
  auto executor = make_executor(open);
  for (const int64_t batch : {0, 1, 3}) check_at(m, *executor, {batch, 64, 40});
}

TEST_CASE("kernels for chosen rows read the weights in the layout of those for any rows") {
  for (const int columns : {48, 64, 200}) {
    const OpenModel m(product(R"(["batch", 40])", 40, columns));
    INFO(columns << " columns");

    const SpecializedModel s = compile_model(m.path, m.options, {{"batch", {1, 8, 33}}});
    CHECK(s.weight_bytes == 0);
    auto executor = make_executor(s.model);
    for (const int64_t batch : {0, 1, 2, 8, 9, 33}) check_at(m, *executor, {batch, 40});
  }
}

TEST_CASE("rows of bytes are multiplied by the instruction that does so for known rows") {
  std::string values;
  for (int i = 0; i < 40 * 64; ++i) values += (i ? "," : "") + std::to_string(i * 7 % 31 - 15);
  OpenModel m(R"({"name": "bytes", "opset": 17, "outputs": ["y"],
  "inputs": [{"name": "x", "dtype": "u8", "shape": ["batch", 40]}],
  "nodes": [{"op": "MatMulInteger", "inputs": ["x", "w"], "outputs": ["p"]},
            {"op": "Cast", "inputs": ["p"], "outputs": ["y"], "attrs": {"to": 1}}],
  "weights": {"w": {"dtype": "i8", "shape": [40, 64], "data": [)" +
              values + "]}}}");
  m.options.target.cores = 1;

  const CompiledModel open = m.compiled();
  CHECK(open.funcs.at(0).choice.origin == "default");
  CHECK_FALSE(open.funcs[0].choice.reduced);
  auto executor = make_executor(open);
  for (const int64_t batch : {0, 1, 2, 3, 7, 15, 33}) {
    const NamedTensors x = {{"x", Tensor::random(DType::u8, {batch, 40}, 5)}};
    check_equal(executor->run(x), m.fixed(x), Tolerance{0, 0});
  }
}

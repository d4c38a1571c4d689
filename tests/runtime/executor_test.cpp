#include <string>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/runtime.h"

using namespace nestor;

namespace {

// C = A + B and D = 2 * A over four floats, by hand in the kernel ABI.
int32_t add4(void* const* args, void*, void*) {
  for (int i = 0; i < 4; ++i)
    static_cast<float*>(args[2])[i] =
        static_cast<const float*>(args[0])[i] + static_cast<const float*>(args[1])[i];
  return 0;
}
int32_t twice4(void* const* args, void* workspace, void*) {
  auto* scratch = static_cast<float*>(workspace);
  for (int i = 0; i < 4; ++i) scratch[i] = 2 * static_cast<const float*>(args[0])[i];
  for (int i = 0; i < 4; ++i) static_cast<float*>(args[1])[i] = scratch[i];
  return 0;
}

// y = 2 * (x + w); z is a view of x.
std::shared_ptr<Plan> small_plan() {
  auto plan = std::make_shared<Plan>();
  plan->name = "small";
  plan->inputs = {{"x", DType::f32, {4}}};
  plan->outputs = {{"y", DType::f32, {4}}, {"z", DType::f32, {2, 2}}};
  plan->kernels = {"add4", "twice4"};
  plan->weights = Tensor(DType::u8, {64});
  for (int i = 0; i < 4; ++i) static_cast<float*>(plan->weights.data())[i] = 10.0f * static_cast<float>(i);
  plan->calls = {{0, {{Region::input, 0}, {Region::weights, 0}, {Region::arena, 0}}, 0, "add"},
                 {1, {{Region::arena, 0}, {Region::output, 0}}, 0, "twice"},
                 {-1, {{Region::input, 0}, {Region::output, 1}}, 16, "view"}};
  plan->arena_bytes = 64;
  plan->workspace_bytes = 64;
  return plan;
}

Tensor floats(std::vector<int64_t> shape) {
  Tensor t(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.size(); ++i) t.set(i, static_cast<double>(i + 1));
  return t;
}

std::string error_of(Executor& e, const NamedTensors& inputs) {
  try {
    e.run(inputs);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an executor follows its plan") {
  Executor e(small_plan(), {add4, twice4}, nullptr);
  const NamedTensors out = e.run({{"x", floats({4})}});
  for (int i = 0; i < 4; ++i) {
    CHECK(out.at("y").get(i) == 2 * (i + 1 + 10 * i));
    CHECK(out.at("z").get(i) == i + 1);
  }
  CHECK(out.at("z").shape() == std::vector<int64_t>{2, 2});
}

TEST_CASE("timing is per call and off by default") {
  Executor e(small_plan(), {add4, twice4}, nullptr);
  e.run({{"x", floats({4})}});
  CHECK(e.call_ns().empty());
  e.set_timing(true);
  e.run({{"x", floats({4})}});
  REQUIRE(e.call_ns().size() == 3);
  for (int64_t ns : e.call_ns()) CHECK(ns >= 0);
}

TEST_CASE("what is fed wrongly is named") {
  Executor e(small_plan(), {add4, twice4}, nullptr);
  CHECK_THAT(error_of(e, {}), Catch::Matchers::ContainsSubstring("input 'x' is not given") &&
                                  Catch::Matchers::ContainsSubstring("x: f32[4]"));
  CHECK_THAT(error_of(e, {{"x", floats({4})}, {"q", floats({4})}}),
             Catch::Matchers::ContainsSubstring("no input named 'q'"));
  CHECK_THAT(error_of(e, {{"x", floats({5})}}),
             Catch::Matchers::ContainsSubstring("wrong shape: the model takes f32[4], given is f32[5]"));
  CHECK_THAT(error_of(e, {{"x", floats({4}).cast(DType::f64)}}),
             Catch::Matchers::ContainsSubstring("wrong type"));
}

TEST_CASE("a plan that points outside is refused") {
  auto plan = small_plan();
  plan->calls[0].args[1].at = 128;
  CHECK_THROWS_AS(Executor(plan, {add4, twice4}, nullptr), InternalError);
  plan = small_plan();
  plan->calls[0].args[0].at = 1;
  CHECK_THROWS_AS(Executor(plan, {add4, twice4}, nullptr), InternalError);
  CHECK_THROWS_AS(Executor(small_plan(), {add4}, nullptr), InternalError);
}

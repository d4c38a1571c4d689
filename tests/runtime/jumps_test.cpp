// Plans with loops and branches.
#include "catch.h"
#include "nestor/error.h"
#include "nestor/runtime.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

int32_t twice(void* const* args, void*, void*) {
  *static_cast<float*>(args[1]) = 2 * *static_cast<const float*>(args[0]);
  return 0;
}
// y = s + x[0], and whether y is below x[1]
int32_t step(void* const* args, void*, void*) {
  const auto *s = static_cast<const float*>(args[0]), *x = static_cast<const float*>(args[1]);
  *static_cast<float*>(args[2]) = *s + x[0];
  *static_cast<uint8_t*>(args[3]) = *s + x[0] < x[1];
  return 0;
}

constexpr Place kX{Region::input, 0}, kTrips{Region::input, 1}, kCount{Region::arena, 0};
constexpr Place kFirst{Region::arena, 64}, kSecond{Region::arena, 128}, kBelow{Region::arena, 192};
constexpr Place moving(int64_t at) {
  return {Region::moving, at};
}

// y: 0 and x[0] added as often as `trips` says, while it is below x[1].
std::shared_ptr<Plan> loop_plan() {
  auto plan = std::make_shared<Plan>();
  plan->name = "loop";
  plan->inputs = {{"x", DType::f32, {2}}, {"trips", DType::i64, {}}};
  plan->outputs = {{"y", DType::f32, {}}};
  plan->kernels = {"twice", "step"};
  plan->weights = Tensor(DType::u8, {64});
  plan->arena_bytes = 256;
  plan->pointers = 3;
  plan->calls = {{kPoint, {{Region::weights, 0}, moving(0)}, 0, ""},
                 {kPoint, {kFirst, moving(1)}, 0, ""},
                 {kPoint, {kSecond, moving(2)}, 0, ""},
                 {kLoop, {kCount, kTrips}, 0, "Loop", 9},
                 {1, {moving(0), kX, moving(1), kBelow}, 0, "step"},
                 {kPoint, {moving(1), moving(0)}, 0, ""},
                 {kPoint, {moving(2), moving(1)}, 0, ""},
                 {kPoint, {moving(0), moving(2)}, 0, ""},
                 {kNext, {kCount, kTrips, kBelow}, 0, "Loop", 4},
                 {kCopy, {moving(0), {Region::output, 0}}, 4, "copy"}};
  return plan;
}

double result(Executor& e, double by, double end, int64_t trips) {
  Tensor x(DType::f32, {2}), n(DType::i64, {});
  x.set(0, by), x.set(1, end), n.set_int(0, trips);
  return e.run({{"x", x}, {"trips", n}}).at("y").get(0);
}

}  // namespace

TEST_CASE("a loop runs as often as is said, or until its condition fails") {
  Executor e(loop_plan(), {twice, step}, nullptr);
  CHECK(result(e, 1, 100, 0) == 0);
  CHECK(result(e, 1, 100, -3) == 0);
  CHECK(result(e, 1, 100, 1) == 1);
  CHECK(result(e, 1, 100, 4) == 4);
  CHECK(result(e, 1, 100, 5) == 5);
  CHECK(result(e, 3, 10, 100) == 12);
  e.set_timing(true);
  result(e, 1, 100, 7);
  CHECK(e.call_runs() == std::vector<int64_t>{1, 1, 1, 1, 7, 7, 7, 7, 7, 1});
}

TEST_CASE("a loop that goes on for longer than its limit is an error") {
  auto plan = loop_plan();
  plan->calls[8].bytes = 5;
  Executor e(plan, {twice, step}, nullptr);
  CHECK(result(e, 1, 100, 5) == 5);
  CHECK(result(e, 1, 5, 100) == 5);
  CHECK_THROWS_WITH(result(e, 1, 100, 6), ContainsSubstring("goes on for more than 5 iterations"));
}

TEST_CASE("a branch takes one side") {
  auto plan = std::make_shared<Plan>();
  plan->name = "branch";
  plan->inputs = {{"c", DType::boolean, {}}, {"x", DType::f32, {}}};
  plan->outputs = {{"y", DType::f32, {}}};
  plan->kernels = {"twice"};
  plan->weights = Tensor(DType::u8, {0});
  plan->calls = {{kSkip, {{Region::input, 0}}, 0, "If", 3},
                 {0, {{Region::input, 1}, {Region::output, 0}}, 0, "twice"},
                 {kSkip, {}, 0, "If", 4},
                 {kCopy, {{Region::input, 1}, {Region::output, 0}}, 4, "copy"}};
  Executor e(plan, {twice}, nullptr);
  Tensor x(DType::f32, {}), c(DType::boolean, {});
  x.set(0, 3);
  CHECK(e.run({{"x", x}, {"c", c}}).at("y").get(0) == 3);
  c.set_int(0, 1);
  CHECK(e.run({{"x", x}, {"c", c}}).at("y").get(0) == 6);
}

TEST_CASE("jumps to nowhere, and pointers that don't move, are refused") {
  auto plan = loop_plan();
  plan->calls[3].target = 11;
  CHECK_THROWS_AS(Executor(plan, {twice, step}, nullptr), InternalError);
  plan = loop_plan();
  plan->calls[0].args[1] = kFirst;
  CHECK_THROWS_AS(Executor(plan, {twice, step}, nullptr), InternalError);
  plan = loop_plan();
  plan->pointers = 2;
  CHECK_THROWS_AS(Executor(plan, {twice, step}, nullptr), InternalError);
}

// Loops and branches in artifacts: the table of calls that jumps, in C.
#include "catch.h"
#include "nestor/artifact.h"
#include "nestor/codegen.h"
#include "tests/codegen/small_artifact.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

constexpr Place moving(int64_t at) {
  return {Region::moving, at};
}

// y: x and the weights added as often as the model's second input says, while its third one holds, if it did
// at first. The sums change places among two buffers.
Plan looping(const std::vector<PrimFunc>& kernels) {
  Plan plan = plan_of(kernels, 1);
  const int64_t bytes = align_up(4 * kSize);
  const Place count{Region::arena, 2 * bytes}, trips{Region::input, 1}, goes_on{Region::input, 2};
  plan.inputs.push_back({"trips", DType::i64, {}});
  plan.inputs.push_back({"on", DType::boolean, {}});
  plan.outputs.resize(1);
  plan.arena_bytes = 2 * bytes + kAlignment;
  plan.pointers = 3;
  plan.calls = {{kPoint, {{Region::input, 0}, moving(0)}, 0, ""},
                {kPoint, {{Region::arena, 0}, moving(1)}, 0, ""},
                {kPoint, {{Region::arena, bytes}, moving(2)}, 0, ""},
                {kSkip, {goes_on}, 0, "If", 10},
                {kLoop, {count, trips}, 0, "Loop", 10},
                {0, {moving(0), {Region::weights, 0}, moving(1)}, 0, "add"},
                {kPoint, {moving(1), moving(0)}, 0, ""},
                {kPoint, {moving(2), moving(1)}, 0, ""},
                {kPoint, {moving(0), moving(2)}, 0, ""},
                {kNext, {count, trips, goes_on}, 9, "Loop", 5},
                {kCopy, {moving(0), {Region::output, 0}}, 4 * kSize, "copy"}};
  return plan;
}

}  // namespace

TEST_CASE("an artifact's loop runs as often as an input says, and fails beyond its limit") {
  Scratch scratch;
  const auto kernels = two_kernels(kSize);
  const auto model = load_artifact(write_artifact(looping(kernels), kernels, host_target(),
                                                  {scratch / "looping.so", "", WeightsPlace::automatic})
                                       .object);
  Tensor x(DType::f32, {kSize}), trips(DType::i64, {}), on(DType::boolean, {});
  for (int64_t i = 0; i < kSize; ++i) x.set(i, static_cast<double>(2 * i));
  const auto last = [&](int64_t count, bool holds) {
    trips.set_int(0, count), on.set_int(0, holds);
    return model->run({{"x", x}, {"trips", trips}, {"on", on}}).at("y/out").get(kSize - 1) / (kSize - 1);
  };
  for (const int64_t count : {0, 1, 2, 5, 9}) CHECK(last(count, true) == static_cast<double>(2 + count));
  CHECK(last(5, false) == 2);
  CHECK_THROWS_WITH(last(10, true), Catch::Contains("a loop goes on for more iterations"));
  CHECK(last(3, true) == 5);
}

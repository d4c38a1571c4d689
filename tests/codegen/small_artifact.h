// A model of two kernels as an artifact in a folder of its own.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "nestor/artifact.h"
#include "nestor/codegen.h"

namespace nestor::testing {

namespace fs = std::filesystem;

inline Buffer f32(const char* name) {
  return make_buffer(name, {DType::f32});
}

// T = X + W, and Y = 3 * T in a parallel loop with a temporary of its own.
inline std::vector<PrimFunc> two_kernels(int64_t n) {
  Buffer x = f32("X"), w = f32("W"), t = f32("T"), y = f32("Y"), s = f32("S");
  Var i = make_var("i"), j = make_var("j");
  auto param = [&](Role role, const Buffer& b) { return Param{role, {b, {n}, Scope::global, {}}}; };
  PrimFunc add{"add",
               {},
               {param(Role::in, x), param(Role::constant, w), param(Role::out, t)},
               {},
               make::loop(i, n, make::store(t, {i}, make::load(x, {i}) + make::load(w, {i})))};
  Stmt body = make::seq({make::store(s, {Expr(0)}, make::load(t, {j}) * make::imm(3, {DType::f32})),
                         make::store(y, {j}, make::load(s, {Expr(0)}))});
  PrimFunc triple{"triple",
                  {},
                  {param(Role::in, t), param(Role::out, y)},
                  {},
                  make::loop(j, n, make::alloc({s, {Expr(1)}, Scope::global, {}}, body), ForKind::parallel)};
  return {add, triple};
}

inline constexpr int64_t kSize = 1000;

inline Plan plan_of(const std::vector<PrimFunc>& kernels, int threads) {
  Plan plan;
  plan.name = "small";
  plan.inputs = {{"x", DType::f32, {kSize}}};
  plan.outputs = {{"y/out", DType::f32, {kSize}}, {"int", DType::f32, {kSize}}};
  plan.threads = threads;
  plan.weights = Tensor(DType::u8, {align_up(4 * kSize)});
  for (int i = 0; i < kSize; ++i) static_cast<float*>(plan.weights.data())[i] = static_cast<float>(i);
  plan.calls = {{0, {{Region::input, 0}, {Region::weights, 0}, {Region::arena, 0}}, 0, "add"},
                {1, {{Region::arena, 0}, {Region::output, 0}}, 0, "triple"},
                {-1, {{Region::input, 0}, {Region::output, 1}}, 4 * kSize, "copy"}};
  plan.arena_bytes = align_up(4 * kSize);
  for (const PrimFunc& f : kernels) {
    plan.kernels.push_back(f.name);
    plan.workspace_bytes = std::max(plan.workspace_bytes, workspace_bytes(f, threads));
  }
  return plan;
}

struct Scratch {
  fs::path dir = fs::path(NESTOR_BINARY_DIR) / ("artifact-test-" + std::to_string(getpid()));
  Scratch() { fs::create_directories(dir); }
  ~Scratch() { fs::remove_all(dir); }
  std::string operator/(const char* file) const { return (dir / file).string(); }
};

inline ArtifactFiles write_small(const std::string& path, WeightsPlace weights = WeightsPlace::automatic,
                                 int threads = 2) {
  const auto kernels = two_kernels(kSize);
  return write_artifact(plan_of(kernels, threads), kernels, host_target(), {path, "", weights});
}

inline bool right(Runnable& model, float scale) {
  Tensor x(DType::f32, {kSize});
  for (int64_t i = 0; i < kSize; ++i) x.set(i, scale * static_cast<double>(i));
  const NamedTensors out = model.run({{"x", x}});
  for (int64_t i = 0; i < kSize; ++i)
    if (out.at("y/out").get(i) != 3 * (x.get(i) + static_cast<double>(i)) || out.at("int").get(i) != x.get(i))
      return false;
  return true;
}

}  // namespace nestor::testing

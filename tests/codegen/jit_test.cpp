#include "catch.h"
#include "nestor/codegen.h"
#include "runtime/kernel_rt.h"

using namespace nestor;

namespace {

Buffer f32(const char* name) {
  return make_buffer(name, {DType::f32});
}
Param param(Role role, const Buffer& b, int64_t n) {
  return {role, {b, {n}, Scope::global, {}}};
}

}  // namespace

TEST_CASE("a serial loop of f32 runs") {
  Buffer x = f32("X"), y = f32("Y");
  Var i = make_var("i");
  Expr value = make::load(x, {i}) * make::imm(2, {DType::f32}) + make::imm(1, {DType::f32});
  PrimFunc f{"twice",
             {},
             {param(Role::in, x, 5), param(Role::out, y, 5)},
             {},
             make::loop(i, 5, make::store(y, {i}, value))};
  auto module = JitModule::compile({f}, host_target());
  std::vector<float> in = {1, 2, 3, -4, 0.5f}, out(5);
  void* args[] = {in.data(), out.data()};
  CHECK(module->lookup("twice")(args, nullptr, nullptr) == 0);
  CHECK(out == std::vector<float>{3, 5, 7, -7, 2});
}

TEST_CASE("a parallel loop runs on a pool and without one") {
  Buffer x = f32("X"), y = f32("Y"), t = f32("T");
  Var i = make_var("i"), j = make_var("j"), k = make_var("k");
  // Each iteration fills a temporary of its own, too large for the stack, and sums it.
  Stmt fill = make::loop(j, 4096, make::store(t, {j}, make::load(x, {i}) + make::cast({DType::f32}, j)));
  Stmt sum = make::loop(k, 4096, make::store(y, {i}, make::load(y, {i}) + make::load(t, {k})));
  Stmt zero = make::store(y, {i}, make::imm(0, {DType::f32}));
  Stmt body = make::alloc({t, {4096}, Scope::global, {}}, make::seq({zero, fill, sum}));
  PrimFunc f{"sums",
             {},
             {param(Role::in, x, 64), param(Role::out, y, 64)},
             {},
             make::loop(i, 64, body, ForKind::parallel)};
  CHECK(workspace_bytes(f, 3) == 3 * 4096 * 4);
  auto module = JitModule::compile({f}, host_target());
  std::vector<float> in(64), out(64);
  for (size_t n = 0; n < 64; ++n) in[n] = static_cast<float>(n);
  nestor_pool* pool = nestor_pool_create(3);
  void* scratch = std::aligned_alloc(64, static_cast<size_t>(workspace_bytes(f, 3)));
  for (nestor_pool* p : {pool, static_cast<nestor_pool*>(nullptr)}) {
    std::fill(out.begin(), out.end(), -1.0f);
    void* args[] = {in.data(), out.data()};
    module->lookup("sums")(args, scratch, p);
    for (size_t n = 0; n < 64; ++n) CHECK(out[n] == 4096.0f * (static_cast<float>(n)) + 4095.0f * 2048.0f);
  }
  std::free(scratch);
  nestor_pool_destroy(pool);
}

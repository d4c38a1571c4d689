#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "agree.h"
#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/error.h"
#include "nestor/parse.h"
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

TEST_CASE("tensors may lie at any multiple of their element") {
  const PrimFunc f = parse_func(
      "func f(in X: f32[64], out Y: f32[64]) {\n  for o in 4 {\n    Y[ramp(o * 16, 1, 16)] = "
      "X[ramp(o * 16, 1, 16)] + x16(1.0f32)\n  }\n}\n");
  auto module = JitModule::compile({f}, host_target());
  std::vector<float> in(80, 2.0f), out(80);
  for (size_t shift = 0; shift < 16; ++shift) {
    void* args[] = {in.data() + shift, out.data() + shift};
    module->lookup("f")(args, nullptr, nullptr);
    CHECK(out[shift] == 3.0f);
    CHECK(out[shift + 63] == 3.0f);
  }
}

TEST_CASE("modules are compiled from several threads at once") {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 3; ++round) {
        const std::string n = std::to_string(t * 10 + round);
        auto module = JitModule::compile({parse_func("func f(out Y: i64[1]) {\n  Y[0] = " + n + "\n}\n")},
                                         host_target());
        int64_t y = -1;
        void* args[] = {&y};
        module->lookup("f")(args, nullptr, nullptr);
        right += y == t * 10 + round;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(right == 12);
}

TEST_CASE("LLVM IR is shown before and after its passes, without fast-math flags") {
  const PrimFunc f = parse_func(
      "func f(in X: f32[64], out Y: f32[64]) {\n  alloc T: f32[1] local\n  for i in 64 {\n    "
      "T[0] = X[i] * 2.0f32 + 1.0f32\n    Y[i] = T[0]\n  }\n}\n");
  const std::string before = emit_llvm_ir({f}, host_target(), false),
                    after = emit_llvm_ir({f}, host_target());
  CHECK(before.find("alloca") != std::string::npos);
  CHECK(after.find("alloca") == std::string::npos);
  CHECK(after.find("define i32 @kernel.f(") != std::string::npos);
  for (const char* flag : {"fast", "contract", "reassoc", "nnan"})
    CHECK(before.find(flag) == std::string::npos);
}

TEST_CASE("an element of a buffer inside of a loop isn't carried from one iteration to the next") {
  const std::string text = R"(
func f(in X: f32[640], in N: i64[1], out Y: f32[10]) {
  for i in 10 {
    alloc T: f32[1] local {
      if i < N[0] {
        T[0] = 0.0f32
      }
      for k in 64 {
        if i < N[0] {
          T[0] = T[0] + X[i*64+k]
        }
      }
      if i < N[0] {
        Y[i] = T[0]
      } else {
        Y[i] = 0.0f32
      }
    }
  }
}
)";
  const std::string ir = emit_llvm_ir({parse_func(text)}, host_target());
  INFO(ir);
  const auto loop = ir.substr(ir.find("\ni:"), ir.find("\nk") - ir.find("\ni:"));
  CHECK(loop.find("phi i64") != std::string::npos);
  CHECK(loop.find("phi float") == std::string::npos);
  testing::check_agree(text);
}

TEST_CASE("what nothing was stored to may be beside what decides, in lanes too") {
  const PrimFunc f = parse_func(R"(
func f(in X: f32[64], out Y: f32[64], out Z: f32[8]) {
  for i in 8 {
    alloc T: f32x8[1] local {
      if X[i] > 0.0f32 {
        T[0] = X[ramp(i * 8, 1, 8)]
      }
      Y[ramp(i * 8, 1, 8)] = if x8(!(X[i] > 0.0f32)) || T[0] > x8(0.25f32) then x8(1.0f32) else x8(3.0f32)
      if X[i] > 0.0f32 {
        Z[i] = 5.0f32
      } else {
        Z[i] = 0.0f32
      }
    }
  }
}
)");
  std::vector<float> x(64), y(64), z(8);
  for (size_t i = 0; i < 64; ++i) x[i] = i % 3 == 0 ? -1.0f : static_cast<float>(i % 5) / 8;
  void* args[] = {x.data(), y.data(), z.data()};
  REQUIRE(JitModule::compile({f}, host_target())->lookup("f")(args, nullptr, nullptr) == 0);
  for (size_t i = 0; i < 64; ++i) CHECK(y[i] == (x[i / 8] > 0 && x[i] <= 0.25f ? 3.0f : 1.0f));
}

TEST_CASE("a prefetch is an instruction, and reads nothing: its address may be outside") {
  const std::string text =
      "func f(in X: f32[512], out Y: f32[512]) {\n  for i in 8 {\n    prefetch(X[i*64+128])\n    for j in 64 "
      "{\n"
      "      Y[i*64+j] = X[i*64+j] * 2.0f32\n    }\n  }\n}\n";
  CHECK(emit_llvm_ir({parse_func(text)}, host_target()).find("call void @llvm.prefetch") !=
        std::string::npos);
  testing::check_agree(text);
}

TEST_CASE("lines that will be written are asked for as this core's own") {
  const auto ir_of = [](const std::string& buffer) {
    return emit_llvm_ir(
        {parse_func("func f(in X: f32[512], out Y: f32[512]) {\n  for i in 512 {\n    prefetch(" + buffer +
                    "[i])\n    Y[i] = X[i]\n  }\n}\n")},
        host_target());
  };
  CHECK(ir_of("Y").find(", i32 1, i32 3, i32 1)") != std::string::npos);
  CHECK(ir_of("X").find(", i32 0, i32 3, i32 1)") != std::string::npos);
}

TEST_CASE("a name that isn't there is our fault") {
  auto module = JitModule::compile({parse_func("func f(out Y: i64[1]) {\n  Y[0] = 1\n}\n")}, host_target());
  CHECK_THROWS_AS(module->lookup("g"), InternalError);
}

TEST_CASE("a kernel may have the name of a library function, and call that") {
  Buffer x = make_buffer("X", {DType::f64}), y = make_buffer("Y", {DType::f64});
  Var i = make_var("i");
  const auto named = [&](const char* name) {
    const Expr value = make::call(Intrinsic::tanh, {make::load(x, {i})});
    return PrimFunc{name,
                    {},
                    {param(Role::in, x, 2), param(Role::out, y, 2)},
                    {},
                    make::loop(i, 2, make::store(y, {i}, value))};
  };
  const auto module = JitModule::compile({named("tanh"), named("memcpy"), named("main")}, host_target());
  for (const char* name : {"tanh", "memcpy", "main"}) {
    std::vector<double> in = {0, 0.5}, out(2);
    void* args[] = {in.data(), out.data()};
    CHECK(module->lookup(name)(args, nullptr, nullptr) == 0);
    CHECK(out == std::vector<double>{0, std::tanh(0.5)});
  }
}

TEST_CASE("f16 is refused by name where the target can't convert it") {
  const PrimFunc f = parse_func("func f(in X: f16[4], out Y: f16[4]) { for i in 4 { Y[i] = X[i] } }");
  CHECK_NOTHROW(emit_object({f}, parse_target("x86-64-v3")));
  try {
    emit_object({f}, parse_target("x86-64-v2"));
    FAIL("accepted");
  } catch (const UserError& e) {
    CHECK(std::string(e.what()).find("x86-64-v2 has no conversions (F16C)") != std::string::npos);
  }
}

TEST_CASE("a parallel loop says how it is split and for how many threads") {
  const char* text = R"(
func f(in X: f32[40], out Y: f32[40]) {
  parallel p in 10 @split("static") {
    for i in 4 {
      Y[p * 4 + i] = X[p * 4 + i] + 1.0f32
    }
  }
}
)";
  const std::string split = R"(@split("static"))";
  for (const auto& [annotations, arguments] : {std::pair{split, "i32 0, i32 1)"},
                                               {split + " @threads(2)", "i32 2, i32 1)"},
                                               {std::string("@threads(3)"), "i32 3, i32 0)"}}) {
    std::string annotated = text;
    annotated.replace(annotated.find(split), split.size(), annotations);
    const PrimFunc f = parse_func(annotated);
    const std::string ir = emit_llvm_ir({f}, host_target());
    const size_t call = ir.find("call void @nestor_parallel(");
    REQUIRE(call != std::string::npos);
    CHECK(ir.substr(call, ir.find('\n', call) - call).find(arguments) != std::string::npos);
    testing::check_agree(f, 4);
  }
}

TEST_CASE("functions with open strides are marked, a loop over one of known sizes isn't") {
  const auto open = [](const std::string& text) {
    return emit_llvm_ir({parse_func(text)}, host_target()).find("nestor-open-strides") != std::string::npos;
  };
  CHECK(open("func f[n](in A: f32[n*9], out Y: f32[9]) { for i in 9 { Y[i] = A[i*n] } }"));
  CHECK_FALSE(open("func f[n](in A: f32[n*9], out Y: f32[n]) { for s in n { Y[s] = A[s*9] } }"));
  CHECK_FALSE(open("func f(in A: f32[81], out Y: f32[9]) { for i in 9 { Y[i] = A[i*9] } }"));
}

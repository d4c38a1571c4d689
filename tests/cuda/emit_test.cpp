// The emitted text, feature by feature: random expressions of every type, math functions, refusals, and the
// text itself.
#include <cmath>
#include <cstdlib>

#include "catch.h"
#include "check.h"
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "tests/codegen/agree.h"
#include "tests/codegen/random_function.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

const Target kTarget = parse_target("cuda:sm_80");

// A lowered function and its program run on the same hard values.
CudaCase hard_case(const PrimFunc& lowered, uint64_t seed) {
  return {lowered, lowered, lowered, make_cuda(lowered, kTarget), {}, hard_args(lowered, seed)};
}

std::string emitted(const std::string& text) {
  return emit_cuda(parse_func(text), kTarget);
}

}  // namespace

TEST_CASE("random expressions of every type: the emitted text agrees with the interpreter") {
  const char* one = std::getenv("NESTOR_SEED");  // replays a failure
  const uint64_t first = one ? std::stoull(one) : 1, count = one ? 1 : 120;
  std::vector<CudaCase> cases;
  std::vector<CudaProgram> programs;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    PrimFunc f = random_function(seed, RandomKinds{.vectors = false, .halves = false});
    f.name += std::to_string(seed);
    cases.push_back(hard_case(f, seed));
    programs.push_back(cases.back().program);
  }
  const Emulator emulator(programs);
  for (size_t i = 0; i < cases.size(); ++i) {
    INFO("NESTOR_SEED=" << first + i << "\n" << print(cases[i].lowered) << programs[i].source);
    CHECK(emulate(emulator, cases[i], programs[i]) == "");
  }
}

TEST_CASE("math functions are expanded before they are emitted") {
  const PrimFunc f = parse_func(R"(
func math(in X: f32[96], in Y: f32[96], out Z: f32[7,96], out D: f64[3,96]) {
  for g in 96 {
    block Z(v: S 96 = g) {
      Z[0,v] = exp(X[v])
      Z[1,v] = log(X[v])
      Z[2,v] = tanh(X[v])
      Z[3,v] = erf(X[v])
      Z[4,v] = sigmoid(X[v])
      Z[5,v] = pow(X[v], Y[v])
      Z[6,v] = exp_nonpositive(-abs(X[v]))
      D[2,v] = exp_nonpositive(f64(-abs(X[v])))
      D[0,v] = exp(f64(X[v]))
      D[1,v] = sigmoid(f64(X[v]))
    }
  }
}
)");
  const PrimFunc lowered = lower(f, kTarget);
  const CudaCase c = hard_case(lowered, 7);
  INFO(c.program.source);
  CHECK(c.program.source.find("expf(") == std::string::npos);
  const Emulator emulator({c.program});
  CHECK(emulate(emulator, c, c.program) == "");
  if (has_nvrtc()) CHECK_FALSE(compile_cubin(c.program.source, kTarget).empty());
}

TEST_CASE("stages become kernels in order, temporaries device memory, the rest one thread") {
  const PrimFunc f = parse_func(R"(
func stages(in X: f32[300], out Y: f32[300], out Z: f32[1]) {
  alloc T: f32[300]
  blockIdx.x b in 3 {
    threadIdx.x t in 100 {
      T[b*100+t] = X[b*100+t] * 2.0f32
    }
  }
  Z[0] = T[299]
  blockIdx.x b in 2 {
    threadIdx.x t in 150 {
      Y[b*150+t] = T[299-b*150-t] + Z[0]
    }
  }
}
)");
  const CudaCase c = hard_case(f, 3);
  REQUIRE(c.program.kernels.size() == 3);
  CHECK(c.program.kernels[1].name == "kernel2_stages");
  CHECK(c.program.kernels[1].grid[0] * c.program.kernels[1].block[0] == 1);
  CHECK(c.program.kernels[1].args == std::vector<int>{2, 3});
  CHECK(c.program.temporary_bytes == std::vector<int64_t>{1200});
  const Emulator emulator({c.program});
  CHECK(emulate(emulator, c, c.program) == "");
}

TEST_CASE("names of the IR that mean something in CUDA are changed, indices beyond int are long long") {
  const std::string text = emitted(R"(
func f(in float: f32[8], out blockIdx: f32[8]) {
  for int in 8 {
    blockIdx[int] = float[int]
  }
}
)");
  CHECK(text.find("const float* __restrict__ float_1, float* __restrict__ blockIdx_1") != std::string::npos);
  CHECK(text.find("for (int int_1 = 0; int_1 < 8; ++int_1) {\n    blockIdx_1[int_1] = float_1[int_1];") !=
        std::string::npos);
  CHECK(emitted(R"(
func f(in X: f32[8], out Y: f32[4294967296]) {
  blockIdx.x b in 8 {
    Y[b*536870912] = X[b]
  }
}
)")
            .find("const long long b = blockIdx.x;  // b of 8") != std::string::npos);
}

TEST_CASE("halves of both kinds are rounded and widened as the interpreter does") {
  std::vector<CudaCase> cases;
  std::vector<CudaProgram> programs;
  for (const std::string type : {"f16", "bf16"}) {
    const PrimFunc f =
        parse_func("func to_" + type + "(in X: f32[4096], in H: " + type + "[65536], out Y: " + type +
                   "[4096], out Z: f32[65536]) {\n  for i in 4096 {\n    Y[i] = " + type +
                   "(X[i])\n  }\n  for i in 65536 {\n    Z[i] = f32(H[i])\n  }\n}\n");
    CudaCase c = hard_case(f, 7);
    Tensor& x = c.lowered_inputs[0];
    auto* bits = static_cast<uint16_t*>(c.lowered_inputs[1].data());
    for (int i = 0; i < 65536; ++i) bits[i] = static_cast<uint16_t>(i);
    for (int i = 0; i < 1024; ++i) x.set(i, std::ldexp(1 + i % 32 / 512.0 + i % 3 / 256.0, i / 4 - 140));
    cases.push_back(std::move(c));
    programs.push_back(cases.back().program);
  }
  const Emulator emulator(programs);
  for (const CudaCase& c : cases) {
    CHECK(emulate(emulator, c, c.program) == "");
    if (!has_nvrtc()) continue;
    const std::string ptx = compile_ptx(c.program.source, kTarget);  // one instruction for each
    CHECK((ptx.find("cvt.rn.f16.f32") != std::string::npos) == (c.func.name == "to_f16"));
    CHECK((ptx.find("cvt.f32.f16") != std::string::npos) == (c.func.name == "to_f16"));
    CHECK((ptx.find("cvt.rn.bf16.f32") != std::string::npos) == (c.func.name == "to_bf16"));
    CHECK_FALSE(compile_cubin(c.program.source, parse_target("cuda:sm_75")).empty());
  }
}

TEST_CASE("more blocks than the hardware takes along y and z lie along x") {
  const PrimFunc f = parse_func(R"(
func many(in X: f32[3], out Y: f32[420000]) {
  blockIdx.x x in 3 {
    blockIdx.y y in 70000 {
      blockIdx.z z in 2 {
        Y[x*140000+y*2+z] = X[x] * X[(y+z)%3]
      }
    }
  }
}
)");
  const CudaCase c = hard_case(f, 1);
  INFO(c.program.source);
  CHECK(c.program.kernels[0].grid == std::array<int64_t, 3>{420000, 1, 1});
  CHECK(emulate(Emulator({c.program}), c, c.program) == "");
}

TEST_CASE("what CUDA can't do is refused by name") {
  CHECK_THROWS_WITH(
      emitted("func f(in X: bf16[8], out Y: bf16[8]) {\n  for i in 8 {\n    Y[i] = X[i] + X[i]\n  }\n}\n"),
      Catch::Contains("arithmetic in bf16 is not supported in CUDA code") && Catch::Contains("f32"));
  CHECK_THROWS_WITH(
      emitted("func f(out Y: f32[1]) {\n  blockIdx.x b in 3000000000 {\n    Y[0] = 1.0f32\n  }\n}\n"),
      Catch::Contains("kernel_f has 3000000000 blocks, of at most 2147483647"));
  CHECK_THROWS_WITH(
      emitted("func f(out Y: f32[2048]) {\n  threadIdx.x t in 2048 {\n    Y[t] = 1.0f32\n  }\n}\n"),
      Catch::Contains("kernel_f has 2048 threads a block, of at most 1024"));
  CHECK_THROWS_WITH(
      emitted(R"(
func f(out Y: f32[32]) {
  alloc S: f32[41984] shared
  threadIdx.x t in 32 {
    S[t] = 1.0f32
    Y[t] = S[t]
  }
}
)"),
      Catch::Contains("needs 167936 bytes of shared memory, and a block of sm_80 has at most 166912"));
  CHECK_THROWS_WITH(emitted(R"(
func f(out Y: f32[32]) {
  alloc S: f32[32] shared
  threadIdx.x t in 32 {
    S[t] = 1.0f32
  }
  threadIdx.x t in 32 {
    Y[t] = S[t]
  }
}
)"),
                    Catch::Contains("buffer S is `shared`, but two kernels use it") &&
                        Catch::Contains("set_scope S global"));
}

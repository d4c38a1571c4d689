// vectorize on CUDA: loads and stores of neighbouring elements are combined if the alignment is known; other
// lanes are separate statements.
#include "catch.h"
#include "check.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

const Target kTarget = parse_target("cuda:sm_80");

CudaCase scheduled(const std::string& func, const std::string& steps) {
  const PrimFunc f = parse_func(func);
  return make_case(f, apply(f, parse_trace(steps)), kTarget);
}

size_t count(const CudaCase& c, const std::string& text) {
  size_t n = 0;
  for (size_t at = 0; (at = c.program.source.find(text, at)) != std::string::npos; ++at) ++n;
  return n;
}

const char* const kThreads = "b t v = split Y.i [_, 32, 4]\nbind Y.b blockIdx.x\nbind Y.t threadIdx.x\n";

std::string elementwise(const std::string& type, const std::string& n, const std::string& value) {
  return "func f(in X: " + type + "[2048], out Y: " + type + "[" + n + "]) {\n  for i in " + n +
         " {\n    block Y(vi: S " + n + " = i) {\n      Y[vi] = " + value + "\n    }\n  }\n}\n";
}

}  // namespace

TEST_CASE("neighbours are loaded and stored together, guarded tails and unaligned places lane by lane") {
  const std::string steps = std::string(kThreads) + "vectorize Y.v\n";
  std::vector<CudaCase> cases;
  const auto add = [&](const std::string& n, const std::string& value, size_t loads, size_t stores) {
    cases.push_back(scheduled(elementwise("f32", n, value), steps));
    INFO(cases.back().program.source);
    CHECK(count(cases.back(), "*(const float4*)") == loads);
    CHECK(count(cases.back(), "*(float4*)") == stores);
    cases.back().program.kernels[0].name = "kernel_f";
  };
  add("1024", "X[vi] * 2.0f32", 1, 1);
  add("1020", "X[vi] * 2.0f32", 1, 1);                                     // ends with a thread
  add("1021", "X[vi] * 2.0f32", 1, 1);                                     // ends within one
  add("1024", "X[vi+1] * 2.0f32", 0, 1);                                   // an odd place
  add("1024", "X[2047-vi] + X[vi*2]", 0, 1);                               // no neighbours
  add("1024", "X[vi+4] + X[vi/4*4]", 1, 1);                                // all lanes one element
  add("1024", "if 16 <= vi && vi < 640 then X[vi-16] else 0.0f32", 1, 1);  // one condition for all
  add("1024", "if 3 <= vi then X[vi-3] else 0.0f32", 0, 1);                // one for each
  for (const CudaCase& c : cases) check_cases({c}, 0);
}

TEST_CASE("vectors of two, of other types, and parts of words") {
  const auto steps = [](int n) {
    return "b t v = split Y.i [_, 32, " + std::to_string(n) +
           "]\nbind Y.b blockIdx.x\nbind Y.t threadIdx.x\nvectorize Y.v\n";
  };
  const auto check = [&](const std::string& type, const std::string& value, int n, const std::string& word,
                         size_t wanted) {
    const CudaCase c = scheduled(elementwise(type, "1024", value), steps(n));
    INFO(c.program.source);
    CHECK(count(c, "*(const " + word + "*)") == wanted);
    CHECK(count(c, "*(" + word + "*)") == wanted);
    check_cases({c}, 0);
  };
  check("f32", "-X[vi]", 2, "float2", 1);
  check("f32", "-X[vi]", 3, "float2", 0);
  check("f32", "-X[vi]", 12, "float4", 3);
  check("f64", "-X[vi]", 4, "double2", 2);
  check("i32", "X[vi] + 7i32", 4, "int4", 1);
  check("i64", "X[vi] + 7", 4, "longlong2", 2);
  check("i16", "-X[vi]", 8, "uint4", 1);
  check("i8", "-X[vi]", 16, "uint4", 1);
  check("u8", "X[vi]", 4, "uchar4", 1);
  check("bool", "!X[vi]", 8, "uint2", 1);
  check("bool", "!X[vi]", 4, "uchar4", 1);
  check("f16", "X[vi]", 8, "uint4", 1);
  check("bf16", "X[vi+8]", 2, "ushort2", 1);
}

TEST_CASE("a thread's sums are kept by lanes, and come together in the same order everywhere") {
  for (const std::string n : {"64", "61", "3"}) {
    const CudaCase c =
        scheduled("func f(in X: f32[40," + n + "], out Y: f32[40]) {\n  for i in 40, k in " + n +
                      " {\n    block Y(vi: S 40 = i, vk: R " + n +
                      " = k) {\n      init { Y[vi] = 0.0f32 }\n      Y[vi] += X[vi,vk]\n    }\n"
                      "  }\n}\n",
                  "Y_out = cache_write Y local\nreverse_compute_at Y_out Y.i\n"
                  "Y_init = decompose_reduction Y.k\nvectorize Y.k\nbind Y.i threadIdx.x\n");
    INFO(c.program.source);
    CHECK(count(c, "*(const float4*)") == (n == "64" ? 8 : 0));
    check_cases({c}, 1e-5);
  }
}

TEST_CASE("tiles pass through shared memory and registers by vectors") {
  const CudaCase c = scheduled(R"(
func f(in X: f32[64,32], in Z: f32[64,32], out Y: f32[64,32]) {
  for i in 64, j in 32 {
    block Y(vi: S 64 = i, vj: S 32 = j) {
      Y[vi,vj] = X[vi,31-vj] * Z[vi,vj]
    }
  }
}
)",
                               R"(
Xs = cache_read Y X shared
Zl = cache_read Y Z local
i0 i1 = split Y.i [_, 8]
compute_at Xs Y.i0
j0 j1 = split Y.j [_, 4]
compute_at Zl Y.j0
vectorize Y.j1
bind Y.i0 blockIdx.x
bind Y.i1 threadIdx.y
bind Y.j0 threadIdx.x
vectorize Zl.j
c t v = split Xs.d1 [_, 8, 4]
bind Xs.i threadIdx.y
bind Xs.t threadIdx.x
vectorize Xs.v
)");
  INFO(c.program.source);
  CHECK(count(c, "*(float4*)&Xs[") == 1);
  CHECK(count(c, "*(const float4*)&X[") == 1);
  CHECK(count(c, "*(const float4*)&Z[") == 1);
  CHECK(count(c, "*(float4*)&Y[") == 1);
  check_cases({c}, 0);
}

TEST_CASE("a thread's strided tile is registers without gaps, fused loops of threads keep theirs apart") {
  const CudaCase c = scheduled(R"(
func f(in A: f32[64,16], in B: f32[16,64], out Y: f32[64,64]) {
  for i in 64, j in 64, k in 16 {
    block Y(vi: S 64 = i, vj: S 64 = j, vk: R 16 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
}
)",
                               R"(
Y_out = cache_write Y local
i0 ih il i2 = split Y.i [_, 2, 4, 4]
j0 jh jl j2 = split Y.j [_, 2, 8, 2]
reorder Y (i0 j0 k il jl ih jh i2 j2)
wi wj = reverse_compute_at Y_out Y.j0
vih vil vi2 = split Y_out.wi [2, 4, 4]
vjh vjl vj2 = split Y_out.wj [2, 8, 2]
reorder Y_out (vil vjl vih vi2 vjh vj2)
Y_init = decompose_reduction Y.k
bind Y.i0 blockIdx.y
bind Y.j0 blockIdx.x
l = fuse Y (il jl)
bind Y.l threadIdx.x
l = fuse Y_init (il jl)
bind Y_init.l threadIdx.x
l = fuse Y_out (vil vjl)
bind Y_out.l threadIdx.x
vectorize Y_out.vj2
unroll Y (ih jh i2 j2)
)");
  INFO(c.program.source);
  CHECK(count(c, "float Y_local[32];") == 1);
  CHECK(count(c, "#pragma unroll") == 4 + 4 + 3);
  CHECK(count(c, "*(float2*)&Y[") == 1);
  check_cases({c}, 1e-5);
}

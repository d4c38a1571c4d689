// One function of every family of operators, at ragged sizes, by its default schedule: emulated, compared,
// compiled.
#include "catch.h"
#include "check.h"
#include "nestor/driver.h"
#include "schedules/library/cuda.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

const char* const kOperators[] = {
    "Conv(f32[2,6,9,7], const f32[4,3,3,2], const f32[4]; group=2, strides=[2,1], pads=[1,0,1,1], "
    "dilations=[1,2])",
    "Conv(f32[1,3,14,14], const f32[5,3,3,3], const f32[5]; pads=[1,1,1,1])",
    "MatMul(f32[3,1,17,9], f32[5,9,33])",
    "MatMul(f32[2,100,70], f32[70,90])",
    "Gemm(f32[33,18], const f32[65,18], const f32[65]; transB=1)",
    "Gemm(f32[7,19], const f32[21,19], const f32[21]; transB=1, alpha=0.5)",
    "Add(f32[5,1,7], f32[3,1])",
    "Pow(f32[5,7], f32[7])",
    "Erf(f32[5,70])",
    "Softmax(f32[5,3,11]; axis=1)",
    "ReduceMean@13(f32[4,5,6]; axes=[1], keepdims=0)",
    "ReduceSum(f32[37])",
    "MaxPool(f32[1,3,9,9]; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1])",
    "AveragePool(f32[1,3,9,9]; kernel_shape=[3,2], pads=[1,0,1,1])",
    "GlobalAveragePool(f32[2,5,6,7])",
    "Transpose(f32[4,5,6]; perm=[2,0,1])",
    "Concat(f32[2,3], f32[2,5]; axis=1)",
    "Gather(f32[9,4], i64[2,3]{0,8,3,-1,5,2}; axis=0)",
    "Sin(f32[300])",
    "Cast(f32[40]; to=7)",
    "LayerNormalization(f32[6,35], const f32[35], const f32[35])",
};

std::vector<CudaCase> cases_for(const Target& target, const std::vector<std::string>& operators = {
                                                          std::begin(kOperators), std::end(kOperators)}) {
  std::vector<CudaCase> cases;
  CompileOptions options;
  options.target = target;
  for (const std::string& text : operators) {
    const CompiledModel m = compile_model(text, options);
    for (PrimFunc f : m.partition.funcs) {
      f.name += "_" + std::to_string(cases.size());
      INFO(text);
      cases.push_back(make_case(f, apply(f, default_cuda_schedule(f, target)), target));
    }
  }
  return cases;
}

}  // namespace

TEST_CASE("operators by their default CUDA schedule pass under emulation") {
  const std::vector<CudaCase> cases = cases_for(parse_target("cuda:sm_80"));
  REQUIRE(cases.size() >= std::size(kOperators));
  for (const CudaCase& c : cases)
    for (const CudaKernel& k : c.program.kernels) {
      INFO(c.program.source);
      CHECK(k.block[0] > 1);  // nothing is left to a single thread
    }
  check_cases(cases, 1e-4);
}

TEST_CASE(
    "updates that may meet in an element are one thread's, in their order, and columns have threads of their "
    "own") {
  const std::string spec = "ScatterND(f32[9,40], i64[6,1], f32[6,40]; reduction=\"add\")";
  const std::vector<CudaCase> cases = cases_for(parse_target("cuda:sm_80"), {spec});
  REQUIRE(cases[0].program.kernels.size() == 2);
  CHECK(cases[0].program.kernels[0].block[0] > 1);
  CHECK(cases[0].program.kernels[1].block[0] == 40);
  check_cases(cases, 1e-6);
}

TEST_CASE("products of some size go through shared memory by default") {
  int tiled = 0;
  for (const CudaCase& c : cases_for(parse_target("cuda:sm_80")))
    for (const CudaKernel& k : c.program.kernels)
      tiled += k.shared_bytes > 1024 && k.name.find("conv") == std::string::npos;
  CHECK(tiled == 3);
}

TEST_CASE("a convolution is one kernel, its windows and weights in shared memory") {
  const std::vector<CudaCase> cases =
      cases_for(parse_target("cuda:sm_80"),
                {"Conv(f32[1,6,8,12], const f32[16,6,3,3]; pads=[1,1,1,1])",
                 "Conv(f32[2,3,15,15], const f32[8,3,3,3], const f32[8]; pads=[1,1,1,1], strides=[2,2])",
                 "Conv(f32[1,4,11,13], const f32[10,4,5,3]; dilations=[2,1])"});
  for (const CudaCase& c : cases) {
    REQUIRE(c.program.kernels.size() == 1);
    CHECK(c.program.kernels[0].shared_bytes > 0);
  }
  check_cases(cases, 1e-4);
}

TEST_CASE("NVRTC compiles operators by their default CUDA schedule for sm_80 and sm_90a") {
  if (!has_nvrtc()) return;
  for (const std::string sm : {"cuda:sm_80", "cuda:sm_90a"})
    for (const CudaCase& c : cases_for(parse_target(sm))) {
      INFO(c.program.source);
      CHECK_FALSE(compile_cubin(c.program.source, parse_target(sm)).empty());
    }
}

// Attention by its default schedule: one kernel whose scores stay in shared memory, right at sizes that tiles
// divide and others; and that what doesn't fit is still right, in several kernels.
#include "catch.h"
#include "check.h"
#include "nestor/driver.h"
#include "schedules/library/cuda.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Work {
  const char* text;
  size_t kernels = 1;
};

const Work kWorks[] = {
    {"Attention(f32[2,4,64,32], f32[2,4,64,32], f32[2,4,64,32])"},
    {"Attention(f32[1,2,64,16], f32[1,2,64,16], f32[1,2,64,16]; is_causal=1)"},
    {"Attention(f32[1,2,33,24], f32[1,2,50,24], f32[1,2,50,20])"},
    {"Attention(f32[1,30,48], f32[1,70,48], f32[1,70,48]; q_num_heads=3, kv_num_heads=3)"},
    {"Attention(f32[1,4,20,16], f32[1,2,40,16], f32[1,2,40,16])"},
    {"Attention(f16[1,2,32,32], f16[1,2,64,32], f16[1,2,64,32])"},
    {"Attention(f32[1,1,8,16], f32[1,1,6000,16], f32[1,1,6000,16])", 4},
};

// The function with both products, of those that the operator becomes.
CudaCase case_of(const char* text, const std::string& name, const char* target = "cuda:sm_80") {
  CompileOptions options;
  options.target = parse_target(target);
  for (PrimFunc f : compile_model(text, options).partition.funcs) {
    if (f.name.rfind("matmul", 0) != 0) continue;
    f.name = name;
    return make_case(f, apply(f, default_cuda_schedule(f, options.target)), options.target);
  }
  FAIL("no function has products");
  return {};
}

}  // namespace

TEST_CASE("attention is one kernel that keeps its scores") {
  std::vector<CudaCase> cases;
  for (const Work& w : kWorks) {
    INFO(w.text);
    cases.push_back(case_of(w.text, "attention_" + std::to_string(cases.size())));
    INFO(cases.back().program.source);
    CHECK(cases.back().program.kernels.size() == w.kernels);
  }
  check_cases(cases, 1e-3);
}

TEST_CASE("rows of scores may be as long as shared memory holds") {
  const auto kernels = [](const char* text, const char* target) {
    return case_of(text, "attention", target).program.kernels.size();
  };
  CHECK(kernels("Attention(f32[1,1,64,64], f32[1,1,2048,64], f32[1,1,2048,64])", "cuda:sm_80") == 1);
  CHECK(kernels("Attention(f32[1,1,64,64], f32[1,1,2300,64], f32[1,1,2300,64])", "cuda:sm_80") > 1);
  CHECK(kernels("Attention(f32[1,1,64,64], f32[1,1,512,64], f32[1,1,512,64])", "cuda:sm_75") == 1);
  CHECK(kernels("Attention(f32[1,1,64,128], f32[1,1,600,128], f32[1,1,600,128])", "cuda:sm_86") == 1);
}

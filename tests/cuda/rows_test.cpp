// Row-wise works and reductions by their default schedules: how many kernels, how many threads, and that they
// are right at ragged sizes.
#include "catch.h"
#include "check.h"
#include "kernels.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Work {
  const char* text;
  size_t kernels;
};

CudaCase case_of(const std::string& text, size_t number = 0) {
  return make_operator_case(text, "", "operator_" + std::to_string(number));
}

void check_works(const std::vector<Work>& works) {
  std::vector<CudaCase> cases;
  for (const Work& w : works) {
    INFO(w.text);
    cases.push_back(case_of(w.text, cases.size()));
    INFO(cases.back().program.source);
    CHECK(cases.back().program.kernels.size() == w.kernels);
  }
  check_cases(cases, 2e-4);
}

}  // namespace

TEST_CASE("softmax and norms are one kernel") {
  check_works({
      {"Softmax(f32[5,7])", 1},
      {"Softmax(f32[9,300])", 1},
      {"Softmax(f32[1100,40])", 1},
      {"Softmax(f32[3,1500])", 1},
      {"Softmax(f64[4,8200])", 1},
      {"Softmax(f32[3,5,70]; axis=1)", 1},
      {"Softmax(f32[2,3,4,5,6]; axis=2)", 1},
      {"LogSoftmax(f32[6,100])", 1},
      {"LayerNormalization(f32[6,35], const f32[35], const f32[35])", 1},
      {"LayerNormalization(f32[3,2,9,7], const f32[9,7], const f32[9,7]; axis=2)", 1},
      {"RMSNormalization(f32[7,1000], const f32[1000])", 1},
      {"InstanceNormalization(f32[200,4,5,6], const f32[4], const f32[4])", 1},
      {"GroupNormalization(f32[2,8,7,9], const f32[8], const f32[8]; num_groups=2)", 1},
      {"LpNormalization(f32[8,100])", 1},
  });
}

TEST_CASE("reductions of rows and columns are one kernel, of long ones two") {
  check_works({
      {"ReduceMean@13(f32[64,100]; axes=[1])", 1},
      {"ReduceMean@13(f32[100,33]; axes=[0])", 1},
      {"ReduceMean@13(f32[9,10,11]; axes=[0,2])", 1},
      {"ReduceSum@11(f32[2,3,4,5,6]; axes=[1,3])", 1},
      {"ReduceMin@13(i64[6,50]; axes=[1])", 1},
      {"ReduceMax@13(i8[6,50]; axes=[0])", 1},
      {"ReduceLogSumExp@13(f32[64,32]; axes=[1])", 1},
      {"GlobalAveragePool(f32[2,16,7,7])", 1},
      {"GlobalMaxPool(f32[300,3,5,5])", 1},
      {"ArgMax(f32[64,100]; axis=1)", 1},
      {"ArgMin(f32[30,100]; axis=0)", 2},
      {"ReduceSum(f32[3000])", 1},
      {"ReduceSum(f32[70001])", 2},
      {"ReduceMean@13(f32[5000,5]; axes=[0])", 2},
      {"ReduceMax@13(f32[3,4001,7]; axes=[1])", 2},
      {"Softmax(f32[1,40000])", 6},
      {"LayerNormalization(f32[2,40000], const f32[40000], const f32[40000])", 5},
  });
}

TEST_CASE(
    "where there is work for all multiprocessors of an A100, no kernel has fewer than 64 threads for each") {
  for (const char* text : {"Softmax(f32[1536,128])", "Softmax(f32[12,1000])",
                           "LayerNormalization(f32[128,768], const f32[768], const f32[768])",
                           "ReduceMean@13(f32[64,8192]; axes=[1])", "ReduceMean@13(f32[8192,64]; axes=[0])",
                           "ReduceSum(f32[1048576])", "GlobalAveragePool(f32[1,1280,7,7])",
                           "ArgMax(f32[1000,1000]; axis=0)", "ReduceMax@13(f32[4,100000]; axes=[1])"}) {
    const CudaCase c = case_of(text);
    const CudaKernel& first = c.program.kernels[0];
    INFO(c.program.source);
    CHECK(first.grid[0] * first.grid[1] * first.grid[2] * first.block[0] * first.block[1] >= 64 * 108);
  }
}

// Products by their default schedules other than tiles of whole sums: few rows or columns, and sums that
// blocks of threads divide. How many kernels and threads, and that they are right at ragged sizes, the same
// in any order of threads.
#include "catch.h"
#include "check.h"
#include "kernels.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Work {
  const char* text;
  size_t kernels;
  int64_t threads;  // of the first kernel, at least
};

void check_works(const std::vector<Work>& works, double tolerance) {
  std::vector<CudaCase> cases;
  for (const Work& w : works) {
    cases.push_back(make_operator_case(w.text, "", "operator_" + std::to_string(cases.size())));
    const std::vector<CudaKernel>& kernels = cases.back().program.kernels;
    INFO(w.text << "\n" << cases.back().program.source);
    CHECK(kernels.size() == w.kernels);
    const CudaKernel& k = kernels[0];
    CHECK(k.grid[0] * k.grid[1] * k.grid[2] * k.block[0] * k.block[1] * k.block[2] >= w.threads);
  }
  check_cases(cases, tolerance);
}

}  // namespace

TEST_CASE("products of few rows share their sums among threads, whichever way the weights lie") {
  check_works(
      {
          {"MatMul(f32[1,200], const f32[200,300])", 1, 10 * 32 * 8},
          {"Gemm(f32[1,191], const f32[191,210], const f32[210])", 1, 7 * 32 * 8},
          {"Gemm(f32[7,190], const f32[190,210], const f32[210])", 1, 7 * 32 * 8},
          {"Gemm(f32[7,190], const f32[210,190], const f32[210]; transB=1, alpha=0.5)", 1, 210 * 32},
          {"Gemm(f32[190,5], const f32[190,66]; transA=1)", 1, 3 * 32 * 5},
          {"Gemm(f32[190,3], const f32[67,190]; transA=1, transB=1)", 1, 67 * 32},
          {"Gemm(f32[99,128], const f32[3,128]; transB=1)", 1, 99 * 32},
          {"MatMul(f32[3,2,1,64], f32[3,2,64,70])", 1, 6 * 3 * 32},
          {"MatMul(f32[3,2,5,64], f32[2,64,70])", 1, 6 * 3 * 32},
          {"MatMul(f32[2,5,1,40], f32[1,5,40,33])", 1, 10 * 2 * 32},
          {"MatMul(f64[15,127], const f64[127,9])", 1, 32},
      },
      1e-4);
}

TEST_CASE("long sums of few results are divided among blocks, and added up in order") {
  check_works(
      {
          {"MatMul(f32[16,1024], const f32[1024,32])", 2, 2 * 128 * 4},
          {"Gemm(f32[20,1000], const f32[40,1000], const f32[40]; transB=1)", 2, 2 * 128 * 4},
          {"Conv(f32[1,960,7,7], const f32[16,960,1,1], const f32[16])", 2, 4 * 128 * 4},
          {"MatMul(f64[2,17,1025], const f64[1025,19])", 2, 4 * 128 * 4},
          {"Gemm(f32[3,6000], const f32[6000,20], const f32[20])", 2, 32 * 16 * 2},
          {"Gemm(f32[3,8300], const f32[9,8300]; transB=1)", 1, 9 * 1024},
      },
      1e-3);
}

TEST_CASE("products of few rows in halves and in integers") {
  check_works(
      {
          {"MatMul(f16[2,96], const f16[96,80])", 1, 3 * 32},
          {"Gemm(f16[3,96], const f16[80,96]; transB=1)", 1, 80 * 8},
          {"MatMul(bf16[2,96], const bf16[96,80])", 1, 3 * 32},
          {"MatMul(i64[3,50], const i64[50,40])", 1, 2 * 32},
      },
      2e-2);
}

// What a schedule can do for memory on a GPU: copies one step ahead into slots, strides that avoid bank
// conflicts, prefetches. Each is seen in the text, and the results stay the same.
#include "catch.h"
#include "check.h"
#include "nestor/schedule.h"
#include "nestor/walk.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

// The tiled MatMul with further steps.
CudaCase matmul_with(const std::string& steps, const std::string& name) {
  auto [func, scheduled] = example("matmul");
  func.name = scheduled.name = name;
  return make_case(func, apply(scheduled, parse_trace(steps)));
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

}  // namespace

TEST_CASE("a pipelined MatMul keeps its slots apart with one barrier an iteration") {
  const std::vector<CudaCase> cases = {
      matmul_with("software_pipeline C.k0 stages=2", "two"),
      matmul_with("software_pipeline C.k0 stages=3", "three"), matmul_with("", "plain"),
      matmul_with("software_pipeline C.k0 through=registers", "between"),
      matmul_with("software_pipeline C.k0 stages=3 through=registers", "between_three")};
  CHECK(cases[0].program.kernels[0].shared_bytes == 2 * cases[2].program.kernels[0].shared_bytes);
  CHECK(cases[1].program.kernels[0].shared_bytes == 3 * cases[2].program.kernels[0].shared_bytes);
  CHECK(count(cases[2].program.source, "__syncthreads();") == 2);
  INFO(cases[0].program.source);
  for (const size_t piped : {0, 3}) CHECK(count(cases[piped].program.source, "__syncthreads();") == 1);
  // Loaded before the products, stored after them.
  const std::string& between = cases[3].program.source;
  CHECK(between.find("As_ahead[") < between.find("fmaf("));
  CHECK(between.rfind("= As_ahead[") > between.rfind("fmaf("));
  check_cases(cases);
}

TEST_CASE("aligned strides and prefetches are in the text, and change no result") {
  const std::vector<CudaCase> cases = {
      matmul_with("storage_align As 0 32 1\nstorage_align Bs 0 32 8", "aligned"),
      matmul_with("prefetch As.k0 A distance=2\nprefetch Bs.k0 B", "ahead"),
      matmul_with("storage_align As 0 32 17\nsoftware_pipeline C.k0\nprefetch As.k0 A distance=2", "both")};
  CHECK(cases[0].program.source.find("[528]") != std::string::npos);
  CHECK(count(cases[1].program.source, "prefetch_l2(&A[") == 1);
  CHECK(count(cases[1].program.source, "prefetch_l2(&B[") == 1);
  INFO(cases[0].program.source << cases[1].program.source);
  check_cases(cases);
}

TEST_CASE("NVRTC compiles pipelines and prefetches for sm_80 and sm_90a") {
  if (!has_nvrtc()) return;
  const CudaCase c = matmul_with("software_pipeline C.k0\nprefetch As.k0 A distance=2", "piped");
  for (const char* name : {"cuda:sm_80", "cuda:sm_90a"})
    CHECK(compile_ptx(c.program.source, parse_target(name)).find("prefetch.global.L2") != std::string::npos);
}

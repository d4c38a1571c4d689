// Products of few rows with a wide operand that isn't packed, in parts of a few of its rows.
#include "catch.h"
#include "nestor/library.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

Target near(int64_t l2_bytes) {
  Target target = with_l2("x86-64-v3", l2_bytes);
  target.issue_width = 6;
  target.cores = 1;
  return target;
}

const char* const kParts = ".k [_, 8] tail=peel\n";

}  // namespace

TEST_CASE("few rows times a matrix from behind the cache take a few of its rows at a time") {
  Target target = near(512 << 10);
  for (const char* spec :
       {"MatMul(f32[1,1600], f32[1600,1322])", "MatMul(f32[6,1600], f32[1600,1322])",
        "MatMul(f32[1,400], f32[400,400])", "Gemm(f32[4,2000], f32[2000,1000], f32[1000])"})
    CHECK(default_has(spec, kParts, target));
  // Packed; near enough to ask ahead; one factor; all of it in the cache; many rows; columns of a tile;
  // results that don't stay; its columns lie dense.
  for (const char* spec :
       {"MatMul(f32[1,1600], const f32[1600,1322])", "MatMul(f32[6,400], f32[400,400])",
        "ReduceSum(f32[1600,1322], const i64[1]{0})", "MatMul(f32[1,300], f32[300,300])",
        "MatMul(f32[40,1600], f32[1600,1322])", "MatMul(f32[1,10000], f32[10000,64])",
        "MatMul(f32[6,128], f32[128,30000])", "Gemm(f32[4,1500], f32[1000,1500]; transB=1)"})
    CHECK_FALSE(default_has(spec, kParts, target));
  target.issue_width = 4;
  CHECK_FALSE(default_has("MatMul(f32[1,1600], f32[1600,1322])", kParts, target));
  target = with_far_l3("x86-64-v3", 512 << 10);
  target.issue_width = 6;
  CHECK_FALSE(default_has("MatMul(f32[1,1600], f32[1600,1322])", kParts, target));
}

TEST_CASE("threads have their own columns of such a product, and ragged sizes are right") {
  Target target = near(36 << 10);
  target.parallel_us = 0;
  for (const int cores : {1, 2}) {
    target.cores = cores;
    for (const char* spec : {"MatMul(f32[1,67], f32[67,1067])", "MatMul(f32[2,110], f32[110,1030])",
                             "Gemm(f32[1,65], f32[65,1031], f32[1031])"}) {
      INFO(spec << " on " << cores);
      CHECK(default_has(spec, kParts, target));
      CHECK((cores > 1) == default_has(spec, ".jc\n", target));
      check_default(spec, target, true);
    }
  }
  const char* few_columns = "MatMul(f32[5,290], f32[290,403])";
  CHECK_FALSE(default_has(few_columns, kParts, target));
  target.cores = 1;
  CHECK(default_has(few_columns, kParts, target));
  check_default(few_columns, target, true);
}

TEST_CASE("of more rows the part's copy is made as it begins") {
  Target target = near(512 << 10);
  const std::string parts = ".k [_, 64] tail=peel\n", copy = "compute_at B_packed Y.k0\n";
  const auto both = [&](const char* spec) {
    CHECK(default_has(spec, parts, target) == default_has(spec, copy, target));
    return default_has(spec, copy, target);
  };
  CHECK(both("MatMul(f32[46,1557], f32[1557,1408])"));
  CHECK(both("MatMul(f32[24,1600], f32[1600,1322])"));
  CHECK_FALSE(both("MatMul(f32[46,1557], const f32[1557,1408])"));
  CHECK_FALSE(both("MatMul(f32[128,1500], f32[1500,1500])"));  // many rows
  CHECK_FALSE(both("MatMul(f32[96,300], f32[300,6144])"));     // results that don't stay
  CHECK_FALSE(both("MatMul(f32[40,400], f32[400,400])"));      // a copy that does
  target.parallel_us = 0;
  for (const auto& [cores, kib, ragged] : {std::tuple(1, 100, "MatMul(f32[65,450], f32[450,202])"),
                                           {2, 264, "MatMul(f32[50,140], f32[140,1024])"}}) {
    target.cores = cores;
    target.l2_bytes = kib << 10;
    CHECK(both(ragged));
    check_default(ragged, target, true);
  }
}

// Products of few rows with a wide operand that isn't packed: k-blocking.
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

TEST_CASE("what comes from memory is copied by parts, and the next part's rows are asked for") {
  Target target = near(512 << 10);
  const std::string copy = "compute_at B_packed Y.k0\n",
                    ahead = "prefetch B_packed.k0 B distance=1 shares=Y_part.k1p\n";
  const auto both = [&](const char* spec) {
    CHECK(default_has(spec, copy, target) == default_has(spec, ahead, target));
    return default_has(spec, copy, target);
  };
  CHECK(both("MatMul(f32[20,1828], f32[1828,1815])"));
  CHECK(both("MatMul(f32[12,16,600], f32[12,600,500])"));
  CHECK_FALSE(both("MatMul(f32[12,16,600], f32[600,500])"));   // the same for all
  CHECK_FALSE(both("MatMul(f32[4,16,600], f32[4,600,500])"));  // not so much of it
  CHECK_FALSE(both("MatMul(f32[12,3,600], f32[12,600,500])"));
  CHECK_FALSE(default_has("Conv(f32[1,1,400,4000], f32[8,1,128,1])", "rfactor", target));  // they overlap
  CHECK_FALSE(both("MatMul(f32[40,16,120], f32[40,120,500])"));  // one part and a rest
  target.parallel_us = 0;
  target.l2_bytes = 36 << 10;
  for (const int cores : {1, 2}) {
    target.cores = cores;
    for (const auto& [ragged, batches] : {std::pair("MatMul(f32[3,5,201], f32[3,201,1030])", 3),
                                          {"MatMul(f32[9,7,130], f32[9,130,97])", 9}}) {
      INFO(ragged << " on " << cores);
      CHECK(both(ragged));
      CHECK((batches < 4 * cores && cores > 1) == default_has(ragged, "jc jt = split", target));
      check_default(ragged, target, true);
    }
  }
}

TEST_CASE("rows that meet in few sets of the first level are read by parts whose lines stay there") {
  Target target = near(512 << 10);
  const auto steps = [&](const std::string& spec) {
    int found = 0;
    for (const int n : {8, 32, 64})
      if (default_has(spec, ".k [_, " + std::to_string(n) + "] tail=peel\n", target)) found += n;
    return default_has(spec, "_part = rfactor", target) ? found : 0;
  };
  CHECK(steps("MatMul(f32[18,492], f32[492,384])") == 64);
  CHECK(steps("MatMul(f32[48,492], f32[492,384])") == 64);
  CHECK(steps("MatMul(f32[12,492], f32[492,768])") == 32);  // 64 lines don't stay
  CHECK(steps("MatMul(f32[3,492], f32[492,384])") == 8);
  CHECK(steps("MatMul(f32[2,18,492], f32[2,492,384])") == 64);
  CHECK(steps("MatMul(f32[18,492], f32[492,400])") == 0);    // spread over all sets
  CHECK(steps("MatMul(f32[18,1000], f32[1000,401])") == 0);  // so do more than it holds
  CHECK(steps("MatMul(f32[18,320], f32[320,384])") == 0);    // all of it stays
  CHECK(steps("MatMul(f32[18,200], f32[200,1024])") == 0);   // few parts
  CHECK(steps("MatMul(f32[49,492], f32[492,384])") == 0);
  CHECK(steps("MatMul(f32[1,300], f32[300,1024])") == 8);  // a stream
  target.cores = 2;
  CHECK(steps("MatMul(f32[18,492], f32[492,384])") == 64);
  CHECK(steps("MatMul(f32[3,492], f32[492,384])") == 64);  // short rows for each thread
  target.parallel_us = 0;
  target.l2_bytes = 300 << 10;
  for (const int cores : {1, 2}) {
    target.cores = cores;
    for (const auto& [spec, part] : {std::pair("MatMul(f32[7,259], f32[259,384])", 64),
                                     {"MatMul(f32[2,19,260], f32[2,260,512])", 32},
                                     {"Gemm(f32[2,259], f32[259,384], f32[384])", cores > 1 ? 64 : 8}}) {
      INFO(spec << " on " << cores);
      CHECK(default_has(spec, "_part = rfactor", target));
      CHECK(steps(spec) == part);
      check_default(spec, target, true);
    }
  }
}

// Operands of products that are copied first: for how many rows, and how much of them at a time.
#include "catch.h"
#include "compiled.h"

using namespace nestor;

TEST_CASE("an operand of more pages than stay translated is copied for fewer rows where vectors are short") {
  const auto copies = [](const std::string& spec, const char* cpu) {
    return default_has(spec, "B_packed", with_l2(cpu, 512 << 10));
  };
  CHECK(copies("MatMul(f32[24,1925], f32[1925,1423])", "x86-64-v3"));
  CHECK_FALSE(copies("MatMul(f32[12,1925], f32[1925,1423])", "x86-64-v3"));
  CHECK_FALSE(copies("MatMul(f32[24,1925], f32[1925,1423])", "x86-64-v4"));
  CHECK(copies("MatMul(f32[48,1200], f32[1200,1423])", "x86-64-v3"));
  // Of fewer pages for more rows: near the third level, where they begin at no line or don't stay in the
  // cache.
  CHECK(copies("MatMul(f32[64,873], f32[873,586])", "x86-64-v3"));
  CHECK_FALSE(copies("MatMul(f32[63,873], f32[873,586])", "x86-64-v3"));
  CHECK_FALSE(copies("MatMul(f32[64,873], f32[873,586])", "x86-64-v4"));
  CHECK(copies("MatMul(f32[96,300], f32[300,250])", "x86-64-v3"));
  CHECK(copies("MatMul(f32[96,896], f32[896,592])", "x86-64-v3"));
  CHECK_FALSE(copies("MatMul(f32[95,896], f32[896,592])", "x86-64-v3"));
  CHECK_FALSE(copies("MatMul(f32[200,300], f32[300,400])", "x86-64-v3"));  // it stays
  // Or meet in few sets of the first level, which would hold a panel.
  CHECK(copies("MatMul(f32[96,64], f32[64,1024])", "x86-64-v3"));
  CHECK_FALSE(copies("MatMul(f32[95,64], f32[64,1024])", "x86-64-v3"));
  CHECK_FALSE(copies("MatMul(f32[96,64], f32[64,1040])", "x86-64-v3"));
  CHECK_FALSE(copies("MatMul(f32[96,64], f32[64,1024])", "x86-64-v4"));
  CHECK_FALSE(
      default_has("MatMul(f32[64,873], f32[873,586])", "B_packed", with_far_l3("x86-64-v3", 512 << 10)));
  CHECK_FALSE(copies("MatMul(f32[40,1200], f32[1200,1424])", "x86-64-v3"));
  check_scheduled_for("MatMul(f32[97,65], f32[65,1024])", with_l2("x86-64-v3", 512 << 10));
  check_scheduled_for("MatMul(f32[25,1601], f32[1601,1027])", with_l2("x86-64-v3", 512 << 10));
}

TEST_CASE("a panel of short vectors is copied while the next one is asked for, if both stay") {
  const auto asks = [](const std::string& spec, const Target& target) {
    const bool asked = default_has(spec, "prefetch B_packed.j0 B distance=1 shares=Y.", target);
    if (asked) CHECK(default_has(spec, "compute_at B_packed Y.j0", target));
    return asked;
  };
  Target near = with_l2("x86-64-v3", 512 << 10);
  near.issue_width = 6;
  for (const char* rows : {"96", "128", "512"})
    CHECK(asks(std::string("MatMul(f32[") + rows + ",832], f32[832,1856])", near));
  CHECK(asks("MatMul(f32[64,832], f32[832,1855])", near));
  CHECK_FALSE(asks("MatMul(f32[60,832], f32[832,896])", near));
  CHECK_FALSE(asks("MatMul(f32[60,832], f32[832,900])", near));
  CHECK(asks("MatMul(f32[32,723], f32[723,1904])", near));  // it comes from afar
  CHECK_FALSE(asks("MatMul(f32[31,723], f32[723,1904])", near));
  CHECK_FALSE(asks("MatMul(f32[60,832], f32[832,2048])", near));     // too few sets of the first level
  CHECK_FALSE(asks("MatMul(f32[520,832], f32[832,1856])", near));    // the copy counts for little
  CHECK_FALSE(asks("MatMul(f32[128,256], f32[256,256])", near));     // all of it stays
  CHECK_FALSE(asks("MatMul(f32[128,3072], f32[3072,768])", near));   // two panels don't
  CHECK_FALSE(asks("MatMul(f32[128,1300], f32[1300,2000])", near));  // each row has a page
  CHECK_FALSE(asks("MatMul(f32[128,832], const f32[832,1856])", near));
  CHECK_FALSE(asks("MatMul(f32[128,832], f32[832,1856])", with_far_l3("x86-64-v3", 512 << 10)));
  near.cores = 2;
  CHECK(asks("MatMul(f32[128,832], f32[832,1856])", near));
  CHECK_FALSE(asks("MatMul(f32[128,1000], f32[1000,100])", near));  // too few panels for two
  for (const char* spec : {"MatMul(f32[97,409], f32[409,555])", "MatMul(f32[2,70,300], f32[2,300,483])"})
    check_scheduled_for(spec, near);
}

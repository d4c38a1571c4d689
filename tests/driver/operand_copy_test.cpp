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

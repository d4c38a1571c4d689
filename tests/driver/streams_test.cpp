// Operands of products that don't fit in L2: what the default schedules prefetch.
#include <fmt/format.h>

#include "catch.h"
#include "compiled.h"
#include "nestor/driver.h"
#include "nestor/library.h"
#include "nestor/print.h"

using namespace nestor;

TEST_CASE("rows that leave the cache before the next tile of columns are asked for a tile ahead") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  const std::string rows = "prefetch Y.i0 A distance=1 shares=k0";
  CHECK(default_has("MatMul(f32[2048,2048], const f32[2048,2048])", rows, target));
  CHECK(default_has("MatMul(f32[2048,2048], f32[2048,2048])", rows, target));
  CHECK(default_has("Gemm(f32[700,1000], const f32[1000,900], const f32[900])", "A distance=1 shares=k0",
                    target));
  CHECK_FALSE(default_has("MatMul(f32[128,768], const f32[768,768])", "k0 A", target));  // A stays
  CHECK_FALSE(
      default_has("MatMul(f32[9000,1000], const f32[1000,32])", "prefetch", target));  // A passes once
  const Target small = with_l2("x86-64-v4", 1 << 18);
  CHECK(default_has("MatMul(f32[128,768], const f32[768,768])", rows, small));
  // 9 x 3 accumulators: a line of each row in 216 cycles. The tile's rows are a good part of the cache.
  CHECK(default_has("MatMul(f32[128,1500], const f32[1500,768])", "prefetch Y.k0 A distance=2", small));
}

TEST_CASE("short rows are asked for a tile ahead while all tiles of columns use this tile's") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  const std::string rows = "prefetch Y.i0 A distance=1 shares=j0";
  CHECK(default_has("MatMul(f32[9000,64], const f32[64,256])", rows, target));
  CHECK(default_has("MatMul(f32[12,128,64], f32[12,64,128])", rows, target));
  CHECK_FALSE(default_has("MatMul(f32[500,64], const f32[64,256])", rows, target));    // near
  CHECK_FALSE(default_has("MatMul(f32[20000,64], const f32[64,16])", rows, target));   // one tile of columns
  CHECK_FALSE(default_has("MatMul(f32[9000,512], const f32[512,64])", rows, target));  // long rows
  Target narrow = target;
  narrow.issue_width = 4;
  CHECK_FALSE(default_has("MatMul(f32[9000,64], const f32[64,256])", rows, narrow));
}

TEST_CASE("steps of a wide operand that few rows use are asked for ahead") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  // 9 x 3 accumulators: 300 cycles are 24 steps of 13.
  CHECK(default_has("MatMul(const f32[25,271], f32[271,3000])", "prefetch Y.k B distance=24", target));
  Target narrow = target;
  narrow.issue_width = 4;  // 7 x 3, two steps in one body; 200 cycles
  CHECK(default_has("MatMul(const f32[25,271], f32[271,3000])", "prefetch Y.kp B distance=10", narrow));
  CHECK(default_has("Conv(f32[1,320,85,85], const f32[8,320,1,1])", "prefetch Y.c X distance=", target));
  CHECK_FALSE(
      default_has("MatMul(const f32[25,271], f32[271,500])", "prefetch", target));  // stays in the cache
  CHECK_FALSE(
      default_has("MatMul(const f32[400,271], f32[271,3072])", "prefetch Y.k B", target));  // asked too often
  CHECK_FALSE(default_has("MatMul(const f32[25,16], f32[16,30720])", "prefetch", target));  // few steps
  // Where the third level is far, so is the second, and rows a multiple of 4 KB apart share the ways of a
  // set.
  narrow = with_far_l3("x86-64-v4", 1 << 20);
  narrow.issue_width = 4;
  narrow.l1_bytes = 32 << 10;
  narrow.l1_ways = 8;
  CHECK(default_has("MatMul(f32[8,128], f32[128,1531])", "prefetch Y.kp B distance=", narrow));
  CHECK(default_has("MatMul(f32[8,128], f32[128,1024])", "prefetch Y.kp B distance=3", narrow));
  CHECK_FALSE(default_has("MatMul(f32[8,128], f32[128,400])", "prefetch", narrow));
  CHECK_FALSE(default_has("MatMul(f32[2,128], f32[128,1531])", "prefetch", narrow));  // little work a line
  CHECK_FALSE(default_has("MatMul(f32[8,48], f32[48,3000])", "prefetch", narrow));  // most would be too late
  CHECK_FALSE(default_has("MatMul(f32[8,128], f32[128,1531])", "prefetch", target));
}

TEST_CASE("the next panel of weights that don't stay in the cache is asked for in shares") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  CHECK(default_has("MatMul(f32[128,768], const f32[768,3072])", "prefetch Y.j0 B distance=1 shares=k0",
                    target));
  CHECK(default_has("Gemm(f32[700,1000], const f32[1000,900], const f32[900])", "B distance=1 shares=k0",
                    target));
  const std::string conv = "Conv(f32[1,2048,7,7], const f32[512,2048,1,1])";
  CHECK(default_has(conv, "W distance=1 shares=", target));
  CHECK_FALSE(default_has("MatMul(f32[128,768], f32[768,3072])", "shares", target));       // no constant
  CHECK_FALSE(default_has("MatMul(f32[2,1787], const f32[1787,289])", "shares", target));  // used twice
  CHECK_FALSE(
      default_has("MatMul(f32[128,256], const f32[256,256])", "shares", target));  // stays in the cache
  Target far = with_far_l3("x86-64-v4", 1 << 20);
  CHECK_FALSE(default_has("MatMul(f32[64,188], const f32[188,414])", "shares", far));
  CHECK(default_has("MatMul(f32[64,188], const f32[188,826])", "shares", far));
  CHECK_FALSE(default_has("MatMul(f32[900,9000], const f32[9000,32])", "shares", target));  // one panel
  CHECK_FALSE(
      default_has("MatMul(f32[128,9001], const f32[9001,768])", "shares", target));  // too long for the cache
  // Two panels of a group, each met by 55 rows of vectors outside of both; or by few, each of many rows; or,
  // in the next image, when those of all groups have passed.
  Target pumped = target;
  pumped.double_pumped = true;
  const auto up = [](const std::string& image, int groups) {
    return fmt::format(
        "ConvTranspose(f32[{0}], const f32[{1},8,4,4,4]; group={2}, strides=[2,2,2], pads=[1,1,1,1,1,1], "
        "output_padding=[1,1,1])",
        image, 45 * groups, groups);
  };
  CHECK_FALSE(default_has(up("1,360,10,4,7", 8), "prefetch T.ol0 W", pumped));
  CHECK(default_has(up("8,720,1,4,7", 16), "prefetch T.ol0 W distance=1 shares=c", pumped));
  CHECK(default_has("MatMul(f32[24,48,256], const f32[24,256,128])", "prefetch Y.j0 B distance=1", pumped));
}

TEST_CASE("panels of transformed weights follow each other through all products, each asked for ahead") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  const std::string conv = "Conv(f32[1,256,16,16], const f32[256,256,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(conv, "ob0s = fuse M_out (i j ob0)", target));
  CHECK(default_has(conv, "prefetch M.ob0s U distance=1 shares=cl", target));
  // A line for two steps, in each of which one queues less, where it is far.
  const std::string shallow = "Conv(f32[1,128,28,28], const f32[128,128,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(shallow, "prefetch M.ob0s U distance=1 shares=cb", target));
  Target far_wide = with_far_l3("x86-64-v4", 1 << 20);
  CHECK(default_has(shallow, "prefetch M.ob0s U distance=1 shares=cl", far_wide));
  // There the tiles' data of the next product also come, by each of a few panels.
  CHECK(default_has(shallow, "prefetch M.ob0s V distance=4 shares=cl", far_wide));
  CHECK_FALSE(default_has(shallow, "prefetch M.ob0s V", target));
  const std::string many = "Conv(f32[1,128,16,16], const f32[288,128,3,3]; pads=[1,1,1,1])";
  CHECK_FALSE(default_has(many, "prefetch M.ob0s V", far_wide));
  far_wide.l1_bytes = 16 << 10;
  CHECK_FALSE(default_has(shallow, "prefetch M.ob0s V", far_wide));
  Target tight = target;  // rows and the next panel don't fit
  tight.l3_bytes_per_cycle = 9;
  tight.l1_bytes = 32 << 10;
  tight.l1_ways = 8;
  CHECK(default_has(conv, "prefetch M.cb U distance=4 shares=cl", tight));
  const std::string wider = "Conv(f32[1,320,16,16], const f32[320,320,3,3]; pads=[1,1,1,1])";
  CHECK_FALSE(default_has(wider, "prefetch M.cb U", tight));
  // This panel and the rows fit, not the next one beside them.
  const std::string medium = "Conv(f32[1,192,16,16], const f32[192,192,3,3]; pads=[1,1,1,1])";
  CHECK_FALSE(default_has(medium, "prefetch M.cb U", tight));
  tight.issue_width = 4;
  CHECK(default_has(medium, "prefetch M_part.ob0 U distance=1 shares=cl", tight));
  const std::string even = "Conv(f32[1,128,16,16], const f32[128,128,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(even, "prefetch M.cb U distance=4 shares=cl", tight));
  CHECK(default_has(wider, "prefetch M_part.cb1 U distance=4 shares=cl", tight));
  const std::string smaller = "Conv(f32[1,256,14,14], const f32[256,256,3,3]; pads=[1,1,1,1])";  // 25 tiles
  CHECK(default_has(smaller, "prefetch M_part.cb1 U distance=4 shares=cl", tight));
  const std::string widest = "Conv(f32[1,448,16,16], const f32[448,448,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(widest, "ob_columns = sample_choice [1, 2, 3, 4] -> 1", tight));
  const std::string small = "Conv(f32[1,32,56,56], const f32[32,32,3,3]; pads=[1,1,1,1])";
  CHECK_FALSE(default_has(small, "prefetch", target));
  // Of 32 blocks of filters, 3 to a panel would leave some over.
  Target narrow = tight;
  narrow.cores = 1;
  narrow.issue_width = 4;
  narrow.l3_bytes_per_cycle = 9;
  const std::string deep = "Conv(f32[1,512,28,28], const f32[512,512,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(deep, "ob0s = fuse M_out (i j ob0)", narrow));
  Target wide = narrow;
  wide.issue_width = 6;
  // One tile of all columns would leave no next panel: all rows use it at once, or it is one of two.
  const std::string few = "Conv(f32[1,64,14,14], const f32[64,64,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(few, "ob_columns = sample_choice [1, 2, 3] -> 1", narrow));
  CHECK(default_has(few, "prefetch M.ob0s U distance=1 shares=cl", narrow));
  CHECK_FALSE(default_has(few, "ob_columns = sample_choice [1, 2, 3] -> 1", wide));
  const std::string odd = "Conv(f32[1,64,33,33], const f32[64,64,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(odd, "ob_columns = sample_choice [1, 2, 3] -> 2", narrow));
  CHECK(default_has(odd, "prefetch M.cb U distance=", narrow));
  // 13 blocks have no divisor but 1.
  const std::string prime = "Conv(f32[1,200,28,28], const f32[200,200,3,3]; pads=[1,1,1,1])";
  CHECK_FALSE(default_has(prime, "ob_columns = sample_choice [1, 2, 3, 4] -> 1", narrow));
}

namespace {

Target narrow_and_far(int64_t l2_bytes) {
  Target target = with_far_l3("x86-64-v4", l2_bytes);
  target.l1_bytes = 32 << 10;
  target.l1_ways = 8;
  target.l3_bytes = 36 << 20;
  target.l3_bytes_per_cycle = 9;
  target.issue_width = 4;
  return target;
}

}  // namespace

TEST_CASE("threads share uneven blocks of rows of tiles if the products of one are too short") {
  Target target = with_l2("x86-64-v3", 512 << 10);
  target.cores = 2;
  target.parallel_us = 20;
  const std::string spec = "Conv(f32[1,224,20,36], const f32[16,224,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(spec, "split Y.y [_, 4]", target));  // 5 blocks
  CHECK(default_has(spec, "parallel Y.y_b", target));
}

TEST_CASE("transformed products of many channels go in parts whose tiles stay in the first-level cache") {
  Target target = narrow_and_far(1 << 20);
  const auto parts_of = [&](const std::string& spec, int parts) {
    return default_has(spec, "cb0 cb1 = split M.cb [" + std::to_string(parts) + ", _]", target);
  };
  const std::string conv = "Conv(f32[1,320,14,14], const f32[320,320,3,3]; pads=[1,1,1,1])";  // 25 tiles
  CHECK(parts_of(conv, 4));
  CHECK(default_has(conv, "M_part = rfactor M.cb0 axis=0", target));
  CHECK(default_has(conv, "reorder M (i j cb0 ob0 t ob1 ol)", target));
  CHECK(default_has(conv, "unroll M.cb0", target));
  CHECK(default_has(conv, "(d2, d3, d4/5, d0/ob_columns, d4%5, d5, d0%ob_columns, d1)", target));
  CHECK(parts_of("Conv(f32[1,256,14,14], const f32[512,256,3,3]; pads=[1,1,1,1])", 2));
  // Tiles of 3 or 4 columns would do, but for one column there is room in the first-level cache.
  CHECK(parts_of("Conv(f32[1,256,14,14], const f32[256,256,3,3]; pads=[1,1,1,1])", 2));
  CHECK(parts_of("Conv(f32[1,192,14,14], const f32[192,192,3,3]; pads=[1,1,1,1])", 2));
  CHECK(parts_of("Conv(f32[1,512,7,7], const f32[512,512,3,3]; pads=[1,1,1,1])", 4));
  const auto whole = [&](const std::string& spec) { return !default_has(spec, "rfactor", target); };
  CHECK(whole("Conv(f32[1,384,14,14], const f32[384,384,3,3]; pads=[1,1,1,1])"));  // tiles of 3 columns
  CHECK(whole("Conv(f32[1,128,14,14], const f32[128,128,3,3]; pads=[1,1,1,1])"));  // all of it stays
  CHECK(whole("Conv(f32[1,512,28,28], const f32[512,512,3,3]; pads=[1,1,1,1])"));  // 49 tiles
  target.cores = 2;
  CHECK(default_has(conv, "parallel M.g", target));
  target.cores = 16;  // 25 points
  CHECK(whole(conv));
  target.cores = 1;
  target.issue_width = 6;
  CHECK(whole(conv));
}

TEST_CASE("transformed products in parts of their channels are right") {
  for (const int cores : {1, 2})
    for (const char* spec : {"Conv(f32[1,192,14,14], const f32[192,192,3,3]; pads=[1,1,1,1])",
                             "Conv(f32[1,320,14,14], const f32[320,320,3,3], const f32[320]; pads=[1,1,1,1])",
                             "Conv(f32[1,512,7,7], const f32[512,512,3,3]; pads=[1,1,1,1])"}) {
      Target target = narrow_and_far(1 << 20);
      target.cores = cores;
      target.parallel_us = 0;
      INFO(spec << " on " << cores);
      CHECK(default_has(spec, "M_part = rfactor", target));
      check_scheduled_for(spec, target);
    }
}

TEST_CASE("where the last cache is far away, weights that few rows use are asked for a little ahead") {
  const Target near = with_l2("x86-64-v4", 1 << 20), far = with_far_l3("x86-64-v4", 1 << 20);
  const std::string eight = "MatMul(f32[8,768], const f32[768,3072])";  // 192 bytes a step
  CHECK(default_has(eight, "prefetch Y.k B distance=42", far));
  CHECK(
      default_has("Gemm(f32[2,1024], const f32[1000,1024], const f32[1000]; transB=1)", "B distance=", far));
  CHECK_FALSE(default_has(eight, "prefetch", near));
  CHECK_FALSE(default_has("MatMul(f32[8,768], f32[768,3072])", "prefetch Y.k B distance=42", far));
  CHECK_FALSE(default_has("MatMul(f32[8,256], const f32[256,256])", "prefetch", far));  // stays in the cache
  CHECK_FALSE(default_has("MatMul(f32[8,64], const f32[64,16384])", "prefetch", far));  // short panels
  CHECK_FALSE(default_has("MatMul(f32[16,768], const f32[768,3072])", "prefetch Y.k", far));  // a panel ahead
  // On a narrow core from several panels of a tile at a time, also for one row.
  Target narrow = far;
  narrow.issue_width = 4;
  const std::string row = "MatMul(f32[1,768], const f32[768,3072])";
  CHECK(default_has(row, "B (d0, d1) -> (d1/32, d0, d1%32)", narrow));
  CHECK(default_has(row, "prefetch Y.kp B distance=8", narrow));
  // A wide core reads pairs of vectors.
  CHECK(default_has(row, "B (d0, d1) -> (d1/32, d0, d1%32)", far));
  CHECK(default_has(row, "prefetch Y.k B distance=4", far));
  CHECK(default_has("MatMul(f32[2,768], const f32[768,3072])", "(d1/32, d0", far));
  CHECK(default_has("MatMul(f32[8,768], const f32[768,3072])", "(d1/16, d0", far));  // three vectors
  CHECK(default_has("MatMul(f32[16,768], const f32[768,3072])", "(d1/j_width, d0", far));
  CHECK(default_has("MatMul(f32[1,256], const f32[256,256])", "(d1/j_width, d0",
                    narrow));  // stays in the cache
  CHECK(default_has(eight, "B (d0, d1) -> (d1/16, d0, d1%16)", narrow));
  CHECK(default_has("MatMul(f32[2,768], const f32[768,3072])", "(d1/32, d0", narrow));
  CHECK(default_has("MatMul(f32[16,768], const f32[768,3072])", "(d1/j_width, d0", narrow));
  check_scheduled_for("MatMul(f32[5,517], const f32[517,1031])", narrow);
  check_scheduled_for("MatMul(f32[1,517], const f32[517,1031])", narrow);
  // 9 tiles.
  const std::string winograd = "Conv(f32[1,512,6,6], const f32[512,512,3,3]; pads=[1,1,1,1])";
  CHECK(default_has(winograd, "prefetch M.cb U distance=4 shares=cl", far));
  CHECK_FALSE(default_has(winograd, "prefetch", near));
  // Panels of 16 KB, which follow each other.
  CHECK(default_has("Conv(f32[1,128,6,6], const f32[256,128,3,3]; pads=[1,1,1,1])", "M.cb U distance=", far));
  check_scheduled_for("MatMul(f32[5,517], const f32[517,1031])", far);
  check_scheduled_for("MatMul(f32[1,517], const f32[517,1031])", far);
}

TEST_CASE("tiles are wider where rows stream, as far as two panels stay in the cache") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  const auto tile = [&](const std::string& spec, const Target& t) {
    const auto rows = [&](int n) { return default_has(spec, "-> " + std::to_string(n) + "\n", t); };
    return rows(14) ? 14 : rows(9) ? 9 : rows(6) ? 6 : 0;
  };
  CHECK(tile("MatMul(f32[512,512], const f32[512,512])", target) == 6);
  CHECK(tile("MatMul(f32[512,512], const f32[512,512])", with_l2("x86-64-v4", 4 << 20)) == 14);
  CHECK(tile("MatMul(f32[1024,1024], const f32[1024,1024])", target) == 6);
  CHECK(tile("MatMul(f32[128,3072], const f32[3072,768])", target) == 9);  // panels of 768 KiB otherwise
  Target narrow_vectors = with_l2("x86-64-v3", 1 << 20);
  narrow_vectors.issue_width = 6;
  CHECK(tile("MatMul(f32[512,512], const f32[512,512])", narrow_vectors) == 6);
}

TEST_CASE("panels of a copy are asked for ahead where the third level is near") {
  Target near = with_l2("x86-64-v3", 512 << 10);
  near.issue_width = 6;
  const std::string next = "prefetch Y.j0 B_packed distance=1 shares=k0";
  CHECK(default_has("MatMul(f32[128,1500], f32[1500,1000])", next, near));
  CHECK_FALSE(default_has("MatMul(f32[128,256], f32[256,256])", next, near));  // all of it stays
  CHECK_FALSE(
      default_has("MatMul(f32[128,1500], f32[1500,1000])", next, with_far_l3("x86-64-v3", 512 << 10)));
}

TEST_CASE("few rows read short vectors from several panels near the third level too") {
  Target near = with_l2("x86-64-v3", 512 << 10);
  near.issue_width = 6;
  const auto panels = [&](const char* spec, const std::string& width) {
    return default_has(spec, fmt::format("B (d0, d1) -> (d1/{0}, d0, d1%{0})", width), near);
  };
  CHECK(panels("MatMul(f32[1,4096], const f32[4096,4096])", "16"));    // 4 of two vectors
  CHECK(panels("MatMul(f32[4,768], const f32[768,3072])", "8"));       // 3
  CHECK(panels("MatMul(f32[1,200], const f32[200,200])", "j_width"));  // it stays
  CHECK_FALSE(default_has("MatMul(f32[1,4096], const f32[4096,4096])", "prefetch", near));
  for (const char* spec :
       {"MatMul(f32[1,333], const f32[333,403])", "MatMul(f32[3,500], const f32[500,290])"})
    check_default(spec, near);
  near.vector_bits = 512;
  CHECK(panels("MatMul(f32[1,4096], const f32[4096,4096])", "j_width"));
}

TEST_CASE("short panels that few rows use are asked for panels ahead where the third level is near") {
  Target near = with_l2("x86-64-v3", 512 << 10);
  near.l1_bytes = 32 << 10;
  near.issue_width = 6;
  CHECK(default_has("Conv(f32[1,64,126,126], const f32[11,64,1,1])",
                    "prefetch Y.yx0 X distance=2 shares=cp\n", near));
  CHECK(default_has("MatMul(f32[9,128], f32[128,8192])", "prefetch Y.j0 B distance=2 shares=k\n", near));
  CHECK_FALSE(default_has("MatMul(f32[25,271], f32[271,3000])", "prefetch Y.j0 B", near));  // too long
  CHECK_FALSE(default_has("MatMul(f32[9,128], f32[128,700])", "prefetch Y.j0 B", near));    // it stays
  near = with_far_l3("x86-64-v3", 512 << 10);
  CHECK_FALSE(default_has("MatMul(f32[9,128], f32[128,8192])", "prefetch Y.j0 B", near));
  near = with_l2("x86-64-v3", 16 << 10);
  near.issue_width = 6;
  near.parallel_us = 0;
  for (const char* spec : {"Conv(f32[1,64,26,21], const f32[11,64,1,1])", "MatMul(f32[9,70], f32[70,309])"}) {
    check_default(spec, near, true);
  }
}

TEST_CASE("products whose rows are asked for ahead are right at ragged sizes") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const std::string spec :
         {"MatMul(f32[61,301], const f32[301,130])", "MatMul(f32[64,256], f32[256,99])",
          "Gemm(f32[90,128], const f32[300,128], const f32[300]; transB=1)"}) {
      Target target = with_l2(name, 80 << 10);
      target.issue_width = 6;  // fewer ask for no rows
      INFO(spec << " for " << name);
      CHECK(default_has(spec, " A distance=", target));
      CHECK(default_has(spec, "B distance=1 shares=k0", target) == (spec.find("const") != std::string::npos));
      check_scheduled_for(spec, target);
    }
}

TEST_CASE("columns go by runs where rows lie far apart, far from the core") {
  const auto runs = [](const std::string& spec, Target target) {
    target.cores = 1;
    CompileOptions options;
    options.target = target;
    const CompiledModel m = partition_model(load(spec), options);
    const std::string trace = print(default_schedule(m.partition.funcs[0], target));
    INFO(trace);
    const auto made_for = [&](const std::string& run) {
      return trace.find("_packed Y." + run) != std::string::npos;
    };
    return made_for("yxb") || made_for("jb");
  };
  const Target far = with_far_l3("x86-64-v4", 2 << 20);
  Target mesh = with_l2("x86-64-v4", 1 << 20);
  mesh.l3_bytes = 36 << 20;
  CHECK(!runs("Conv(f32[1,64,123,123], const f32[111,64,1,1])", mesh));
  mesh.l3_bytes_per_cycle = 9;  // however large
  CHECK(runs("Conv(f32[1,64,123,123], const f32[111,64,1,1])", mesh));
  CHECK(!runs("Conv(f32[1,168,97,97], const f32[16,168,1,1])", mesh));
  mesh.l1_bytes = 32 << 10;
  CHECK(runs("Conv(f32[1,168,97,97], const f32[16,168,1,1])", mesh));
  CHECK(!runs("Conv(f32[1,168,97,97], const f32[8,168,1,1])", mesh));
  CHECK(runs("Conv(f32[1,32,110,110], const f32[102,32,1,1])", far));    // rows begin at no line
  CHECK(runs("Conv(f32[1,128,112,112], const f32[128,128,1,1])", far));  // they do, but there is much of them
  CHECK(!runs("Conv(f32[1,32,110,110], const f32[102,32,1,1])", with_l2("x86-64-v4", 2 << 20)));
  CHECK(!runs("Conv(f32[1,128,56,56], const f32[128,128,1,1])", far));    // at lines, not much
  CHECK(!runs("Conv(f32[1,128,110,110], const f32[40,128,1,1])", far));   // too few rows share a copy
  CHECK(!runs("Conv(f32[1,32,15,15], const f32[102,32,1,1])", far));      // it stays in the cache
  CHECK(!runs("Conv(f32[1,1000,61,61], const f32[102,1000,1,1])", far));  // a page of its rows doesn't
  // The last run is ragged, by two vectors and an element; a batch; a whole number of runs.
  const Target small = with_far_l3("x86-64-v4", 64 << 10);
  for (const char* spec : {"Conv(f32[1,5,47,63], const f32[65,5,1,1])",
                           "Conv(f32[2,6,47,50], const f32[70,6,1,1])", "MatMul(f32[67,7], f32[7,3072])"}) {
    CHECK(runs(spec, small));
    check_scheduled_for(spec, small);
    CompileOptions options;
    options.target = small;
    options.schedules = default_schedules();
    for (const CompiledFunction& f : compile_model(spec, options).funcs) check_proof(f);
  }
}

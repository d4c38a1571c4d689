// Stores of results of tiles: non-temporal, or to lines that are prefetched.
#include "catch.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

Target with_l3(const char* name, int64_t bytes) {
  Target target = with_l2(name, 1 << 20);
  target.l3_bytes = bytes;
  return target;
}

}  // namespace

TEST_CASE("results that memory holds go past the caches where lines that a tile writes lie apart") {
  const Target near = with_l3("x86-64-v4", 32 << 20);
  const auto streams = [](const std::string& spec, const Target& target) {
    return default_has(spec, "annotate Y streaming=1", target) ||
           default_has(spec, "annotate Y_out streaming=1", target);
  };
  const std::string enlarged = "ConvTranspose(f32[1,16,64,54], const f32[16,64,4,4]; strides=[4,4])";
  CHECK(streams(enlarged, near));  // 14 MB
  CHECK_FALSE(streams("ConvTranspose(f32[1,16,32,54], const f32[16,64,4,4]; strides=[4,4])", near));
  CHECK_FALSE(streams(enlarged, with_l3("x86-64-v4", 64 << 20)));
  CHECK_FALSE(streams(enlarged, with_l3("x86-64-v3", 32 << 20)));  // half a line in each store
  CHECK_FALSE(streams(enlarged, with_far_l3("x86-64-v4", 1 << 20)));
  CHECK_FALSE(streams(enlarged, with_l3("x86-64-v4", 0)));
  CHECK_FALSE(streams("MatMul(f32[200,16], const f32[16,400])", with_l3("x86-64-v4", 1 << 20)));
  CHECK(streams("MatMul(f32[8000,16], const f32[16,400])", near));
  CHECK_FALSE(streams("MatMul(f32[8000,16], const f32[16,404])", near));  // rows begin at no line
  CHECK_FALSE(streams("MatMul(f16[8000,16], const f16[16,800])", near));  // half a line in each store
  // Narrow rows without a gap between them: a half of the last level instead of a third.
  CHECK_FALSE(streams("MatMul(f32[100000,4], const f32[4,32])", near));
  CHECK(streams("MatMul(f32[300000,4], const f32[4,32])", near));
  // So do long sums, which hide more.
  CHECK_FALSE(streams("MatMul(f32[2048,256], const f32[256,1600])", near));
  CHECK(streams("MatMul(f32[2048,256], const f32[256,3200])", near));
  CHECK_FALSE(streams("Conv(f32[1,16,320,320], const f32[64,16,1,1])", near));  // one line after the other
}

TEST_CASE("all nests of a transposed convolution stream, and what they write is right") {
  Target near = with_l3("x86-64-v4", 96 << 10);
  near.l2_bytes = 8 << 10;
  const std::string odd =
      "ConvTranspose(f32[1,16,9,10], const f32[16,32,3,3]; strides=[2,2], output_padding=[1,1])";
  for (const char* writer : {"Y", "Y1", "Y2", "Y3"})
    CHECK(default_has(odd, std::string("annotate ") + writer + " streaming=1", near));
  for (const std::string& spec :
       {odd, std::string("ConvTranspose(f32[2,8,7,5], const f32[8,32,4,4]; group=2, strides=[4,4])"),
        std::string(
            "ConvTranspose(f32[1,5,4,5,3], const f32[5,37,3,3,3]; strides=[3,3,3], output_padding=[2,2,2])"),
        std::string("MatMul(f32[67,9], const f32[9,400])"),
        std::string("MatMul(f32[3,65,9], f32[3,9,176])")}) {
    INFO(spec);
    check_default(spec, near, true);
    check_scheduled_for(spec, near);
  }
}

TEST_CASE(
    "output that leaves the cache is asked for where rows of a tile share a page, not where a tile is a "
    "row") {
  Target near = with_l2("x86-64-v4", 1 << 20);
  near.l3_bytes = 64 << 20;  // in less they would go past it
  const Target far = with_far_l3("x86-64-v4", 1 << 20);
  const std::string lines = "Y distance=1";
  CHECK(default_has("MatMul(f32[8000,16], const f32[16,400])", "prefetch Y_out.j0 Y distance=1", near));
  CHECK(default_has("ConvTranspose(f32[1,16,32,50], const f32[16,64,4,4]; strides=[4,4])", "prefetch Y.px Y",
                    near));
  // 3.5 MB, of which each nest writes a part.
  const std::string parts =
      "ConvTranspose(f32[1,16,16,50], const f32[16,64,5,5]; strides=[4,4], output_padding=[3,3])";
  CHECK(default_has(parts, "prefetch Y3.px Y", near));
  CHECK_FALSE(
      default_has("ConvTranspose(f32[1,16,16,50], const f32[16,64,4,4]; strides=[4,4])", lines, near));
  CHECK_FALSE(default_has("MatMul(f32[2000,16], const f32[16,400])", lines, near));    // stays
  CHECK_FALSE(default_has("MatMul(f32[4000,16], const f32[16,1024])", lines, near));   // a page for each row
  CHECK_FALSE(default_has("MatMul(f32[60000,16], const f32[16,16])", lines, near));    // no lines in between
  CHECK_FALSE(default_has("MatMul(f32[8000,100], const f32[100,400])", lines, near));  // long sums
  CHECK(default_has("MatMul(f32[4000,16], const f32[16,1003])", lines, far));  // rows begin at no line
  CHECK_FALSE(default_has("MatMul(f32[4000,160], const f32[160,1003])", lines, far));
  CHECK(default_has("MatMul(f32[4000,16], const f32[16,1003])", lines, near));
  CHECK(default_has("MatMul(f32[4000,500], const f32[500,1003])", lines, near));  // sums of any length
  CHECK_FALSE(default_has("MatMul(f32[1000,500], const f32[500,1003])", lines, near));
  const Target narrow = with_l2("x86-64-v3", 1 << 20);  // 3 MB suffice for short vectors
  CHECK(default_has("MatMul(f32[1000,500], const f32[500,1003])", lines, narrow));
  CHECK_FALSE(default_has("MatMul(f32[700,500], const f32[500,1003])", lines, narrow));
  CHECK_FALSE(default_has("MatMul(f32[8000,16], const f32[16,400])", lines, far));
}

TEST_CASE(
    "short sums of vectors that pass in two halves have no more stores than leave room for the next tile's") {
  Target halves = with_l2("x86-64-v4", 1 << 20);
  halves.double_pumped = true;
  const std::string tall = "MatMul(f32[960,8], f32[8,16])", taller = "MatMul(f32[960,17], f32[17,16])";
  CHECK(default_has(tall, "14, 16] -> 16\n", halves));
  CHECK(default_says(tall, "at most 16 stores: the next sums of 8", halves));
  CHECK(default_has(taller, "14, 30] -> 30\n", halves));
  CHECK(default_has(tall, "14, 30] -> 30\n", with_l2("x86-64-v4", 1 << 20)));
  CHECK_FALSE(default_says("MatMul(f32[3000,12], f32[12,1])", "more have left the core", halves));
  for (const char* spec :
       {"MatMul(f32[97,4], f32[4,150])", "Conv(f32[2,1,61], const f32[40,1,3]; pads=[2,2], dilations=[2])"})
    check_default(spec, halves, true);
}

TEST_CASE("rows of an image whose padding is skipped meet in the cache as the image lies") {
  // Images of 4 KB; with their padding they would be 6400 bytes.
  const std::string images = "Conv(f32[30,64,4,4], const f32[16,64,3,3]; strides=[2,2], pads=[1,1,1,1])";
  CHECK(default_has(images, "n_rows = sample_choice [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] -> 10\n",
                    with_l2("x86-64-v4", 1 << 20)));
  check_default(images, with_l2("x86-64-v4", 1 << 20), true);
}

TEST_CASE("rows of a norm are written one after the other where much passes through a near third level") {
  Target near = with_l3("x86-64-v3", 32 << 20);
  const std::string few = "LayerNormalization(f32[128,768], const f32[768], const f32[768])",
                    many = "LayerNormalization(f32[4000,434], const f32[434], const f32[434])";
  CHECK(default_says(few, "all rows read the same data: it is loaded once", near));
  CHECK_FALSE(default_says(many, "all rows read the same data: it is loaded once", near));
  CHECK(default_says(many, "all rows read the same data: it is loaded once",
                     with_far_l3("x86-64-v3", 1 << 20)));
  near.l3_bytes = 64 << 10;
  check_default("LayerNormalization(f32[67,77], const f32[77], const f32[77])", near);
}

TEST_CASE("phases that one tile holds are rows of the output, written from front to back with their zeros") {
  const Target near = with_l3("x86-64-v4", 32 << 20);
  Target far = near;
  far.l3_bytes_per_cycle = 4;
  const auto op = [](const std::string& image) {
    return "ConvTranspose(f32[1,32," + image +
           "], const f32[32,8,4,4,4]; group=8, strides=[4,4,4], output_padding=[3,3,3])";
  };
  const std::string large = op("16,10,8"), small = op("5,4,8");
  for (const std::string& spec : {large, small})
    CHECK(default_has(spec, "reorder T (n og o z0 pz y py c px z1 x)", near));
  for (const char* zeros : {"Y1", "Y2", "Y3"}) {
    CHECK(default_has(large, std::string("merge T.o ") + zeros + ".o", near));
    CHECK_FALSE(default_has(small, std::string("merge T.o ") + zeros + ".o", near));  // the L3 has its lines
    CHECK(default_has(small, std::string("merge T.o ") + zeros + ".o", far));
  }
  Target tiny = with_l3("x86-64-v4", 16 << 10);
  tiny.l2_bytes = 8 << 10;
  for (const std::string& spec : {op("3,2,9"), op("2,3,7")}) {
    INFO(spec);
    check_default(spec, tiny, true);
    check_scheduled_for(spec, tiny);
  }
}

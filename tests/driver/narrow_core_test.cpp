// Default schedules for cores that issue few micro-operations per cycle.
#include "catch.h"
#include "nestor/library.h"
#include "tests/driver/compiled.h"

using namespace nestor;

TEST_CASE("a core that takes up 4 micro-operations a cycle gets tiles with fewer of them for each FMA") {
  Target target = parse_target("x86-64-v4");
  const std::string product = "MatMul(f32[64,64], const f32[64,64])";
  CHECK(default_says(product, "13 x 2 accumulators", target));
  target.issue_width = 4;
  CHECK(default_says(product, "6 x 4 accumulators", target));
  CHECK(default_says(product, "a step has 37 micro-operations, and the core can issue 48", target));
  // Few rows would read more vectors each from behind the second-level cache.
  CHECK(default_says("MatMul(f32[12,64], const f32[64,512])", "6 x 4 accumulators", target));
  const std::string deep = "MatMul(f32[12,4000], const f32[4000,512])";
  CHECK(default_says(deep, "12 x 2 accumulators", target));
}

TEST_CASE("tiles that can't but have many micro-operations keep all their rows") {
  Target target = parse_target("x86-64-v4");
  for (const char* spec :
       {"MatMul(f32[320,64], const f32[64,21])", "MatMul(f32[6,512], const f32[512,16])"}) {
    const PrimFunc f = partition(load(spec).graph).funcs.at(0);
    const auto tile = [&] {
      const std::string text = print(default_schedule(f, target));
      return text.substr(0, text.find("Y_init"));
    };
    target.issue_width = 6;
    const std::string wide = tile();
    target.issue_width = 4;
    CHECK(tile() == wide);
  }
}

TEST_CASE("a narrow core counts once for two steps of a product, where registers are left for that") {
  Target target = parse_target("x86-64-v4");
  target.parallel_us = 20;
  const auto two_steps = [&](const char* spec) {
    const std::string text = print(default_schedule(partition(load(spec).graph).funcs.at(0), target));
    return text.find("unroll Y.ks") != std::string::npos || text.find("unroll Y.k1s") != std::string::npos;
  };
  CHECK_FALSE(two_steps("MatMul(f32[64,64], const f32[64,64])"));
  target.issue_width = 4;
  CHECK(two_steps("MatMul(f32[64,64], const f32[64,64])"));
  CHECK(two_steps("MatMul(f32[64,65], const f32[65,64])"));         // the last step by itself
  CHECK_FALSE(two_steps("MatMul(f32[64,7], const f32[7,64])"));     // few steps
  CHECK(two_steps("MatMul(f32[128,768], const f32[768,3072])"));    // by 8 x 3 instead of 9 x 3
  CHECK_FALSE(two_steps("MatMul(f32[320,64], const f32[64,21])"));  // all registers are taken
  // Part of a vector beside whole ones.
  CHECK_FALSE(two_steps("MatMul(f32[500,300], const f32[300,40])"));
  CHECK(two_steps("MatMul(f32[1009,1009], const f32[1009,1009])"));  // little of it
}

TEST_CASE("of 16 registers a narrow core takes all for two steps, and reads dense rows by blocks") {
  Target target = parse_target("x86-64-v3");
  const auto text = [&](const char* spec) {
    return print(default_schedule(partition(load(spec).graph).funcs.at(0), target));
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string large = text("MatMul(f32[1024,1024], const f32[1024,1024])");
  CHECK(has(large, "unroll Y.k1s"));
  CHECK(has(large, "ib it = split Y.i0 [_, 16] tail=balanced"));  // 256 KB, half of the second-level cache
  CHECK_FALSE(has(large, " A distance="));
  // 4 x 3 vectors, and 6 x 2 where those leave much over.
  CHECK(has(large, "j_width = sample_choice [8, 16, 24, 32] -> 24"));
  CHECK(has(text("MatMul(f32[64,64], const f32[64,64])"), "j_width = sample_choice [8, 16, 24, 32] -> 16"));
  // One vector beside none: its two steps would spill.
  CHECK_FALSE(has(text("MatMul(f32[128,768], f32[768,8])"), "unroll Y.ks"));
  CHECK_FALSE(has(text("MatMul(f32[640,1317], const f32[1317,12])"), "unroll Y.ks"));
}

TEST_CASE("a narrow core copies panels whose rows lie apart, soonest where vectors begin at no line") {
  Target target = parse_target("x86-64-v4");
  target.cores = 1;
  const auto copies = [&](const char* spec) {
    const std::string text = print(default_schedule(partition(load(spec).graph).funcs.at(0), target));
    return text.find("compute_at B_packed Y.j0") != std::string::npos;
  };
  const char* spec = "MatMul(f32[40,384], f32[384,640])";
  CHECK_FALSE(copies(spec));
  target.issue_width = 4;
  CHECK(copies(spec));
  CHECK_FALSE(copies("MatMul(f32[24,384], f32[384,640])"));
  CHECK(copies("MatMul(f32[24,300], f32[300,500])"));
  CHECK(copies("MatMul(f32[24,512], f32[512,512])"));    // in few sets of the cache
  CHECK(copies("MatMul(f32[24,300], f32[1,300,500])"));  // a batch of one
  CHECK_FALSE(copies("MatMul(f32[20,300], f32[300,500])"));
  CHECK_FALSE(copies("MatMul(f32[40,1408], f32[1408,576])"));  // asked for ahead
  CHECK_FALSE(copies("MatMul(f32[48,128], f32[128,320])"));    // near enough
  CHECK(copies("MatMul(f32[96,1408], f32[1408,576])"));
  CHECK_FALSE(copies("MatMul(f32[40,384], f32[384,64])"));    // one tile of columns
  CHECK_FALSE(copies("MatMul(f32[25,2048], f32[2048,95])"));  // and part of another
  target.cores = 4;                                           // which share tiles of columns
  CHECK_FALSE(copies(spec));
}

TEST_CASE("a narrow core asks for no rows that it foresees, and reads them once for more columns") {
  Target target = parse_target("x86-64-v4");
  target.l2_bytes = 1 << 20;
  target.l3_bytes_per_cycle = 9;
  const char* spec = "MatMul(f32[2048,2048], const f32[2048,2048])";
  const auto text = [&] { return print(default_schedule(partition(load(spec).graph).funcs.at(0), target)); };
  CHECK(text().find(" A distance=") != std::string::npos);
  target.issue_width = 4;
  CHECK(text().find(" A distance=") == std::string::npos);
  CHECK(text().find("k0 k1 = split Y.k [_, 64]") != std::string::npos);  // asks for columns once in 64 steps
  CHECK(text().find("-> 64\n") != std::string::npos);                    // j_width
}

TEST_CASE("a narrow core far from its third level takes rows by blocks whose pages stay translated") {
  Target target = parse_target("x86-64-v4");
  target.cores = 1;
  const auto blocks = [&](const char* spec, const char* size) {
    const std::string text = print(default_schedule(partition(load(spec).graph).funcs.at(0), target));
    return text.find(std::string("ib it = split Y.i0 [_, ") + size) != std::string::npos;
  };
  const char* spec = "MatMul(f32[2048,2048], const f32[2048,2048])";
  target.l3_bytes_per_cycle = 9;
  CHECK_FALSE(blocks(spec, ""));
  target.issue_width = 4;
  CHECK(blocks(spec, "86] tail=balanced"));  // three pages of each row: 6144, in 4 blocks
  CHECK(blocks("MatMul(f32[1024,1024], const f32[1024,1024])", "86] tail=balanced"));
  CHECK_FALSE(blocks("MatMul(f32[700,1000], const f32[1000,900])", ""));  // 1400 pages
  target.cores = 2;                                                       // which share the columns
  CHECK_FALSE(blocks(spec, ""));
  target.cores = 1;
  target.l3_bytes_per_cycle = 16;
  CHECK_FALSE(blocks("MatMul(f32[1024,1024], const f32[1024,1024])", "86"));
}

TEST_CASE("a narrow core far from its third level passes an image whose windows share little more rarely") {
  Target target = with_far_l3("x86-64-v4", 1 << 20);
  target.l3_bytes_per_cycle = 9;
  target.issue_width = 4;
  const char* apart =
      "Conv(f32[1,256,89,49], const f32[64,256,3,3]; strides=[3,3], pads=[4,8,0,4], dilations=[4,4])";
  const char* strided = "Conv(f32[1,192,94,94], const f32[256,192,3,3]; strides=[2,2], pads=[1,1,1,1])";
  const char* dense = "Conv(f32[1,256,14,14], const f32[256,256,3,3]; pads=[1,1,1,1])";
  const std::string four = "reorder Y (n y x0 cb r s cl x1 ob ol)\n";
  CHECK(default_has(apart, four, target));
  CHECK(default_has(strided, "-> 4\n", target));
  CHECK_FALSE(default_has(dense, "-> 4\n", target, true));  // shares much, and stays in the cache
  target.l3_bytes_per_cycle = 16;
  CHECK_FALSE(default_has(apart, four, target));
  CHECK_FALSE(default_has(strided, "-> 4\n", target));
}

TEST_CASE("a narrow core writes out the few taps along a line that no loop over channels is inside of") {
  Target target = with_l2("x86-64-v4", 1 << 20);
  const char* planes = "Conv(f32[1,48,27,27], const f32[48,24,3,3]; group=2, pads=[1,1,1,1])";
  const std::string unrolled = "unroll Y.s\n";
  CHECK_FALSE(default_has(planes, unrolled, target));
  target.issue_width = 4;
  CHECK(default_has(planes, unrolled, target));
  CHECK_FALSE(
      default_has("Conv(f32[1,48,27,27], const f32[48,24,3,9]; group=2, pads=[1,4,1,4])", unrolled, target));
  CHECK_FALSE(default_has("Conv(f32[1,2,64,48], const f32[32,2,5,2])", unrolled, target));  // fewer
  // Windows of a tile's rows that share elements, and a tile that leaves no room for the next tap's.
  CHECK_FALSE(default_has(
      "Conv(f32[2,8,122,64], const f32[37,8,2,3]; strides=[2,2], pads=[1,0,0,0], dilations=[2,2])", unrolled,
      target));
  CHECK_FALSE(default_has("Conv(f32[3,188,2408], const f32[10,188,3]; pads=[1,1])", unrolled, target));
  // Not channels.
  CHECK_FALSE(default_has(
      "ConvTranspose(f32[1,32,48,32], const f32[32,31,4,4]; group=8, strides=[3,3], dilations=[2,2])",
      "unroll T.c\n", target));
}

TEST_CASE("a narrow core takes a sum in parts where the columns of a tile push each other out of the cache") {
  Target target = parse_target("x86-64-v4");
  target.l2_bytes = 1 << 20;
  target.l3_bytes_per_cycle = 9;
  const auto parts = [&](const char* spec, const char* into) {
    const std::string text = print(default_schedule(partition(load(spec).graph).funcs.at(0), target));
    return text.find(std::string("k0 k1 = split Y.k [") + into + ", _]") != std::string::npos;
  };
  const char* deep = "MatMul(f32[512,4096], const f32[4096,1024])";
  CHECK_FALSE(parts(deep, "4"));
  target.issue_width = 4;
  CHECK(parts(deep, "4"));
  CHECK(parts("MatMul(f32[512,3072], const f32[3072,1024])", "3"));
  CHECK_FALSE(parts("MatMul(f32[512,2048], const f32[2048,1024])", "2"));
}

// Default schedules of maps: the vectorized loop, transposes in registers, non-temporal stores.
#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "nestor/walk.h"
#include "tests/driver/compiled.h"

using namespace nestor;

TEST_CASE("default schedules of permutations") {
  for (const Target& target : shared_targets()) {
    for (const char* perm : {"0,1,2", "0,2,1", "1,0,2", "1,2,0", "2,0,1", "2,1,0"})
      for (const char* shape : {"5,33,40", "2,3,50", "50,2,4", "1,64,17", "3,37,2", "4,64,4", "2,35,9"})
        check_default("Transpose(f32[" + std::string(shape) + "]; perm=[" + perm + "])", target);
    for (const char* type : {"f64", "i64", "i32", "f16", "bf16", "u8", "bool"})
      for (const char* shape : {"70,65", "33,3", "4,100"})
        check_default("Transpose(" + std::string(type) + "[" + shape + "]; perm=[1,0])", target);
    // Stores past the caches, and panels of lanes with a ragged rest.
    check_default("Transpose(f32[1024,1040]; perm=[1,0])", target);
    check_default("Transpose(f32[4099,20]; perm=[1,0])", target);
  }
}

TEST_CASE("lines written by parts are filled before the next tile's, where those of all lanes don't stay") {
  Target target = parse_target("x86-64-v4");
  target.l1_bytes = 48 << 10;
  target.l1_ways = 12;
  const auto filled = [&](const char* spec) { return default_has(spec, "reorder Y (b0 i j b1)", target); };
  CHECK(filled("Transpose(f32[4,64,64]; perm=[2,1,0])"));          // 1 KB apart: 4 sets
  CHECK(filled("Transpose(f32[4,500,500]; perm=[2,1,0])"));        // 500 lines
  CHECK_FALSE(filled("Transpose(f32[4,200,100]; perm=[2,1,0])"));  // 100
  CHECK_FALSE(filled("Transpose(f32[16,64,64]; perm=[2,1,0])"));   // whole lines
  CHECK_FALSE(filled("Transpose(f32[4,64,64]; perm=[1,2,0])"));    // one dimension goes on
  check_default("Transpose(f32[4,20,64]; perm=[2,1,0])", parse_target("native"));
  check_default("Transpose(f32[3,5,64,40]; perm=[0,3,2,1])", parse_target("native"));
}

TEST_CASE("short rows whose lines meet in the first-level cache go by tiles of them") {
  Target target = parse_target("x86-64-v4");
  target.l1_bytes = 48 << 10;
  target.l1_ways = 12;
  const auto tiled = [&](const char* spec, const char* order) { return default_has(spec, order, target); };
  CHECK(tiled("Transpose(f32[204,64,16]; perm=[1,0,2])", "reorder Y (i0 b i1 j)"));
  CHECK(tiled("Transpose(f16[128,128,32]; perm=[1,0,2])", "reorder Y (i0 b i1 j)"));
  CHECK(tiled("Transpose(f32[32,16,32,16]; perm=[2,1,0,3])", "reorder Y (c h0 n h1 w)"));
  for (const char* other : {"Transpose(f32[300,60,16]; perm=[1,0,2])",      // don't meet
                            "Transpose(f32[204,64,64]; perm=[1,0,2])",      // long rows
                            "Transpose(f32[204,256,3]; perm=[1,0,2])",      // tiles end within lines
                            "Transpose(f32[20,64,16]; perm=[1,0,2])",       // few rows
                            "Transpose(f32[512,256,16]; perm=[1,0,2])"}) {  // from behind the second level
    INFO(other);
    CHECK_FALSE(default_has(other, " i1 j)", target));
  }
  for (const char* spec :
       {"Transpose(f32[53,64,16]; perm=[1,0,2])", "Transpose(f32[24,8,64,8]; perm=[2,1,0,3])",
        "Transpose(f16[70,64,32]; perm=[1,0,2])", "Transpose(u8[48,64,64]; perm=[1,0,2])"})
    for (const Target& shared : shared_targets()) check_default(spec, shared);
}

TEST_CASE("lanes go along what most is read of, not along most operands") {
  for (const char* spec : {"BatchNormalization(f32[1,64,20,20], f32[64], f32[64], f32[64], f32[64])",
                           "BatchNormalization(f32[3,33,7,9], f32[33], f32[33], f32[33], f32[33])"}) {
    const CompiledModel m = compiled(spec, parse_target("native"));
    const std::string steps = print(default_schedule(m.funcs[0].func, parse_target("native")));
    INFO(steps);
    CHECK(steps.find("vectorize Y.hw") != std::string::npos);
    check_results(m.funcs[0], parse_target("native"));
    check_proof(m.funcs[0]);
  }
}

TEST_CASE("a few elements dense in what is written are put together in registers") {
  const Target target = parse_target("x86-64-v4");
  const auto steps = [&](const char* spec) {
    return print(default_schedule(compiled(spec, target).funcs[0].func, target));
  };
  for (const char* spec :
       {"Transpose(f32[4,250,4]; perm=[2,1,0])", "Transpose(f32[3,250,7]; perm=[2,1,0])"}) {
    INFO(spec << "\n" << steps(spec));
    CHECK(steps(spec).find("unroll Y.j\n") != std::string::npos);
    CHECK(steps(spec).find("vectorize Y.i1\n") != std::string::npos);
  }
  CHECK(steps("Transpose(f32[5,250,4]; perm=[2,1,0])").find("unroll Y.j\n") == std::string::npos);
}

TEST_CASE("four squares of bytes share a register of 64") {
  const auto wide = [](const std::string& spec, const std::string& target) {
    return default_has(spec, "j_width = sample_choice [16, 32, 64] -> 64", parse_target(target));
  };
  CHECK(wide("Transpose(i8[200,300]; perm=[1,0])", "x86-64-v4"));
  CHECK_FALSE(wide("Transpose(i8[200,300]; perm=[1,0])", "x86-64-v3"));
  CHECK_FALSE(wide("Transpose(i16[200,300]; perm=[1,0])", "x86-64-v4"));
  CHECK_FALSE(wide("Transpose(i8[63,300]; perm=[1,0])", "x86-64-v4"));
  for (const char* spec : {"Transpose(i8[131,75]; perm=[1,0])", "Transpose(u8[3,64,50]; perm=[0,2,1])"})
    check_default(spec, parse_target("x86-64-v4"));
}

TEST_CASE("large outputs bypass the caches, where whole vectors are aligned") {
  Target target = parse_target("x86-64-v4");
  target.l2_bytes = 1 << 20;
  target.l3_bytes = 32 << 20;
  const auto streams = [&](const std::string& spec) {
    const PrimFunc f = partition(load(spec).graph).funcs.at(0);
    return print(default_schedule(f, target)).find("streaming=1") != std::string::npos;
  };
  CHECK(streams("Add(f32[4096,1024], f32[1024])"));
  CHECK(streams("Transpose(f32[2048,2048]; perm=[1,0])"));
  CHECK(!streams("Transpose(f32[1024,1024]; perm=[1,0])"));
  CHECK(!streams("Add(f32[1024,1024], f32[1024])"));
  CHECK(!streams("Transpose(f32[2047,2049]; perm=[1,0])"));
  target.l3_bytes_per_cycle = 9;
  CHECK(streams("Transpose(f16[2048,512]; perm=[1,0])"));  // rows a page apart clash in the cache
  CHECK(!streams("Transpose(f16[2032,512]; perm=[1,0])"));
  CHECK(streams("Transpose(f32[1008,1024]; perm=[1,0])"));  // by pairs of lines
}

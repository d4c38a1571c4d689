// Data that only moves: turned past the caches, repeated.
#include "catch.h"
#include "compiled.h"

using namespace nestor;

TEST_CASE("stores past the caches are of whole lines") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    Target target = parse_target(name);
    target.l2_bytes = 64 << 10;
    target.l3_bytes = 32 << 20;
    for (const auto& [shape, lanes] :
         {std::pair{"f16[2048,99]", 32}, {"f32[1024,99]", 16}, {"f64[512,99]", 8}, {"i8[4096,99]", 64}}) {
      const std::string spec = std::string("Transpose(") + shape + "; perm=[1,0])";
      INFO(spec);
      CHECK(default_has(spec, "-> " + std::to_string(lanes) + "\n", target));
      CHECK(default_has(spec, "streaming=1", target));
    }
    check_default("Transpose(f16[2048,99]; perm=[1,0])", target);
    check_default("Transpose(u8[4096,99]; perm=[1,0])", target);
    // Rows of half a line and whole ones.
    CHECK_FALSE(default_has("Transpose(f16[20016,512]; perm=[1,0])", "streaming=1", target));
  }
}

TEST_CASE("what is repeated goes period by period") {
  const Target target = parse_target("x86-64-v4");
  CHECK(default_has("Tile(f32[10,77], const i64[2]{3,10})", "jr jp = split Y.j [_, 77]", target));
  CHECK_FALSE(default_has("Tile(f32[10,77], const i64[2]{3,1})", "split Y.j [_, 77]", target));
  for (const Target& t : shared_targets())
    for (const char* spec : {"Tile(f32[10,77], const i64[2]{3,10})", "Tile(f32[7,3], const i64[2]{2,5})",
                             "Tile(i8[2,130], const i64[2]{1,2})", "Tile(f32[2,3,5], const i64[3]{2,3,4})",
                             "Tile(f64[33], const i64[1]{7})"})
      check_default(spec, t);
}

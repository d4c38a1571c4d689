// Functions that only move data: prefetches, non-temporal stores, the order of loops.
#include "catch.h"
#include "compiled.h"

using namespace nestor;

TEST_CASE("stores past the caches are of whole lines, to a mesh of pairs of them") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    Target target = with_l2(name, 64 << 10);
    target.l3_bytes_per_cycle = 9;
    for (const auto& [shape, lanes] : {std::pair{"f16[2048,99]", "[16, 32, 64] -> 32"},
                                       {"f32[1024,99]", "[16, 32, 64] -> 32"},
                                       {"f64[512,99]", "[8, 16, 32] -> 16"},
                                       {"i8[4096,99]", "[16, 32, 64] -> 64"}}) {
      const std::string spec = std::string("Transpose(") + shape + "; perm=[1,0])";
      INFO(spec);
      CHECK(default_has(spec, std::string("j_width = sample_choice ") + lanes + "\n", target));
      CHECK(default_has(spec, "streaming=1", target));
    }
    check_default("Transpose(f16[2048,99]; perm=[1,0])", target);
    check_default("Transpose(u8[4096,99]; perm=[1,0])", target);
    // Rows of half a line and whole ones.
    CHECK_FALSE(default_has("Transpose(f16[20016,512]; perm=[1,0])", "streaming=1", target));
    // Rows a page apart that a near third level holds.
    CHECK_FALSE(default_has("Transpose(f32[1024,99]; perm=[1,0])", "streaming=1", with_l2(name, 64 << 10)));
  }
}

TEST_CASE("what is repeated goes period by period") {
  const Target target = parse_target("x86-64-v4");
  CHECK(default_has("Tile(f32[10,77], const i64[2]{3,10})", "jr jp = split Y.j [_, 77]", target));
  CHECK_FALSE(default_has("Tile(f32[10,77], const i64[2]{3,1})", "split Y.j [_, 77]", target));
  // A vector holds whole periods, or a step all of them.
  for (const char* spec : {"Tile(i8[1000,2], const i64[2]{1,500})", "Tile(f32[9,8], const i64[2]{1,99})",
                           "Tile(u8[1000,3], const i64[2]{1,64})"})
    CHECK_FALSE(default_has(spec, "jr jp = split", target));
  for (const Target& t : shared_targets())
    for (const char* spec : {"Tile(f32[10,77], const i64[2]{3,10})", "Tile(f32[7,3], const i64[2]{2,5})",
                             "Tile(i8[2,130], const i64[2]{1,2})", "Tile(f32[2,3,5], const i64[3]{2,3,4})",
                             "Tile(f64[33], const i64[1]{7})"})
      check_default(spec, t);
}

TEST_CASE("where the last cache is far away, lines that are written are asked for ahead") {
  Target near = with_l2("x86-64-v4", 2 << 20), far = near;
  far.l3_bytes_per_cycle = 9;
  const std::string turned = "Transpose(f32[1009,2003]; perm=[1,0])";
  CHECK(default_has(turned, "ip it = split Y.i0 [_, 63]", far));  // of 126: 2003 pages are written
  CHECK(default_has(turned, "prefetch Y.it X distance=2", far));
  CHECK(default_has(turned, "prefetch Y.it Y distance=2", far));
  CHECK(default_has(turned, "reorder Y (ip j0 it i1 j1)", far));
  CHECK(default_has("Transpose(f32[3009,1504]; perm=[1,0])", "reorder Y (j0 i0 i1 j1)", far));
  CHECK(default_has("Transpose(f32[503,3009]; perm=[1,0])", "reorder Y (j0 i0 i1 j1)", far));  // two a page
  CHECK(default_has("Transpose(f32[8,12,197,256]; perm=[0,1,3,2])", " Y distance=2", far));
  CHECK_FALSE(default_has(turned, "prefetch", near));
  CHECK_FALSE(default_has("Transpose(f32[500,500]; perm=[1,0])", "prefetch", far));  // stays in the cache
  // Along the side that is long.
  const std::string tall = "Transpose(f32[1,113,111,64]; perm=[0,3,1,2])";
  CHECK(default_has(tall, "hwp hwt = split Y.hw0 [_, 24]", far));  // 96 KB
  CHECK(default_has(tall, "prefetch Y.hwp X distance=1 shares=hwt", far));
  CHECK(default_has(tall, "prefetch Y.hwt Y distance=2", far));
  CHECK(default_has("Transpose(f32[1,301,299,20]; perm=[0,3,1,2])", "prefetch Y.hwt X distance=2", far));
  const std::string wide = "Transpose(f16[1,128,112,112]; perm=[0,2,3,1])";
  CHECK(default_has(wide, "reorder Y (n w0 ch0 ch1 w1)", far));
  CHECK(default_has(wide, "prefetch Y.ch0 Y distance=2", far));
  CHECK(default_has("Transpose(f16[128,100,144]; perm=[2,1,0])", "prefetch Y.b0 Y distance=2", far));
  const Target one_core = with_far_l3("x86-64-v4", 1 << 20);
  CHECK(default_has(wide, "reorder Y (n chp w0 cht ch1 w1)", one_core));  // 784 KB of lines in 1 MB
  // Both are short: along what stands between them, if that is in what is read and in what is written.
  CHECK(default_has("Transpose(f32[96,24,96]; perm=[2,1,0])", "reorder Y (b0 j0 i b1 j1)", one_core));
  CHECK(default_has("Transpose(f32[96,24,96]; perm=[2,1,0])", "prefetch Y.i Y distance=2", one_core));
  // Rows begin at no lines: a whole step of that comes before the next one.
  const std::string slabs = "Transpose(f32[50,200,101]; perm=[2,1,0])";
  CHECK(default_has(slabs, "reorder Y (i j0 b0 j1 b1)", one_core));
  CHECK(default_has(slabs, "prefetch Y.i X distance=1", one_core));
  CHECK(default_has(slabs, "prefetch Y.i Y distance=1", one_core));
  CHECK(default_has("Transpose(f32[201,50,77]; perm=[2,1,0])", "prefetch Y.i X distance=1", one_core));
  CHECK_FALSE(
      default_has("Transpose(f32[250,50,250]; perm=[2,1,0])", "prefetch Y.i ", one_core));  // too large
  // Tiles of parts of lines, one side short.
  CHECK_FALSE(default_has("Transpose(u8[8,296,167,4]; perm=[3,0,2,1])", "prefetch", one_core));
  CHECK_FALSE(default_has("Transpose(f32[50,100,100]; perm=[0,2,1])", "prefetch", one_core));
  CHECK_FALSE(
      default_has("Transpose(i8[100,200,100]; perm=[2,1,0])", "prefetch", one_core));  // parts of lines
  const std::string half = "Transpose(f32[333,777]; perm=[1,0])";  // with what is read more than the cache
  CHECK(default_has(half, "prefetch", one_core));
  CHECK_FALSE(
      default_has("Transpose(f32[2048,2048]; perm=[1,0])", " Y distance", far));  // goes past the caches

  const std::string ragged = "MatMul(f32[2048,32], const f32[32,1003])";
  CHECK(default_has(ragged, " Y distance=1", far));
  CHECK_FALSE(default_has(ragged, " Y distance", near));
  CHECK_FALSE(
      default_has("MatMul(f32[2048,32], const f32[32,1024])", " Y distance", far));  // rows begin at lines
  CHECK_FALSE(default_has("MatMul(f32[2048,100], const f32[100,1003])", " Y distance", far));  // a long sum
  CHECK_FALSE(
      default_has("MatMul(f32[1024,32], const f32[32,1003])", " Y distance", far));  // a few megabytes
}

TEST_CASE("where the last cache is far away, a map asks for the lines that it writes") {
  Target near = with_l2("x86-64-v4", 1 << 20);
  near.cores = 1;
  Target far = near;
  far.l3_bytes_per_cycle = 9;
  const std::string relu = "Relu(f32[1000,1000])", past = "Relu(f32[4000,4000])";
  CHECK(default_has(relu, "prefetch Y.ij0 Y distance=8", far));                              // of 256 bytes
  CHECK(default_has("Gather(f32[9000,768], i64[512])", "prefetch Y.j0 Y distance=4", far));  // of 12
  CHECK_FALSE(default_has("Gather(f32[9000,768], i64[4096])", "prefetch Y.j0 Y", far));      // 12 MB
  CHECK_FALSE(default_has(relu, "prefetch", near));
  CHECK_FALSE(default_has("Relu(f32[100,1000])", "prefetch", far));  // stays in the cache
  CHECK(default_has("Pad(f32[1,64,56,56], const i64[8]{0,0,1,1,0,0,1,1})", "prefetch Y.h Y distance=9", far));
  CHECK(default_has("Concat(f32[2048,96], f32[2048,370]; axis=1)", "prefetch Y1.i Y distance=2", far));
  CHECK_FALSE(
      default_has("Concat(f32[90000,3], f32[90000,5]; axis=1)", "prefetch", far));  // less than a line
  CHECK_FALSE(
      default_has("Slice(f32[2000,2000], const i64[2]{0,0}, const i64[2]{2000,2000}, const i64[2]{0,1}, "
                  "const i64[2]{1,2})",
                  "prefetch", far));  // loads bind
  // Past the caches as well, until memory binds.
  CHECK(default_has(past, "prefetch Y.ij0 Y distance=8", far));
  CHECK_FALSE(default_has(past, "streaming", far));
  CHECK(default_has(past, "streaming", near));
  far.cores = 8;
  CHECK(default_has(past, "streaming", far));
  CHECK_FALSE(default_has(past, "prefetch", far));
  CHECK_FALSE(default_has(relu, "prefetch", far));  // a thread's part of it stays in its cache
}

TEST_CASE("pieces of short rows are written by one loop over the rows") {
  Target target = with_l2("x86-64-v4", 1 << 20);
  target.cores = 1;
  CHECK(default_has("Concat(f32[300,96], f32[300,37]; axis=1)", "merge Y.i Y1.i", target));
  CHECK(default_has("Concat(f32[8,30,9], f32[8,30,7], f32[8,30,5]; axis=2)", "merge Y.bi Y2.bi", target));
  CHECK_FALSE(default_has("Concat(f32[30,9], f32[40,9]; axis=0)", "merge", target));        // whole rows
  CHECK_FALSE(default_has("Concat(f32[300,960], f32[300,370]; axis=1)", "merge", target));  // long ones
  target.cores = 4;  // also where one piece would be too little work to share
  CHECK(
      default_has("Concat(f32[2000,96], f32[2000,2]; axis=1)", "  parallel Y1.i\n  merge Y.i Y1.i", target));
  // Threads for all pieces: the first one alone is worth 10 of them, memory feeds 6.
  Target many = target;
  many.cores = 32;
  const std::string large = "Concat(f32[20000,24], f32[20000,500]; axis=1)";
  CHECK(default_has(large, "annotate Y.i threads=10", many));
  CHECK(default_has(large, "merge Y.i Y1.i\n  annotate Y.i threads=6", many));
  for (const char* spec :
       {"Concat(f32[37,96], f32[37,13], f32[37,1]; axis=1)", "Concat(i8[2,3,50], i8[2,3,77]; axis=2)",
        "Concat(f32[20000,96], f32[20000,2]; axis=1)"})
    check_scheduled_for(spec, target);
}

TEST_CASE("the next row that is gathered is asked for while one is copied") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  CHECK(default_has("Gather(f32[30522,768], i64[512])", "prefetch Y.i X distance=1 shares=j0", target));
  CHECK(
      default_has("Gather(f32[30522,64], i64[4,128])", "X distance=1\n", target));  // a short row, all of it
  CHECK_FALSE(default_has("Gather(f32[30522,16], i64[512])", "prefetch", target));  // one line
  CHECK_FALSE(default_has("Gather(f32[300,768], i64[512])", "prefetch", target));   // stays in the cache
  CHECK_FALSE(default_has("Gather(f32[64,30522], i64[512]; axis=1)", "prefetch", target));  // no rows
}

TEST_CASE("maps that ask for lines ahead are right at ragged sizes") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const char* spec : {"Relu(f32[137,259])", "Pad(f32[3,31,57], const i64[6]{0,1,1,0,1,2})",
                             "Gather(f32[300,77], i64[41])", "Gather(f32[5,300,531], i64[3,7]; axis=1)",
                             "Concat(f32[37,96], f32[37,131]; axis=1)"}) {
      Target target = with_l2(name, 1 << 10);
      target.l3_bytes_per_cycle = 9;
      target.cores = 1;
      CHECK(default_has(spec, "prefetch", target));
      check_scheduled_for(spec, target);
    }
}

TEST_CASE("transposes that ask for lines ahead are right at ragged sizes") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const char* spec :
         {"Transpose(f32[131,257]; perm=[1,0])", "Transpose(f32[2,129,150]; perm=[0,2,1])",
          "Transpose(f32[1,21,7,30]; perm=[0,3,1,2])", "Transpose(f32[23,11,45]; perm=[2,1,0])",
          "Transpose(f32[3,521,35]; perm=[0,2,1])", "Transpose(i8[131,257]; perm=[1,0])",
          "Transpose(f32[1,30,147]; perm=[0,2,1])", "MatMul(f32[130,5], f32[5,299])"}) {
      Target target = with_l2(name, 16 << 10);
      target.l3_bytes_per_cycle = 9;
      INFO(spec);
      CHECK(default_has(spec, " Y distance=", target));
      check_scheduled_for(spec, target);
    }
}

TEST_CASE("past the caches, what is turned or moved is read in the order in which it lies") {
  Target near = with_l2("x86-64-v4", 1 << 20);
  near.cores = 1;
  Target mesh = near;
  mesh.l3_bytes_per_cycle = 9;
  const std::string turned = "Transpose(f32[2048,2048]; perm=[1,0])";
  CHECK(default_has(turned, "reorder Y (ip j0 it i1 j1)", mesh));
  CHECK(default_has(turned, "j_width = sample_choice [16, 32, 64] -> 32", mesh));  // pairs of lines,
  CHECK(!default_has(turned, "prefetch", mesh));                                   // and foreseen
  const std::string halves = "Transpose(f16[4096,4096]; perm=[1,0])";
  CHECK(default_has(halves, "j_width = sample_choice [16, 32, 64] -> 32", mesh));  // one line
  CHECK(default_has(halves, "prefetch Y.it X distance=2", mesh));
  // By pairs from the second level's size on; of smaller elements what is much larger, or clashes there.
  CHECK(default_has("Transpose(f32[1,112,112,64]; perm=[0,3,1,2])", "streaming=1", mesh));
  CHECK(!default_has("Transpose(f16[1504,1504]; perm=[1,0])", "streaming=1", mesh));
  CHECK(!default_has("Transpose(f32[400,400]; perm=[1,0])", "streaming=1", mesh));
  const std::string line = "Transpose(f32[16,65536]; perm=[1,0])";  // there is no pair
  CHECK(default_has(line, "streaming=1", mesh));
  CHECK(default_has(line, " X distance=2", mesh));
  CHECK(!default_has("Transpose(f32[1,500,496,3]; perm=[0,3,1,2])", "streaming=1", mesh));  // interleaved
  CHECK(default_has(turned, "reorder Y (jp ip jt it i1 j1)", near));  // strips of few rows
  CHECK(default_has(turned, "split Y.i0 [_, 3]", near));
  CHECK(!default_has(turned, "prefetch", near));
  check_scheduled_for("Transpose(f32[2049,2064]; perm=[1,0])", near);
  Target twice = near;
  twice.double_pumped = true;  // a line in two passes: by columns of rows
  CHECK(default_has(turned, "reorder Y (ip j0 it i1 j1)", twice));
  // Of rows that begin at no line, which the caches keep, a tile has a line each way.
  const std::string ragged = "Transpose(f32[1009,2003]; perm=[1,0])";
  CHECK(default_has(ragged, "reorder Y (ip j0 it i1 j1)", near));
  CHECK(default_has(ragged, "i_rows = sample_choice [16, 32] -> 16", near));
  CHECK(default_has(ragged, "split Y.i0 [_, 4]", near));
  CHECK(default_has("Transpose(f64[501,803]; perm=[1,0])", "split Y.i0 [_, 4]", near));
  check_scheduled_for("Transpose(f64[501,803]; perm=[1,0])", near);
  check_scheduled_for("Transpose(f32[2,301,3,403]; perm=[0,3,2,1])", near);
  // Not of one tile of lanes.
  CHECK_FALSE(default_has("Transpose(f32[3,50,70,11,90]; perm=[0,4,2,1,3])", "[_, 4]", near));
  for (const char* none : {"Transpose(f32[1280,192]; perm=[1,0])",  // meet in few sets: what is written,
                           "Transpose(f32[512,700]; perm=[1,0])",
                           "Transpose(f32[700,1024]; perm=[1,0])",  // or what is read;
                           "Transpose(f32[500,201]; perm=[1,0])"})  // small
    CHECK(default_has(none, "reorder Y (i0 j0 i1 j1)", near));
  // What stands between goes on with lines that meet, unless these are whole and many, or don't.
  const auto between = [&](const std::string& shape) {
    const std::string spec = "Transpose(f32[" + shape + "]; perm=[2,1,0])";
    return default_has(spec, " i b1 j1)", near) || default_has(spec, " i j1 b1)", near);
  };
  for (const char* shape : {"20,192,117", "40,64,200", "100,192,117", "96,64,128"}) CHECK(between(shape));
  for (const char* shape : {"20,200,117", "128,100,50"}) CHECK_FALSE(between(shape));
  check_scheduled_for("Transpose(f32[20,192,117]; perm=[2,1,0])", near);
  check_scheduled_for("Transpose(f32[100,64,67]; perm=[2,1,0])", near);
  const Target narrow = with_l2("x86-64-v3", 1 << 20);  // two vectors a line
  CHECK(default_has(ragged, "reorder Y (i0 j0 i1 j1)", narrow));
  CHECK(default_has("Transpose(f32[300,300]; perm=[1,0])", "i_rows = sample_choice [16, 32] -> 32", near));
  const std::string image = "Transpose(f32[1,220,220,64]; perm=[0,3,1,2])";
  CHECK(default_has(image, "streaming=1", mesh));
  CHECK(default_has(image, "streaming=1", near));
  const std::string smaller = "Transpose(f32[1,180,180,64]; perm=[0,3,1,2])";  // 7.9 MB
  CHECK(!default_has(smaller, "streaming=1", near));
  const std::string heads = "Transpose(f32[8,512,12,64]; perm=[0,2,1,3])";
  CHECK(default_has(heads, "reorder Y (n h c w)", mesh));
  CHECK(default_has(heads, "reorder Y (n h c w)", near));
  Target two = near;
  two.cores = 2;
  CHECK(default_has(heads, "streaming=1", near));
  CHECK(!default_has(heads, "streaming=1", two));
  CHECK(default_has("Transpose(f32[1,512,12,64]; perm=[0,2,1,3])", "reorder Y (n c h w)", near));  // small
  CHECK(default_has("Transpose(f32[8,12,512,64]; perm=[0,2,1,3])", "reorder Y (n c h w)", mesh));
  for (const Target& target : {near, mesh}) {
    check_scheduled_for("Transpose(f32[1040,640]; perm=[1,0])", target);
    check_scheduled_for("Transpose(f32[1030,1610]; perm=[1,0])", target);
    check_scheduled_for("Transpose(f32[2,256,12,112]; perm=[0,2,1,3])", target);
  }
}

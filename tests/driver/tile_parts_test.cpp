// Products whose rows don't stay in L2: mc-blocking and kc-blocking.
#include <fmt/format.h>

#include "catch.h"
#include "compiled.h"
#include "nestor/driver.h"

using namespace nestor;

TEST_CASE("where the third level is far, a block of dense rows stays in the cache while all panels pass") {
  const Target far = with_far_l3("x86-64-v4", 2 << 20), near = with_l2("x86-64-v4", 2 << 20);
  const auto blocks = [&](const std::string& spec, const Target& t) {
    const bool some = default_has(spec, "ib it = split Y.i0", t);
    if (some) CHECK_FALSE(default_has(spec, "k0 A distance", t));  // rows that stay needn't be asked for
    return some;
  };
  CHECK(blocks("MatMul(f32[512,512], const f32[512,512])", far));
  CHECK(blocks("MatMul(f32[1024,1024], const f32[1024,1024])", far));
  CHECK_FALSE(blocks("MatMul(f32[1024,1024], const f32[1024,1024])", near));
  CHECK_FALSE(blocks("MatMul(f32[1024,1024], f32[1024,1024])", far));        // panels are copied
  CHECK_FALSE(blocks("MatMul(f32[2048,2048], const f32[2048,2048])", far));  // too few rows
  CHECK_FALSE(blocks("MatMul(f32[256,512], const f32[512,512])", far));      // all of them stay
}

TEST_CASE("blocks of rows are as many as cores share evenly") {
  Target far = with_far_l3("x86-64-v4", 2 << 20);
  const auto rows = [&](int64_t m, int64_t k, int64_t n, int64_t size) {
    return default_has(fmt::format("MatMul(f32[{0},{1}], const f32[{1},{2}])", m, k, n),
                       fmt::format("ib it = split Y.i0 [_, {}] ", size), far);
  };
  far.cores = 1;
  CHECK(rows(1024, 1024, 1024, 19));  // 9 of 171 tiles
  CHECK(rows(1040, 1024, 1024, 20));  // 9 of 174
  far.cores = 2;
  CHECK(rows(1024, 1024, 1024, 18));  // 10, not 5 and 4
  CHECK(rows(1009, 1009, 1009, 17));
  CHECK(rows(512, 512, 512, 13));  // 3, by panels
  far.cores = 8;
  CHECK(rows(1024, 1024, 1024, 19));
}

TEST_CASE("where the third level is far, long rows go in parts that stay in the cache") {
  const Target far = with_far_l3("x86-64-v4", 2 << 20), near = with_l2("x86-64-v4", 2 << 20);
  const auto parts = [](const std::string& spec, const Target& t) {
    const bool some = default_has(spec, "Y_part = rfactor Y.k0 axis=0", t);
    if (some) CHECK(default_has(spec, "prefetch Y_part.j0 B distance=1 shares=k10", t));
    return some;
  };
  CHECK(parts("MatMul(f32[128,3072], const f32[3072,768])", far));
  CHECK(default_has("MatMul(f32[128,3072], const f32[3072,768])", "k0 k1 = split Y.k [3, _]", far));
  CHECK_FALSE(parts("MatMul(f32[128,3072], const f32[3072,768])", near));
  CHECK_FALSE(parts("MatMul(f32[128,3071], const f32[3071,768])", far));    // no equal parts
  CHECK_FALSE(parts("MatMul(f32[128,3072], f32[3072,768])", far));          // nothing to ask for ahead
  CHECK_FALSE(parts("MatMul(f32[2048,2048], const f32[2048,2048])", far));  // the result doesn't stay
  CHECK_FALSE(parts("MatMul(f32[128,768], const f32[768,3072])", far));     // short enough
  CHECK_FALSE(parts("MatMul(bf16[128,3072], const bf16[3072,768])", far));  // sums of parts would be rounded
}

TEST_CASE("where the third level is near, rows that take much of it go in parts with short vectors") {
  Target target = with_l2("x86-64-v3", 512 << 10);
  target.issue_width = 6;
  target.cores = 1;
  const auto parts = [&](const std::string& spec, int n) {
    const std::string step = fmt::format("k0 k1 = split Y.k [{}, _]", n);
    const bool some = default_has(spec, step, target);
    if (some) {
      CHECK(default_has(spec, "Y_part = rfactor Y.k0 axis=0", target));
      CHECK(default_has(spec, "reorder Y (ib k0 j0 it i1 j1)", target));
      CHECK(default_has(spec, "prefetch Y.it Y distance=1", target));
    }
    return some;
  };
  CHECK(parts("MatMul(f32[2048,2048], const f32[2048,2048])", 2));
  CHECK(parts("MatMul(f32[1000,4096], const f32[4096,1024])", 4));
  const std::string copied = "MatMul(f32[2048,2048], f32[2048,2048])";  // as a whole before
  CHECK(parts(copied, 2));
  CHECK(default_has(copied, "prefetch Y_part.j0 B_packed distance=1 shares=k10", target));
  CHECK(parts("MatMul(f32[1000,8192], const f32[8192,1024])", 8));  // the panel of a part counts
  const auto none = [&](const char* spec) { return !default_has(spec, "_part = rfactor", target); };
  CHECK(none("MatMul(f32[2400,2400], const f32[2400,203])"));   // few tiles of columns
  CHECK(none("MatMul(f32[1536,1536], const f32[1536,1536])"));  // blocks of whole rows do
  CHECK(none("MatMul(f32[700,2048], const f32[2048,700])"));
  CHECK(none("MatMul(f32[2003,2003], const f32[2003,2003])"));  // no equal parts
  CHECK(none("MatMul(f32[4096,512], const f32[512,2048])"));    // blocks of rows stay
  target.cores = 12;                                            // 32 blocks would leave threads idle
  CHECK(default_has("MatMul(f32[2048,2048], const f32[2048,2048])", "ib it = split Y.i0 [_, 15]", target));
  target.cores = 1;
  target.vector_bits = 512;
  CHECK(none("MatMul(f32[2048,2048], const f32[2048,2048])"));
}

TEST_CASE("where the third level is near, few long rows go in parts if their results stay") {
  Target target = with_l2("x86-64-v3", 512 << 10);
  target.issue_width = 6;
  target.cores = 1;
  const auto has = [&](const std::string& spec, const std::string& step) {
    return default_has(spec, step, target);
  };
  const std::string spec = "MatMul(f32[128,3072], const f32[3072,768])";
  CHECK(has(spec, "k0 k1 = split Y.k [12, _]"));
  CHECK(has(spec, "reorder Y (k0 j0 i0 i1 j1)"));
  CHECK_FALSE(has(spec, "prefetch Y.i0 Y"));  // its 384 KiB stay
  CHECK(has("MatMul(f32[64,3072], const f32[3072,768])", "k0 k1 = split Y.k [6, _]"));
  const auto none = [&](const char* work) { return !has(work, "_part = rfactor"); };
  CHECK(none("MatMul(f32[128,3072], const f32[3072,3072])"));  // 1.5 MB don't
  CHECK(none("MatMul(f32[128,3072], const f32[3072,764])"));
  CHECK(none("MatMul(f32[128,768], const f32[768,768])"));
  CHECK(none("MatMul(f32[128,3072], f32[3072,768])"));  // copied
  CHECK(none("MatMul(f32[256,3072], const f32[3072,512])"));
  CHECK(none("MatMul(f32[32,2048], const f32[2048,512])"));
  target.cores = 2;
  CHECK(has(spec, "jc jt = split Y.j0 [2, _]"));
}

TEST_CASE("products in parts of the reduction near the third level are right") {
  Target target = with_l2("x86-64-v3", 128 << 10);
  target.issue_width = 6;
  target.l3_bytes = 256 << 10;
  target.parallel_us = 0;
  for (const int cores : {1, 2})
    for (const std::string spec :
         {"MatMul(f32[103,606], const f32[606,264])", "Gemm(f32[65,640], const f32[640,384], const f32[384])",
          "MatMul(f32[70,1030], f32[1030,265])", "MatMul(f32[1,90,640], const f32[640,272])"}) {
      target.cores = cores;
      INFO(spec << " on " << cores);
      CHECK(default_has(spec, "_part = rfactor", target));
      check_default(spec, target);
    }
  target.l3_bytes = 32 << 20;
  for (const std::string spec : {"MatMul(f32[50,960], const f32[960,512])",
                                 "Gemm(f32[33,1152], const f32[1152,384], const f32[384])"}) {
    INFO(spec);
    CHECK(default_has(spec, " (jc k0 jt i0 i1 j1)", target));
    check_default(spec, target);
  }
}

TEST_CASE("near the third level panels longer than the cache go in parts where a vector is a line") {
  Target target = with_l2("x86-64-v4", 1 << 20);
  target.cores = 1;
  const auto parts = [&](const std::string& spec, int n) {
    return default_has(spec, fmt::format("k0 k1 = split Y.k [{}, _]", n), target);
  };
  const std::string spec = "MatMul(f32[256,8192], const f32[8192,512])";
  CHECK(parts(spec, 8));
  const auto none = [&](const std::string& work) { return !default_has(work, "_part = rfactor", target); };
  CHECK(none("MatMul(f32[256,6144], const f32[6144,512])"));
  CHECK(none("MatMul(f32[6,8192], const f32[8192,512])"));  // one tile of rows
  target.double_pumped = true;
  CHECK(none(spec));
  target = with_l2("x86-64-v3", 1 << 20);
  target.issue_width = 6;
  CHECK(none("MatMul(f32[140,8192], const f32[8192,512])"));

  target = with_l2("x86-64-v4", 256 << 10);
  target.parallel_us = 0;
  for (const int cores : {1, 2}) {
    target.cores = cores;
    for (const std::string work : {"MatMul(f32[29,2048], const f32[2048,512])",
                                   "Gemm(f32[23,2560], const f32[2560,576], const f32[576])"}) {
      INFO(work << " on " << cores);
      CHECK(default_has(work, "_part = rfactor", target));
      check_default(work, target);
    }
  }
}

TEST_CASE("products in blocks of rows and in parts of the reduction are right") {
  struct Work {
    std::string spec, step;
    int64_t l2_bytes;
  };
  const Work works[] = {
      {"MatMul(f32[200,129], const f32[129,274])", "ib it = split", 256 << 10},
      {"Gemm(f32[35,640], const f32[640,384], const f32[384])", "_part = rfactor", 256 << 10},
      {"MatMul(f32[1,35,640], const f32[640,384])", "_part = rfactor", 256 << 10},
      {"MatMul(f32[200,1024], const f32[1024,384])", "reorder Y (ib k0 j0 it i1 j1)", 1 << 20}};
  for (const int cores : {1, 2})
    for (const auto& [spec, step, l2_bytes] : works) {
      Target target = with_far_l3("x86-64-v4", l2_bytes);
      target.cores = cores;
      target.parallel_us = 0;
      INFO(spec << " on " << cores);
      CHECK((cores > 1 || default_has(spec, step, target)));
      check_default(spec, target);
    }
}

// Images that don't fit in L2 are prefetched, and padded a panel at a time.
#include <fmt/format.h>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/driver.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

std::string schedule_of(const std::string& spec, bool blocked_io, int issue_width = 6) {
  Target target = parse_target("x86-64-v4");
  target.issue_width = issue_width;
  return default_text(spec, target, blocked_io);
}

// The default schedule for a small second-level cache has each of `steps`, is proved, and is right.
void check_right(const std::string& spec, const std::vector<std::string>& steps, CompileOptions options) {
  options.schedules = default_schedules();
  for (const CompiledFunction& f : compile_model(load(spec, options), options).funcs) {
    const std::string trace = print(f.choice.trace);
    INFO(spec << "\n" << trace);
    for (const std::string& step : steps) CHECK(trace.find(step) != std::string::npos);
    CHECK(verify_schedule(f.func, f.scheduled, {.seconds = 60}).ok());
    for (const OutputCheck& c : check_function(f, Against::oracle, options.target)) {
      INFO(describe(c.comparison, c.name, c.want));
      CHECK(c.comparison.ok());
    }
  }
}

CompileOptions small_cache(int64_t l2_bytes) {
  CompileOptions options;
  options.target = parse_target("x86-64-v3");
  options.target.l2_bytes = l2_bytes;
  return options;
}

CompileOptions narrow(CompileOptions options) {
  options.target.issue_width = 4;
  return options;
}

}  // namespace

TEST_CASE("what comes from behind the caches in pieces is asked for ahead") {
  const Target near = with_l2("x86-64-v4", 1 << 20), far = with_far_l3("x86-64-v4", 1 << 20);
  const std::string lines = "prefetch Y.cb X distance=1", rows = " X distance=1 shares=r";
  CHECK(default_has("Conv(f32[1,320,60,60], const f32[48,320,3,3]; strides=[2,2], pads=[1,1,1,1])", rows,
                    near));
  CHECK(default_has("Conv(f32[1,320,60,60], const f32[480,320,1,1])", lines, near));
  CHECK(default_has("Conv(f32[2,128,62,128], const f32[64,128,3,3]; strides=[3,3], dilations=[4,4])", rows,
                    near));
  // Less than an eighth of a near third level; of a far one, beside W and Y:
  const char* smaller = "Conv(f32[1,64,57,57], const f32[48,64,3,3]; strides=[2,2], pads=[1,1,1,1])";
  CHECK_FALSE(default_has(smaller, " X distance=1", near));
  CHECK(default_has(smaller, lines, far));
  CHECK_FALSE(
      default_has("Conv(f32[1,64,53,53], const f32[48,64,3,3]; strides=[2,2], pads=[1,1,1,1])", lines, far));
  CHECK_FALSE(default_has("Conv(f32[1,512,7,7], const f32[512,512,3,3]; pads=[1,1,1,1])", lines, far));
  CHECK(default_has("Conv(f32[1,128,56,56], const f32[64,128,3,3]; strides=[2,2])", rows, near));  // 1.5 MiB
  const std::string any = " X distance=1";
  CHECK_FALSE(default_has("Conv(f32[1,128,54,54], const f32[64,128,3,3]; strides=[2,2])", any, near));
  CHECK_FALSE(default_has("Conv(f32[1,128,56,56], const f32[64,128,3,3])", any, near));  // used more often
  // Windows that leave rows out, in a padded copy as well, whose planes are pages.
  const auto planes = [](const char* rest) {
    return fmt::format("Conv(f32[8,128,78,16], const f32{}", rest);
  };
  const std::string channels = "prefetch Y.c P distance=";
  CHECK(default_has(planes("[8,128,7,5]; pads=[0,8,0,8], dilations=[2,2])"), channels, near));
  CHECK_FALSE(default_has(planes("[8,128,7,5]; pads=[3,2,3,2])"), channels, near));
  CHECK_FALSE(default_has("Conv(f32[1,1,1300,1300], const f32[16,1,3,3]; pads=[2,2,2,2], dilations=[2,2])",
                          " P distance", near));  // of which some rows are made at a time
  Target little = near;
  little.l2_bytes = 16 << 10;
  little.l3_bytes = 64 << 10;
  const std::string copied = "Conv(f32[2,20,40,26], const f32[8,20,5,5]; pads=[4,4,4,4], dilations=[2,2])";
  CHECK(default_has(copied, channels, little));
  check_default(copied.c_str(), little, true);
  // Of windows that leap more than twice the second level; of those that move by one less than an eighth.
  const Target small = with_l2("x86-64-v3", 512 << 10);
  CHECK(default_has("Conv(f32[1,128,81,81], const f32[30,128,3,3]; strides=[2,2], pads=[1,1,1,1])", any,
                    small));
  CHECK(default_has("Conv(f32[1,104,90,90], const f32[64,104,3,3]; strides=[3,3], pads=[1,1,1,1])", any,
                    small));
  CHECK_FALSE(default_has("Conv(f32[1,128,81,81], const f32[30,128,5,5]; pads=[2,2,2,2])", any, small));
  CHECK_FALSE(
      default_has("Conv(f32[1,64,57,57], const f32[48,64,3,3]; strides=[2,2], pads=[1,1,1,1])", any, small));
}

TEST_CASE("planes of a few lines are asked for where they come from memory") {
  const Target near = with_l2("x86-64-v4", 1 << 20);
  const auto images = [](int n) {
    return fmt::format("Conv(f32[{},282,21,38], const f32[7,282,3,2]; pads=[1,0,1,0])", n);
  };
  const std::string rows = "prefetch Y.y X distance=1 shares=";
  CHECK(default_has(images(20), rows, near));       // 17 of 32 MiB
  CHECK_FALSE(default_has(images(7), rows, near));  // 6 of them
  Target little = near;
  little.l2_bytes = 64 << 10;
  little.l3_bytes = 64 << 10;
  const std::string few = "Conv(f32[4,40,11,24], const f32[7,40,3,2]; pads=[1,0,1,0])";
  CHECK(default_has(few, rows, little));
  check_default(few, little, true);
}

TEST_CASE("few tiles of columns over an image near the third level ask for its tiles ahead") {
  Target near = with_l2("x86-64-v3", 512 << 10);
  near.issue_width = 6;
  const auto asks = [&](const char* spec, const char* how) {
    return default_has(spec, fmt::format("prefetch Y.{}\n", how), near);
  };
  CHECK(asks("Conv(f32[1,156,105,105], const f32[32,156,1,1])", "yxt X distance=2 shares=c0"));
  CHECK(asks("Conv(f32[1,96,100,100], const f32[24,96,1,1])", "yx0 X distance=3 shares=cb"));
  CHECK(asks("Conv(f32[1,1024,40,40], const f32[64,1024,1,1])", "yxt X distance=1 shares=cb"));
  CHECK(asks("Conv(f32[1,1024,14,14], const f32[256,1024,1,1])", "cb X distance=4"));  // 16 tiles
  CHECK(asks("Conv(f32[1,384,14,14], const f32[384,384,1,1])", "cb X distance=4"));    // W passes beside it
  CHECK_FALSE(default_has("Conv(f32[1,256,14,14], const f32[512,256,1,1])", " X distance", near));
  CHECK_FALSE(default_has("Conv(f32[1,384,14,14], const f32[32,384,1,1])", " X distance", near));
  // One block of filters.
  CHECK(default_has("Conv(f32[1,98,95,95], const f32[14,98,1,1])", "prefetch Y.yx0 X distance=1 shares=c1\n",
                    with_l2("x86-64-v4", 1 << 20)));
  CHECK(asks("Conv(f32[1,98,95,95], const f32[8,98,1,1])", "yx0 X distance=3 shares=c0"));
  // Rows of a few tiles.
  CHECK(asks("Conv(f32[1,512,36,25], const f32[16,512,1,1]; strides=[2,2])", "cb X distance=4"));
  near.l2_bytes = 16 << 10;
  near.parallel_us = 0;
  for (const char* spec :
       {"Conv(f32[1,20,13,15], const f32[16,20,1,1])", "Conv(f32[2,24,9,100], const f32[7,24,1,1])",
        "Conv(f32[1,24,3,9,20], const f32[16,24,1,1,1])"}) {
    INFO(spec);
    CHECK(default_has(spec, " shares=c", near));
    check_default(spec, near, true);
  }
  near = with_far_l3("x86-64-v3", 512 << 10);
  CHECK(default_has("Conv(f32[1,156,105,105], const f32[32,156,1,1])", " X distance", near));
  CHECK_FALSE(default_has("Conv(f32[1,156,105,105], const f32[32,156,1,1])", "yxt X distance", near));
}

TEST_CASE("many lines at once of an image far away are asked for in shares") {
  const Target far = with_far_l3("x86-64-v4", 2 << 20);
  const std::string many = "Conv(f32[1,192,63,63], const f32[10,192,1,1]; strides=[2,2])";
  CHECK(default_has(many, "prefetch Y.cb X distance=2 shares=cl\n", far));
  CHECK(default_says(many, "; 16 lines at once are more than the 12 that can be in flight", far));
  CHECK_FALSE(default_has(many, "shares=", with_l2("x86-64-v4", 1 << 20)));
  // The first steps of a tile, for which nobody asks, are no more than a sixth.
  CHECK(default_has("Conv(f32[1,70,101,101], const f32[20,70,1,1]; strides=[2,2])",
                    "prefetch Y.c0 X distance=1 shares=c1\n", far));
  // Few lines, and few pages.
  CHECK(default_has("Conv(f32[1,162,94,94], const f32[60,162,1,1]; strides=[3,3])",
                    "prefetch Y.c0 X distance=1\n", far));
  // Windows that slide.
  CHECK_FALSE(default_has("Conv(f32[1,320,90,90], const f32[16,320,3,3]; strides=[2,2])", "shares=c", far));
}

TEST_CASE("pages of which others are walked for each row of an image are translated side by side") {
  const Target far = with_far_l3("x86-64-v4", 2 << 20);
  const std::string pages = "prefetch Y.y X distance=1 shares=x0 each=page\n";
  const std::string many = "Conv(f32[1,504,65,65], const f32[32,504,1,1]; strides=[2,2])";
  CHECK(default_has(many, pages, far));
  CHECK(default_has(many, "prefetch Y.c0 X distance=2 shares=c1\n", far));
  CHECK(default_says(many, "it has 2112 pages, others for each row, and the TLB holds 1536", far));
  CHECK(default_says(many, "; it has 2112 pages, the TLB holds 1536, and lines wait for page walks", far));
  CHECK_FALSE(default_has("Conv(f32[1,504,51,51], const f32[32,504,1,1]; strides=[2,2])", "each=page", far));
  CHECK_FALSE(default_has(many, "each=page", with_l2("x86-64-v4", 1 << 20)));
  const std::string small = "Conv(f32[1,40,210,210], const f32[9,40,1,1]; strides=[4,4])";
  CHECK(default_has(small, pages, far));
  check_default(small, far, true);
}

TEST_CASE("few filters that take every few pixels of planes far away ask for later planes") {
  const Target far = with_far_l3("x86-64-v4", 2 << 20);
  const std::string planes = "Conv(f32[1,63,210,33], const f32[7,63,1,1]; strides=[2,2])";
  CHECK(default_has(planes, "prefetch Y.c X distance=15\n", far));
  CHECK(default_says(planes, "each step's from another page; 15 steps of 8 cycles cover the latency of 200",
                     far));
  CHECK_FALSE(default_has(planes, "prefetch", with_l2("x86-64-v4", 1 << 20)));
  const std::string few = "Conv(f32[1,62,260,33], const f32[7,62,1,1]; strides=[2,2])";
  CHECK(default_has(few, "prefetch Y.c X distance=15\n", far));
  CHECK_FALSE(default_has(few, "prefetch", with_far_l3("x86-64-v4", 4 << 20)));
  check_default(few, far, true);
}

TEST_CASE("what many tiles of rows read one after the other is not asked for by each of them") {
  const Target near = with_l2("x86-64-v4", 1 << 20);
  for (const char* spec : {"MatMul(f32[941,256], f32[256,959])", "MatMul(f32[300,500], f32[500,560])"}) {
    INFO(spec);
    CHECK(default_has(spec, "vectorize Y.j", near));
    CHECK_FALSE(default_has(spec, " B distance", near));
  }
}

TEST_CASE("nothing is asked for ahead where little is computed from it, or where it lies dense") {
  for (const char* spec :
       {"Conv(f32[1,254,1,128,64], const f32[1,254,1,1,1])", "MatMul(f32[20000,64], const f32[64,16])",
        "Conv(f32[1,96,224,224], const f32[96,1,3,3]; group=96)"})
    CHECK(schedule_of(spec, true).find("prefetch ") == std::string::npos);
}

TEST_CASE("where the last cache is far away, what the next row of windows reads is asked for in shares") {
  const Target far = with_far_l3("x86-64-v4", 1 << 20);
  const std::string strided =
      "Conv(f32[1,96,112,112], const f32[96,1,3,3]; group=96, strides=[2,2], pads=[1,1,1,1])";
  CHECK(default_has(strided, "prefetch Y.g X distance=1 shares=r\n", far));
  const Target near = with_l2("x86-64-v4", 1 << 20);
  CHECK(default_has(strided, "prefetch Y.g X distance=1 shares=r\n", near));
  CHECK_FALSE(default_has("Conv(f32[1,96,112,112], const f32[96,1,3,3]; group=96, pads=[1,1,1,1])",
                          "prefetch",
                          near));  // windows one by one
  CHECK_FALSE(default_has("Conv(f32[1,96,40,40], const f32[96,1,3,3]; group=96, strides=[2,2])", "prefetch",
                          far));  // stays in the cache
  for (const char* other :
       {"Conv(f32[1,64,112,112], const f32[128,1,3,3]; group=64, strides=[2,2])",  // read twice
        "Conv(f32[1,96,112,112], const f32[96,1,3,3]; group=96, strides=[3,3])",   // nothing shared
        "Conv(f32[1,96,112,112], const f32[96,1,5,5]; group=96, strides=[2,2], dilations=[2,2])"})
    CHECK_FALSE(default_has(other, "prefetch Y.g X", far));
  // Channels of a group that are in one block.
  for (const char* grouped :
       {"Conv(f32[1,224,98,98], const f32[224,16,3,3]; group=14, strides=[2,2], pads=[1,1,1,1])",
        "Conv(f32[1,256,41,41], const f32[256,2,3,3]; group=128, strides=[2,2], pads=[1,1,1,1])"})
    for (const Target& target : {far, near}) CHECK(default_has(grouped, " X distance=1 shares=r\n", target));
  // Near, where a vector is a line: of images of 13/8 of the second level on.
  for (const char* large : {"Conv(f32[1,256,89,89], const f32[256,1,3,3]; group=256, pads=[1,1,1,1])",
                            "Conv(f32[1,256,104,104], const f32[256,16,3,3]; group=16, pads=[1,1,1,1])"})
    CHECK(default_has(large, " X distance=1 shares=", near));
  CHECK_FALSE(default_has("Conv(f32[1,45,90,90], const f32[45,1,5,5]; group=45, pads=[2,2,2,2])",
                          " X distance=1 shares=", near));
  CHECK_FALSE(default_has("Conv(f32[1,224,98,98], const f32[224,16,3,3]; group=14, pads=[1,1,1,1])",
                          " X distance=1 shares=", far));  // windows one by one
  // Channels of a group whose planes lie apart: the lines of each are asked for.
  Target narrow = far;
  narrow.issue_width = 4;
  CHECK(default_has("Conv(f32[1,264,58,58], const f32[264,24,3,3]; group=11, strides=[2,2], pads=[1,1,1,1])",
                    " X distance=1 shares=r\n", narrow));
  CompileOptions options = small_cache(4 << 10);
  options.target = with_far_l3("x86-64-v3", 4 << 10);
  options.blocked_io = true;
  for (const char* apart :
       {"Conv(f32[1,24,27,29], const f32[24,12,3,3]; group=2, strides=[2,2], pads=[1,1,1,1])",
        "Conv(f32[2,24,31,23], const f32[24,12,5,3]; group=2, strides=[2,2], pads=[2,1,2,1])"})
    check_right(apart, {"X distance=1 shares=r"}, options);
  check_right("Conv(f32[1,32,27,29], const f32[32,8,3,3]; group=4, strides=[2,2], pads=[1,1,1,1])",
              {"X distance=1 shares=r"}, options);
  options.target = with_l2("x86-64-v4", 4 << 10);
  if (!runs_here(options.target)) return;
  for (const char* by_one : {"Conv(f32[2,32,13,29], const f32[32,16,3,3]; group=2, pads=[1,1,1,1])",
                             "Conv(f32[1,32,27,29], const f32[32,8,5,5]; group=4, pads=[2,2,2,2])"})
    check_right(by_one, {" X distance=1 shares="}, options);
  options.target = with_far_l3("x86-64-v3", 4 << 10);
  check_right("Conv(f32[1,19,27,29], const f32[19,1,5,5]; group=19, strides=[2,2], pads=[2,2,2,2])",
              {"X distance=1 shares=r"}, options);
}

TEST_CASE("lines of an image go by blocks that stay in the cache while all filters pass, each to its end") {
  const auto has = [](const std::string& trace, const char* text) {
    return trace.find(text) != std::string::npos;
  };
  const std::string strided =
      schedule_of("Conv(f32[1,384,108,108], const f32[384,384,1,1]; strides=[2,2])", true);
  CHECK(has(strided, "yb yt = split Y.y [_, 3]\n"));  // of 54
  CHECK(has(strided, "reorder Y (n yb ob0 yt x0 "));
  const std::string prime =
      schedule_of("Conv(f32[1,384,106,106], const f32[384,384,1,1]; strides=[2,2])", true);
  CHECK(has(prime, "yb yt = split Y.y [_, 4] tail=peel\n"));  // of 53
  // One line of a volume's images.
  const std::string volume =
      schedule_of("Conv(f32[1,320,9,99,99], const f32[320,320,1,1,1]; strides=[2,2,2])", true);
  CHECK(has(volume, "reorder Y (n z yb ob0 yt x0 "));
  // It stays as it is, and nothing passes it twice.
  CHECK_FALSE(
      has(schedule_of("Conv(f32[1,128,40,40], const f32[128,128,3,3]; strides=[2,2], pads=[1,1,1,1])", true),
          " yb "));
  CHECK_FALSE(
      has(schedule_of("Conv(f32[1,384,108,108], const f32[16,384,1,1]; strides=[2,2])", true), " yb "));
  // A stride leaves out pixels, but no parts of lines.
  CHECK(default_has("Conv(f32[1,128,106,106], const f32[256,128,1,1]; strides=[2,2])",
                    "yb yt = split Y.y [_, 4] tail=peel\n", with_l2("x86-64-v3", 512 << 10)));
  CHECK(default_says("Conv(f32[1,128,212,212], const f32[256,128,1,1]; strides=[4,4])",
                     "106 KiB that depend on y", with_l2("x86-64-v3", 256 << 10)));
}

TEST_CASE("an image that no near third level holds passes once, where filters hide behind their uses") {
  const char* large = "Conv(f32[1,128,120,120], const f32[128,128,3,3]; strides=[2,2], pads=[1,1,1,1])";
  Target target = with_l2("x86-64-v4", 1 << 20);
  target.l3_bytes = 32 << 20;
  CHECK(default_has(large, "reorder Y (n yb ob0 yt x0 ", target));
  CHECK_FALSE(default_has("Conv(f32[1,128,76,76], const f32[128,128,5,5]; strides=[2,2], pads=[2,2,2,2])",
                          " yb ", target));  // 3 MB stay, the filters' 1.6 would pass 19 times
  target.l3_bytes = 256 << 20;
  CHECK_FALSE(default_has(large, " yb ", target));
}

TEST_CASE("tiles that share nothing but lines follow each other along the lines, which are asked for ahead") {
  const std::string trace = schedule_of(
      "Conv(f32[2,256,128,126], const f32[1,256,3,7]; strides=[2,2], pads=[0,0,4,0], dilations=[2,2])", true);
  INFO(trace);
  CHECK(trace.find("reorder Y (n o y0 x0 c ") != std::string::npos);
  CHECK(trace.find("prefetch Y.c X distance=2") != std::string::npos);  // of 84 cycles each
}

TEST_CASE("a padded copy beyond the cache is made a panel at a time, unless windows share too much") {
  const auto panels = [](const std::string& spec) {
    return schedule_of(spec, false, 4).find("= compute_at P Y.") != std::string::npos;
  };
  CHECK(panels("Conv(f32[1,64,256,256], const f32[3,64,3,3]; pads=[1,1,1,1])"));
  CHECK(panels(
      "Conv(f32[3,192,139,128], const f32[2,192,1,3]; strides=[3,3], pads=[0,0,0,8], dilations=[4,4])"));
  CHECK_FALSE(panels("Conv(f32[1,64,28,28], const f32[3,64,3,3]; pads=[1,1,1,1])"));    // it fits
  CHECK_FALSE(panels("Conv(f32[1,64,200,200], const f32[1,64,9,9]; pads=[4,4,4,4])"));  // nine times
}

TEST_CASE("blocks of lines are right at their ends") {
  CompileOptions options = small_cache(64 << 10);
  options.blocked_io = true;
  for (const char* spec :
       {"Conv(f32[1,32,23,87], const f32[64,32,1,1]; strides=[2,2])",
        "Conv(f32[2,32,24,86], const f32[64,32,1,1], const f32[64]; strides=[2,2], pads=[1,1,0,1])",
        "Conv(f32[1,32,3,13,87], const f32[64,32,1,1,1]; strides=[2,2,2])"})
    check_right(spec, {"yb yt = split "}, options);
}

TEST_CASE("a padded copy that few lines of outputs share is made by lines, some channels at a time") {
  const auto lines = [](const std::string& spec) {
    return schedule_of(spec, false, 4).find("= compute_at P Y.c0") != std::string::npos;
  };
  CHECK(lines("Conv(f32[2,92,16,64], const f32[4,92,3,2]; strides=[2,2], pads=[4,0,8,4], dilations=[4,4])"));
  CHECK(
      lines("Conv(f32[8,102,32,64], const f32[3,102,1,2]; strides=[2,2], pads=[0,1,0,1], dilations=[2,2])"));
  CHECK_FALSE(
      lines("Conv(f32[1,92,16,16], const f32[4,92,3,2]; strides=[2,2], pads=[1,1,1,1])"));  // it is near
  CHECK_FALSE(lines("Conv(f32[1,64,200,200], const f32[1,64,9,9]; pads=[4,4,4,4])"));       // nine times

  for (const char* spec :
       {"Conv(f32[2,21,13,41], const f32[2,21,3,3], const f32[2]; strides=[2,2], pads=[1,1,1,1])",
        "Conv(f32[1,37,190], const f32[2,37,5]; strides=[3], pads=[2,2], dilations=[2])",
        "Conv(f32[1,18,5,6,39], const f32[2,18,3,3,3]; strides=[2,2,2], pads=[1,1,1,1,1,1])"})
    check_right(spec, {".c0\n", "= compute_at P "}, narrow(small_cache(6 << 10)));
}

TEST_CASE("panels of a padding are right at their ends") {
  CompileOptions options = narrow(small_cache(6 << 10));
  options.target.parallel_us = 0;
  for (const char* spec :
       {"Conv(f32[2,6,19,21], const f32[3,6,3,3], const f32[3]; pads=[1,1,1,1])",
        "Conv(f32[1,5,23,37], const f32[2,5,2,3]; strides=[2,1], pads=[0,1,2,1])",
        "ConvTranspose(f32[1,7,17,18], const f32[7,2,4,4]; strides=[2,2], pads=[1,1,1,1])"})
    check_right(spec, {"= compute_at P"}, options);
}

// The analytic defaults over operators and boundary sizes: the machine agrees with the interpreted lowered
// function bit for bit, and with the f64 oracle within its bound.
#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "nestor/walk.h"
#include "tests/driver/compiled.h"

using namespace nestor;

namespace {

// The iterations of each parallel loop that the default makes for two cores.
std::vector<int64_t> shared_by_two(const std::string& spec) {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.target.cores = 2;
  options.schedules = default_schedules();
  std::vector<int64_t> out;
  for (const CompiledFunction& f : compile_model(spec, options).funcs)
    for_each_stmt(f.scheduled.body, [&](const Stmt& s) {
      const auto* loop = s.as<For>();
      if (loop && loop->kind == ForKind::parallel) out.push_back(as_int(loop->extent).value_or(0));
    });
  return out;
}

}  // namespace

TEST_CASE("default schedules of matrix products at boundary sizes") {
  for (const Target& target : shared_targets())
    for (const int m : {1, 13, 15, 29})
      for (const int n : {1, 16, 33, 65})
        for (const int k : {1, 7})
          check_default("MatMul(f32[" + std::to_string(m) + "," + std::to_string(k) + "], const f32[" +
                            std::to_string(k) + "," + std::to_string(n) + "])",
                        target);
}

TEST_CASE("default schedules of operators") {
  for (const Target& target : shared_targets())
    for (const char* spec :
         {"MatMul(f32[3,5,17], f32[3,17,9])",
          "Gemm(f32[7,20], const f32[33,20], const f32[33]; transB=1)",
          "Conv(f32[1,3,11,13], const f32[20,3,3,3], const f32[20]; pads=[1,1,1,1], strides=[2,2])",
          "Conv(f32[2,17,7,7], const f32[35,17,1,1])",
          "Conv(f32[1,12,9,9], const f32[12,1,3,3]; group=12, pads=[1,1,1,1])",
          "Conv(f32[1,8,6,6], const f32[12,2,3,3]; group=4, dilations=[2,2], pads=[2,2,2,2])",
          "Conv(f32[1,5,31], const f32[7,5,4])",
          "MaxPool(f32[1,5,9,9]; kernel_shape=[3,3], pads=[1,1,1,1])",
          "AveragePool(f32[1,5,9,9]; kernel_shape=[2,2], strides=[2,2])",
          "GlobalAveragePool(f32[2,19,5,5])",
          "ReduceSum(f32[18,65], const i64[1]{0})",
          "ReduceSum(i32[18,33], const i64[1]{0})",
          "Softmax(f32[5,37]; axis=-1)",
          "Softmax(f32[51,37])",
          "Softmax(f32[3,20,9]; axis=1)",
          "LayerNormalization(f32[33,50], const f32[50], const f32[50])",
          "Softmax(f32[5,37]; axis=0)",
          "Softmax(f32[3,1])",
          "LayerNormalization(f32[7,50], const f32[50], const f32[50])",
          "ReduceSum@11(f32[13,70]; axes=[1])",
          "ReduceMax@11(f32[13,70]; axes=[0])",
          "ReduceMean@11(f32[4,6,21]; axes=[1])",
          "ReduceSum@11(f32[3,1100]; axes=[1])",
          "Transpose(f32[9,21]; perm=[1,0])",
          "Concat(f32[2,3,4], f32[2,5,4]; axis=1)",
          "Gelu(f32[3,101])",
          "Sigmoid(f32[7])",
          "Add(f32[4,1,9], f32[5,1])",
          "Relu(f32[0,4])",
          "Exp(f32[1])"})
      check_default(spec, target);
}

TEST_CASE("rows go by blocks that stay in the cache while all tiles of columns pass") {
  const auto check = [](const std::string& spec, const std::string& loop, int64_t l2, bool blocks) {
    INFO(spec << " with " << l2 << " bytes of cache");
    CompileOptions options;
    options.target = parse_target("x86-64-v3");
    options.target.l2_bytes = l2;
    options.exact_conv = true;
    options.blocked_io = true;
    options.schedules = default_schedules();
    const CompiledFunction f = std::move(compile_model(spec, options).funcs.at(0));
    CHECK((print(f.scheduled).find(" " + loop + " in ") != std::string::npos) == blocks);
    CHECK(verify_schedule(f.func, f.scheduled, {.seconds = 60}).ok());
    for (const OutputCheck& c : check_function(f, Against::oracle, options.target)) CHECK(c.comparison.ok());
  };
  check("Conv(f32[1,35,41,41], const f32[70,35,1,1])", "yxt", 128 << 10, true);
  check("Conv(f32[1,35,41,41], const f32[70,35,1,1])", "yxt", 8 << 20, false);
  check("Conv(f32[2,64,23,41], const f32[96,64,1,1], const f32[96])", "yxt", 128 << 10, true);
  check("MatMul(f32[700,70], const f32[70,150])", "it", 128 << 10, false);  // rows that lie dense
}

TEST_CASE("an output that the cache doesn't hold is written in its order where what rows share stays there") {
  const auto check = [](const std::string& spec, const std::string& outer, int64_t l2) {
    INFO(spec << " with " << l2 << " bytes of cache");
    CompileOptions options;
    options.target = parse_target("x86-64-v3");
    options.target.l2_bytes = l2;
    options.target.issue_width = 6;
    options.target.parallel_us = 100;
    options.exact_conv = true;
    options.schedules = default_schedules();
    const CompiledFunction f = std::move(compile_model(spec, options).funcs.at(0));
    std::string loops;  // over tiles, as they stand in each other
    for_each_stmt(f.scheduled.body, [&](const Stmt& s) {
      const auto* loop = s.as<For>();
      const std::string name = loop ? loop->var->name : "";
      for (const char* tiles : {"y", "x0", "o0", "i0", "j0", "ib", "it"})
        if (name == tiles) loops += name + " ";
    });
    CHECK(loops == outer);
    CHECK(verify_schedule(f.func, f.scheduled, {.seconds = 60}).ok());
    for (const OutputCheck& c : check_function(f, Against::oracle, options.target)) CHECK(c.comparison.ok());
  };
  const std::string conv = "Conv(f32[2,1,19,37], const f32[45,1,3,3], const f32[45]; pads=[1,1,1,1])";
  check(conv, "o0 y x0 ", 64 << 10);
  check(conv, "y x0 o0 ", 4 << 20);  // little of the cache holds the output
  check("MatMul(f32[131,7], const f32[7,301])", "i0 j0 ", 64 << 10);
  check("MatMul(f32[131,7], const f32[7,301])", "i0 j0 ", 1 << 20);
  check("MatMul(f32[131,150], const f32[150,301])", "ib j0 it ",
        64 << 10);  // but not all columns: blocks of rows do
  check("MatMul(f32[131,150], const f32[150,301])", "j0 i0 ", 512 << 10);
}

TEST_CASE("no operand is copied only to fill the last vector of another") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  const auto schedule = [&](const std::string& spec) {
    return print(default_schedule(partition_model(load(spec), options).partition.funcs[0], options.target));
  };
  CHECK(schedule("MatMul(f32[32,1664], f32[1664,54])").find("A_packed") == std::string::npos);
  CHECK(schedule("Gemm(f32[64,512], f32[96,512]; transB=1)").find("_packed") != std::string::npos);
}

TEST_CASE("narrow products turn blocks of the tall operand") {
  for (const Target& target : shared_targets())
    for (const char* spec : {"MatMul(f32[35,37], const f32[37,4])", "MatMul(f32[2,40,16], f32[2,16,2])",
                             "MatMul(f32[16,61], f32[61,6])"})
      check_default(spec, target, true);
  const PrimFunc f = partition(load("MatMul(f32[160,24], f32[24,4])").graph).funcs.at(0);
  CHECK(print(default_schedule(f, parse_target("x86-64-v4"))).find("unroll Y.k1") != std::string::npos);
  // Two tiles of 9 and 8 columns would turn every block twice.
  const PrimFunc g = partition(load("MatMul(f32[212,128], const f32[128,17])").graph).funcs.at(0);
  CHECK(print(default_schedule(g, parse_target("x86-64-v4"))).find("unroll Y.k1") == std::string::npos);
}

TEST_CASE("default schedules with channels in blocks, full and not") {
  for (const Target& target : shared_targets())
    for (const char* spec :
         {"Conv(f32[1,23,9,9], const f32[45,23,1,1], const f32[45]; strides=[2,2])",
          "Conv(f32[1,13,8,8], const f32[29,13,3,3]; pads=[1,1,1,1])",
          "Conv(f32[1,9,10,10], const f32[9,1,3,3]; group=9, pads=[1,1,1,1], strides=[2,2])",
          "Conv(f32[1,32,6,6], const f32[32,8,3,3]; group=4, pads=[1,1,1,1])",
          "Conv(f32[1,40,9,31], const f32[40,8,3,3]; group=5, pads=[1,1,1,1])",
          "Conv(f32[1,20,7,9], const f32[20,4,3,5]; group=5, strides=[1,2])",
          "MaxPool(f32[1,13,9,9]; kernel_shape=[3,3], pads=[1,1,1,1])"})
      check_default(spec, target, true);
}

TEST_CASE("default schedules of reductions along any axes") {
  for (const Target& target : shared_targets()) {
    for (const char* op : {"ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2"})
      for (const char* axes : {"0", "1", "2", "0,1", "0,2", "1,2", "0,1,2"})
        for (const char* shape : {"3,20,70", "9,5,33", "70,2,1", "2,19,130"})
          check_default(std::string(op) + "@11(f32[" + shape + "]; axes=[" + axes + "])", target);
    for (const char* type : {"f64", "i32", "i64", "i8", "u8"})
      for (const char* axes : {"0", "1"})
        check_default("ReduceMax@12(" + std::string(type) + "[50,40]; axes=[" + axes + "], keepdims=0)",
                      target);
    // Panels of columns, and many rows across lanes.
    check_default("ReduceSum@11(f32[11,5000]; axes=[0])", target);
    check_default("ReduceMean@11(f32[3001,12]; axes=[1])", target);
  }
}

TEST_CASE("default schedules of pooling") {
  for (const Target& target : shared_targets())
    for (const char* op : {"MaxPool", "AveragePool"})
      for (const char* window :
           {"f32[1,3,20,40]; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]",
            "f32[2,5,9,70]; kernel_shape=[2,2], strides=[2,2]",
            "f32[1,2,7,7]; kernel_shape=[5,5], pads=[2,2,2,2]",
            "f32[1,2,30,33]; kernel_shape=[3,4], strides=[1,3], pads=[0,1,2,3]",
            "f32[1,4,300]; kernel_shape=[3], strides=[3]",
            "f32[1,2,11,90]; kernel_shape=[7,7], strides=[4,4]",
            "f32[1,1,6,7,40]; kernel_shape=[2,3,3], strides=[2,1,2]",
            "f32[1,3,12,13]; kernel_shape=[1,1], strides=[2,2]", "f32[3,1,5,64]; kernel_shape=[5,1]"})
        check_default(std::string(op) + "(" + window + ")", target);
}

// Loops that were split before the function came here: a plan that finds them by iterator keeps one too many.
TEST_CASE("default schedules of a nest whose loops were split by hand") {
  for (const Target& target : shared_targets())
    check_default(NESTOR_SOURCE_DIR "/tests/driver/split_before.nest", target);
}

std::string steps_of(const std::string& spec, const Target& target) {
  return print(default_schedule(partition(load(spec).graph).funcs.at(0), target));
}

TEST_CASE("a tile has no more rows than the cache has ways, where they meet in one set") {
  Target target = parse_target("x86-64-v4");
  const auto rows = [&](int k) {
    const std::string of = std::to_string(k);
    const std::string steps = steps_of("MatMul(f32[1024," + of + "], const f32[" + of + ",1024])", target);
    const size_t at = steps.find("] -> ", steps.find("i_rows = "));
    return std::stoi(steps.substr(at + 5));
  };
  target.l2_bytes = 64 << 20;  // rows that come from behind it would ask for wider tiles
  target.l1_bytes = 32 << 10;
  target.l1_ways = 8;
  for (const int k : {1024, 1025, 3072}) CHECK(rows(k) == 8);
  for (const int k : {512, 1009, 1040, 1500}) CHECK(rows(k) == 9);
  target.l1_bytes = 48 << 10;
  target.l1_ways = 12;
  CHECK(rows(1024) == 9);
  target.l1_bytes = 16 << 10;
  target.l1_ways = 4;
  CHECK(rows(1024) == 4);
  CHECK(rows(1040) == 9);
}

TEST_CASE("an operand that lies badly for the caches is copied by panels, or whole where these are narrow") {
  const auto copies = [](const std::string& spec, Target target) {
    target.l2_bytes = 1 << 20;
    target.l2_ways = 8;
    const std::string steps = steps_of(spec, target);
    const bool copied = steps.find("cache_read Y B") != std::string::npos;
    return steps.find("compute_at B_packed Y.j0") != std::string::npos ? "panels" : copied ? "whole" : "none";
  };
  const Target wide = parse_target("x86-64-v4"), narrow = parse_target("x86-64-v3");
  for (const char* spec : {"MatMul(f32[1024,1024], f32[1024,1024])", "MatMul(f32[100,3000], f32[3000,1000])",
                           "MatMul(f32[1009,1009], f32[1009,1009])"}) {
    INFO(spec);
    CHECK(copies(spec, wide) == std::string("panels"));
    CHECK(copies(spec, narrow) == std::string("whole"));
  }
  for (const char* spec : {"MatMul(f32[256,256], f32[256,256])", "MatMul(f32[40,1024], f32[1024,1024])",
                           "MatMul(f32[128,640], f32[640,640])"}) {
    INFO(spec);
    CHECK(copies(spec, wide) == std::string("none"));
  }
  for (const Target& target : shared_targets()) check_default("MatMul(f32[50,80], f32[80,2048])", target);
}

TEST_CASE("narrow products are dot products where the reduction is long") {
  // The last block of lanes is full, or holds 12, 4 or 1 of 16; with an epilogue; operands that lie dense
  // already, or are copied so.
  for (const char* spec :
       {"MatMul(f32[37,128], const f32[128,2])", "MatMul(f32[70,300], const f32[300,3])",
        "MatMul(f32[9,100], const f32[100,2])", "MatMul(f32[5,513], const f32[513,3])",
        "MatMul(f32[35,80], const f32[80,4])", "MatMul(f32[3,20,260], const f32[260,2])",
        "MatMul(f32[2,200], const f32[200,2])", "Gemm(f32[9,200], const f32[3,200], const f32[3]; transB=1)",
        "Gemm(f32[19,208], f32[3,208]; transB=1)", "MatMul(f32[37,128], f32[128,2])",
        "MatMul(f32[40,301], f32[301,5])", "MatMul(f32[700,200], f32[200,3])",
        "MatMul(f32[4,200], f32[200,3])"}) {
    INFO(spec);
    for (const Target& target : shared_targets()) check_default(spec, target);
    CHECK(steps_of(spec, parse_target("x86-64-v4")).find(" = rfactor ") != std::string::npos);
  }
  for (const char* spec : {"MatMul(f32[200,40], const f32[40,3])", "MatMul(f32[700,200], const f32[200,12])",
                           "MatMul(f32[700,200], f32[200,12])"}) {
    INFO(spec);
    CHECK(steps_of(spec, parse_target("x86-64-v4")).find(" = rfactor ") == std::string::npos);
  }
}

TEST_CASE("dot products are folded as many at once as a vector has lanes") {
  CompileOptions options;
  options.target = parse_target("x86-64-v4");
  options.schedules = default_schedules();
  for (const char* spec :
       {"MatMul(f32[64,128], const f32[128,2])", "MatMul(f32[64,128], const f32[128,4])"}) {
    INFO(spec);
    const std::string lowered = print(compile_model(spec, options).lowered().at(0));
    CHECK(lowered.find("reduce_add") == std::string::npos);
    CHECK(lowered.find("shuffle(") != std::string::npos);
  }
}

TEST_CASE("default schedules for 128-bit vectors without fma") {
  for (const char* spec : {"MatMul(f32[13,17], const f32[17,33])", "MatMul(f32[37,129], const f32[129,2])",
                           "MatMul(f32[37,130], const f32[130,5])", "MatMul(f32[41,128], const f32[128,66])",
                           "Softmax(f32[5,37])", "Gelu(f32[9,30])",
                           "Conv(f32[1,3,11,13], const f32[20,3,3,3]; pads=[1,1,1,1], strides=[2,2])",
                           "Conv(f32[1,12,9,9], const f32[12,1,3,3]; group=12, pads=[1,1,1,1])",
                           "Log(f32[77])", "Pow(f32[40], f32[40])"})
    check_default(spec, parse_target("x86-64-v2"));
}

TEST_CASE("work too small for threads stays with the caller") {
  for (const char* spec :
       {"MatMul(f32[64,64], const f32[64,64])", "Transpose(f32[1,64,12,32]; perm=[0,2,1,3])",
        "LayerNormalization(f32[32,768], const f32[768], const f32[768])",
        "Conv(f32[1,96,14,14], const f32[96,1,3,3]; group=96, pads=[1,1,1,1])",
        "AveragePool(f32[1,32,28,28]; kernel_shape=[2,2], strides=[2,2])",
        "ReduceSum@11(f32[64,70]; axes=[1])"}) {
    INFO(spec);
    CHECK(shared_by_two(spec).empty());
  }
}

TEST_CASE("two threads get shares alike") {
  for (const char* spec :
       {"MatMul(f32[512,512], const f32[512,288])", "MatMul(f32[1009,1009], const f32[1009,1009])",
        "MatMul(f32[3,512,512], f32[3,512,96])", "Softmax(f32[9,50257])",
        "Conv(f32[1,96,27,27], const f32[96,96,3,3]; pads=[1,1,1,1])",
        "Transpose(f32[3,1000,500]; perm=[0,2,1])", "ReduceSum@11(f32[4096,1000]; axes=[1])",
        "MaxPool(f32[3,64,112,112]; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1])"}) {
    INFO(spec);
    const std::vector<int64_t> shared = shared_by_two(spec);
    CHECK(!shared.empty());
    for (const int64_t n : shared) {
      INFO(n << " iterations");
      CHECK(static_cast<double>(n) / static_cast<double>((n + 1) / 2 * 2) >= 0.9);
    }
  }
}

TEST_CASE("short loops are split statically, long ones dynamically") {
  const auto split = [](const std::string& spec) {
    CompileOptions options;
    options.target = parse_target("x86-64-v4");
    options.target.cores = 2;
    options.schedules = default_schedules();
    std::string out;
    for (const CompiledFunction& f : compile_model(spec, options).funcs)
      for_each_stmt(f.lowered.body, [&](const Stmt& s) {
        const auto* loop = s.as<For>();
        if (!loop || loop->kind != ForKind::parallel) return;
        const auto it = loop->annotations.find("split");
        out += it == loop->annotations.end() ? "dynamic" : std::get<std::string>(it->second);
      });
    return out;
  };
  CHECK(split("Softmax(f32[1536,128])") == "static");
  CHECK(split("MatMul(f32[512,512], const f32[512,512])") == "dynamic");
}

TEST_CASE("rows of taps that fill half of a vector are no lanes where results are") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  const char* few = "Conv(f32[2,19,10,90], const f32[7,19,9,9]; strides=[3,3], pads=[8,4,8,4])";
  CHECK(default_has(few, "vectorize Y.x", target));
  check_default(few, target);
}

TEST_CASE("a panel is said to stay in the cache only if that holds it") {
  Target target = parse_target("x86-64-v4");
  const std::string one_panel = "Conv(f32[1,448,45,45], const f32[16,448,7,7])";  // 1372 KiB of weights
  target.l2_bytes = 512 << 10;
  CHECK(default_says(one_panel, "1372.0 KiB that depend on ol are read once per tile", target));
  target.l2_bytes = 2 << 20;
  CHECK(default_says(one_panel, "1372.0 KiB that depend on ol stay in the cache", target));
  const std::string bytes = "ConvInteger(u8[1,64,56,56], const i8[64,64,3,3]; pads=[1,1,1,1])";
  CHECK(default_says(bytes, "the 18.0 KiB that depend on ob stay", target));  // of 32 channels
}

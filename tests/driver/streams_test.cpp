// Operands that come from behind the second-level cache: what the default schedules ask for ahead.
#include "catch.h"
#include "nestor/driver.h"
#include "nestor/library.h"
#include "nestor/print.h"

using namespace nestor;

namespace {

Target with_l2(const std::string& name, int64_t bytes) {
  Target t = parse_target(name);
  t.l1_bytes = 48 << 10;
  t.l1_ways = 12;
  t.l2_bytes = bytes;
  return t;
}

bool asks(const std::string& spec, const std::string& step, const Target& target) {
  CompileOptions options;
  options.target = target;
  options.blocked_io = true;  // convolutions as inside a network
  const CompiledModel m = partition_model(load(spec), options);
  const std::string trace = print(default_schedule(m.partition.funcs[0], target));
  INFO(trace);
  return trace.find(step) != std::string::npos;
}

// As its own lowered text and as the unscheduled function say.
void check_right(const std::string& spec, const Target& target) {
  CompileOptions options;
  options.target = target;
  options.schedules = default_schedules();
  options.lowering.check = true;
  for (const CompiledFunction& f : compile_model(spec, options).funcs)
    for (const Against against : {Against::lowered, Against::oracle})
      for (const OutputCheck& c : check_function(f, against, host_target())) {
        INFO(spec << " for " << target.name << ": " << describe(c.comparison, c.name, c.want));
        CHECK(c.comparison.ok());
      }
}

}  // namespace

TEST_CASE("rows that leave the cache before the next tile of columns are asked for some lines ahead") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  // 9 x 3 accumulators: a line of each row in 216 cycles.
  CHECK(asks("MatMul(f32[2048,2048], const f32[2048,2048])", "prefetch Y.k0 A distance=2", target));
  CHECK(asks("MatMul(f32[2048,2048], f32[2048,2048])", "prefetch Y.k0 A distance=2", target));
  CHECK(asks("Gemm(f32[700,1000], const f32[1000,900], const f32[900])", "k0 A distance=", target));
  CHECK_FALSE(asks("MatMul(f32[128,768], const f32[768,768])", "prefetch Y.k0 A", target));  // A stays
  CHECK_FALSE(asks("MatMul(f32[9000,64], const f32[64,256])", "prefetch", target));          // short rows
  CHECK_FALSE(asks("MatMul(f32[9000,1000], const f32[1000,32])", "prefetch", target));       // A passes once
  CHECK(asks("MatMul(f32[128,768], const f32[768,768])", "k0 A distance=", with_l2("x86-64-v4", 1 << 18)));
}

TEST_CASE("steps of a wide operand that few rows use are asked for ahead") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  // 9 x 3 accumulators: 300 cycles are 24 steps of 13.
  CHECK(asks("MatMul(const f32[25,271], f32[271,3072])", "prefetch Y.k B distance=24", target));
  CHECK(asks("Conv(f32[1,320,85,85], const f32[8,320,1,1])", "prefetch Y.c X distance=", target));
  CHECK_FALSE(asks("MatMul(const f32[25,271], f32[271,500])", "prefetch", target));  // stays in the cache
  CHECK_FALSE(
      asks("MatMul(const f32[400,271], f32[271,3072])", "prefetch Y.k B", target));  // asked too often
  CHECK_FALSE(asks("MatMul(const f32[25,16], f32[16,30720])", "prefetch", target));  // few steps
}

TEST_CASE("the next panel of weights that don't stay in the cache is asked for in shares") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  CHECK(asks("MatMul(f32[128,768], const f32[768,3072])", "prefetch Y.j0 B distance=1 shares=k0", target));
  CHECK(asks("Gemm(f32[700,1000], const f32[1000,900], const f32[900])", "B distance=1 shares=k0", target));
  const std::string conv = "Conv(f32[1,2048,7,7], const f32[512,2048,1,1])";
  CHECK(asks(conv, "W distance=1 shares=", target));
  CHECK_FALSE(asks("MatMul(f32[128,768], f32[768,3072])", "shares", target));        // no constant
  CHECK_FALSE(asks("MatMul(f32[2,1787], const f32[1787,289])", "shares", target));   // used twice
  CHECK_FALSE(asks("MatMul(f32[128,256], const f32[256,256])", "shares", target));   // stays in the cache
  CHECK_FALSE(asks("MatMul(f32[900,9000], const f32[9000,32])", "shares", target));  // one panel
  CHECK_FALSE(
      asks("MatMul(f32[128,9000], const f32[9000,768])", "shares", target));  // too long for the cache
}

TEST_CASE("panels of transformed weights follow each other through all products, each asked for ahead") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  const std::string conv = "Conv(f32[1,256,14,14], const f32[256,256,3,3]; pads=[1,1,1,1])";
  CHECK(asks(conv, "ob0s = fuse M_out (i j ob0)", target));
  CHECK(asks(conv, "prefetch M.ob0s U distance=1 shares=cl", target));
  const std::string small = "Conv(f32[1,32,56,56], const f32[32,32,3,3]; pads=[1,1,1,1])";
  CHECK_FALSE(asks(small, "prefetch", target));
}

TEST_CASE("where the last cache is far away, lines that are written are asked for ahead") {
  Target near = with_l2("x86-64-v4", 2 << 20), far = near;
  near.l3_bytes = 32 << 20;
  far.l3_bytes = int64_t{480} << 20;
  const std::string turned = "Transpose(f32[1009,2003]; perm=[1,0])";
  CHECK(asks(turned, "prefetch Y.i0 X distance=2", far));
  CHECK(asks(turned, "prefetch Y.i0 Y distance=2", far));
  CHECK(asks(turned, "reorder Y (j0 i0 i1 j1)", far));
  CHECK(asks("Transpose(f32[8,12,197,256]; perm=[0,1,3,2])", " Y distance=2", far));
  CHECK_FALSE(asks(turned, "prefetch", near));
  CHECK_FALSE(asks("Transpose(f32[500,500]; perm=[1,0])", "prefetch", far));           // stays in the cache
  CHECK_FALSE(asks("Transpose(f32[1,112,112,64]; perm=[0,3,1,2])", "prefetch", far));  // a short side
  CHECK_FALSE(asks("Transpose(f32[2048,2048]; perm=[1,0])", "prefetch", far));         // goes past the caches

  const std::string ragged = "MatMul(f32[2048,32], const f32[32,1003])";
  CHECK(asks(ragged, " Y distance=1", far));
  CHECK_FALSE(asks(ragged, " Y distance", near));
  CHECK_FALSE(asks("MatMul(f32[2048,32], const f32[32,1024])", " Y distance", far));    // rows begin at lines
  CHECK_FALSE(asks("MatMul(f32[2048,100], const f32[100,1003])", " Y distance", far));  // a long sum
  CHECK_FALSE(asks("MatMul(f32[1024,32], const f32[32,1003])", " Y distance", far));    // a few megabytes
}

TEST_CASE("transposes that ask for lines ahead are right at ragged sizes") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const char* spec : {"Transpose(f32[131,257]; perm=[1,0])", "Transpose(f32[2,129,150]; perm=[0,2,1])",
                             "MatMul(f32[130,5], f32[5,299])"}) {
      Target target = with_l2(name, 16 << 10);
      target.l3_bytes = int64_t{480} << 20;
      INFO(spec);
      CHECK(asks(spec, " Y distance=", target));
      check_right(spec, target);
    }
}

TEST_CASE("tiles are wider where rows stream, as far as two panels stay in the cache") {
  const Target target = with_l2("x86-64-v4", 1 << 20);
  const auto tile = [&](const std::string& spec, const Target& t) {
    const auto rows = [&](int n) { return asks(spec, "-> " + std::to_string(n) + "\n", t); };
    return rows(14) ? 14 : rows(9) ? 9 : rows(6) ? 6 : 0;
  };
  CHECK(tile("MatMul(f32[512,512], const f32[512,512])", target) == 6);
  CHECK(tile("MatMul(f32[512,512], const f32[512,512])", with_l2("x86-64-v4", 4 << 20)) == 14);
  CHECK(tile("MatMul(f32[1024,1024], const f32[1024,1024])", target) == 6);
  CHECK(tile("MatMul(f32[128,3072], const f32[3072,768])", target) == 9);  // panels of 768 KiB otherwise
  CHECK(tile("MatMul(f32[1024,1024], const f32[1024,1024])", with_l2("x86-64-v3", 1 << 20)) == 6);
}

TEST_CASE("products whose rows are asked for ahead are right at ragged sizes") {
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const std::string spec :
         {"MatMul(f32[61,301], const f32[301,130])", "MatMul(f32[64,256], f32[256,99])",
          "Gemm(f32[90,128], const f32[300,128], const f32[300]; transB=1)"}) {
      const Target target = with_l2(name, 80 << 10);
      INFO(spec << " for " << name);
      CHECK(asks(spec, "k0 A distance=", target));
      CHECK(asks(spec, "shares=k0", target) == (spec.find("const") != std::string::npos));
      check_right(spec, target);
    }
}

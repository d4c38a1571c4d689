// Columns that are a few more than whole vectors: where the few become dot products, and that they are right.
#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "tests/driver/compiled.h"

using namespace nestor;

TEST_CASE("a few columns more than whole vectors are dot products") {
  const auto parts = [](const std::string& spec, const std::string& cpu, int64_t l3 = 32 << 20,
                        double l3_bytes_per_cycle = 16) {
    INFO(spec << " for " << cpu);
    CompileOptions options;
    options.target = parse_target(cpu);
    options.target.l2_bytes = 1 << 20;
    options.target.l3_bytes = l3;
    options.target.l3_bytes_per_cycle = l3_bytes_per_cycle;
    options.target.cores = 1;
    options.schedules = default_schedules();
    const CompiledFunction f = std::move(compile_model(spec, options).funcs.at(0));
    CHECK(verify_schedule(f.func, f.scheduled, {.seconds = 60}).ok());
    for (const OutputCheck& c : check_function(f, Against::oracle, to_run(options.target)))
      CHECK(c.comparison.ok());
    return print(f.scheduled).find("_rest_sums") != std::string::npos;
  };
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    CHECK(parts("MatMul(f32[37,129], const f32[129,65])", cpu));
    CHECK(parts("MatMul(f32[50,64], f32[64,34])", cpu));  // two columns, of an activation
    CHECK(parts("Gemm(f32[41,70], const f32[35,70], const f32[35]; transB=1)", cpu));
    CHECK(parts("MatMul(f32[3,14,60], const f32[60,33])", cpu));
    CHECK(!parts("MatMul(f32[37,129], const f32[129,64])", cpu));
    CHECK(!parts("MatMul(f32[37,129], const f32[129,79])", cpu));  // most lanes are full
    CHECK(!parts("MatMul(f32[9,20], const f32[20,33])", cpu));     // little work
  }
  CHECK(parts("Conv(f32[1,64,7,7], const f32[128,64,1,1])", "x86-64-v4"));
  // The rows come once more from behind the second-level cache, or from far behind it.
  CHECK(parts("MatMul(f32[601,500], const f32[500,33])", "x86-64-v4"));
  CHECK(!parts("MatMul(f32[601,500], const f32[500,33])", "x86-64-v4", 32 << 20, 9));
  CHECK(!parts("MatMul(f32[601,500], const f32[500,33])", "x86-64-v4", 1 << 20));
}

TEST_CASE("constants that one tile takes whole are laid out by lines where their rows begin at none") {
  const auto packed = [](const std::string& spec) {
    const PrimFunc f = partition(load(spec).graph).funcs.at(0);
    return print(default_schedule(f, parse_target("x86-64-v4"))).find("transform_layout B") !=
           std::string::npos;
  };
  CHECK(packed("MatMul(f32[50,40], const f32[40,30])"));
  CHECK(packed("MatMul(f32[50,40], const f32[40,33])"));  // of 32 columns
  CHECK_FALSE(packed("MatMul(f32[50,40], const f32[40,32])"));
  CHECK_FALSE(packed("MatMul(f32[6,40], const f32[40,30])"));       // one tile reads them
  CHECK_FALSE(packed("MatMul(f32[50,4000], const f32[4000,30])"));  // they don't stay near
}

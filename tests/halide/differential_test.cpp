// Two compilers that share nothing but a function's text agree on what it computes: ours through the default
// schedule and LLVM, Halide through its own. On small integers exactly, but where a function has exp and its
// kin.
#include <cstdlib>
#include <random>

#include "catch.h"
#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/halide.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "tests/fuzz/equivalence.h"
#include "tests/fuzz/functions.h"

using namespace nestor;

#ifdef __SANITIZE_THREAD__
// Halide and its autoschedulers have threads of their own and weren't built for the sanitizer.
extern "C" const char* __tsan_default_suppressions() {
  return "race:libautoschedule_\nrace:libHalide.so\n";
}
#endif

namespace {

std::vector<void*> pointers(std::vector<Tensor>& args) {
  std::vector<void*> out;
  for (Tensor& t : args) out.push_back(t.data());
  return out;
}

std::vector<Tensor> by_llvm(const PrimFunc& f, uint64_t seed) {
  CompileOptions options;
  options.schedules = default_schedules();
  const CompiledFunction compiled = compile_function(f, options);
  const std::vector<Tensor> args = exact_args(f, seed);
  FunctionRunner runner(compiled, options.target);
  runner.bind(args);
  runner.run();
  return args;
}

std::vector<Tensor> by_halide(const PrimFunc& f, uint64_t seed, const std::string& scheduler) {
  std::vector<Tensor> args = exact_args(f, seed);
  HalideFunction(f, scheduler).run(pointers(args).data());
  return args;
}

void check_agree(const PrimFunc& f, uint64_t seed, double tolerance, const std::string& scheduler) {
  const Agreement a = compare_outs(f, by_llvm(f, seed), by_halide(f, seed, scheduler), tolerance);
  INFO(print(f) << scheduler << ": " << a.why);
  CHECK(a.same);
}

}  // namespace

TEST_CASE("LLVM and Halide agree on the functions of the fuzzer") {
  const char* given = std::getenv("NESTOR_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 7;
  INFO("NESTOR_SEED=" << seed);
  std::mt19937_64 rng(seed);
  int agreed = 0, unsupported = 0;
  for (int i = 0; i < first_dependence_function(); ++i) {
    const FuzzFunction f = make_function(i, draw_sizes(i % 2 == 0, rng));
    INFO(f.name);
    try {
      check_agree(f.func, seed + static_cast<uint64_t>(i), f.tolerance > 0 ? 1e-4 : 0, "none");
      ++agreed;
    } catch (const UserError& e) {
      INFO(e.what());
      CHECK(std::string(e.what()).find("Halide's back end doesn't support ") != std::string::npos);
      UNSCOPED_INFO(f.name << ": " << e.what());
      ++unsupported;
    }
  }
  CHECK(agreed >= 3 * unsupported);
}

TEST_CASE("operators agree, scheduled by each of Halide's autoschedulers") {
  for (const char* spec :
       {"MatMul(f32[37,29], const f32[29,65])", "Conv(f32[1,5,13,11], const f32[7,5,3,3]; pads=[1,1,1,1])",
        "Conv(f32[1,12,9,9], const f32[12,1,3,3]; group=12, pads=[1,1,1,1], strides=[2,2])",
        "MaxPool(f32[1,5,9,9]; kernel_shape=[3,3], pads=[1,1,1,1])", "Softmax(f32[19,37])",
        "LayerNormalization(f32[9,50], const f32[50], const f32[50])",
        "Transpose(f32[3,20,17]; perm=[2,0,1])", "Concat(f32[4,9], f32[4,5]; axis=1)",
        "ReduceMean@11(f32[13,70]; axes=[1])", "Gelu(f32[33,20])", "Gather(f32[30,7], i64[5])"})
    for (const char* scheduler : {"mullapudi2016", "adams2019"})
      for (const PrimFunc& f : partition_model(load(spec)).partition.funcs)
        check_agree(f, 3, 1e-4, scheduler);
}

TEST_CASE("what Halide's back end can't do is said by name") {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      const HalideFunction f(parse_func(text));
    } catch (const UserError& e) {
      return e.what();
    }
    return "nothing";
  };
  using Catch::Matchers::ContainsSubstring;
  const std::string one = ") { for i in 4 { block Y(v: S 4 = i) { Y[v] = ";
  CHECK_THAT(refusal("func f(in X: f16[4], out Y: f16[4]" + one + "X[v] } } }"),
             ContainsSubstring("16-bit floats"));
  CHECK_THAT(refusal("func f(in X: f64[4], out Y: f64[4]" + one + "erf(X[v]) } } }"),
             ContainsSubstring("erf of f64"));
  CHECK_THAT(refusal("func f(in X: f32[0], out Y: f32[4]" + one + "1.0f32 } } }"),
             ContainsSubstring("X, which is empty"));
  CHECK_THAT(
      refusal("func f(in X: f32[4], out Y: f32[4]) { for i in 2 { block Y(v: S 4 = i*2) { Y[v] = X[v] } } }"),
      ContainsSubstring("block Y: its iterators aren't its loops"));
  try {
    const HalideFunction f(partition_model(load("Relu(f32[4])")).partition.funcs.at(0), "li2018");
    FAIL("accepted");
  } catch (const UserError& e) {
    CHECK_THAT(e.what(), ContainsSubstring("mullapudi2016, adams2019 and none"));
  }
}

TEST_CASE("an autoscheduler's schedule can be read") {
  const HalideFunction f(partition_model(load("MatMul(f32[64,64], f32[64,64])")).partition.funcs.at(0));
  CHECK(f.schedule().find("vectorize") != std::string::npos);
}

TEST_CASE("a model runs on Halide's kernels, and verify asks them") {
  CompileOptions options;
  const CompiledModel by_halide =
      compile_model("Conv(f32[1,3,9,9], const f32[4,3,3,3]; pads=[1,1,1,1])", options);
  options.schedules = default_schedules();
  const CompiledModel ours = compile_model("Conv(f32[1,3,9,9], const f32[4,3,3,3]; pads=[1,1,1,1])", options);
  NamedTensors in;
  for (const PlanTensor& t : ours.plan->inputs) in[t.name] = Tensor::random(t.dtype, t.shape, 5);
  const NamedTensors got = make_halide_executor(by_halide, "mullapudi2016")->run(in),
                     want = make_executor(ours)->run(in);
  for (const auto& [name, tensor] : want) CHECK(compare(got.at(name), tensor).ok());
  for (const CompiledFunction& f : ours.funcs)
    for (const OutputCheck& c : check_function(f, Against::halide, ours.target)) CHECK(c.comparison.ok());
}

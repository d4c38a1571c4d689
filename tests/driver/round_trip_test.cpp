// What is printed at any stage can be read back and used by every verb. Tested with the functions of the
// fuzzer under random schedules: as written, scheduled, and after each pass of lowering.
#include <fstream>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "tests/driver/compiled.h"
#include "tests/fuzz/functions.h"
#include "tests/fuzz/random_trace.h"
#include "tests/own_file.h"

using namespace nestor;

namespace {

PrimFunc read_back(const PrimFunc& f) {
  const std::string text = print(f);
  const PrimFunc back = parse_func(text);
  CHECK(structural_equal(back, f, true));
  CHECK(print(back) == text);
  check_well_formed(back);
  return back;
}

// The outputs by the interpreter, on flat inputs that are the same for every stage.
std::vector<Tensor> outputs(const PrimFunc& f, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> args = random_args(f, 1), out;
  for (size_t i = 0; i < args.size(); ++i)
    if (f.params[i].role != Role::out) args[i] = inputs[i].reshaped(args[i].shape());
  interpret(f, args);
  for (size_t i = 0; i < args.size(); ++i)
    if (f.params[i].role == Role::out) out.push_back(args[i].reshaped({args[i].size()}));
  return out;
}

// As `run`, `verify` (against each opinion) and `compile` take a file.
void check_verbs(const PrimFunc& f, const std::string& stage) {
  const std::string path = own_file("round_trip.nest");
  std::ofstream(path) << print(f);
  std::string said;
  CompileOptions options = checking_options(host_target());
  options.refused = [](const PrimFunc&, const ScheduleError&) {
  };  // of stranger functions than operators make
  options.note = [&](const std::string& note) { said += note; };
  INFO(stage << "\n" << print(f));
  const CompiledModel m = compile_model(path, options);
  NamedTensors inputs;
  for (const PlanTensor& t : m.plan->inputs) inputs[t.name] = Tensor::random(t.dtype, t.shape, 1);
  make_executor(m)->run(inputs);
  for (const Against against : {Against::oracle, Against::interpreter, Against::lowered})
    for (const OutputCheck& c : check_function(m.funcs[0], against, m.target)) {
      INFO(describe(c.comparison, c.name, c.want));
      CHECK(c.comparison.ok());
    }
}

bool has_layouts(const PrimFunc& f) {
  for (const Param& p : f.params)
    if (p.decl.layout) return true;
  return false;
}

}  // namespace

TEST_CASE("Every printed stage reads back and runs") {
  std::mt19937_64 rng(20261129);
  TraceCounts counts;
  int through_verbs = 0;
  for (int index = 0; index < fuzz_function_count(); ++index) {
    const FuzzFunction function = make_function(index, draw_sizes(index % 2 != 0, rng));
    if (verify_function(function.func).depends_on_data) continue;  // random indices would lie outside
    const Schedule schedule = random_schedule(function.func, rng, counts, {.wanted = 4, .gpu = false});
    INFO(function.name << "\n" << print(schedule.trace()) << "\n" << print(schedule.func()));
    const std::vector<Tensor> inputs = random_args(function.func, 1);
    read_back(function.func);
    const PrimFunc scheduled = read_back(schedule.func());
    std::vector<std::pair<std::string, PrimFunc>> stages = {{"func", function.func}, {"schedule", scheduled}};
    LowerOptions lowering;
    lowering.on_pass = [&](const Pass& pass, const PrimFunc& after, double, bool changed) {
      if (changed) stages.emplace_back(pass.name, read_back(after));
    };
    PrimFunc lowered;
    try {
      lowered = lower(scheduled, host_target(), lowering);
    } catch (const ScheduleError&) {  // a random schedule may ask for what a target can't do
      continue;
    }
    if (has_layouts(scheduled)) continue;  // packed weights are other inputs
    if (print(scheduled).find("@tensorize") != std::string::npos) continue;  // instructions aren't interpreted
    const std::vector<Tensor> wanted = outputs(lowered, inputs);
    for (const auto& [name, f] : stages) {
      const std::vector<Tensor> got = outputs(f, inputs);
      for (size_t i = 0; i < got.size(); ++i) {
        INFO(name);
        CHECK(compare(got[i], wanted[i], {1e-3, 1e-4}).ok());
      }
    }
    check_verbs(stages[static_cast<size_t>(index) % stages.size()].second, function.name);
    check_verbs(lowered, function.name);
    ++through_verbs;
  }
  CHECK(through_verbs > fuzz_function_count() / 2);
}

TEST_CASE("Text of unusual forms runs") {
  const char* const texts[] = {
      // an init alone
      "func f(in A: f32[8,16], out Y: f32[8]) { for i in 8, k in 16 { block Y(vi: S 8 = i, vk: R 16 = k) { "
      "init { "
      "Y[vi] = 0.0f32 } } } }",
      // a block inside of a block
      "func f(in X: f32[8,24], out Y: f32[8]) { for i0 in 2 { block O(vo: S 2 = i0) { for i1 in 4, k in 24 { "
      "block "
      "Y(vi: S 8 = vo*4+i1, vk: R 24 = k) { init { Y[vi] = 0.0f32 }\nY[vi] += X[vi,vk] } } } } }",
      // lowered: vectors of two lengths and a mask on one temporary
      "func f(in X: f32[32], out Y: f32[8]) { for i in 2 { alloc P: f32[16] { P[ramp(0, 1, 16)] mask "
      "(ramp(0, 1, 16) "
      "< x16(11)) = X[ramp(i*16, 1, 16)] mask (ramp(0, 1, 16) < x16(11))\nY[ramp(i*4, 1, 4)] = P[ramp(0, 1, "
      "4)] + "
      "P[ramp(2, 1, 4)] } } }",
      // a vector index beside a scalar one
      "func f(in X: f32[4,16], out Y: f32[4,16]) { for i in 4 { Y[i,ramp(0, 1, 16)] = X[i,ramp(0, 1, 16)] } "
      "}",
      // polynomials of f32: no f64 form
      "func f(in X: f32[4], out Y: f32[4]) { for i in 4 { Y[i] = scalef(lookup(X[i], 1.0f32, 1.5f32), X[i]) "
      "} }",
      // sums in narrow types, whose order shows
      "func f(in A: f16[6,70], out S: f16[6]) { for i in 6, k in 70 { block S(vi: S 6 = i, vk: R 70 = k) { "
      "init { "
      "S[vi] = 0.0f16 }\nS[vi] += A[vi,vk] } } }"};
  for (const char* text : texts) check_verbs(parse_func(text), "text");
}

// Every floating operator on special values: naive and by its default schedule, as code for three levels of
// x86-64, the results are of the class that the interpreter's are. (NumPy's are in onnx_cases_test.cpp,
// CUDA's under tests/cuda.)
#include "tests/ops/special_values.h"

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/library.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "runtime/kernel_rt.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Subject {
  CatalogEntry entry;
  PrimFunc func, scheduled, lowered;
};

void check(const std::vector<Subject>& subjects, const Target& target) {
  const bool here = runs_here(target);
  std::vector<PrimFunc> lowered;
  for (const Subject& s : subjects) lowered.push_back(s.lowered);
  const auto module = here ? JitModule::compile(lowered, target) : nullptr;
  for (const Subject& s : subjects) {
    const OpDef* op = find_op(s.entry.node.node().domain, s.entry.node.node().op, s.entry.node.node().opset);
    for (const Args& args : special_args(s.func, op->pattern == Pattern::elementwise)) {
      Args wanted, got = laid_out(s.scheduled, args);
      for (const Tensor& t : args) wanted.push_back(t.clone());
      interpret(s.func, wanted);
      if (module) {
        std::vector<void*> pointers;
        for (Tensor& t : got) pointers.push_back(t.data());
        Tensor workspace(DType::u8, {workspace_bytes(s.lowered, 1)});
        REQUIRE(module->lookup(s.lowered.name)(pointers.data(), workspace.data(), nullptr) == 0);
      } else {
        interpret(s.lowered, got);
      }
      for (size_t p = 0; p < args.size(); ++p) {
        if (s.func.params[p].role != Role::out) continue;
        const std::string difference = class_difference(got[p], wanted[p]);
        if (difference.empty()) continue;
        std::string given;
        for (size_t q = 0; q < args.size(); ++q)
          for (int64_t i = 0; q != p && i < args[q].size(); ++i)
            given += " " + std::to_string(args[q].get(i));
        FAIL_CHECK(s.entry.what << " for " << target.name << ": " << difference << "; of" << given << "\n"
                                << print(s.scheduled));
        return;
      }
    }
  }
}

}  // namespace

TEST_CASE("operators on special values give one class of result by every schedule and target") {
  const Target target = parse_target(GENERATE("x86-64-v4", "x86-64-v3", "x86-64-v2"));
  const bool naive = GENERATE(true, false);
  std::vector<Subject> subjects;
  for (CatalogEntry& e : floating_operators()) {
    PrimFunc f = e.node.build();
    if (!f.body || (has_halves(f) && !target.has_feature("f16c"))) continue;
    f.name += "_" + std::to_string(subjects.size());
    PrimFunc scheduled = naive ? f : apply(f, default_schedule(f, target));
    PrimFunc lowered = lower(scheduled, target);
    subjects.push_back({std::move(e), std::move(f), std::move(scheduled), std::move(lowered)});
  }
  CHECK(subjects.size() > 120);
  check(subjects, target);
}

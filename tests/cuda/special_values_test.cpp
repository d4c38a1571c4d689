// Every f32 operator on special values by its default CUDA schedule, emulated: the results are in the same
// class (NaN, infinity, zero, ...) as the interpreter's.
#include "tests/ops/special_values.h"

#include "catch.h"
#include "check.h"
#include "nestor/schedule.h"
#include "schedules/library/cuda.h"

using namespace nestor;
using namespace nestor::testing;

TEST_CASE("operators on special values give one class of result under emulation") {
  const Target target = parse_target("cuda:sm_80");
  struct Subject {
    CatalogEntry entry;
    CudaCase made;
    PrimFunc scheduled;
  };
  std::vector<Subject> subjects;
  std::vector<CudaProgram> programs;
  for (CatalogEntry& e : floating_operators()) {
    PrimFunc f = e.node.build();
    if (!f.body || has_halves(f) || is_for_cpus_only(e)) continue;
    f.name += "_" + std::to_string(subjects.size());
    INFO(e.what);
    const PrimFunc scheduled = apply(f, default_cuda_schedule(f, target));
    subjects.push_back({std::move(e), make_case(f, scheduled, target), scheduled});
    programs.push_back(subjects.back().made.program);
  }
  CHECK(subjects.size() > 100);
  const Emulator emulator(programs, Tracing::on);
  for (const Subject& s : subjects) {
    const OpDef* op = find_op(s.entry.node.node().domain, s.entry.node.node().op, s.entry.node.node().opset);
    for (const Args& args : special_args(s.made.func, op->pattern == Pattern::elementwise)) {
      Args wanted, got = laid_out(s.scheduled, args);
      for (const Tensor& t : args) wanted.push_back(t.clone());
      interpret(s.made.func, wanted);
      emulator.run(s.made.program, got, LoopOrder::forward);
      for (size_t p = 0; p < args.size(); ++p) {
        if (s.made.func.params[p].role != Role::out) continue;
        INFO(s.entry.what << "\n" << s.made.program.source);
        REQUIRE(class_difference(got[p], wanted[p]) == "");
      }
    }
  }
}

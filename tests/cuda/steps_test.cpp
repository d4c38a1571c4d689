// No step is passed over in silence: a user's that means nothing on a GPU is refused, and plans of the
// default schedule that were refused are named.
#include "catch.h"
#include "check.h"
#include "nestor/driver.h"
#include "nestor/error.h"
#include "nestor/for_target.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

const char* const kProduct = R"(
func product(in A: f32[64,96], in B: f32[96,80], out C: f32[64,80]) {
  for i in 64, j in 80, k in 96 {
    block C(vi: S 64 = i, vj: S 80 = j, vk: R 96 = k) {
      init { C[vi,vj] = 0.0f32 }
      C[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
}
)";

Diagnostic refusal(const std::string& steps, const std::string& target) {
  try {
    check_for_target(parse_func(kProduct), parse_trace(steps, "mine.sched"), parse_target(target));
  } catch (const ScheduleError& e) {
    return e.diagnostic();
  }
  return {};
}

}  // namespace

TEST_CASE("steps for CPUs are refused on a GPU, with the reason and with what does it there") {
  struct Refused {
    const char *steps, *why, *hint;
    int line, column;
  };
  for (const Refused& r : {
           Refused{"parallel C.i", "threads of a CPU", "bind C.i blockIdx.x\nbind C.i threadIdx.x", 1, 1},
           Refused{"bind C.i blockIdx.x\nannotate C streaming=1", "doesn't read `streaming`",
                   "leave the step out", 2, 12},
           Refused{"annotate C.j note=1 threads=2", "doesn't read `threads`", "annotate C.j note=1", 1, 21},
           Refused{"annotate C in_place=A", "doesn't read `in_place`", "leave the step out", 1, 12},
           Refused{"a b = split C.j [_, 32] tail=peel", "tail=guard asks for",
                   "a b = split C.j [_, 32] tail=guard", 1, 25},
           Refused{"a b c d = tile C (i j) [16, 24] tail=peel", "tail=guard asks for",
                   "a b c d = tile C (i j) [16, 24] tail=guard", 1, 33},
       }) {
    INFO(r.steps);
    const Diagnostic d = refusal(r.steps, "cuda:sm_80");
    CHECK_THAT(d.message, Catch::Contains("requirement G of every step"));
    REQUIRE(!d.notes.empty());
    CHECK_THAT(d.notes[0], Catch::Contains(r.why) && Catch::Contains("cuda:sm_80"));
    CHECK(d.hint == r.hint);
    CHECK(d.loc.line == r.line);
    CHECK(d.loc.column == r.column);
    CHECK(refusal(r.steps, "x86-64-v3").message.empty());
  }
  CHECK(refusal("bind C.i blockIdx.x\nvectorize C.j\nunroll C.k\nannotate C.j chains=2", "cuda:sm_80")
            .message.empty());
}

TEST_CASE("plans of the default schedule that were refused are named with the step and the reason") {
  CompileOptions options;
  options.target = parse_target("cuda:sm_80");
  options.schedules = default_schedules();
  // Updates that may meet in an element stay in their order.
  const CompiledModel m =
      compile_model("ScatterND(f32[9,40], i64[6,1], f32[6,40]; reduction=\"add\")", options);
  std::string told;
  for (const std::string& plan : m.funcs.at(0).choice.trace.given_up) told += plan + "\n";
  CHECK_THAT(told, Catch::Contains("all elements as one loop for Y1 was given up: `reorder Y1") &&
                       Catch::Contains("block Y1 reads Y, which it writes"));
}

// The definitions in schedules/library: applied as a user would, at sizes with tails, they keep the
// interpreter's result and are proved, and nothing in them is left out of this test.
#include <set>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/proof.h"
#include "nestor/schedule.h"
#include "schedules/sched_file.h"
#include "tests/fuzz/equivalence.h"

using namespace nestor;

namespace {

struct Use {
  const char* func;
  const char* steps;
  double tolerance;
};

const Use kUses[] = {
    {R"(func f(in A: f32[29,17], const B: f32[17,70], out Y: f32[29,70]) {
  for i in 29, j in 70, k in 17 {
    block Y(vi: S 29 = i, vj: S 70 = j, vk: R 17 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})",
     "apply gemm_cpu(Y, B, mr=4, nr=16)", 0},
    {R"(func f(in X: f32[1,5,9,7], const W: f32[20,5,3,3], out Y: f32[1,20,9,7]) {
  alloc P: f32[1,5,11,9]
  for n in 1, c in 5, h in 11, w in 9 {
    block P(vn: S 1 = n, vc: S 5 = c, vh: S 11 = h, vw: S 9 = w) {
      P[vn,vc,vh,vw] = if 1 <= vh && vh < 10 && 1 <= vw && vw < 8 then X[vn,vc,vh-1,vw-1] else 0.0f32
    }
  }
  for n in 1, o in 20, y in 9, x in 7, c in 5, r in 3, s in 3 {
    block Y(vn: S 1 = n, vo: S 20 = o, vy: S 9 = y, vx: S 7 = x, vc: R 5 = c, vr: R 3 = r, vs: R 3 = s) {
      init { Y[vn,vo,vy,vx] = 0.0f32 }
      Y[vn,vo,vy,vx] += P[vn,vc,vy+vr,vx+vs] * W[vo,vc,vr,vs]
    }
  }
})",
     "apply conv_cpu(Y, P, W, rows=4, width=8)", 0},
    {R"(func f(in X: f32[5,37], out Y: f32[5]) {
  for i in 5, k in 37 {
    block Y(vi: S 5 = i, vk: R 37 = k) {
      init { Y[vi] = 0.0f32 }
      Y[vi] += X[vi,vk]
    }
  }
})",
     "apply row_reduction(Y)", 0},
    {R"(func f(in X: f32[5,37], out Y: f32[5,37]) {
  for i in 5, j in 37 {
    block Y(vi: S 5 = i, vj: S 37 = j) {
      Y[vi,vj] = X[vi,vj] * 2.0f32
    }
  }
})",
     "lanes = apply elementwise_rows(Y, width=16)", 0},
    {R"(func f(in X: f32[185], out Y: f32[185]) {
  for ij in 185 {
    block Y(vij: S 185 = ij) {
      Y[vij] = max(0.0f32, X[vij])
    }
  }
})",
     "apply elementwise(Y, width=16)", 0},
    {R"(func f(in X: f32[6,37], out Y: f32[6,37]) {
  alloc Max: f32[6]
  alloc Exp: f32[6,37]
  alloc Sum: f32[6]
  for i in 6, j in 37 {
    block Max(vi: S 6 = i, vj: R 37 = j) {
      init { Max[vi] = -inf_f32 }
      Max[vi] max= X[vi,vj]
    }
  }
  for i in 6, j in 37 {
    block Exp(vi: S 6 = i, vj: S 37 = j) {
      Exp[vi,vj] = exp(X[vi,vj] - Max[vi])
    }
  }
  for i in 6, j in 37 {
    block Sum(vi: S 6 = i, vj: R 37 = j) {
      init { Sum[vi] = 0.0f32 }
      Sum[vi] += Exp[vi,vj]
    }
  }
  for i in 6, j in 37 {
    block Y(vi: S 6 = i, vj: S 37 = j) {
      Y[vi,vj] = Exp[vi,vj] / Sum[vi]
    }
  }
})",
     "apply softmax_rows(Y, width=16)", 1e-5},
};

}  // namespace

TEST_CASE("the library's definitions keep the result") {
  std::set<std::string> used;
  for (const Use& use : kUses) {
    INFO(use.steps);
    const PrimFunc before = parse_func(use.func);
    const PrimFunc after = apply(before, parse_trace(use.steps, "use.sched"));
    check_well_formed(after);
    const auto c = compare_runs(after, run_original(before, 5), 5, use.tolerance);
    CHECK(c.why == "");
    const Proof p = verify_schedule(before, after, {.seconds = 20});
    INFO(describe(p));
    CHECK(p.ok());
    const Step call = parse_step(use.steps);
    used.insert(schedules::read_call(call).name);
  }
  for (const auto& [name, definition] : schedules::library_definitions()) {
    INFO(name);
    CHECK(used.count(name) == 1);
  }
}

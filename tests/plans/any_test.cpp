// The family `any` has plans for every nest, most of which can be made, and none of which changes a result.
#include <map>

#include "catch.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/plan.h"
#include "nestor/print.h"
#include "tests/fuzz/equivalence.h"
#include "tests/fuzz/functions.h"

using namespace nestor;

namespace {

std::unique_ptr<PlanSpace> any_space(const PrimFunc& f, const Target& target) {
  for (auto& space : plan_spaces(f, target))
    if (space->family() == "any") return std::move(space);
  return nullptr;
}

struct Tally {
  int drawn = 0, made = 0;
  std::map<std::string, int> refused;
  std::map<std::string, int> steps;  // of those that were made, by primitive

  std::string describe() const {
    std::string out = std::to_string(made) + " of " + std::to_string(drawn) + " could be made; others:\n";
    for (const auto& [why, n] : refused) out += std::to_string(n) + " " + why + "\n";
    return out;
  }
};

// Draws plans of the function; each that can be made must be lowered and compute what the function does.
void draw_plans(const PrimFunc& f, double tolerance, const Target& target, int count, std::mt19937_64& rng,
                Tally& tally) {
  const auto space = any_space(f, target);
  if (!space) return;
  const std::vector<Tensor> expected = run_original(f, 7);
  for (int k = 0; k < count; ++k) {
    const std::optional<SchedulePlan> plan = space->draw(rng);
    if (!plan) continue;
    ++tally.drawn;
    INFO(print(f) << space->print(*plan));
    Trace trace;
    try {
      trace = space->emit(*plan);
      const PrimFunc scheduled = apply(f, trace);
      lower(scheduled, target);
      ++tally.made;
      for (const Step& s : trace.steps) ++tally.steps[s.primitive];
      INFO(print(trace));
      const Agreement a = compare_runs(scheduled, expected, 7, tolerance);
      INFO(a.why);
      CHECK(a.same);
    } catch (const UserError& e) {
      const Diagnostic& d = e.diagnostic();
      const std::string why = d.message + (d.notes.empty() ? "" : " " + d.notes[0]);
      ++tally.refused[(trace.steps.empty() ? "" : "LOWER ") + f.name + ": " + why];
    }
    CHECK(space->parse(space->print(*plan)) == plan);
  }
}

// Long reductions, whose parts and steps are plans of their own, and stencils.
const char* const kLong[] = {
    R"(func product(in A: f32[7,150], const B: f32[150,35], out Y: f32[7,35]) {
  for i in 7, j in 35, k in 150 {
    block Y(vi: S 7 = i, vj: S 35 = j, vk: R 150 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})",
    R"(func product_relu(in A: f32[5,128], in B: f32[128,33], in C: f32[33], out Y: f32[5,33]) {
  alloc T: f32[5,33]
  for i in 5, j in 33, k in 128 {
    block T(vi: S 5 = i, vj: S 33 = j, vk: R 128 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
  for i in 5, j in 33 {
    block Y(vi: S 5 = i, vj: S 33 = j) {
      Y[vi,vj] = max(T[vi,vj] + C[vj], 0.0f32)
    }
  }
})",
    R"(func sum_of_all(in X: f32[9,140], out Y: f32[1]) {
  for u in 1, i in 9, j in 140 {
    block Y(vu: S 1 = u, vi: R 9 = i, vj: R 140 = j) {
      init { Y[vu] = 0.0f32 }
      Y[vu] += X[vi,vj] * X[vi,vj]
    }
  }
})",
    R"(func dot(in X: f32[1031], in Z: f32[1031], out Y: f32[1]) {
  for u in 1, i in 1031 {
    block Y(vu: S 1 = u, vi: R 1031 = i) {
      init { Y[vu] = 0.0f32 }
      Y[vu] += X[vi] * Z[vi]
    }
  }
})",
    R"(func max_of_columns(in X: f32[301,5], out Y: f32[5]) {
  for j in 5, i in 301 {
    block Y(vj: S 5 = j, vi: R 301 = i) {
      init { Y[vj] = -inf_f32 }
      Y[vj] max= X[vi,vj]
    }
  }
})",
    R"(func triangle(in X: f32[130,130], in Z: f32[130], out Y: f32[130]) {
  for i in 130, j in 130 {
    block Y(vi: S 130 = i, vj: R 130 = j) where vj <= vi {
      init { Y[vi] = 0.0f32 }
      Y[vi] += X[vi,vj] * Z[vj]
    }
  }
})",
    R"(func dot_i8(in A: i8[6,200], in B: i8[17,200], out Y: i32[6,17]) {
  for i in 6, j in 17, k in 200 {
    block Y(vi: S 6 = i, vj: S 17 = j, vk: R 200 = k) {
      init { Y[vi,vj] = 0i32 }
      Y[vi,vj] += i32(A[vi,vk]) * i32(B[vj,vk])
    }
  }
})",
    R"(func sum_f16(in X: f16[3,17,130], out Y: f16[3,130]) {
  for c in 3, x in 130, y in 17 {
    block Y(vc: S 3 = c, vx: S 130 = x, vy: R 17 = y) {
      init { Y[vc,vx] = 0.0f16 }
      Y[vc,vx] += X[vc,vy,vx]
    }
  }
})",
    R"(func blur(in X: f32[39,67], out Y: f32[37,65]) {
  alloc T: f32[39,65]
  for i in 39, j in 65 {
    block T(vi: S 39 = i, vj: S 65 = j) {
      T[vi,vj] = X[vi,vj] + X[vi,vj+1] + X[vi,vj+2]
    }
  }
  for i in 37, j in 65 {
    block Y(vi: S 37 = i, vj: S 65 = j) {
      Y[vi,vj] = T[vi,vj] + T[vi+1,vj] + T[vi+2,vj]
    }
  }
})",
    R"(func two_steps(in X: f32[36,21], out Y: f32[32,17]) {
  alloc T: f32[34,19]
  alloc U: f32[34,19]
  for i in 34, j in 19 {
    block T(vi: S 34 = i, vj: S 19 = j) {
      T[vi,vj] = X[vi,vj+1] + X[vi+2,vj+1] + X[vi+1,vj] + X[vi+1,vj+2]
    }
  }
  for i in 34, j in 19 {
    block U(vi: S 34 = i, vj: S 19 = j) {
      U[vi,vj] = T[vi,vj] - 0.5f32
    }
  }
  for i in 32, j in 17 {
    block Y(vi: S 32 = i, vj: S 17 = j) {
      Y[vi,vj] = U[vi,vj+1] + U[vi+2,vj+1] + U[vi+1,vj] + U[vi+1,vj+2]
    }
  }
})",
    R"(func windows(in X: f32[4,19,21], const W: f32[6,4,3,3], out Y: f32[6,17,19]) {
  alloc P: f32[4,19,21]
  for c in 4, y in 19, x in 21 {
    block P(vc: S 4 = c, vy: S 19 = y, vx: S 21 = x) {
      P[vc,vy,vx] = max(X[vc,vy,vx], 0.0f32)
    }
  }
  for o in 6, y in 17, x in 19, c in 4, r in 3, s in 3 {
    block Y(vo: S 6 = o, vy: S 17 = y, vx: S 19 = x, vc: R 4 = c, vr: R 3 = r, vs: R 3 = s) {
      init { Y[vo,vy,vx] = 0.0f32 }
      Y[vo,vy,vx] += P[vc,vy+vr,vx+vs] * W[vo,vc,vr,vs]
    }
  }
})",
    R"(func select_rows(in X: f32[37,3], in M: bool[37,3], out Y: f32[37,3]) {
  for i in 37, j in 3 {
    block Y(vi: S 37 = i, vj: S 3 = j) {
      Y[vi,vj] = if M[vi,vj] then X[vi,vj] * 2.0f32 else 0.0f32
    }
  }
})",
};

}  // namespace

TEST_CASE("Plans of any nest compute what it does") {
  const Target target = parse_target("x86-64-v4");
  Tally tally;
  for (int i = 0; i < fuzz_function_count(); ++i) {
    std::mt19937_64 rng(static_cast<uint64_t>(i));
    const FuzzFunction function = make_function(i, draw_sizes(i % 2 == 0, rng));
    draw_plans(function.func, function.tolerance, target, 20, rng, tally);
  }
  CHECK(tally.drawn > 1000);
  INFO(tally.describe());
  CHECK(tally.made * 4 > tally.drawn * 3);
}

TEST_CASE("Plans of long reductions and stencils compute what these do") {
  Target target = parse_target("x86-64-v4");
  target.cores = 4;
  target.l2_bytes = 1 << 10;  // results larger than that may go past the caches
  Tally tally;
  uint64_t seed = 0;
  for (const char* text : kLong) {
    std::mt19937_64 rng(seed++);
    draw_plans(parse_func(text, "function"), 1e-3, target, 40, rng, tally);
  }
  INFO(tally.describe());
  CHECK(tally.made * 4 > tally.drawn * 3);
  for (const char* primitive :
       {"rfactor", "merge", "pack", "fuse", "loop_partition", "split_buffer", "annotate"})
    CHECK(tally.steps[primitive] > 0);
}

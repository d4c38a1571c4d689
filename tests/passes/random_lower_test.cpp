// Random schedules, lowered: without contraction and expansion every bit of the scheduled function's outputs
// is kept, no parallel iterations collide, nothing is read that wasn't written, and every pass leaves a
// well-formed function.
#include <cstdlib>
#include <cstring>
#include <random>

#include "catch.h"
#include "equivalent.h"
#include "nestor/check.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "nestor/walk.h"

using namespace nestor;

namespace {

const char* const kFunctions[] = {
    R"(func matmul_relu(in A: f32[9,5], in B: f32[5,19], out Y: f32[9,19]) {
  alloc T: f32[9,19]
  for i in 9, j in 19, k in 5 {
    block T(vi: S 9 = i, vj: S 19 = j, vk: R 5 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
  for i in 9, j in 19 {
    block Y(vi: S 9 = i, vj: S 19 = j) {
      Y[vi,vj] = max(0.0f32, T[vi,vj])
    }
  }
})",
    R"(func conv(in X: f32[3,7,9], const W: f32[4,3,3,3], out Y: f32[4,7,9]) {
  alloc P: f32[3,9,11]
  alloc T: f32[4,7,9]
  for c in 3, h in 9, w in 11 {
    block P(vc: S 3 = c, vh: S 9 = h, vw: S 11 = w) {
      P[vc,vh,vw] = if 1 <= vh && vh < 8 && 1 <= vw && vw < 10 then X[vc,vh - 1,vw - 1] else 0.0f32
    }
  }
  for o in 4, y in 7, x in 9, c in 3, r in 3, s in 3 {
    block T(vo: S 4 = o, vy: S 7 = y, vx: S 9 = x, vc: R 3 = c, vr: R 3 = r, vs: R 3 = s) {
      init { T[vo,vy,vx] = 0.0f32 }
      T[vo,vy,vx] += P[vc,vy + vr,vx + vs] * W[vo,vc,vr,vs]
    }
  }
  for o in 4, y in 7, x in 9 {
    block Y(vo: S 4 = o, vy: S 7 = y, vx: S 9 = x) {
      Y[vo,vy,vx] = max(0.0f32, T[vo,vy,vx])
    }
  }
})",
    R"(func center(in X: f32[6,21], out Y: f32[6,21]) {
  alloc M: f32[6]
  alloc D: f32[6,21]
  for i in 6, j in 21 {
    block M(vi: S 6 = i, vj: R 21 = j) {
      init { M[vi] = -inf_f32 }
      M[vi] max= X[vi,vj]
    }
  }
  for i in 6, j in 21 {
    block D(vi: S 6 = i, vj: S 21 = j) {
      D[vi,vj] = X[vi,vj] - M[vi]
    }
  }
  for i in 6, j in 21 {
    block Y(vi: S 6 = i, vj: S 21 = j) {
      Y[vi,vj] = D[vi,vj] * D[vi,vj]
    }
  }
})",
    R"(func causal(in X: f32[10,10], in I: i64[10], out Y: f32[10,10], out S: f32[10]) {
  for i in 10, j in 10 {
    block Y(vi: S 10 = i, vj: S 10 = j) {
      Y[vi,vj] = if vj <= vi then X[vj,I[vi] % 10] else 0.0f32
    }
  }
  for i in 10, j in 10 {
    block S(vi: S 10 = i, vj: R 10 = j) where vj <= vi + 2 {
      init { S[vi] = 0.0f32 }
      S[vi] += if vj < 7 || vi < 3 then Y[vj,vi] else 1.0f32
    }
  }
})",
};

class Scheduler {
 public:
  Scheduler(const char* text, TargetKind kind, uint64_t seed)
      : schedule(parse_func(text)), kind_(kind), random_(seed) {}
  Schedule schedule;

  void steps(int count) {
    for (int i = 0; i < count; ++i) one();
  }

 private:
  size_t pick(size_t n) { return static_cast<size_t>(random_() % n); }
  std::string block() {
    const auto names = block_names(schedule.func());
    return names[pick(names.size())];
  }
  void one() {
    const std::string b = block();
    const auto loops = loops_of(schedule.func(), b);
    const auto loop = [&](size_t i) { return b + "." + loops[i].name; };
    const auto any = [&] { return loops.empty() ? b + ".none" : loop(pick(loops.size())); };
    const auto attempt = [&](const std::string& line) { schedule.try_step(line); };
    static const char* const tails[] = {"", " tail=peel", " tail=balanced", " tail=mask"};
    static const int factors[] = {2, 3, 4, 5, 8, 16};
    if (kind_ == TargetKind::cuda && pick(3) == 0) {
      static const char* const tags[] = {" blockIdx.x", " threadIdx.x", " threadIdx.y", " vthread"};
      if (pick(3)) return attempt("bind " + any() + tags[pick(4)]);
      return attempt("set_scope " + b + (pick(2) ? " shared" : " local"));
    }
    switch (pick(14)) {
      case 0:
      case 1:
        return attempt("split " + any() + " [_, " + std::to_string(factors[pick(6)]) + "]" + tails[pick(4)]);
      case 2:
      case 3:
        return reorder(b, loops);
      case 4:
        return attempt("vectorize " + (loops.empty() ? "x" : loop(loops.size() - 1)));
      case 5:
        return attempt("unroll " + any());
      case 6:
        return attempt("parallel " + (loops.empty() ? "x" : loop(0)));
      case 7:
        return attempt("compute_at " + block() + " " + any() + (pick(2) ? "" : " tail=guard"));
      case 8:
        return attempt("reverse_compute_at " + block() + " " + any());
      case 9:
        return attempt(pick(2) ? "compute_inline " + b : "reverse_compute_inline " + b);
      case 10:
        return attempt("decompose_reduction " + any());
      case 11:
        return attempt("transform_layout " + b +
                       (pick(2) ? " (i,j) -> (j/4, i, j%4)" : " (c,h,w) -> (h, c/2, w, c%2)"));
      case 12:
        return attempt((pick(2) ? "cache_write " : "set_scope ") + b + (pick(2) ? " local" : " global"));
      default:
        if (loops.size() < 2) return;
        const size_t i = pick(loops.size() - 1);
        return attempt("fuse " + b + " (" + loops[i].name + " " + loops[i + 1].name + ")");
    }
  }
  void reorder(const std::string& b, const std::vector<LoopInfo>& loops) {
    std::vector<std::string> names;
    for (const LoopInfo& l : loops) names.push_back(l.name);
    std::shuffle(names.begin(), names.end(), random_);
    std::string line = "reorder " + b + " (";
    for (const std::string& n : names) line += n + " ";
    schedule.try_step(line + ")");
  }

  TargetKind kind_;
  std::mt19937_64 random_;
};

// Lanes that keep partial results add in another order.
bool reorders(const PrimFunc& f) {
  bool found = false;
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    found = found || (loop && loop->kind == ForKind::vectorized && reduces_lanes(*loop));
  });
  return found;
}

int64_t from_environment(const char* name, int64_t fallback) {
  const char* value = std::getenv(name);
  return value ? std::atoll(value) : fallback;
}

}  // namespace

TEST_CASE("random schedules keep every bit through lowering") {
  const TargetKind kind = GENERATE(TargetKind::cpu, TargetKind::cuda);
  const int64_t seed = from_environment("NESTOR_SEED", 1), cases = from_environment("NESTOR_CASES", 400);
  Target target;
  target.kind = kind;
  int refused = 0;
  for (int64_t i = 0; i < cases; ++i) {
    Scheduler s(kFunctions[i % 4], kind, static_cast<uint64_t>(seed * 1000003 + i));
    s.steps(4 + static_cast<int>(i % 17));
    target.vector_bits = i % 3 == 0 ? 256 : 512;
    INFO("NESTOR_SEED=" << seed << " case " << i << "\n"
                        << print(s.schedule.trace()) << print(s.schedule.func()));
    PrimFunc f = s.schedule.func();
    try {
      for (const Pass& p : pipeline(kind)) {
        if (!std::strcmp(p.name, "contract_fma") || !std::strcmp(p.name, "expand_math")) continue;
        f = p.run(f, target);
        check_well_formed(f);
      }
    } catch (const ScheduleError&) {
      ++refused;  // registers whose index varies, a vectorized loop that lanes can't share
      continue;
    }
    check_equivalent(s.schedule.func(), f, reorders(s.schedule.func()) ? 1e-5 : 0);
  }
  WARN(cases << " random schedules from seed " << seed << ", " << refused << " refused");
  CHECK(refused < cases * 3 / 4);
}

// Functions of symbolic sizes: scheduled once, they compute at each size what the unscheduled ones do, before
// and after lowering.
#include "catch.h"
#include "equivalent.h"
#include "nestor/nest_file.h"
#include "nestor/parse.h"
#include "nestor/passes.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"

using namespace nestor;

namespace {

PrimFunc at_sizes(const PrimFunc& f, const std::vector<int64_t>& sizes) {
  VarMap values;
  for (size_t i = 0; i < f.dims.size(); ++i) values[f.dims[i]] = Expr(sizes[i]);
  return with_dims(f, values);
}

using Lines = std::vector<const char*>;

// Returns the lowered function.
PrimFunc check_at(const char* text, const Lines& lines, const std::vector<std::vector<int64_t>>& sizes) {
  const PrimFunc f = parse_func(text);
  Schedule s(f);
  for (const char* line : lines) s(line);
  Target target;
  target.vector_bits = 512;
  LowerOptions options;
  options.check = true;
  const PrimFunc lowered = lower(s.func(), target, options);
  for (const std::vector<int64_t>& at : sizes) {
    const PrimFunc scheduled = at_sizes(s.func(), at);
    check_equivalent(at_sizes(f, at), scheduled, 1e-5);
    check_equivalent(scheduled, at_sizes(lowered, at), 1e-5);
  }
  return lowered;
}

const char* const kGemm = R"(
func gemm[M](in A: f32[M,9], const B: f32[9,40], const C: f32[40], out Y: f32[M,40]) {
  alloc T: f32[M,40]
  for i in M, j in 40, k in 9 {
    block T(vi: S M = i, vj: S 40 = j, vk: R 9 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
  for i in M, j in 40 {
    block Y(vi: S M = i, vj: S 40 = j) {
      Y[vi,vj] = max(0.0f32, T[vi,vj] + C[vj])
    }
  }
})";
const std::vector<std::vector<int64_t>> kRows = {{0}, {1}, {2}, {5}, {6}, {7}, {12}, {16}, {23}, {100}};

const char* const kScores = R"(
func scores[B,S](in Q: f32[B,S,5], in K: f32[B,S,5], out Y: f32[B,S,S]) {
  alloc T: f32[B,S,S]
  for b in B, i in S, j in S, k in 5 {
    block T(vb: S B = b, vi: S S = i, vj: S S = j, vk: R 5 = k) {
      init { T[vb,vi,vj] = 0.0f32 }
      T[vb,vi,vj] += Q[vb,vi,vk] * K[vb,vj,vk]
    }
  }
  for b in B, i in S, j in S {
    block Y(vb: S B = b, vi: S S = i, vj: S S = j) {
      Y[vb,vi,vj] = T[vb,vi,vj] * 0.5f32
    }
  }
})";

const char* const kSoftmax = R"(
func softmax[M,N](in X: f32[M,N], out Y: f32[M,N]) {
  alloc Max: f32[M]
  alloc Sum: f32[M]
  for i in M, j in N {
    block Max(vi: S M = i, vj: R N = j) {
      init { Max[vi] = -100000.0f32 }
      Max[vi] max= X[vi,vj]
    }
  }
  for i in M, j in N {
    block Sum(vi: S M = i, vj: R N = j) {
      init { Sum[vi] = 0.0f32 }
      Sum[vi] += exp(X[vi,vj] - Max[vi])
    }
  }
  for i in M, j in N {
    block Y(vi: S M = i, vj: S N = j) {
      Y[vi,vj] = exp(X[vi,vj] - Max[vi]) / Sum[vi]
    }
  }
})";

}  // namespace

TEST_CASE("a product of symbolic rows runs in full tiles and pieces of the rest") {
  const PrimFunc lowered = check_at(
      kGemm,
      {"set_scope T local", "j0 j1 = split T.j [_, 16] tail=peel", "i0 i1 = split T.i [_, 6] tail=peel",
       "reorder T (j0 i0 k i1 j1)", "wi wj = reverse_compute_at Y T.i0", "vectorize T.j1", "vectorize Y.wj",
       "unroll T.i1", "unroll Y.wi", "T0 = decompose_reduction T.k"},
      kRows);
  // No guard is in the loops of full tiles, nor of pieces.
  int guards = 0;
  for_each_stmt(lowered.body, [&](const Stmt& s) {
    if (const auto* i = s.as<If>(); i && print(i->cond).find("_rows") == std::string::npos) ++guards;
  });
  CHECK(guards == 0);
}

// Registers hold a tile of it only if the place of what is left over is a size, which no loop moves.
TEST_CASE("a tile of rows that are a sum of sizes stays in registers") {
  check_at(R"(
func halves[N](in A: f32[2*N+1,5], in B: f32[5,16], out Y: f32[2*N+1,16]) {
  alloc T: f32[2*N+1,16]
  for i in 2*N+1, j in 16, k in 5 {
    block T(vi: S 2*N+1 = i, vj: S 16 = j, vk: R 5 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
  for i in 2*N+1, j in 16 {
    block Y(vi: S 2*N+1 = i, vj: S 16 = j) {
      Y[vi,vj] = T[vi,vj] + 1.0f32
    }
  }
})",
           {"set_scope T local", "i0 i1 = split T.i [_, 6] tail=peel", "reorder T (i0 k i1 j)",
            "wi wj = reverse_compute_at Y T.i0", "vectorize T.j", "vectorize Y.wj", "unroll T.i1",
            "unroll Y.wi", "T0 = decompose_reduction T.k"},
           {{0}, {1}, {2}, {5}, {6}, {13}});
}

TEST_CASE("steps hold for all sizes") {
  check_at(kGemm, {"compute_at T Y.i"}, kRows);
  check_at(kGemm,
           {"Z = cache_write Y global", "i0 i1 = split Y.i [_, 4]", "wi wj = reverse_compute_at Z Y.i0"},
           kRows);
  check_at(kGemm,
           {"AS = cache_read T A global", "i0 i1 = split T.i [_, 8] tail=mask", "compute_at AS T.i0",
            "parallel T.i0"},
           kRows);
  check_at(kGemm, {"wi wj = reverse_compute_at Y T.j"}, kRows);
  check_at(kGemm, {"transform_layout T (i, j) -> (i/8, j, i%8)", "vectorize Y.j", "parallel Y.i"}, kRows);
}

TEST_CASE("tiles of two symbolic sizes") {
  const std::vector<std::vector<int64_t>> sizes = {{1, 1}, {0, 3}, {2, 0},  {2, 3},
                                                   {1, 7}, {3, 8}, {2, 17}, {1, 40}};
  check_at(kScores,
           {"set_scope T local", "j0 j1 = split T.j [_, 16] tail=peel", "i0 i1 = split T.i [_, 4] tail=peel",
            "reorder T (b i0 j0 k i1 j1)", "wb wi wj = reverse_compute_at Y T.j0", "vectorize T.j1",
            "vectorize Y.wj", "unroll T.i1", "unroll Y.wi", "T0 = decompose_reduction T.k", "parallel T.b"},
           sizes);
  check_at(kScores, {"vectorize Y.j", "wj = compute_at T Y.i", "parallel Y.b"}, sizes);
}

TEST_CASE("loops over symbolic sizes become vectors, and a masked one") {
  check_at(kSoftmax,
           {"compute_at Sum Y.i", "compute_at Max Y.i", "Sum0 = decompose_reduction Sum.j",
            "Max0 = decompose_reduction Max.j", "vectorize Sum.j", "vectorize Max.j", "vectorize Y.j",
            "parallel Y.i"},
           {{1, 1}, {2, 15}, {3, 16}, {1, 17}, {2, 63}, {2, 64}, {1, 130}});
}

TEST_CASE("a full part that ends before the loop begins leaves all of it to the rest") {
  check_at(R"(
func argmax[N](in X: f32[4,N], out Q: f32[4]) {
  for i in 4, k in N {
    block Q(vi: S 4 = i, vk: R N = k) {
      init { Q[vi] = -inf_f32 }
      Q[vi] max= X[vi,vk]
    }
  }
})",
           {"tile Q (i k) [2, 3]", "tile Q (k0 i1) [2, 2]", "tile Q (k1 k01) [2, 3]"},
           {{1}, {2}, {3}, {5}, {6}, {7}, {13}});
}

TEST_CASE("loops of symbolic sizes are fused, and their digits need no guards") {
  const PrimFunc lowered = check_at(R"(
func scale[B, H](in X: f32[B,3,H,5], out Y: f32[B,3,H,5]) {
  for b in B, i in 3, h in H, c in 5 {
    block Y(vb: S B = b, vi: S 3 = i, vh: S H = h, vc: S 5 = c) {
      Y[vb,vi,vh,vc] = X[vb,vi,vh,vc] * 2.0f32
    }
  }
})",
                                    {"g = fuse Y (b i h)", "parallel Y.g"}, {{1, 1}, {2, 3}, {3, 1}, {7, 5}});
  for_each_stmt(lowered.body, [](const Stmt& s) { CHECK_FALSE(s.as<If>()); });
}

TEST_CASE("rows of a symbolic size are aligned") {
  const std::vector<std::vector<int64_t>> sizes = {{1}, {2}, {7}, {8}, {9}, {40}};
  check_at(R"(
func twice[N](in X: f32[4,N], out Y: f32[4,N]) {
  alloc T: f32[4,N]
  for i in 4, j in N {
    block T(vi: S 4 = i, vj: S N = j) {
      T[vi,vj] = X[vi,vj] * 2.0f32
    }
  }
  for i in 4, j in N {
    block Y(vi: S 4 = i, vj: S N = j) {
      Y[vi,vj] = T[vi,vj] + 1.0f32
    }
  }
})",
           {"storage_align T 0 8 3"}, sizes);
}

TEST_CASE("rows of a rest that are in memory are reduced one by one, in a loop") {
  const PrimFunc lowered = check_at(R"(
func sums[N](in X: f32[N,40], out Y: f32[N]) {
  for i in N, k in 40 {
    block Y(vi: S N = i, vk: R 40 = k) {
      init { Y[vi] = 0.0f32 }
      Y[vi] += X[vi,vk]
    }
  }
}
)",
                                    {"i0 i1 = split Y.i [_, 40] tail=peel",
                                     "Y_init = decompose_reduction Y.i1", "vectorize Y.k", "vectorize Y.i1"},
                                    {{0}, {1}, {2}, {12}, {39}, {40}, {41}, {100}});
  int sums = 0;  // across lanes
  for_each_expr(lowered.body, [&](const Expr& e) { sums += e.as<VectorReduce>() != nullptr; });
  CHECK(sums == 1);
}

TEST_CASE("columns with a stride of sizes are turned in registers") {
  const std::vector<std::vector<int64_t>> sizes = {{0, 3}, {1, 0}, {1, 1},  {1, 2},  {2, 1},  {1, 4},
                                                   {1, 7}, {3, 5}, {1, 15}, {1, 16}, {2, 17}, {3, 35}};
  const auto shuffles = [](const PrimFunc& f) {
    int n = 0;
    for_each_expr(f.body, [&](const Expr& e) { n += e.as<Shuffle>() ? 1 : 0; });
    return n;
  };
  const Lines lines = {"w0 w1 = split Y.w [_, 16] tail=peel", "reorder Y (b h w0 w1 c)", "unroll Y.w1",
                       "vectorize Y.c"};
  SECTION("written") {  // rows may be so short that columns meet
    const PrimFunc lowered = check_at(R"(
func plain[H, W](in X: f32[2,H,W,16], out Y: f32[32,H,W]) {
  for b in 2, h in H, w in W, c in 16 {
    block Y(vb: S 2 = b, vh: S H = h, vw: S W = w, vc: S 16 = c) {
      Y[vb*16+vc,vh,vw] = X[vb,vh,vw,vc]
    }
  }
})",
                                      lines, sizes);
    CHECK(shuffles(lowered) > 64);
  }
  SECTION("read") {
    const PrimFunc lowered = check_at(R"(
func blocked[H, W](in X: f32[32,H,W], out Y: f32[2,H,W,16]) {
  for b in 2, h in H, w in W, c in 16 {
    block Y(vb: S 2 = b, vh: S H = h, vw: S W = w, vc: S 16 = c) {
      Y[vb,vh,vw,vc] = X[vb*16+vc,vh,vw]
    }
  }
})",
                                      lines, sizes);
    CHECK(shuffles(lowered) > 64);
  }
}

TEST_CASE("rows of an open size are vectors, of which some are reduced together") {
  check_at(R"(
func few[N](in X: f32[2,N,16], const W: f32[2,2,16], const B: f32[2], out Y: f32[2,N]) {
  alloc T: f32[2,N]
  for o in 2, yx in N, cb in 2, cl in 16 {
    block T(vo: S 2 = o, vyx: S N = yx, vcb: R 2 = cb, vcl: R 16 = cl) {
      init { T[vo,vyx] = 0.0f32 }
      T[vo,vyx] += X[vcb,vyx,vcl] * W[vo,vcb,vcl]
    }
  }
  for o in 2, yx in N {
    block Y(vo: S 2 = o, vyx: S N = yx) {
      Y[vo,vyx] = T[vo,vyx] + B[vo]
    }
  }
}
)",
           {"reorder T (yx o cb cl)",
            "T_lanes = rfactor T.cl",
            "fission T_lanes.o",
            "fission T_lanes.yx",
            "yx0 yx1 = split T.yx [_, 8] tail=peel",
            "yx_t yx_l = split Y.yx [_, 64] tail=peel",
            "vectorize Y.yx_l",
            "lo lyx lcl = compute_at T_lanes T.yx0",
            "reorder T_lanes (cb lyx lo lcl)",
            "set_scope T_lanes local",
            "vectorize T_lanes.lcl",
            "unroll T_lanes (lyx lo)",
            "T_lanes_init = decompose_reduction T_lanes.cb",
            "reorder T (o yx1)",
            "T_init = decompose_reduction T.o",
            "vectorize T.cl",
            "vectorize T.yx1",
            "vectorize T_init.yx1",
            "unroll T.o",
            "unroll T_init.o"},
           {{0}, {1}, {2}, {3}, {4}, {7}, {8}, {9}, {16}, {21}, {70}});
}

TEST_CASE("tiles at the borders of an image of any width are right, and few of their elements need guards") {
  const PrimFunc lowered =
      check_at(R"(
func depthwise[H, W](in X: f32[H,W,16], const K: f32[3,3,16], out Y: f32[H,W,16]) {
  alloc T: f32[H,W,16]
  for y in H, x in W, c in 16, r in 3, s in 3 {
    block T(vy: S H = y, vx: S W = x, vc: S 16 = c, vr: R 3 = r, vs: R 3 = s) {
      init { T[vy,vx,vc] = 0.0f32 }
      T[vy,vx,vc] += (if 1 <= vy + vr && vy + vr < H + 1 && 1 <= vx + vs && vx + vs < W + 1 then X[vy+vr-1,vx+vs-1,vc] else 0.0f32) * K[vr,vs,vc]
    }
  }
  for y in H, x in W, c in 16 {
    block Y(vy: S H = y, vx: S W = x, vc: S 16 = c) {
      Y[vy,vx,vc] = max(0.0f32, T[vy,vx,vc])
    }
  }
})",
               {"skip_zeros T", "set_scope T local", "x0 x1 = split T.x [_, 4] tail=peel",
                "reorder T (y x0 x1 r s c)", "wy wx wc = reverse_compute_at Y T.x0", "vectorize T.c",
                "vectorize Y.wc", "unroll Y.wx", "unroll T.x1", "unroll T.r", "unroll T.s",
                "T_init = decompose_reduction T.x1", "annotate T.x0 peel=1"},
               {{1, 1}, {2, 2}, {1, 3}, {3, 4}, {2, 5}, {1, 7}, {2, 8}, {3, 9}, {2, 17}});
  int loops = 0, free = 0;
  for_each_stmt(lowered.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!loop || loop->var->name != "x0") return;
    ++loops;
    bool guards = false;
    for_each_stmt(loop->body, [&](const Stmt& inner) {
      const auto* i = inner.as<If>();
      guards = guards || (i && uses_var(i->cond, loop->var));
    });
    free += guards ? 0 : 1;
  });
  CHECK(free > 0);
  CHECK(loops > free);
}

TEST_CASE("what is written behind a part of open size is a map as well") {
  check_at(R"(
func joined[H, W](in A: f32[H,4], in B: f32[W,4], out Y: f32[H+W,4]) {
  for i in H, j in 4 {
    block Y(vi: S H = i, vj: S 4 = j) {
      Y[vi,vj] = A[vi,vj]
    }
  }
  for i in W, j in 4 {
    block Y1(vi: S W = i, vj: S 4 = j) {
      Y[vi+H,vj] = B[vi,vj]
    }
  }
})",
           {"reorder Y1 (j i)"}, {{0, 3}, {2, 0}, {1, 1}, {3, 5}});
}

TEST_CASE("blocks of tiles of an open size keep their results in registers") {
  check_at(kGemm,
           {"set_scope T local", "i0 i1 = split T.i [_, 3] tail=peel",
            "ib it = split T.i0 [_, 4] tail=balanced", "j0 j1 = split T.j [_, 16] tail=peel",
            "reorder T (ib j0 it k i1 j1)", "wi wj = reverse_compute_at Y T.it", "vectorize T.j1",
            "vectorize Y.wj", "unroll T.i1", "unroll Y.wi", "T_init = decompose_reduction T.k"},
           {{0}, {1}, {2}, {3}, {5}, {11}, {12}, {13}, {24}, {29}});
}

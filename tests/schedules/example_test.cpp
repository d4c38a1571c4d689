// The schedule that shows what schedules are for: a convolution with bias and relu, in blocks of channels, a
// register tile with its epilogue, one parallel loop. Replayed on small sizes of the same structure.
#include "catch.h"
#include "nestor/check.h"
#include "nestor/parse.h"
#include "nestor/print.h"
#include "nestor/schedule.h"
#include "tests/fuzz/equivalence.h"

using namespace nestor;

namespace {

PrimFunc conv(int64_t channels, int64_t size) {
  const std::string c = std::to_string(channels), h = std::to_string(size), p = std::to_string(size + 2);
  const std::string in_range =
      "1 <= vh && vh < " + std::to_string(size + 1) + " && 1 <= vw && vw < " + std::to_string(size + 1);
  return parse_func(
      "func conv2d_bias_relu(in X: f32[1," + c + "," + h + "," + h + "], const W: f32[" + c + "," + c +
      ",3,3], const B: f32[" + c + "], out Y: f32[1," + c + "," + h + "," + h + "]) {\n" +
      "  alloc P: f32[1," + c + "," + p + "," + p + "]\n  alloc T: f32[1," + c + "," + h + "," + h + "]\n" +
      "  for n in 1, c in " + c + ", h in " + p + ", w in " + p + " {\n" + "    block P(vn: S 1 = n, vc: S " +
      c + " = c, vh: S " + p + " = h, vw: S " + p + " = w) {\n" + "      P[vn,vc,vh,vw] = if " + in_range +
      " then X[vn,vc,vh-1,vw-1] else 0.0f32\n    }\n  }\n" + "  for n in 1, o in " + c + ", y in " + h +
      ", x in " + h + ", c in " + c + ", r in 3, s in 3 {\n" + "    block T(vn: S 1 = n, vo: S " + c +
      " = o, vy: S " + h + " = y, vx: S " + h + " = x, vc: R " + c +
      " = c, vr: R 3 = r, vs: R 3 = s) {\n      init { T[vn,vo,vy,vx] = 0.0f32 }\n" +
      "      T[vn,vo,vy,vx] += P[vn,vc,vy+vr,vx+vs] * W[vo,vc,vr,vs]\n    }\n  }\n" + "  for n in 1, o in " +
      c + ", y in " + h + ", x in " + h + " {\n" + "    block Y(vn: S 1 = n, vo: S " + c + " = o, vy: S " +
      h + " = y, vx: S " + h + " = x) {\n" +
      "      Y[vn,vo,vy,vx] = max(0.0f32, T[vn,vo,vy,vx] + B[vo])\n    }\n  }\n}\n");
}

// 16 channels a block become 4, 32 become 8, 14 columns become 3.
const char* const kSchedule = R"(
schedule conv2d_bias_relu for x86-64-v4 {
  transform_layout P T (n,c,h,w) -> (n, c/4, h, w, c%4)           # temporaries: ours
  transform_layout W (o,c,r,s) -> (o/8, c/4, r, s, c%4, o%8)      # const: packed at compile time
  c0 c1 = split P.c [_, 4]
  reorder P (n c0 h w c1)
  vectorize P.c1
  o0 ob ol = split T.o [_, 2, 4]
  x0 x1 = split T.x [_, 3] tail=balanced
  c0 c1 = split T.c [_, 4]
  reorder T (n o0 y x0 c0 r s c1 x1 ob ol)
  unroll T (x1 ob)
  vectorize T.ol
  _ yo _ yx = reverse_compute_at Y T.x0
  yb yl = split Y.yo [2, 4]
  reorder Y (yx yb yl)
  unroll Y (yx yb)
  vectorize Y.yl
  set_scope T local
  T0 = decompose_reduction T.c0
  g = fuse T (n o0 y)
  parallel T.g
}
)";

}  // namespace

TEST_CASE("the example schedule of a convolution keeps its result") {
  for (const auto& [channels, size] : {std::pair<int64_t, int64_t>{8, 6}, {16, 7}, {12, 5}, {9, 4}}) {
    const PrimFunc before = conv(channels, size);
    Schedule s(before);
    for (const Step& step : parse_trace(kSchedule).steps) {
      INFO(print(step));
      s.step(step);
      check_well_formed(s.func());
    }
    CHECK(print(apply(before, parse_trace(print(s.trace())))) == print(s.func()));
    const Agreement c = compare_runs(s.func(), run_original(before, 1), 1);
    INFO(c.why << "\n" << print(s.func()));
    CHECK(c.same);
  }
}

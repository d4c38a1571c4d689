// How long the proof of a schedule takes: nests as they are written for real kernels, even and ragged.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "nestor/driver.h"
#include "nestor/parse.h"
#include "nestor/proof.h"

using namespace nestor;

namespace {

struct Case {
  const char* name;
  std::string func, schedule;
};

std::string matmul_relu(int m, int n, int k) {
  const std::string M = std::to_string(m), N = std::to_string(n), K = std::to_string(k);
  return "func f(in A: f32[" + M + "," + K + "], const B: f32[" + K + "," + N + "], const C: f32[" + N +
         "], out Y: f32[" + M + "," + N + "]) {\n  alloc T: f32[" + M + "," + N + "]\n  for i in " + M +
         ", j in " + N + ", k in " + K + " {\n    block T(vi: S " + M + " = i, vj: S " + N + " = j, vk: R " +
         K +
         " = k) {\n      init { T[vi,vj] = 0.0f32 }\n      T[vi,vj] += A[vi,vk] * B[vk,vj]\n    }\n  }\n  "
         "for i in " +
         M + ", j in " + N + " {\n    block Y(vi: S " + M + " = i, vj: S " + N +
         " = j) {\n      Y[vi,vj] = max(0.0f32, T[vi,vj] + C[vj])\n    }\n  }\n}\n";
}

const char* const kMatmul =
    "i0 i1 i2 = split T.i [_, 4, 14]\n"
    "j0 j1 j2 = split T.j [_, 8, 32]\n"
    "k0 k1 k2 = split T.k [_, 8, 4]\n"
    "reorder T (i0 j0 k0 i1 j1 k1 k2 i2 j2)\n"
    "unroll T.i2\n"
    "vectorize T.j2\n"
    "T0 = decompose_reduction T.k0\n"
    "yi yj = reverse_compute_at Y T.j0\n"
    "vectorize Y.yj\n"
    "parallel T.i0\n";

std::string conv(int c, int size, int stride) {
  const int out = (size - 1) / stride + 1;
  const std::string C = std::to_string(c), H = std::to_string(size), P = std::to_string(size + 2),
                    O = std::to_string(out), S = stride == 1 ? "" : "*" + std::to_string(stride);
  return "func f(in X: f32[1," + C + "," + H + "," + H + "], const W: f32[" + C + "," + C +
         ",3,3], const B: f32[" + C + "], out Y: f32[1," + C + "," + O + "," + O + "]) {\n  alloc P: f32[1," +
         C + "," + P + "," + P + "]\n  alloc T: f32[1," + C + "," + O + "," + O + "]\n  for n in 1, c in " +
         C + ", h in " + P + ", w in " + P + " {\n    block P(vn: S 1 = n, vc: S " + C + " = c, vh: S " + P +
         " = h, vw: S " + P + " = w) {\n      P[vn,vc,vh,vw] = if 1 <= vh && vh < " +
         std::to_string(size + 1) + " && 1 <= vw && vw < " + std::to_string(size + 1) +
         " then X[vn,vc,vh-1,vw-1] else 0.0f32\n    }\n  }\n  for n in 1, o in " + C + ", y in " + O +
         ", x in " + O + ", c in " + C + ", r in 3, s in 3 {\n    block T(vn: S 1 = n, vo: S " + C +
         " = o, vy: S " + O + " = y, vx: S " + O + " = x, vc: R " + C +
         " = c, vr: R 3 = r, vs: R 3 = s) {\n      init { T[vn,vo,vy,vx] = 0.0f32 }\n      T[vn,vo,vy,vx] += "
         "P[vn,vc,vy" +
         S + "+vr,vx" + S + "+vs] * W[vo,vc,vr,vs]\n    }\n  }\n  for n in 1, o in " + C + ", y in " + O +
         ", x in " + O + " {\n    block Y(vn: S 1 = n, vo: S " + C + " = o, vy: S " + O + " = y, vx: S " + O +
         " = x) {\n      Y[vn,vo,vy,vx] = max(0.0f32, T[vn,vo,vy,vx] + B[vo])\n    }\n  }\n}\n";
}

// Padding at the tile of rows, output channels and pixels in two levels each, 15 loops around the sum.
const char* const kConv =
    "o0 o1 o2 = split T.o [_, 2, 16]\n"
    "y0 y1 = split T.y [_, 4]\n"
    "x0 x1 x2 = split T.x [_, 2, 7]\n"
    "c0 c1 c2 = split T.c [_, 4, 4]\n"
    "reorder T (n o0 y0 x0 c0 y1 x1 c1 r s c2 o1 x2 o2)\n"
    "unroll T.x2\n"
    "vectorize T.o2\n"
    "T0 = decompose_reduction T.c0\n"
    "compute_at P T.y0\n"
    "reverse_compute_at Y T.x0\n"
    "g = fuse T (n o0)\n"
    "parallel T.g\n";

// The pixels as rows of a matrix product.
const char* const kGemm =
    "compute_inline P\n"
    "m = fuse T (y x)\n"
    "k = fuse T (c r s)\n"
    "m0 m1 m2 = split T.m [_, 8, 8]\n"
    "o0 o1 o2 = split T.o [_, 2, 16]\n"
    "k0 k1 k2 = split T.k [_, 4, 4]\n"
    "reorder T (n o0 m0 k0 m1 o1 k1 k2 m2 o2)\n"
    "vectorize T.o2\n"
    "T0 = decompose_reduction T.k0\n"
    "parallel T.o0\n";

std::vector<Case> cases() {
  return {{"matmul 512 + relu, three levels", matmul_relu(512, 512, 512), kMatmul},
          {"the same, 509 x 511 x 517", matmul_relu(509, 511, 517), kMatmul},
          {"conv 64 x 56 x 56, 15 loops", conv(64, 56, 1), kConv},
          {"the same, 61 x 53 x 53, stride 2", conv(61, 53, 2), kConv},
          {"conv as a matrix product", conv(64, 56, 1), kGemm},
          {"the same, 61 x 53 x 53, stride 2", conv(61, 53, 2), kGemm}};
}

}  // namespace

int main() {
  for (const Case& c : cases()) {
    const PrimFunc before = parse_func(c.func);
    const PrimFunc after = apply(before, parse_trace(c.schedule, c.name));
    double best = 1e9;
    std::string what;
    for (int i = 0; i < 5; ++i) {
      const Proof p = verify_schedule(before, after, {.seconds = 60});
      best = std::min(best, p.seconds);
      what = describe(p);
      if (!p.ok() || p.seconds > 5) break;
    }
    std::printf("%-36s %7.1f ms  %s\n", c.name, best * 1000, what.substr(0, what.find(" in ")).c_str());
  }
}

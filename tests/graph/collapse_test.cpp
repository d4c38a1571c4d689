#include "src/graph/collapse.h"

#include "catch.h"
#include "nestor/check.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/print.h"

using namespace nestor;

namespace {

// Both compute the same bytes from the same bytes; the expected text is compared as printed.
void check_collapse(const std::string& before, const std::string& after) {
  const PrimFunc f = parse_func(before), g = collapse_dims(f);
  check_well_formed(g);
  CHECK(print(g) == print(parse_func(after)));
  std::vector<Tensor> a = random_args(f, 3), b;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<Tensor> shaped = random_args(g, 3);
    b.push_back(a[i].clone().reshaped(shaped[i].shape()));
  }
  interpret(f, a);
  interpret(g, b);
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t k = 0; k < a[i].size(); ++k) REQUIRE(a[i].get(k) == b[i].get(k));
}

}  // namespace

TEST_CASE("an elementwise chain becomes one loop") {
  check_collapse(R"(func f(in X: f32[2,3,4], out Y: f32[2,3,4]) {
  alloc T: f32[2,3,4]
  for a in 2, b in 3, c in 4 {
    block T(va: S 2 = a, vb: S 3 = b, vc: S 4 = c) {
      T[va,vb,vc] = X[va,vb,vc] + 1.0f32
    }
  }
  for a in 2, b in 3, c in 4 {
    block Y(va: S 2 = a, vb: S 3 = b, vc: S 4 = c) {
      Y[va,vb,vc] = max(0.0f32, T[va,vb,vc])
    }
  }
})",
                 R"(func f(in X: f32[24], out Y: f32[24]) {
  alloc T: f32[24]
  for abc in 24 {
    block T(vabc: S 24 = abc) {
      T[vabc] = X[vabc] + 1.0f32
    }
  }
  for abc in 24 {
    block Y(vabc: S 24 = abc) {
      Y[vabc] = max(0.0f32, T[vabc])
    }
  }
})");
}

TEST_CASE("a 1x1 convolution with a bias keeps the channels and merges the plane") {
  check_collapse(R"(func f(in X: f32[1,4,5,6], const W: f32[3,4,1,1], const B: f32[3], out Y: f32[1,3,5,6]) {
  alloc T: f32[1,3,5,6]
  for n in 1, o in 3, y in 5, x in 6, c in 4, r in 1, s in 1 {
    block T(vn: S 1 = n, vo: S 3 = o, vy: S 5 = y, vx: S 6 = x, vc: R 4 = c, vr: R 1 = r, vs: R 1 = s) {
      init { T[vn,vo,vy,vx] = 0.0f32 }
      T[vn,vo,vy,vx] += X[vn,vc,vy+vr,vx+vs] * W[vo,vc,vr,vs]
    }
  }
  for n in 1, o in 3, y in 5, x in 6 {
    block Y(vn: S 1 = n, vo: S 3 = o, vy: S 5 = y, vx: S 6 = x) {
      Y[vn,vo,vy,vx] = T[vn,vo,vy,vx] + B[vo]
    }
  }
})",
                 R"(func f(in X: f32[1,4,30], const W: f32[3,4,1,1], const B: f32[3], out Y: f32[1,3,30]) {
  alloc T: f32[1,3,30]
  for n in 1, o in 3, yx in 30, c in 4 {
    block T(vn: S 1 = n, vo: S 3 = o, vyx: S 30 = yx, vc: R 4 = c) {
      init { T[vn,vo,vyx] = 0.0f32 }
      T[vn,vo,vyx] += X[vn,vc,vyx] * W[vo,vc,0,0]
    }
  }
  for n in 1, o in 3, yx in 30 {
    block Y(vn: S 1 = n, vo: S 3 = o, vyx: S 30 = yx) {
      Y[vn,vo,vyx] = T[vn,vo,vyx] + B[vo]
    }
  }
})");
}

TEST_CASE("dimensions that are walked apart stay apart") {
  const std::string transpose = R"(func f(in X: f32[2,3,4], out Y: f32[3,2,4]) {
  for a in 3, b in 2, c in 4 {
    block Y(va: S 3 = a, vb: S 2 = b, vc: S 4 = c) {
      Y[va,vb,vc] = X[vb,va,vc]
    }
  }
})";
  check_collapse(transpose, transpose);
}

// Groups of channels as a dimension of their own: what a function becomes, and that it computes what it did.
#include "src/graph/split_groups.h"

#include "catch.h"
#include "nestor/check.h"
#include "nestor/interpret.h"
#include "nestor/parse.h"
#include "nestor/print.h"

using namespace nestor;

namespace {

void check_split(const std::string& before, const std::string& after) {
  const PrimFunc f = parse_func(before), g = split_groups(f);
  check_well_formed(g);
  CHECK(print(g) == print(parse_func(after)));
  std::vector<Tensor> a = random_args(f, 3), b;
  const std::vector<Tensor> shaped = random_args(g, 3);
  for (size_t i = 0; i < a.size(); ++i) b.push_back(a[i].clone().reshaped(shaped[i].shape()));
  interpret(f, a);
  interpret(g, b);
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t k = 0; k < a[i].size(); ++k) REQUIRE(a[i].get(k) == b[i].get(k));
}

void check_kept(const std::string& text) {
  const PrimFunc f = parse_func(text);
  CHECK(print(split_groups(f)) == print(f));
}

}  // namespace

TEST_CASE("groups of 3 filters over 2 channels: padding, weights, sums and bias follow") {
  check_split(R"(func f(in X: f32[1,4,5], const W: f32[6,2,3], const B: f32[6], out Y: f32[1,6,5]) {
  alloc P: f32[1,4,7]
  alloc T: f32[1,6,5]
  for n in 1, c in 4, w in 7 {
    block P(vn: S 1 = n, vc: S 4 = c, vw: S 7 = w) {
      P[vn,vc,vw] = if 1 <= vw && vw < 6 then X[vn,vc,vw-1] else 0.0f32
    }
  }
  for n in 1, o in 6, x in 5, c in 2, s in 3 {
    block T(vn: S 1 = n, vo: S 6 = o, vx: S 5 = x, vc: R 2 = c, vs: R 3 = s) {
      init { T[vn,vo,vx] = 0.0f32 }
      T[vn,vo,vx] += P[vn,vo/3*2+vc,vx+vs] * W[vo,vc,vs]
    }
  }
  for n in 1, o in 6, x in 5 {
    block Y(vn: S 1 = n, vo: S 6 = o, vx: S 5 = x) {
      Y[vn,vo,vx] = T[vn,vo,vx] + B[vo]
    }
  }
})",
              R"(func f(in X: f32[1,2,2,5], const W: f32[2,3,2,3], const B: f32[2,3], out Y: f32[1,2,3,5]) {
  alloc P: f32[1,2,2,7]
  alloc T: f32[1,2,3,5]
  for n in 1, cg in 2, c in 2, w in 7 {
    block P(vn: S 1 = n, vcg: S 2 = cg, vc: S 2 = c, vw: S 7 = w) {
      P[vn,vcg,vc,vw] = if 1 <= vw && vw < 6 then X[vn,vcg,vc,vw-1] else 0.0f32
    }
  }
  for n in 1, og in 2, o in 3, x in 5, c in 2, s in 3 {
    block T(vn: S 1 = n, vog: S 2 = og, vo: S 3 = o, vx: S 5 = x, vc: R 2 = c, vs: R 3 = s) {
      init { T[vn,vog,vo,vx] = 0.0f32 }
      T[vn,vog,vo,vx] += P[vn,vog,vc,vx+vs] * W[vog,vo,vc,vs]
    }
  }
  for n in 1, og in 2, o in 3, x in 5 {
    block Y(vn: S 1 = n, vog: S 2 = og, vo: S 3 = o, vx: S 5 = x) {
      Y[vn,vog,vo,vx] = T[vn,vog,vo,vx] + B[vog,vo]
    }
  }
})");
}

TEST_CASE("blocks of channels: the blocks of a group, not its lanes") {
  check_split(R"(func f(in X: f32[1,4,5,2], const W: f32[4,2,4], out Y: f32[1,4,5,2]) {
  for n in 1, ob in 4, x in 5, ol in 2, cb in 2, cl in 2 {
    block Y(vn: S 1 = n, vob: S 4 = ob, vx: S 5 = x, vol: S 2 = ol, vcb: R 2 = cb, vcl: R 2 = cl) {
      init { Y[vn,vob,vx,vol] = 0.0f32 }
      Y[vn,vob,vx,vol] += X[vn,vob/2*2+vcb,vx,vcl] * W[vob,vol,vcb*2+vcl]
    }
  }
})",
              R"(func f(in X: f32[1,2,2,5,2], const W: f32[2,2,2,4], out Y: f32[1,2,2,5,2]) {
  for n in 1, obg in 2, ob in 2, x in 5, ol in 2, cb in 2, cl in 2 {
    block Y(vn: S 1 = n, vobg: S 2 = obg, vob: S 2 = ob, vx: S 5 = x, vol: S 2 = ol, vcb: R 2 = cb, vcl: R 2 = cl) {
      init { Y[vn,vobg,vob,vx,vol] = 0.0f32 }
      Y[vn,vobg,vob,vx,vol] += X[vn,vobg,vcb,vx,vcl] * W[vobg,vob,vol,vcb*2+vcl]
    }
  }
})");
  check_split(R"(func f(in X: f32[1,6,5,2], const W: f32[6,2,6], out Y: f32[1,6,5,2]) {
  for n in 1, ob in 6, x in 5, ol in 2, c in 6 {
    block Y(vn: S 1 = n, vob: S 6 = ob, vx: S 5 = x, vol: S 2 = ol, vc: R 6 = c) {
      init { Y[vn,vob,vx,vol] = 0.0f32 }
      Y[vn,vob,vx,vol] += X[vn,vob/3*3+vc/2,vx,vc%2] * W[vob,vol,vc]
    }
  }
})",
              R"(func f(in X: f32[1,2,3,5,2], const W: f32[2,3,2,6], out Y: f32[1,2,3,5,2]) {
  for n in 1, obg in 2, ob in 3, x in 5, ol in 2, c in 6 {
    block Y(vn: S 1 = n, vobg: S 2 = obg, vob: S 3 = ob, vx: S 5 = x, vol: S 2 = ol, vc: R 6 = c) {
      init { Y[vn,vobg,vob,vx,vol] = 0.0f32 }
      Y[vn,vobg,vob,vx,vol] += X[vn,vobg,vc/2,vx,vc%2] * W[vobg,vob,vol,vc]
    }
  }
})");
  const std::string lanes = R"(func f(in X: f32[1,5,4], const W: f32[4,2], out Y: f32[1,5,4]) {
  for n in 1, x in 5, ol in 4, c in 2 {
    block Y(vn: S 1 = n, vx: S 5 = x, vol: S 4 = ol, vc: R 2 = c) {
      init { Y[vn,vx,vol] = 0.0f32 }
      Y[vn,vx,vol] += X[vn,vx,vol/2*2+vc] * W[vol,vc]
    }
  }
})";
  check_kept(lanes);
}

TEST_CASE("several filters of one channel: the input has nothing to split") {
  check_split(R"(func f(in X: f32[3,5], const W: f32[6,1], out Y: f32[6,5]) {
  for o in 6, x in 5, c in 1 {
    block Y(vo: S 6 = o, vx: S 5 = x, vc: R 1 = c) {
      init { Y[vo,vx] = 0.0f32 }
      Y[vo,vx] += X[vo/2,vx] * W[vo,vc]
    }
  }
})",
              R"(func f(in X: f32[3,5], const W: f32[3,2,1], out Y: f32[3,2,5]) {
  for og in 3, o in 2, x in 5, c in 1 {
    block Y(vog: S 3 = og, vo: S 2 = o, vx: S 5 = x, vc: R 1 = c) {
      init { Y[vog,vo,vx] = 0.0f32 }
      Y[vog,vo,vx] += X[vog,vx] * W[vog,vo,vc]
    }
  }
})");
}

TEST_CASE("maps are left alone: tiles of rows that are numbered through, a matrix product of each") {
  check_kept(R"(func f(in X: f32[2,3,4], const W: f32[2], out Y: f32[6,4]) {
  alloc V: f32[6,4]
  for t in 6, l in 4 {
    block V(vt: S 6 = t, vl: S 4 = l) {
      V[vt,vl] = X[vt/3,vt%3,vl]
    }
  }
  for t in 6, l in 4, c in 2 {
    block Y(vt: S 6 = t, vl: S 4 = l, vc: R 2 = c) {
      init { Y[vt,vl] = 0.0f32 }
      Y[vt,vl] += V[vt,vl] * W[vc]
    }
  }
})");
}

TEST_CASE("what can't follow keeps a function as it is") {
  const auto text = [](const std::string& index) {
    return R"(func f(in X: f32[8,5], in Z: f32[9,5], out Y: f32[6,5]) {
  for o in 6, x in 5, c in 4 {
    block Y(vo: S 6 = o, vx: S 5 = x, vc: R 4 = c) {
      init { Y[vo,vx] = 0.0f32 }
      Y[vo,vx] += X[vo/3*4+vc,vx] * Z[)" +
           index + R"(,vx]
    }
  }
})";
  };
  check_kept(text("vo/2"));  // two sizes of groups
  const PrimFunc moved = split_groups(parse_func(text("vo+3")));
  CHECK(moved.params[1].decl.shape.size() == 2);  // walked by an offset: it stays, its index is affine
  CHECK(moved.params[2].decl.shape.size() == 3);
  check_kept(R"(func f(in X: f32[4,5], out Y: f32[5], out Z: f32[6,5]) {
  for o in 6, x in 5, c in 2 {
    block Z(vo: S 6 = o, vx: S 5 = x, vc: R 2 = c) {
      init { Z[vo,vx] = 0.0f32 }
      Z[vo,vx] += X[vo/3*2+vc,vx]
    }
  }
  for x in 5, o in 6 {
    block Y(vx: S 5 = x, vo: R 6 = o) {
      init { Y[vx] = 0.0f32 }
      Y[vx] += Z[vo,vx]
    }
  }
})");
}

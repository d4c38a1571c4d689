// Channels in blocks: what a function becomes.
#include "src/graph/block_channels.h"

#include "catch.h"
#include "nestor/check.h"
#include "nestor/graph.h"
#include "nestor/interpret.h"
#include "nestor/layout.h"
#include "nestor/parse.h"
#include "nestor/print.h"

using namespace nestor;

namespace {

// (n, c, rest...) as (n, c/lanes, rest..., c%lanes) in memory.
BufferDecl in_blocks(BufferDecl d, int64_t lanes) {
  IndexMap map;
  for (size_t i = 0; i < d.shape.size(); ++i) {
    map.vars.push_back(make_var("d" + std::to_string(i)));
    map.exprs.emplace_back(map.vars.back());
  }
  map.exprs.push_back(map.exprs[1] % Expr(lanes));
  map.exprs[1] = map.exprs[1] / Expr(lanes);
  d.layout = map;
  return d;
}

// The expected text, and that both compute the same from the same tensors.
void check_blocked(const std::string& before, const std::vector<bool>& which, int64_t lanes,
                   const std::string& after) {
  const PrimFunc f = parse_func(before);
  const auto g = block_channels(f, which, lanes);
  REQUIRE(g);
  check_well_formed(*g);
  CHECK(print(*g) == print(parse_func(after)));
  std::vector<Tensor> a = random_args(f, 3), b;
  for (size_t i = 0; i < a.size(); ++i) {
    const BufferDecl& decl = g->params[i].decl;
    b.push_back(f.params[i].role == Role::constant ? constant_argument(a[i], decl)
                : which[i] ? pack(a[i], in_blocks(f.params[i].decl, lanes)).reshaped(logical_shape(decl))
                           : a[i].clone());
  }
  interpret(f, a);
  interpret(*g, b);
  for (size_t i = 0; i < a.size(); ++i) {
    if (f.params[i].role == Role::constant) continue;
    Tensor logical = b[i];
    if (which[i]) {
      const BufferDecl d = in_blocks(f.params[i].decl, lanes);
      logical = unpack(b[i].reshaped(physical_shape(d)), d);
    }
    for (int64_t k = 0; k < a[i].size(); ++k) REQUIRE(a[i].get(k) == logical.get(k));
  }
}

}  // namespace

TEST_CASE("channels that iterators walk are split, with the constants and temporaries beside them") {
  check_blocked(R"(func f(in X: f32[1,8,5], const B: f32[8], out Y: f32[1,8,5]) {
  alloc T: f32[1,8,5]
  for n in 1, c in 8, x in 5 {
    block T(vn: S 1 = n, vc: S 8 = c, vx: S 5 = x) {
      T[vn,vc,vx] = X[vn,vc,vx] + B[vc]
    }
  }
  for n in 1, c in 8, x in 5 {
    block Y(vn: S 1 = n, vc: S 8 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = max(0.0f32, T[vn,vc,vx])
    }
  }
})",
                {true, false, false}, 4,
                R"(func f(in X: f32[1,2,5,4], const B: f32[2,4], out Y: f32[1,8,5]) {
  alloc T: f32[1,2,5,4]
  for n in 1, cb in 2, x in 5, cl in 4 {
    block T(vn: S 1 = n, vcb: S 2 = cb, vx: S 5 = x, vcl: S 4 = cl) {
      T[vn,vcb,vx,vcl] = X[vn,vcb,vx,vcl] + B[vcb,vcl]
    }
  }
  for n in 1, cb in 2, x in 5, cl in 4 {
    block Y(vn: S 1 = n, vcb: S 2 = cb, vx: S 5 = x, vcl: S 4 = cl) {
      Y[vn,vcb*4+vcl,vx] = max(0.0f32, T[vn,vcb,vx,vcl])
    }
  }
})");
}

TEST_CASE("a reduction over channels goes block by block, lanes last") {
  check_blocked(R"(func f(in X: f32[1,8,5], const W: f32[3,8], out Y: f32[1,3,5]) {
  for n in 1, o in 3, x in 5, c in 8 {
    block Y(vn: S 1 = n, vo: S 3 = o, vx: S 5 = x, vc: R 8 = c) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += X[vn,vc,vx] * W[vo,vc]
    }
  }
})",
                {true, false, false}, 4,
                R"(func f(in X: f32[1,2,5,4], const W: f32[3,2,4], out Y: f32[1,3,5]) {
  for n in 1, o in 3, x in 5, cb in 2, cl in 4 {
    block Y(vn: S 1 = n, vo: S 3 = o, vx: S 5 = x, vcb: R 2 = cb, vcl: R 4 = cl) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += X[vn,vcb,vx,vcl] * W[vo,vcb,vcl]
    }
  }
})");
}

TEST_CASE("an index that is no iterator is divided: the channels of groups") {
  check_blocked(R"(func f(in X: f32[1,8,5], const W: f32[8,2], out Y: f32[1,8,5]) {
  for n in 1, o in 8, x in 5, c in 2 {
    block Y(vn: S 1 = n, vo: S 8 = o, vx: S 5 = x, vc: R 2 = c) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += X[vn,vo/2*2+vc,vx] * W[vo,vc]
    }
  }
})",
                {true, false, true}, 4,
                R"(func f(in X: f32[1,2,5,4], const W: f32[2,4,2], out Y: f32[1,2,5,4]) {
  for n in 1, ob in 2, x in 5, ol in 4, c in 2 {
    block Y(vn: S 1 = n, vob: S 2 = ob, vx: S 5 = x, vol: S 4 = ol, vc: R 2 = c) {
      init { Y[vn,vob,vx,vol] = 0.0f32 }
      Y[vn,vob,vx,vol] += X[vn,vob,vx,vol/2*2+vc] * W[vob,vol,vc]
    }
  }
})");
}

TEST_CASE("channels that don't fill whole blocks: all lanes are computed, no reduction reads them") {
  check_blocked(R"(func f(in X: f32[1,5,3], const W: f32[6,5], const D: f32[6,1], out Y: f32[1,6,2]) {
  alloc T: f32[1,6,3]
  for n in 1, o in 6, x in 3, c in 5 {
    block T(vn: S 1 = n, vo: S 6 = o, vx: S 3 = x, vc: R 5 = c) {
      init { T[vn,vo,vx] = 0.0f32 }
      T[vn,vo,vx] += X[vn,vc,vx] * W[vo,vc]
    }
  }
  for n in 1, o in 6, x in 2, c in 1, r in 2 {
    block Y(vn: S 1 = n, vo: S 6 = o, vx: S 2 = x, vc: R 1 = c, vr: R 2 = r) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += T[vn,vo+vc,vx+vr] * D[vo,vc]
    }
  }
})",
                {true, false, false, true}, 4,
                R"(func f(in X: f32[1,2,3,4], const W: f32[2,4,5], const D: f32[2,4,1], out Y: f32[1,2,2,4]) {
  alloc T: f32[1,2,3,4]
  for n in 1, ob in 2, x in 3, ol in 4, c in 5 {
    block T(vn: S 1 = n, vob: S 2 = ob, vx: S 3 = x, vol: S 4 = ol, vc: R 5 = c) {
      init { T[vn,vob,vx,vol] = 0.0f32 }
      T[vn,vob,vx,vol] += X[vn,vc/4,vx,vc%4] * W[vob,vol,vc]
    }
  }
  for n in 1, ob in 2, x in 2, ol in 4, r in 2 {
    block Y(vn: S 1 = n, vob: S 2 = ob, vx: S 2 = x, vol: S 4 = ol, vr: R 2 = r) {
      init { Y[vn,vob,vx,vol] = 0.0f32 }
      Y[vn,vob,vx,vol] += T[vn,vob,vx+vr,vol] * D[vob,vol,0]
    }
  }
})");
}

TEST_CASE("a copy from and to row-major channels is cut in pieces where blocks aren't full") {
  const std::string copy = R"(func f(in X: f32[2,6,5], out Y: f32[2,6,5]) {
  for n in 2, c in 6, x in 5 {
    block Y(vn: S 2 = n, vc: S 6 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc,vx]
    }
  }
})";
  check_blocked(copy, {false, true}, 4, R"(func f(in X: f32[2,6,5], out Y: f32[2,2,5,4]) {
  for n in 2, cb in 1, x in 5, cl in 4 {
    block Y(vn: S 2 = n, vcb: S 1 = cb, vx: S 5 = x, vcl: S 4 = cl) {
      Y[vn,vcb,vx,vcl] = X[vn,vcb*4+vcl,vx]
    }
  }
  for n in 2, x in 5, cl in 2 {
    block Y_rest(vn: S 2 = n, vx: S 5 = x, vcl: S 2 = cl) {
      Y[vn,1,vx,vcl] = X[vn,vcl+4,vx]
    }
  }
  for n in 2, x in 5, cl in 2 {
    block Y_zeros(vn: S 2 = n, vx: S 5 = x, vcl: S 2 = cl) {
      Y[vn,1,vx,vcl+2] = 0.0f32
    }
  }
}
)");
  check_blocked(copy, {true, false}, 4, R"(func f(in X: f32[2,2,5,4], out Y: f32[2,6,5]) {
  for n in 2, cb in 1, x in 5, cl in 4 {
    block Y(vn: S 2 = n, vcb: S 1 = cb, vx: S 5 = x, vcl: S 4 = cl) {
      Y[vn,vcb*4+vcl,vx] = X[vn,vcb,vx,vcl]
    }
  }
  for n in 2, x in 5, cl in 2 {
    block Y_rest(vn: S 2 = n, vx: S 5 = x, vcl: S 2 = cl) {
      Y[vn,vcl+4,vx] = X[vn,1,vx,vcl]
    }
  }
}
)");
  const std::string first = R"(func f(in X: f32[2,6,5], out Y: f32[2,4,5]) {
  for n in 2, c in 4, x in 5 {
    block Y(vn: S 2 = n, vc: S 4 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc,vx]
    }
  }
})";
  CHECK_FALSE(block_channels(parse_func(first), {true, false}, 4));  // some of the channels
}

TEST_CASE("lanes beyond the channels belong to blocks only") {
  const auto refused = [](const std::string& nest, const std::vector<bool>& which) {
    return !block_channels(parse_func(nest), which, 4);
  };
  const std::string copy = R"(func f(in X: f32[1,6,5], out Y: f32[1,6,5]) {
  for n in 1, c in 6, x in 5 {
    block Y(vn: S 1 = n, vc: S 6 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc,vx]
    }
  }
})";
  CHECK_FALSE(refused(copy, {true, true}));
  std::string more = copy;  // to and from a row-major tensor: more than a copy
  more.insert(more.rfind("X[vn,vc,vx]"), "2.0f32 * ");
  CHECK(refused(more, {true, false}));
  CHECK(refused(more, {false, true}));
  const auto grouped = [&](const std::string& channels, const std::string& per, int64_t lanes, bool in = true,
                           bool out = true) {
    std::string nest = R"(func f(in X: f32[1,C,5], const W: f32[C,G], out Y: f32[1,C,5]) {
  for n in 1, o in C, x in 5, c in G {
    block Y(vn: S 1 = n, vo: S C = o, vx: S 5 = x, vc: R G = c) {
      init { Y[vn,vo,vx] = 0.0f32 }
      Y[vn,vo,vx] += X[vn,vo/G*G+vc,vx] * W[vo,vc]
    }
  }
})";
    for (const auto& [name, value] : {std::pair{'C', channels}, std::pair{'G', per}})
      for (size_t at; (at = nest.find(name)) != std::string::npos;) nest.replace(at, 1, value);
    return block_channels(parse_func(nest), {in, false, out}, lanes).has_value();
  };
  CHECK(grouped("6", "2", 4));  // the lanes beyond read lanes beyond
  CHECK(grouped("24", "8", 16));
  CHECK(grouped("12", "12", 4));
  CHECK_FALSE(grouped("12", "3", 4));  // groups straddle blocks
  CHECK_FALSE(grouped("12", "6", 4));
  CHECK(grouped("16", "8", 4, true, false));
  CHECK(grouped("16", "8", 4, false, true));
  CHECK_FALSE(grouped("12", "6", 4, true, false));  // nor is one side enough
  CHECK_FALSE(grouped("12", "6", 4, false, true));
  const std::string part = R"(func f(in X: f32[1,6,5], out Y: f32[1,3,5]) {
  for n in 1, c in 3, x in 5 {
    block Y(vn: S 1 = n, vc: S 3 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc+2,vx]
    }
  }
})";
  CHECK(refused(part, {true, false}));
  const std::string weighted = R"(func f(in X: f32[2,6,5], const W: f32[2,6], out Y: f32[2,6,5]) {
  for n in 2, c in 6, x in 5 {
    block Y(vn: S 2 = n, vc: S 6 = c, vx: S 5 = x) {
      Y[vn,vc,vx] = X[vn,vc,vx] * W[vn,vc]
    }
  }
})";
  CHECK(refused(weighted, {true, false, true}));  // zeros would stand among W's elements
}

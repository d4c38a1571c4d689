#include "catch.h"
#include "nestor/layout.h"

using namespace nestor;

namespace {

BufferDecl blocked(std::vector<Expr> shape, double pad) {
  Var o = make_var("o"), c = make_var("c"), r = make_var("r");
  return {make_buffer("W", {DType::f32}), std::move(shape), Scope::global,
          IndexMap{{o, c, r}, {Expr(o) / 32, Expr(c) / 16, r, Expr(c) % 16, Expr(o) % 32}, pad}};
}

}  // namespace

TEST_CASE("packing follows the layout and pads") {
  BufferDecl decl = blocked({40, 20, 3}, 7);
  Tensor w = Tensor::random(DType::f32, {40, 20, 3}, 1);
  Tensor p = pack(w, decl);
  REQUIRE(p.shape() == std::vector<int64_t>{2, 2, 3, 16, 32});
  for (int64_t o = 0; o < 64; ++o)
    for (int64_t c = 0; c < 32; ++c)
      for (int64_t r = 0; r < 3; ++r) {
        const int64_t at = (((o / 32 * 2 + c / 16) * 3 + r) * 16 + c % 16) * 32 + o % 32;
        const double expected = o < 40 && c < 20 ? w.get((o * 20 + c) * 3 + r) : 7;
        REQUIRE(p.get(at) == expected);
      }
  Tensor back = unpack(p, decl);
  for (int64_t i = 0; i < w.size(); ++i) REQUIRE(back.get(i) == w.get(i));
}

TEST_CASE("packing where dimensions meet in one expression, and where none varies") {
  Var a = make_var("a"), b = make_var("b");
  BufferDecl decl{make_buffer("W", {DType::i64}), {3, 4}, Scope::global, {}};
  decl.layout = IndexMap{{a, b}, {(Expr(a) * 4 + b) / 5, (Expr(a) * 4 + b) % 5}, -1};
  Tensor w(DType::i64, {3, 4});
  for (int64_t i = 0; i < 12; ++i) w.set_int(i, i);
  Tensor p = pack(w, decl);
  REQUIRE(p.shape() == std::vector<int64_t>{3, 5});
  for (int64_t i = 0; i < 15; ++i) CHECK(p.get_int(i) == (i < 12 ? i : -1));

  BufferDecl scalar{make_buffer("S", {DType::f32}), {}, Scope::global, IndexMap{{}, {0}, 0}};
  Tensor s(DType::f32, {});
  s.set(0, 2.5);
  CHECK(pack(s, scalar).get(0) == 2.5);
}

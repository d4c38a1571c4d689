#include "nestor/layout.h"

#include "catch.h"
#include "nestor/error.h"
#include "nestor/walk.h"

using namespace nestor;

TEST_CASE("a blocked layout pads to whole blocks") {
  Var n = make_var("n"), c = make_var("c"), h = make_var("h");
  BufferDecl decl{make_buffer("X", {DType::f32}), {1, 10, 7}, Scope::global, {}};
  CHECK(physical_shape(decl) == std::vector<int64_t>{1, 10, 7});
  decl.layout =
      IndexMap{{n, c, h}, {n, make::binary(BinaryOp::div, c, 16), h, make::binary(BinaryOp::mod, c, 16)}, 0};
  CHECK(physical_shape(decl) == std::vector<int64_t>{1, 1, 7, 16});
  CHECK(physical_size(decl) == 7 * 16);
  decl.shape[2] = 0;
  CHECK(physical_size(decl) == 0);
}

TEST_CASE("a symbolic dimension doesn't change how far the others reach") {
  Var n = make_var("n"), i = make_var("i"), j = make_var("j");
  BufferDecl decl{make_buffer("X", {DType::f32}),
                  {n, 1},
                  Scope::global,
                  IndexMap{{i, j}, {i, Expr(j) / 2, Expr(j) % 2}, 0}};
  const std::vector<Expr> extents = physical_extents(decl);
  REQUIRE(extents.size() == 3);
  CHECK(same_expr(extents[0], n));
  CHECK(is_const_int(extents[1], 1));
  CHECK(is_const_int(extents[2], 2));
}

TEST_CASE("a layout that is not affine with constant divisors is refused") {
  Var i = make_var("i"), j = make_var("j");
  BufferDecl decl{make_buffer("X", {DType::f32}), {4, 4}, Scope::global, IndexMap{{i, j}, {i / j}, 0}};
  CHECK_THROWS_AS(physical_shape(decl), UserError);
  decl.layout = IndexMap{{i, j}, {i, Expr(j) - 1}, 0};
  CHECK_THROWS_AS(physical_shape(decl), UserError);
  decl.layout = IndexMap{{i}, {i}, 0};
  CHECK_THROWS_AS(physical_shape(decl), UserError);
}

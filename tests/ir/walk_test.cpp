#include "nestor/walk.h"

#include "catch.h"

using namespace nestor;

namespace {

Stmt copy_loop(const std::string& name, const Buffer& from, const Buffer& to, int64_t extent) {
  Var i = make_var(name);
  return make::loop(i, extent, make::store(to, {i}, make::load(from, {i})));
}

}  // namespace

TEST_CASE("structural equality ignores names and sees structure") {
  Buffer a = make_buffer("A", {DType::f32}), b = make_buffer("B", {DType::f32});
  CHECK(structural_equal(copy_loop("i", a, b, 8), copy_loop("j", b, a, 8)));
  CHECK_FALSE(structural_equal(copy_loop("i", a, b, 8), copy_loop("i", a, b, 9)));
  CHECK_FALSE(structural_equal(copy_loop("i", a, b, 8), copy_loop("i", a, a, 8)));
}

TEST_CASE("a rewriter keeps the handle where nothing changes") {
  Buffer a = make_buffer("A", {DType::f32}), b = make_buffer("B", {DType::f32});
  Stmt s = copy_loop("i", a, b, 8);
  CHECK(substitute(s, VarMap{{make_var("other"), Expr(1)}}).same_as(s));
  Stmt t = substitute(s, BufferMap{{a, b}});
  CHECK_FALSE(t.same_as(s));
  CHECK_FALSE(uses_buffer(t, a));
  CHECK(structural_equal(fresh_copy(s), s));
}

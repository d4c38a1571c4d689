// One test per rule of check_well_formed: a function that keeps it all, and changes that break one rule each.
#include "nestor/check.h"

#include "catch.h"
#include "nestor/error.h"
#include "nestor/parse.h"
#include "nestor/walk.h"

using namespace nestor;

namespace {

PrimFunc matmul() {
  return parse_func(R"(func f(in A: f32[4,8], const W: f32[8,4], out Y: f32[4,4]) {
  alloc T: f32[4,4]
  for i in 4, j in 4, k in 8 {
    block T(vi: S 4 = i, vj: S 4 = j, vk: R 8 = k) {
      init { T[vi,vj] = 0.0f32 }
      T[vi,vj] += A[vi,vk] * W[vk,vj]
    }
  }
  for i in 4, j in 4 {
    block Y(vi: S 4 = i, vj: S 4 = j) {
      Y[vi,vj] = T[vi,vj]
    }
  }
})");
}

std::string error_of(const PrimFunc& f) {
  try {
    check_well_formed(f);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}
bool refuses(const PrimFunc& f, const std::string& message) {
  const std::string error = error_of(f);
  INFO(error);
  CHECK(error.find("f: " + message) != std::string::npos);
  return error.find(message) != std::string::npos;
}

// The function with what `change` makes of each statement or expression, rebuilt without the constructors'
// checks where the node itself doesn't change.
struct Change : Rewriter {
  std::function<Stmt(const Stmt&)> on_stmt;
  std::function<Expr(const Expr&)> on_expr;
  Stmt stmt(const Stmt& s) override { return on_stmt ? on_stmt(children(s)) : children(s); }
  Expr expr(const Expr& e) override { return on_expr ? on_expr(children(e)) : children(e); }
};
PrimFunc with_stmts(PrimFunc f, std::function<Stmt(const Stmt&)> change) {
  Change c;
  c.on_stmt = std::move(change);
  f.body = c.stmt(f.body);
  return f;
}
PrimFunc with_exprs(PrimFunc f, std::function<Expr(const Expr&)> change) {
  Change c;
  c.on_expr = std::move(change);
  f.body = c.stmt(f.body);
  return f;
}
PrimFunc with_block_t(const std::function<void(Block&)>& change) {
  return with_stmts(matmul(), [&](const Stmt& s) {
    const auto* b = s.as<Block>();
    if (!b || b->id->name != "T") return s;
    Block copy = *b;
    change(copy);
    return make::block(std::move(copy));
  });
}

}  // namespace

TEST_CASE("a well-formed function passes") {
  CHECK_NOTHROW(check_well_formed(matmul()));
}

TEST_CASE("the error underlines what is wrong") {
  PrimFunc f = matmul();
  f.params[1].decl.shape.push_back(2);
  CHECK(error_of(f) == R"(error: f: buffer `W` has 3 dimensions and is given 2 indices
note: in this function:
  func f(in A: f32[4,8], const W: f32[8,4,2], out Y: f32[4,4]) {
    alloc T: f32[4,4]
    for i in 4, j in 4, k in 8 {
      block T(vi: S 4 = i, vj: S 4 = j, vk: R 8 = k) {
        init { T[vi,vj] = 0.0f32 }
        T[vi,vj] += A[vi,vk] * W[vk,vj]
                               ^~~~~~~~
      }
    }
    for i in 4, j in 4 {
      block Y(vi: S 4 = i, vj: S 4 = j) {
        Y[vi,vj] = T[vi,vj]
      }
    }
  })");
}

TEST_CASE("scopes of variables") {
  const Var stranger = make_var("stranger");
  CHECK(refuses(with_block_t([&](Block& b) { b.iters[0].binding = stranger; }),
                "variable `stranger` is used outside its scope"));
  CHECK(refuses(with_block_t([&](Block& b) { b.where = ge(b.iters[0].binding, Expr(0)); }),
                "block `T` uses loop variable `i` directly"));
  CHECK(refuses(with_block_t([&](Block& b) {
                  const auto* store = b.init.as<Store>();
                  b.init = make::store(store->buffer, {store->indices[0], b.iters[2].var}, store->value);
                }),
                "`init` uses the reduction iterator `vk`"));

  PrimFunc twice = matmul();
  const Stmt first = twice.body.as<Seq>()->stmts[0];
  twice.body = make::seq({first, first});
  CHECK(refuses(twice, "variable `i` is bound twice"));
  twice.body = make::seq({first, fresh_copy(first)});
  CHECK(refuses(twice, "block name `T` occurs twice"));

  const Var x = make_var("x");
  const auto let_in = [&](Expr body) { return make::let(x, 1, std::move(body)); };
  CHECK(refuses(with_block_t([&](Block& b) { b.iters[0].extent = let_in(let_in(x)); }),
                "variable `x` is bound inside its own scope"));
  const Expr shared = let_in(x);
  CHECK_NOTHROW(check_well_formed(with_block_t([&](Block& b) { b.iters[0].extent = shared * shared; })));
}

TEST_CASE("loop names on a path") {
  PrimFunc f = with_stmts(matmul(), [](const Stmt& s) {
    const auto* loop = s.as<For>();
    return loop && loop->var->name == "k" ? make::loop(make_var("i"), 2, s) : s;
  });
  CHECK(refuses(f, "loop name `i` repeats on its path"));
}

TEST_CASE("bindings are made of loop variables") {
  CHECK(refuses(with_block_t([](Block& b) {
                  const auto* load = b.body.as<Update>()->value.as<Binary>()->a.as<Load>();
                  b.iters[0].binding = make::cast({}, make::load(load->buffer, {0, 0}));
                }),
                "iterator `vi` is bound to something other than loop variables"));
}

TEST_CASE("buffers") {
  PrimFunc f = matmul();
  f.params[0].role = Role::out;
  f.params[2].role = Role::in;
  CHECK(refuses(f, "parameter `Y` is written, but is not `out`"));

  f = matmul();
  const BufferDecl t = f.allocs[0];
  f.allocs.clear();
  CHECK(refuses(f, "buffer `T` is not declared"));
  f.allocs = {t, t};
  CHECK(refuses(f, "buffer `T` is declared twice"));
  f.allocs.clear();
  const auto stmts = f.body.as<Seq>()->stmts;
  f.body = make::seq({make::alloc(t, stmts[0]), stmts[1]});
  CHECK(refuses(f, "buffer `T` is used outside its alloc"));
  f.body = make::alloc(t, f.body.as<Seq>()->stmts[0].as<Alloc>()->body);
  CHECK_NOTHROW(check_well_formed(f));

  f = matmul();
  f.allocs[0].shape[0] = -4;
  CHECK(refuses(f, "a dimension of `T` is negative"));
  f.allocs[0].shape[0] = make::cast({}, make::load(f.params[0].decl.buffer, {0, 0}));
  CHECK(refuses(f, "the shape of `T` reads a buffer"));
  f = matmul();
  f.allocs[0].layout = IndexMap{{make_var("a")}, {1}, 0};
  CHECK(refuses(f, "the layout of `T` has 1 indices, its shape 2"));
  f = matmul();
  f.allocs[0].align = {{1, 8, 3}};
  CHECK_NOTHROW(check_well_formed(f));
  for (const StrideAlign& a : {StrideAlign{2, 8, 3}, StrideAlign{1, 0, 0}, StrideAlign{1, 8, 8}}) {
    f.allocs[0].align = {a};
    CHECK(refuses(f, "the alignment of `T` is of no dimension, or no remainder of its factor"));
  }
  f = matmul();
  f.params[0].decl.align = {{0, 8, 3}};
  CHECK(refuses(f, "parameter `A` has an alignment"));
}

TEST_CASE("types, where a rewriter kept a node's old one") {
  const auto retyped = [](const char* kind, Type type) {
    return with_exprs(matmul(), [=](const Expr& e) {
      const bool chosen = (std::string(kind) == "load" && e.as<Load>()) ||
                          (std::string(kind) == "mul" && e.as<Binary>()) ||
                          (std::string(kind) == "float" && e.as<FloatImm>()) ||
                          (std::string(kind) == "var" && e.as<VarRef>());
      return chosen ? Expr(std::make_shared<const ExprNode>(type, e->v)) : e;
    });
  };
  CHECK(refuses(retyped("load", {DType::f64}), "the load must be f32, this is f64"));
  CHECK(refuses(retyped("mul", {DType::f64}), "the result must be f32, this is f64"));
  CHECK(refuses(retyped("float", {DType::i32}), "a float literal of type i32"));
  CHECK(refuses(retyped("var", {DType::i32}), "the variable must be i64, this is i32"));

  const auto evaluates = [](Stmt s) {
    PrimFunc f = matmul();
    f.body = make::seq({f.body, std::move(s)});
    return f;
  };
  PrimFunc f = matmul();
  const Buffer y = f.params[2].decl.buffer, a = f.params[0].decl.buffer;
  const auto store = [&](Expr value) {
    PrimFunc g = f;
    g.body = make::store(y, {0, 0}, std::move(value));
    return g;
  };
  CHECK(refuses(store(make::imm(1, {DType::f32, 8})), "the value must be f32, this is f32x8"));
  CHECK(refuses(evaluates(make::evaluate(make::call(Intrinsic::exp, {make::float_imm(1, {DType::f32})}))),
                "only sync(), prefetch"));
  CHECK_NOTHROW(check_well_formed(evaluates(make::evaluate(make::call(Intrinsic::sync, {})))));
  CHECK(refuses(store(make::cast({DType::f32}, make::call(Intrinsic::sync, {}))), "`sync` is a statement"));
  CHECK(refuses(store(make::cast({DType::f32}, make::call(Intrinsic::exp, {Expr(1)}))),
                "`exp` needs floats, this is i64"));
  CHECK(refuses(store(make::cast({DType::f32}, make::int_imm(300, {DType::u8}))), "300 doesn't fit into u8"));
}

TEST_CASE("what misses a child is refused, not followed") {
  PrimFunc f = matmul();
  f.body = Stmt();
  CHECK(refuses(f, "the function has no body"));
  f = with_exprs(matmul(), [](const Expr& e) { return e.as<FloatImm>() ? Expr() : e; });
  CHECK(refuses(f, "an expression is missing"));
  f = with_exprs(matmul(), [](const Expr& e) { return e.as<Load>() ? Expr() : e; });
  CHECK(refuses(f, "an expression is missing"));
}

// The printer's look, its names, marks and keys.
#include "nestor/print.h"

#include <limits>

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/walk.h"

using namespace nestor;

namespace {

const Type f32{DType::f32, 1};

Expr i64_var(const char* name) {
  return make_var(name);
}

// for NAME in n { B[NAME] = A[NAME] }
Stmt copy_loop(const std::string& name, const Buffer& from, const Buffer& to, int64_t extent = 8) {
  Var i = make_var(name);
  return make::loop(i, extent, make::store(to, {i}, make::load(from, {i})));
}

PrimFunc copy_func(std::vector<Stmt> body, const Buffer& a, const Buffer& b) {
  return {"f",
          {},
          {{Role::in, {a, {8}, Scope::global, {}}}, {Role::out, {b, {8}, Scope::global, {}}}},
          {},
          make::seq(std::move(body))};
}

// The convolution from the README's first page.
constexpr const char* kConv =
    R"(func conv2d_bias_relu(in X: f32[1,64,56,56], const W: f32[64,64,3,3], const B: f32[64], out Y: f32[1,64,56,56]) {
  alloc P: f32[1,64,58,58]
  alloc T: f32[1,64,56,56]
  for n in 1, c in 64, h in 58, w in 58 {
    block P(vn: S 1 = n, vc: S 64 = c, vh: S 58 = h, vw: S 58 = w) {
      P[vn,vc,vh,vw] = if 1 <= vh && vh < 57 && 1 <= vw && vw < 57 then X[vn,vc,vh-1,vw-1] else 0.0f32
    }
  }
  for n in 1, o in 64, y in 56, x in 56, c in 64, r in 3, s in 3 {
    block T(vn: S 1 = n, vo: S 64 = o, vy: S 56 = y, vx: S 56 = x, vc: R 64 = c, vr: R 3 = r, vs: R 3 = s) {
      init { T[vn,vo,vy,vx] = 0.0f32 }
      T[vn,vo,vy,vx] += P[vn,vc,vy+vr,vx+vs] * W[vo,vc,vr,vs]
    }
  }
  for n in 1, o in 64, y in 56, x in 56 {
    block Y(vn: S 1 = n, vo: S 64 = o, vy: S 56 = y, vx: S 56 = x) {
      Y[vn,vo,vy,vx] = max(0.0f32, T[vn,vo,vy,vx] + B[vo])
    }
  }
}
)";

}  // namespace

TEST_CASE("a convolution prints as it is written") {
  CHECK(print(parse_func(kConv)) == kConv);
}

TEST_CASE("expressions print with the fewest parentheses") {
  using namespace make;
  Expr a = i64_var("a"), b = i64_var("b"), c = i64_var("c");
  const auto bin = [](BinaryOp op, Expr x, Expr y) { return binary(op, std::move(x), std::move(y)); };
  using enum BinaryOp;
  CHECK(print(bin(add, bin(add, a, b), c)) == "a + b + c");
  CHECK(print(bin(add, a, bin(add, b, c))) == "a + (b + c)");
  CHECK(print(bin(mul, bin(add, a, b), c)) == "(a + b) * c");
  CHECK(print(bin(add, bin(mul, a, b), c)) == "a * b + c");
  CHECK(print(bin(div, a, bin(mul, b, c))) == "a / (b * c)");
  CHECK(print(bin(eq, bin(lt, a, b), bin(lt, b, c))) == "(a < b) == (b < c)");
  CHECK(print(bin(logical_or, bin(logical_and, bin(lt, a, b), bin(lt, b, c)), bin(eq, a, c))) ==
        "a < b && b < c || a == c");
  CHECK(print(bin(logical_and, bin(lt, a, b), bin(logical_or, bin(lt, b, c), bin(eq, a, c)))) ==
        "a < b && (b < c || a == c)");
  CHECK(print(bin(shl, bin(bit_and, a, b), bin(sub, b, c))) == "(a & b) << b - c");
  CHECK(print(bin(sub, a, -5)) == "a - (-5)");
  CHECK(print(bin(sub, a, unary(UnaryOp::neg, b))) == "a - (-b)");
  CHECK(print(unary(UnaryOp::neg, 5)) == "-(5)");
  CHECK(print(unary(UnaryOp::neg, unary(UnaryOp::neg, a))) == "-(-a)");
  CHECK(print(unary(UnaryOp::neg, bin(add, a, b))) == "-(a + b)");
  CHECK(print(bin(max, bin(add, a, b), c)) == "max(a + b, c)");
  Expr choice = select(bin(lt, a, b), a, b);
  CHECK(print(bin(add, choice, c)) == "(if a < b then a else b) + c");
  CHECK(print(select(bin(lt, a, c), choice, choice)) ==
        "if a < c then (if a < b then a else b) else if a < b then a else b");
}

TEST_CASE("float literals are the shortest that read back, with their type") {
  const auto text = [](double v, DType t) { return print(make::float_imm(v, {t, 1})); };
  CHECK(text(0, DType::f32) == "0.0f32");
  CHECK(text(-0.0, DType::f32) == "-0.0f32");
  CHECK(text(0.1, DType::f32) == "0.1f32");
  CHECK(text(0.1, DType::f64) == "0.1f64");
  CHECK(text(0.1, DType::f16) == "0.1f16");
  CHECK(text(0.1, DType::bf16) == "0.1bf16");
  CHECK(text(1e-45, DType::f32) == "1e-45f32");
  CHECK(text(16777216, DType::f32) == "16777216.0f32");
  CHECK(text(std::numeric_limits<double>::infinity(), DType::f32) == "inf_f32");
  CHECK(text(-std::numeric_limits<double>::infinity(), DType::bf16) == "-inf_bf16");
  CHECK(text(std::numeric_limits<double>::quiet_NaN(), DType::f64) == "nan_f64");
  CHECK(print(make::int_imm(3, {DType::i32, 1})) == "3i32");
  CHECK(print(make::bool_imm(true)) == "true");
}

TEST_CASE("siblings may share a loop name, a path may not") {
  Buffer a = make_buffer("A", f32), b = make_buffer("B", f32);
  PrimFunc siblings = copy_func({copy_loop("i", a, b), copy_loop("i", a, b)}, a, b);
  CHECK(print(siblings).find("i_1") == std::string::npos);

  PrimFunc nested =
      copy_func({make::loop(make_var("i"), 2, make::loop(make_var("i_1"), 2, copy_loop("i", a, b)))}, a, b);
  const std::string text = print(nested);
  CHECK(text.find("for i in 2, i_1 in 2, i_2 in 8 {\n    B[i_2] = A[i_2]") != std::string::npos);
  CHECK(print(parse_func(text)) == text);
  CHECK(structural_equal(parse_func(text), nested));
}

TEST_CASE("clashing and odd names of buffers, blocks and variables get legal ones") {
  Buffer a = make_buffer("for", f32), b = make_buffer("for", f32), c = make_buffer("layer1/conv:0", f32);
  Var i = make_var("in");
  const auto block = [&](const Buffer& to) {
    Var v = make_var("in");
    return make::block({make_block_id("T"),
                        {{v, IterKind::spatial, 8, i}},
                        {},
                        {},
                        make::store(to, {v}, make::load(a, {v})),
                        {}});
  };
  PrimFunc f = copy_func({make::loop(i, 8, make::seq({block(b), block(c)}))}, a, b);
  f.allocs.push_back({c, {8}, Scope::global, {}});
  const std::string text = print(f);
  CHECK(text.find("in for_1: f32[8], out for_2: f32[8]") != std::string::npos);
  CHECK(text.find("alloc layer1_conv_0: f32[8]") != std::string::npos);
  CHECK(text.find("block T(in_2: S 8 = in_1)") != std::string::npos);
  CHECK(text.find("block T_1(") != std::string::npos);
  CHECK(print(parse_func(text)) == text);
  CHECK(structural_equal(parse_func(text), f));
}

TEST_CASE("spans tell where each node was printed") {
  PrimFunc f = parse_func(kConv);
  const Printed printed = print_with_spans(f);
  const auto& second = f.body.as<Seq>()->stmts[1];
  CHECK(printed.spans.at(second.get()).line == 9);
  CHECK(printed.spans.at(second.get()).column == 3);
  CHECK(printed.spans.at(second.get()).length == 10);  // for n in 1
  const Stmt inner = second.as<For>()->body;
  CHECK(printed.spans.at(inner.get()).column == 15);  // o in 64, on the same line
  CHECK(printed.spans.at(inner.get()).length == 7);
}

TEST_CASE("marked nodes are underlined") {
  PrimFunc f = parse_func(R"(func f(in A: f32[8], out B: f32[8]) {
  for i in 8 {
    block B(v: S 8 = i) {
      B[v] = A[v] + A[v*2]
    }
  }
})");
  const Stmt loop = f.body;
  const auto* block = loop.as<For>()->body.as<Block>();
  const auto* sum = block->body.as<Store>()->value.as<Binary>();
  CHECK(print_marked(f, {loop.get(), sum->a.get(), sum->b.get()}) == R"(func f(in A: f32[8], out B: f32[8]) {
  for i in 8 {
  ^~~~~~~~~~
    block B(v: S 8 = i) {
      B[v] = A[v] + A[v*2]
             ^~~~   ^~~~~~
    }
  }
})");
}

TEST_CASE("a long function is cut to what is marked and what encloses it") {
  Buffer a = make_buffer("A", f32), b = make_buffer("B", f32);
  std::vector<Stmt> body;
  for (int i = 0; i < 20; ++i) body.push_back(copy_loop("i", a, b, i + 1));
  PrimFunc f = copy_func(body, a, b);
  CHECK(print_marked(f, {body[10].as<For>()->body.get()}) == R"(func f(in A: f32[8], out B: f32[8]) {
  ...
  }
  for i in 11 {
    B[i] = A[i]
    ^~~~~~~~~~~
  }
  for i in 12 {
    ...)");
}

TEST_CASE("workload keys ignore all names but those of loops and blocks") {
  const auto key = [](const std::string& name, const std::string& buffer, const std::string& loop,
                      const std::string& block, const std::string& iterator, const std::string& value) {
    return workload_key(parse_func("func " + name + "(in " + buffer + ": f32[8], out Y: f32[8]) { for " +
                                   loop + " in 8 { block " + block + "(" + iterator + ": S 8 = " + loop +
                                   ") { Y[" + iterator + "] = " + buffer + "[" + iterator + "] + " + value +
                                   " } } }"));
  };
  const std::string expected = key("f", "X", "i", "T", "v", "1.0f32");
  CHECK(expected == "8b1d4ad332980b936670cf2bfd50f051");  // the same on every platform
  CHECK(key("g", "X", "i", "T", "v", "1.0f32") == expected);
  CHECK(key("f", "Image", "i", "T", "v", "1.0f32") == expected);
  CHECK(key("f", "X", "i", "T", "k", "1.0f32") == expected);
  CHECK(key("f", "X", "j", "T", "v", "1.0f32") != expected);
  CHECK(key("f", "X", "i", "U", "v", "1.0f32") != expected);
  CHECK(key("f", "X", "i", "T", "v", "2.0f32") != expected);
}

#include "nestor/simplify.h"

#include "catch.h"
#include "nestor/parse.h"
#include "nestor/print.h"

using namespace nestor;

namespace {

// Variables with their usual ranges: i0 i1 as a split loop, x y z small, n symbolic and positive, u
// unbounded.
struct Vars {
  std::vector<Var> all;
  Facts facts;
  Vars() {
    add("i0", {0, 4});
    add("i1", {0, 13});
    add("x", {0, 1000});
    add("y", {0, 7});
    add("z", {-20, 20});
    add("n", {1, Interval::kMax});
    add("u", {});
    add("o", {0, 1});
    add("l", {0, 15});
  }
  void add(const char* name, Interval r) {
    all.push_back(make_var(name));
    facts.set(all.back(), r);
  }
};

std::string without_spaces(std::string s) {
  std::erase(s, ' ');
  return s;
}

// The simplified text, without spaces.
std::string simple(const std::string& text, const std::vector<std::string>& assumed = {}) {
  Vars v;
  for (const std::string& a : assumed) v.facts.assume(parse_expr(a, v.all));
  const Expr out = simplify(parse_expr(text, v.all), v.facts);
  CHECK(simplify(out, v.facts).same_as(out));
  return without_spaces(print(out));
}

}  // namespace

TEST_CASE("sums join terms and keep the order of writing") {
  CHECK(simple("x + y + x") == "x*2+y");
  CHECK(simple("(x + 3) * 4 - x - 12") == "x*3");
  CHECK(simple("58 - x") == "58-x");
  CHECK(simple("0 - x + y") == "y-x");
  CHECK(simple("x*n - n*x") == "0");
  CHECK(simple("u*2*n") == "u*n*2");
}

TEST_CASE("quotients and remainders by constants") {
  CHECK(simple("(u*32 + y) / 32") == "u");
  CHECK(simple("(u*8 + y) % 8") == "y");
  CHECK(simple("(u*8 + y) / 32") == "u/4");
  CHECK(simple("(u*8 + y) % 32") == "u%4*8+y");
  CHECK(simple("(x/56)*56 + x%56") == "x");
  CHECK(simple("x - x/8*8") == "x%8");
  CHECK(simple("u/4/8") == "u/32");
  CHECK(simple("(u%32)/8") == "u/8%4");
  CHECK(simple("u%32%8") == "u%8");
  CHECK(simple("u/32*32 + u%32/8*8 + u%8") == "u");
  CHECK(simple("u/32*4 + u/8%4") == "u/8");
  CHECK(simple("(u + 35) / 32") == "(u+3)/32+1");
  CHECK(simple("(z*4 + 2) / 4") == "z");
  CHECK(simple("(u*6 + 4) % 8") == "(u*3+2)%4*2");
  CHECK(simple("x / 1001") == "0");
  CHECK(simple("(z - 30) / 64") == "-1");
  CHECK(simple("(u + 5) / (0-3)") == "(1-u)/3-2");
  CHECK(simple("(i0*14 + i1) / 14") == "i0");
  CHECK(simple("(u*n + y*0) / n") == "u");
}

TEST_CASE("what is padded to a multiple is a quotient times it") {
  CHECK(simple("n + (0-n)%4") == "(n+3)/4*4");
  CHECK(simple("n + (4 - n%4)%4") == "(n+3)/4*4");
  CHECK(simple("(n + (0-n)%4) / 4") == "(n+3)/4");
  CHECK(simple("n + (2-n)%4") == "(n+1)/4*4+2");
  CHECK(simple("n*3 + (0-n)%4*3 + x") == "(n+3)/4*12+x");
  CHECK(simple("n + (n/2)%4") == "n+n/2%4");
}

TEST_CASE("digits of a symbolic size") {
  CHECK(simple("u/n*n + u%n") == "u");
  CHECK(simple("x%n < n") == "true");
  CHECK(simple("x%n < n + y") == "true");
  CHECK(simple("x%n < n - 1") == "x%n<n-1");
  CHECK(simple("x/n < y", {"x < y*n"}) == "true");
  CHECK(simple("x/n < y + 1", {"x < (y + 1)*n"}) == "true");
  CHECK(simple("x/(n*3) < y", {"x < y*(n*3)"}) == "true");
  CHECK(simple("x/n < y", {"x < y*n + 1"}) == "x/n<y");
  CHECK(simple("x%n >= 0") == "true");
  CHECK(simple("x < y*n*3", {"x < y*(n*3)"}) == "true");
  CHECK(simple("x < y*(n*3)", {"x < y*n*3"}) == "true");
  CHECK(simple("x/(n*3) - y < 0", {"x - y*n*3 < 0"}) == "true");
  CHECK(simple("u/(n*3) < y", {"u < y*(n*3)"}) == "true");
  CHECK(simple("u%z < z") == "u%z<z");  // z may be negative
}

TEST_CASE("a tile that is full is full in smaller tiles, too") {
  const auto in_tile = [](const char* e) { return simple(e, {"u < (n + 3)/24"}); };
  CHECK(in_tile("u*6 < (n + 3)/4 - 5") == "true");
  CHECK(in_tile("u*6 + 5 < (n + 3)/4") == "true");
  CHECK(in_tile("u*6 + 6 <= (n + 3)/4") == "true");
  CHECK(in_tile("u*6 + 5 >= (n + 3)/4") == "false");
  CHECK(in_tile("(n + 3)/4 > u*6 + 5") == "true");
  CHECK(in_tile("u*6 + 6 < (n + 3)/4") != "true");
  CHECK(in_tile("u*3 + 2 < (n + 3)/8") == "true");
  CHECK(in_tile("u*5 + 4 < (n + 3)/5") != "false");
}

TEST_CASE("comparisons are decided by ranges and assumptions, and reduced where they stay") {
  CHECK(simple("x < 1001") == "true");
  CHECK(simple("x + 1 <= x") == "false");
  CHECK(simple("1 <= u && u < 57") == "1<=u&&u<57");
  CHECK(simple("u*2 < 7") == "u<4");
  CHECK(simple("u*2 == 7") == "false");
  CHECK(simple("u + 3 < 10") == "u<7");
  CHECK(simple("u*32 + o*16 + l < 64") == "u<2");
  CHECK(simple("u/8 < 4") == "u<32");
  CHECK(simple("u/8 <= 4") == "u<40");
  CHECK(simple("u/8 > 4") == "u>=40");
  CHECK(simple("4 > u/8") == "32>u");
  CHECK(simple("i0*14 + i1 < 57") == "i0*14+i1<57");
  CHECK(simple("i0*14 + i1 < 57", {"i0*14 + i1 < 57"}) == "true");
  CHECK(simple("i0*14 + i1 + 3 <= 60", {"i0*14 + i1 < 57"}) == "true");
  CHECK(simple("u < n", {"u < n"}) == "true");
  CHECK(simple("u - 1 < n", {"u < n"}) == "true");
  CHECK(simple("u < x", {"u < y", "y <= x"}) == "true");
  CHECK(simple("u == 3", {"u >= 3 && u <= 3"}) == "true");
  CHECK(simple("u%8 < 4", {"u%8 < 3"}) == "true");
}

TEST_CASE("logic knows what stands to its left") {
  CHECK(simple("u < 5 && u < 10") == "u<5");
  CHECK(simple("u < 10 && u < 5") == "u<5");
  CHECK(simple("u < 5 && u > 7") == "false");
  CHECK(simple("u < 5 || u >= 5") == "true");
  CHECK(simple("!(u < 5)") == "u>=5");
  CHECK(simple("!!(u*n < 5)") == "u*n<5");
  CHECK(simple("if u < 5 then min(u, 7) else 3") == "ifu<5thenuelse3");
  CHECK(simple("if x >= 0 then y else z") == "y");
  CHECK(simple("if u < 5 then y else y") == "y");
  CHECK(simple("if u < 5 then (u < 9) else false") == "u<5");
}

TEST_CASE("min and max") {
  CHECK(simple("min(x, 2000)") == "x");
  CHECK(simple("max(x, y - 8)") == "x");
  CHECK(simple("min(x + 3, x + 1)") == "x+1");
  CHECK(simple("min(min(u, 7), 5)") == "min(u,5)");
  CHECK(simple("max(0, u)") == "max(u,0)");
  CHECK(simple("min(14, 57 - i0*14)", {"i0 < 4"}) == "14");
  CHECK(simple("min(min(u, n), u)") == "min(u,n)");
  CHECK(simple("max(u, max(n, u + 1))") == "max(n,u+1)");
  CHECK(simple("min(min(n/29, u), n/29 + 1)") == "min(n/29,u)");
}

TEST_CASE("quotients of neighbours") {
  CHECK(simple("(n + 28)/29 - n/29 <= 1") == "true");
  CHECK(simple("(n + 28)/29 >= n/29") == "true");
  CHECK(simple("(n + 28)/29 - 1 <= n/29") == "true");
  CHECK(simple("min(min(min(n/29, (n + 28)/29 - 1), n/29), (n + 28)/29)") == "(n+28)/29-1");
  CHECK(simple("(n + 58)/29 - n/29 > 2") == "false");
  CHECK(simple("(n + 58)/29 - n/29 > 1") == "true");
  CHECK(simple("(n + x)/8 >= n/8") == "true");
  CHECK(simple("(n + z)/8 >= n/8") != "true");
}

TEST_CASE("floats fold only where every bit is kept") {
  const auto f = [](const std::string& text) {
    const std::vector<Var> vars = {make_var("a", {DType::f32}), make_var("b", {DType::f32})};
    return without_spaces(print(simplify(parse_expr(text, vars))));
  };
  CHECK(f("a * 1.0f32") == "a");
  CHECK(f("a / 1.0f32") == "a");
  CHECK(f("a + 0.0f32") == "a+0.0f32");  // -0.0 would become 0.0
  CHECK(f("a - 0.0f32") == "a");
  CHECK(f("a - a") == "a-a");  // NaN
  CHECK(f("a * 0.0f32") == "a*0.0f32");
  CHECK(f("0.1f32 + 0.2f32") == print(make::float_imm(static_cast<double>(0.1f + 0.2f), {DType::f32})));
  CHECK(f("!(a < b)") == "!(a<b)");
  CHECK(f("!(a == b)") == "a!=b");
  CHECK(f("f32(3)") == "3.0f32");
  CHECK(f("max(a, a)") == "a");
  CHECK(f("127i8 + 1i8") == "-128i8");
}

TEST_CASE("vectors: the lane is a variable") {
  CHECK(simple("x4(u) + ramp(0, 1, 4)") == "ramp(u,1,4)");
  CHECK(simple("x4(u) * x4(y) + x4(2)") == "x4(u*y+2)");
  CHECK(simple("ramp(u*16, 1, 16) / x16(16)") == "x16(u)");
  CHECK(simple("ramp(u*32 + o*16, 1, 16) / x16(32)") == "x16(u)");
  CHECK(simple("ramp(u*32 + o*16, 1, 16) % x16(32)") == "ramp(o*16,1,16)");
  CHECK(simple("ramp(0, 8, 4) / x4(4)") == "ramp(0,2,4)");
  CHECK(simple("ramp(u, n, 4) - x4(u)") == "ramp(0,n,4)");
  CHECK(simple("ramp(o*16, 1, 16) < x16(32)") == "x16(true)");
  CHECK(simple("ramp(u, 1, 16) < x16(57)") == "ramp(u,1,16)<x16(57)");
  CHECK(simple("(ramp(u, 1, 4) / x4(3)) * x4(3) + ramp(u, 1, 4) % x4(3)") == "ramp(u,1,4)");
  CHECK(simple("ramp(u, 1, 4) / x4(3) + x4(1)") == "x4(1)+ramp(u,1,4)/x4(3)");
}

TEST_CASE("affine forms") {
  Vars v;
  const auto a = as_affine(parse_expr("(x - y*2)*3 + 4 - x", v.all));
  REQUIRE(a);
  CHECK(a->constant == 4);
  CHECK(coefficient(*a, v.all[2]) == 2);
  CHECK(coefficient(*a, v.all[3]) == -6);
  CHECK(coefficient(*a, v.all[4]) == 0);
  CHECK_FALSE(as_affine(parse_expr("x*y", v.all)));
  CHECK_FALSE(as_affine(parse_expr("x/2", v.all)));
  const Interval r = range_of(parse_expr("(x + y)/2 - 3", v.all), v.facts);
  CHECK(r.lo == -3);
  CHECK(r.hi == 500);
}

TEST_CASE("statements: ranges of loops, branches, empty loops") {
  const auto s = [](const std::string& body) {
    const PrimFunc f = parse_func("func f[N](in X: f32[N], out Y: f32[N]) {\n" + body + "\n}");
    const PrimFunc g = simplify(f);
    CHECK(simplify(g).body.same_as(g.body));
    return print(g.body);
  };
  CHECK(s("for i in 4, j in 8 { if i*8 + j < 32 { Y[(i*8+j)/8] = X[(i*8+j)%8] } }") ==
        s("for i in 4, j in 8 { Y[i] = X[j] }"));
  CHECK(s("for i in N { if i < N { Y[i] = X[i] } else { Y[0] = X[i] } }") == s("for i in N { Y[i] = X[i] }"));
  CHECK(s("for i in 0 { Y[i] = X[i] } Y[1] = X[1]") == s("Y[1] = X[1]"));
  CHECK(s("for i in 5 { if i == 3 { Y[i] = X[i*2] } }") == s("for i in 5 { if i == 3 { Y[3] = X[6] } }"));
  CHECK(s("for i in 5 { if i < 3 { if i < 4 { Y[i] = X[i] } } else { if i >= 2 { Y[i] = X[0] } } }") ==
        s("for i in 5 { if i < 3 { Y[i] = X[i] } else { Y[i] = X[0] } }"));
  CHECK(s("for n in 1, i in 4 { block Y(vn: S 1 = n, vi: S 4 = n*4 + i) { Y[vn*4 + vi] = X[vi] } }") ==
        s("for n in 1, i in 4 { block Y(vn: S 1 = n, vi: S 4 = i) { Y[vn*4 + vi] = X[vi] } }"));
  CHECK(s("let v = 3 { Y[v] = X[v+1] }") == s("Y[3] = X[4]"));
  CHECK(s("Y[ramp(0, 1, 4)] mask (ramp(0, 1, 4) < x4(7)) = X[ramp(1, 1, 4)] mask (ramp(1, 1, 4) < x4(5))") ==
        s("Y[ramp(0, 1, 4)] = X[ramp(1, 1, 4)]"));
}

TEST_CASE("unit loops go when asked") {
  const PrimFunc f = parse_func("func f(out Y: f32[4]) { for n in 1, i in 4 { Y[n*4+i] = 0.0f32 } }");
  CHECK(print(simplify(f).body) ==
        print(parse_func("func f(out Y: f32[4]) { for n in 1, i in 4 { Y[i] = 0.0f32 } }").body));
  CHECK(print(simplify(f, {.drop_unit_loops = true}).body) ==
        print(parse_func("func f(out Y: f32[4]) { for i in 4 { Y[i] = 0.0f32 } }").body));
}

TEST_CASE("facts that come later count") {
  const Var x = make_var("x"), y = make_var("y"), z = make_var("z");
  Facts facts;
  facts.set(x, {0, 9});
  facts.assume(le(Expr(x) + Expr(y), 20));
  const auto holds = [&](const Expr& e) { return can_prove(e, facts); };
  CHECK(holds(le(Expr(y), 20)));
  CHECK_FALSE(holds(le(Expr(y), 17)));
  facts.set(x, {3, 9});  // of the assumption
  CHECK(holds(le(Expr(y), 17)));
  facts.set(x, {0, 9});
  CHECK_FALSE(holds(le(Expr(y), 17)));
  facts.set(z, {0, 1});  // of none
  CHECK(holds(lt(Expr(z), 2)));
  CHECK(holds(le(Expr(y), 20)));
  facts.assume(le(Expr(y), 5));
  CHECK(holds(le(Expr(y), 5)));
  Facts other = facts;
  other.assume(ge(Expr(y), 5));
  CHECK(is_const_int(simplify(Expr(y), other), 5));
  CHECK_FALSE(holds(ge(Expr(y), 5)));
}

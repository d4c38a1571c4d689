// Random integer and bool expressions: simplify keeps the value at every point tried, is idempotent, and
// ranges hold.
#include <cstring>

#include "catch.h"
#include "nestor/check.h"
#include "nestor/interpret.h"
#include "nestor/print.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "random_index.h"
#include "random_ir.h"
#include "tests/codegen/random_function.h"

using namespace nestor;

namespace {

using testing::RandomIndex;

// The lanes of e (i64 or bool) at a point, by the interpreter.
std::vector<int64_t> values(const Expr& e, const RandomIndex& g, const std::vector<int64_t>& point) {
  const int lanes = e.type().lanes;
  Buffer y = make_buffer("Y", {e.dtype(), 1});
  const Expr at = lanes == 1 ? Expr(0) : make::ramp(Expr(0), Expr(1), lanes);
  Stmt body = make::store(y, {at}, e);
  for (size_t i = g.vars.size(); i-- > 0;) body = make::let_stmt(g.vars[i], Expr(point[i]), body);
  PrimFunc f{"f", {}, {{Role::out, {y, {Expr(lanes)}, Scope::global, {}}}}, {}, body};
  std::vector<Tensor> args = {Tensor(e.dtype(), {lanes})};
  interpret(f, args);
  std::vector<int64_t> out;
  for (int l = 0; l < lanes; ++l) out.push_back(args[0].get_int(l));
  return out;
}

void check(uint64_t seed) {
  RandomIndex g(seed);
  Facts facts;
  for (size_t i = 0; i < g.vars.size(); ++i) facts.set(g.vars[i], g.ranges[i]);
  Expr e = g.pick(3) ? g.number(4) : g.condition(3);
  if (g.pick(4) == 0) e = g.widened(e, g.pick(2) ? 4 : 16);
  Expr assumed;
  if (g.pick(3) == 0) facts.assume(assumed = g.condition(1));

  const Expr s = simplify(e, facts);
  INFO("seed " << seed << ": " << print(e) << "\n  became " << print(s)
               << (assumed ? "\n  assuming " + print(assumed) : ""));
  const Expr again = simplify(s, facts);
  INFO("again: " << print(again));
  REQUIRE(s.type() == e.type());
  REQUIRE(again.same_as(s));
  const bool ranged = e.type() == Type{};
  const Interval range = ranged ? range_of(e, facts) : Interval{};
  for (int k = 0; k < 12; ++k) {
    const std::vector<int64_t> at = g.point();
    if (assumed && !values(assumed, g, at)[0]) continue;
    const std::vector<int64_t> want = values(e, g, at);
    REQUIRE(values(s, g, at) == want);
    if (ranged) REQUIRE((range.lo <= want[0] && want[0] <= range.hi));
  }
}

// Loops and lets over the variables from `level` on, guards between them, and marks left in Y where they let
// through.
Stmt guarded_loops(RandomIndex& g, const Buffer& y, size_t level) {
  g.usable = level;
  const auto mark = [&] {
    const Expr at = make::binary(BinaryOp::mod, g.number(2), Expr(64));
    return make::update(ReduceOp::add, y, {at}, g.number(3));
  };
  if (level > 0 && g.pick(3) == 0) {
    const Expr guard = g.condition(2);
    const Stmt other = g.pick(2) ? mark() : Stmt();
    return make::if_then(guard, guarded_loops(g, y, level), other);
  }
  if (level == g.vars.size()) return g.pick(2) ? mark() : make::if_then(g.condition(2), mark(), mark());
  if (g.pick(5) == 0) {
    const Expr value = g.number(2);
    return make::let_stmt(g.vars[level], value, guarded_loops(g, y, level + 1));
  }
  const Expr extent = g.pick(4) ? Expr(1 + g.pick(5)) : make::binary(BinaryOp::min, g.number(1), Expr(4));
  return make::loop(g.vars[level], extent, guarded_loops(g, y, level + 1));
}

PrimFunc random_loops(RandomIndex& g) {
  Buffer y = make_buffer("Y", {DType::i64, 1});
  Var i = make_var("i");
  Stmt clear = make::loop(i, Expr(64), make::store(y, {i}, Expr(0)));
  return {"f",
          {},
          {{Role::out, {y, {Expr(64)}, Scope::global, {}}}},
          {},
          make::seq({clear, guarded_loops(g, y, 0)})};
}

void check_same_results(const PrimFunc& f, const PrimFunc& g, uint64_t seed) {
  std::vector<Tensor> a = random_args(f, seed), b = random_args(f, seed);
  interpret(f, a);
  interpret(g, b);
  for (size_t p = 0; p < a.size(); ++p)
    REQUIRE(std::memcmp(a[p].data(), b[p].data(), static_cast<size_t>(a[p].bytes())) == 0);
}

}  // namespace

TEST_CASE("simplify keeps values and is idempotent on random expressions") {
  for (uint64_t seed = 1; seed <= 4000; ++seed) check(seed);
}

TEST_CASE("simplify keeps what loops and branches do") {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    RandomIndex g(seed);
    const PrimFunc f = random_loops(g);
    const PrimFunc s = simplify(f, {.drop_unit_loops = seed % 2 == 0});
    INFO("seed " << seed << "\n" << print(f) << "became\n" << print(s));
    check_same_results(f, s, seed);
    const PrimFunc again = simplify(s, {.drop_unit_loops = seed % 2 == 0});
    INFO("again\n" << print(again));
    REQUIRE(again.body.same_as(s.body));
  }
}

TEST_CASE("simplify keeps every bit of every type") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const PrimFunc f = testing::random_function(seed);
    const PrimFunc s = simplify(f);
    INFO("seed " << seed << "\n" << print(f) << "became\n" << print(s));
    check_same_results(f, s, seed);
    REQUIRE(simplify(s).body.same_as(s.body));
  }
}

TEST_CASE("simplify leaves any function well formed, and is done after one run") {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const PrimFunc f = random_func(seed);
    const PrimFunc s = simplify(f);
    INFO("seed " << seed << "\n" << print(f) << "became\n" << print(s));
    check_well_formed(s);
    REQUIRE(simplify(s).body.same_as(s.body));
  }
}

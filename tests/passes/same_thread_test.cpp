// When two threads can't meet in an element: digits, quotients with their remainders, guards.
#include "src/passes/same_thread.h"

#include "catch.h"

using namespace nestor;
using namespace nestor::passes;

namespace {

// Threads ty of 3 and tx of 25, and a loop k of 2.
struct Threads {
  Var ty = make_var("ty"), tx = make_var("tx"), k = make_var("k");
  Facts facts;
  Threads() {
    facts.set(ty, {0, 2});
    facts.set(tx, {0, 24});
    facts.set(k, {0, 1});
  }
  Expr all() const { return Expr(ty) * 25 + tx; }
  // Two accesses to the place that those indices say; k runs in between.
  bool keep_apart(std::vector<Expr> indices) const {
    Access a;
    a.kind = AccessKind::write;
    a.indices = std::move(indices);
    a.facts = facts;
    return only_same_thread(a, a, {ty, tx}, {k});
  }
};

}  // namespace

TEST_CASE("Quotient and remainder of the threads' number tell threads apart") {
  const Threads t;
  CHECK(t.keep_apart({t.all()}));
  CHECK(t.keep_apart({t.all() / 8, t.all() % 8}));
  CHECK(t.keep_apart({t.all() / 8, (Expr(t.ty) + t.tx) % 8}));  // 25 and 1 are the same modulo 8
  CHECK(t.keep_apart({(Expr(t.k) * 75 + t.all()) / 12, (Expr(t.k) * 3 + t.ty + t.tx) % 12}));
  CHECK_FALSE(t.keep_apart({t.all() / 8, t.all() % 4}));
  CHECK_FALSE(t.keep_apart({t.all() / 8, (Expr(t.ty) * 3 + t.tx) % 8}));
  CHECK_FALSE(t.keep_apart({t.all() / 8}));
  CHECK_FALSE(t.keep_apart({(Expr(t.k) * 50 + t.all()) / 12, (Expr(t.k) * 2 + t.ty + t.tx) % 12}));
}

TEST_CASE("A guard that leaves a thread one value tells it") {
  Threads t;
  CHECK_FALSE(t.keep_apart({Expr(t.tx)}));
  t.facts.assume(lt(t.all(), 24));
  CHECK(t.keep_apart({Expr(t.tx)}));
  CHECK(t.keep_apart({Expr(t.tx) / 8, Expr(t.tx) % 8}));
}

TEST_CASE("Threads are counted where three numbers say which one it is") {
  const Threads t;
  // (all/12, all/4%3, all%4), with multiples of 3 and 4 left out of what is divided.
  const Expr low = Expr(t.ty) + t.tx, middle = (Expr(t.ty) * 6 + (Expr(t.ty) + t.tx) / 4) % 3;
  CHECK(t.keep_apart({t.all() / 12, middle, low % 4}));
  CHECK_FALSE(t.keep_apart({t.all() / 12, middle}));
  CHECK_FALSE(t.keep_apart({t.all() / 24, middle, low % 4}));
}

TEST_CASE("An element that one thread writes and all read isn't one thread's") {
  const Threads t;
  Access write, read;
  write.kind = AccessKind::write;
  read.kind = AccessKind::read;
  write.indices = read.indices = {Expr(t.k) * 3 + t.ty};
  write.facts = read.facts = t.facts;
  write.facts.assume(eq(t.tx, 0));
  CHECK(only_same_thread(write, write, {t.ty, t.tx}, {t.k}));
  CHECK_FALSE(only_same_thread(write, read, {t.ty, t.tx}, {t.k}));
}

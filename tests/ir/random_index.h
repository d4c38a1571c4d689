// Random index arithmetic over five variables with known ranges: sums, products, quotients, remainders,
// conditions.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "nestor/simplify.h"

namespace nestor::testing {

class RandomIndex {
 public:
  explicit RandomIndex(uint64_t seed) : rng_(seed) {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      vars.push_back(make_var(name));
      const int64_t lo = pick(3) == 0 ? -pick(40) : 0;
      const int64_t sizes[] = {0, 1, 3, 7, 13, 31, 99};
      ranges.push_back({lo, lo + sizes[pick(7)]});
    }
  }
  int64_t pick(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  int64_t constant() {
    const int64_t common[] = {0, 1, 2, 3, 4, 5, 7, 8, 14, 16, 32, 57, 64, -1, -3, -8};
    return common[pick(16)];
  }
  int64_t divisor() {
    const int64_t common[] = {1, 2, 3, 4, 7, 8, 14, 16, 32, 64, -2, -3, -8};
    return common[pick(20) < 17 ? pick(10) : pick(13)];
  }

  Expr number(int depth) {
    if (depth == 0 || pick(8) == 0)
      return usable > 0 && pick(3) ? Expr(vars[static_cast<size_t>(pick(static_cast<int64_t>(usable)))])
                                   : Expr(constant());
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
        return make::binary(BinaryOp::add, number(depth - 1), number(depth - 1));
      case 3:
        return make::binary(BinaryOp::sub, number(depth - 1), number(depth - 1));
      case 4:
      case 5:
        return make::binary(BinaryOp::mul, number(depth - 1), Expr(constant()));
      case 6:
        return make::binary(BinaryOp::mul, number(depth - 2 < 0 ? 0 : depth - 2), number(0));
      case 7:
      case 8:
        return make::binary(BinaryOp::div, number(depth - 1), Expr(divisor()));
      case 9:
        return make::binary(BinaryOp::mod, number(depth - 1), Expr(divisor()));
      case 10:
        return make::binary(pick(2) ? BinaryOp::min : BinaryOp::max, number(depth - 1), number(depth - 1));
      default:
        return make::select(condition(depth - 1), number(depth - 1), number(depth - 1));
    }
  }
  Expr condition(int depth) {
    if (depth <= 0 || pick(2)) {
      const auto op = static_cast<BinaryOp>(static_cast<int64_t>(BinaryOp::eq) + pick(6));
      return make::binary(op, number(std::max(depth, 1) - 1),
                          pick(2) ? Expr(constant()) : number(std::max(depth, 1) - 1));
    }
    switch (pick(4)) {
      case 0:
        return make::unary(UnaryOp::logical_not, condition(depth - 1));
      case 1:
        return make::binary(BinaryOp::logical_or, condition(depth - 1), condition(depth - 1));
      default:
        return make::binary(BinaryOp::logical_and, condition(depth - 1), condition(depth - 1));
    }
  }
  // The same shape of expression over vectors: the leaves become ramps and broadcasts.
  Expr widened(const Expr& e, int lanes) {
    if (const auto* b = e.as<Binary>())
      return make::binary(b->op, widened(b->a, lanes), widened(b->b, lanes));
    if (const auto* u = e.as<Unary>()) return make::unary(u->op, widened(u->a, lanes));
    if (const auto* s = e.as<Select>())
      return make::select(widened(s->cond, lanes), widened(s->a, lanes), widened(s->b, lanes));
    if (e.as<VarRef>() && pick(3) == 0) return make::ramp(e, Expr(constant()), lanes);
    return make::broadcast(e, lanes);
  }
  std::vector<int64_t> point() {
    std::vector<int64_t> out;
    for (const Interval& r : ranges) out.push_back(r.lo + pick(r.hi - r.lo + 1));
    return out;
  }

  std::vector<Var> vars;
  std::vector<Interval> ranges;
  size_t usable = 5;  // how many of vars, from the first, may be used

 private:
  std::mt19937_64 rng_;
};

}  // namespace nestor::testing

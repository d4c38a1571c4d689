// A sum whose terms are like the digits of a number, each coefficient larger than all that the smaller ones
// can add up to, determines its terms; and the digits of a number, from the last on without a gap, determine
// the number. Both are applied until nothing new is found.
#include "src/passes/digits.h"

#include <algorithm>

#include "nestor/walk.h"
#include "src/passes/linear.h"

namespace nestor::passes {

namespace {

// (of / divisor) % modulus; a modulus of 0: all that is left.
struct Digit {
  Expr of;
  int64_t divisor = 1, modulus = 0;
};

Digit digit_of(const Expr& e) {
  const auto* b = e.as<Binary>();
  const auto number = b ? as_int(b->b) : std::nullopt;
  if (!number || *number <= 1 || (b->op != BinaryOp::div && b->op != BinaryOp::mod)) return {e};
  const Digit d = digit_of(b->a);
  if (d.modulus != 0) return {e};
  return b->op == BinaryOp::div ? Digit{d.of, d.divisor * *number, 0} : Digit{d.of, d.divisor, *number};
}

bool are_whole(const std::vector<Digit>& digits, const Expr& number) {
  for (int64_t divisor = 1;;) {
    const auto next = std::find_if(digits.begin(), digits.end(), [&](const Digit& d) {
      return d.divisor == divisor && same_expr(d.of, number);
    });
    if (next == digits.end()) return false;
    if (next->modulus == 0) return true;
    divisor *= next->modulus;
  }
}

// The terms of a sum that determines them; none where it doesn't.
std::vector<Expr> terms_of(const Expr& e, const Facts& facts) {
  Linear sum = linear(e);
  std::sort(sum.terms.begin(), sum.terms.end(),
            [](const auto& a, const auto& b) { return std::abs(a.second) < std::abs(b.second); });
  std::vector<Expr> out;
  int64_t reach = 0;  // of the smaller terms
  for (const auto& [atom, coefficient] : sum.terms) {
    const Interval range = range_of(atom, facts);
    const bool bounded = range.lo > -(1 << 30) && range.hi < 1 << 30;
    if (std::abs(coefficient) <= reach || (!bounded && out.size() + 1 < sum.terms.size())) return {};
    if (bounded) reach += std::abs(coefficient) * (range.hi - range.lo);
    out.push_back(atom);
  }
  return out;
}

}  // namespace

bool determines(std::vector<Expr> known, const Var& v, const Facts& facts) {
  std::vector<Digit> digits;
  const auto is_known = [&](const Expr& e) {
    return std::any_of(known.begin(), known.end(), [&](const Expr& k) { return same_expr(k, e); });
  };
  for (size_t next = 0; next < known.size(); ++next) {
    const Expr e = known[next];
    if (const auto* r = e.as<VarRef>(); r && r->var == v) return true;
    for (const Expr& t : terms_of(e, facts))
      if (!is_known(t)) known.push_back(t);
    digits.push_back(digit_of(e));
    if (const Expr whole = digits.back().of; !is_known(whole) && are_whole(digits, whole))
      known.push_back(whole);
  }
  return false;
}

}  // namespace nestor::passes

// The arithmetic that expand_math puts in the place of a math function, and its constants.
#pragma once

#include <utility>
#include <vector>

#include "nestor/ir.h"

namespace nestor::passes {

// Builds an expansion: operations on vectors of some width, values used twice bound to variables.
class Expansion {
 public:
  // `table`: the numbers that a register holds and one instruction looks up; 0 where there is none.
  Expansion(int lanes, int table)
      : table_(table),
        f32_{DType::f32, lanes},
        f64_{DType::f64, lanes},
        i32_{DType::i32, lanes},
        i64_{DType::i64, lanes} {}

  Expr finish(Expr e) {
    for (size_t i = lets_.size(); i-- > 0;) e = make::let(lets_[i].first, lets_[i].second, std::move(e));
    lets_.clear();
    return e;
  }
  Expr name(const char* name, Expr value) {
    Var v = make_var(name, value.type());
    lets_.emplace_back(v, std::move(value));
    return v;
  }

  Expr exp(const Expr& x);
  Expr exp_nonpositive(const Expr& x);
  Expr expm1(const Expr& x);
  Expr log(const Expr& x);
  Expr log1p(const Expr& x);
  Expr tanh(const Expr& x);
  Expr sigmoid(const Expr& x);
  Expr erf(const Expr& x);
  Expr sin(const Expr& x);
  Expr cos(const Expr& x);
  Expr pow(const Expr& x, const Expr& y);

 private:
  struct ExpOptions {
    bool nonpositive = false;  // x is known not to be above 0: there is less to look after
    bool rough = false;        // n ln2 rounded at once, off by |x|/21 units of the last place
  };
  Expr exp(const Expr& x, ExpOptions options);

  Expr f(double v) const { return make::imm(v, f32_); }
  Expr d(double v) const { return make::imm(v, f64_); }
  Expr i(int64_t v) const { return make::broadcast(make::int_imm(v, {DType::i32, 1}), i32_.lanes); }
  Expr l(int64_t v) const { return make::broadcast(make::int_imm(v, {DType::i64, 1}), i64_.lanes); }
  static Expr fma(Expr a, Expr b, Expr c) {
    return make::call(Intrinsic::fma, {std::move(a), std::move(b), std::move(c)});
  }
  static Expr abs(Expr x) { return make::call(Intrinsic::abs, {std::move(x)}); }
  static Expr floor(Expr x) { return make::call(Intrinsic::floor, {std::move(x)}); }
  static Expr bit(BinaryOp op, Expr a, Expr b) { return make::binary(op, std::move(a), std::move(b)); }
  Expr to_f32(Expr bits) const { return make::bitcast(f32_, std::move(bits)); }

  Expr poly(const Expr& x, const std::vector<double>& c) const;
  Expr with_sign_of(Expr magnitude, const Expr& x) const;
  Expr poly_by_halves(const Expr& x, const Expr& x2, const std::vector<double>& c) const;
  Expr erf_by_tables(const Expr& x);
  Expr exp_minus_1(const Expr& x);
  Expr log_of(const Expr& m, const Expr& exponent) const;
  // x = n ln2 + r, where n is as fine as `magic`'s last place, and s the sum with it that rounds to n.
  struct Rounded {
    Expr s, n, r;
  };
  Rounded round_off(const Expr& x, double magic, bool rough);
  Expr exp_in_range(const Expr& x, ExpOptions options);
  Expr exp_by_small_table(const Expr& x, ExpOptions options);
  Expr exp_by_table(const Expr& x, ExpOptions options);
  struct Turn {
    Expr rest, whole;
  };
  Turn quarter_turns(const Expr& x);
  Expr sine(const Turn& t, int quarters);
  std::pair<Expr, Expr> split_exponent(const Expr& x);
  Expr log2_in_f64(const Expr& x);
  Expr exp2_in_f64(const Expr& t);

  int table_;
  Type f32_, f64_, i32_, i64_;
  std::vector<std::pair<Var, Expr>> lets_;
};

}  // namespace nestor::passes

// Bounds the rounding error of an expression: the part of error_bound.cpp for expressions.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nestor/walk.h"

namespace nestor::bound {

// Thrown where rounding may change more than digits.
struct Unbounded {
  std::string why;
};

// Of a float: its f64 value and the bound, both cheap to repeat; a null bound means exact. Of an integer:
// itself, with a bound where it was rounded from a float; of a bool: the value only.
struct Pair {
  Expr value, err;
};

// Values named so far, in order; later ones use earlier ones.
using Lets = std::vector<std::pair<Var, Expr>>;
Expr wrap(const Lets& lets, Expr body);

inline constexpr Type kF64{DType::f64, 1};
double unit_roundoff(DType t);
Expr f64(double v);
Expr abs_of(const Expr& e);
// Bounds, null meaning 0.
Expr plus(const Expr& a, const Expr& b);
Expr times(const Expr& a, const Expr& b);
Expr or_zero(const Expr& e);

class Expressions {
 public:
  // Where a float buffer's f64 values and its bounds are; a buffer without bounds is exact.
  BufferMap values, errors;
  // Buffers of integers that may have been rounded from floats; others of theirs are exact.
  std::unordered_set<Buffer> rounded;

  void begin_statement() { evaluated_ = 0; }
  Pair eval(const Expr& e, Lets& lets);
  Expr exact(const Expr& e, Lets& lets) {
    const Pair p = eval(e, lets);
    if (p.err && !is_float(e.dtype()))
      throw Unbounded{"an integer that was rounded, as an index or a choice"};
    return p.value;
  }
  std::vector<Expr> indices(const std::vector<Expr>& in, Lets& lets);

 private:
  Expr name(Lets& lets, const Expr& e, const char* prefix);
  Pair load(const Load& l, Lets& lets);
  Pair binary(const Expr& e, const Binary& b, Lets& lets);
  Pair select(const Select& s, Lets& lets);
  Pair cast(const Expr& e, const Cast& c, Lets& lets);
  Pair call(const Expr& e, const Call& c, Lets& lets);
  Pair pow(const Expr& value, const std::vector<Pair>& args, const Expr& math);
  Expr uncertain(const Expr& cond, Lets& lets);
  Expr certain_value(const Expr& cond, Lets& lets);

  std::unordered_map<Var, Pair> lets_;
  int next_ = 0;
  int evaluated_ = 0;
};

}  // namespace nestor::bound

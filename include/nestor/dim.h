// Sizes of tensors: numbers, or expressions over symbols whose values are known only when a model runs ("N",
// "2*N+1").
//
// Code that handles numbers handles symbolic sizes too, as far as it computes with them. Where it must have a
// number, the conversion to int64_t throws SymbolicSize: nothing goes wrong in silence. Comparisons:
//  - `==` says whether two sizes are equal whatever the symbols are. Sizes that aren't known to be equal
//  count
//    as different, so nothing may be concluded from `!=`. `must_equal` demands equality when the model runs.
//  - `<` and its kin are decided by ranges. What these leave open is decided as for typical sizes, and the
//    model's runs must agree (Symbols::requirements).
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nestor/error.h"
#include "nestor/ir.h"
#include "nestor/simplify.h"
#include "nestor/tensor.h"

namespace nestor {

// A number was wanted where a size is symbolic.
class SymbolicSize : public UserError {
 public:
  using UserError::UserError;
};

class Symbols;

class Dim {
 public:
  Dim() = default;  // 0
  template <std::integral I>
  Dim(I number) : number_(static_cast<int64_t>(number)) {}
  Dim(Expr value, std::shared_ptr<Symbols> symbols);  // a number where the expression is one

  bool known() const { return !value_; }
  operator int64_t() const;  // throws SymbolicSize where it isn't known
  operator Expr() const { return expr(); }
  Expr expr() const { return value_ ? value_ : Expr(number_); }
  int64_t typical() const;  // the number, or what it is for typical values of the symbols
  Interval range() const;
  const std::shared_ptr<Symbols>& symbols() const { return symbols_; }  // null where known

 private:
  int64_t number_ = 0;
  Expr value_;  // null: the number
  std::shared_ptr<Symbols> symbols_;
};

struct Symbol {
  Var var;
  std::string name;                          // as the model and --dim have it: "batch", "x.0"
  int64_t least = 1, most = 0, typical = 1;  // most: inclusive
  // Of a size that a run finds out from values, such as how many elements aren't 0: it is at most that. Null
  // where inputs' shapes say the size.
  Expr bound = {};
};

// The symbols of a model and what must hold of their values besides the ranges.
class Symbols : public std::enable_shared_from_this<Symbols> {
 public:
  struct Requirement {
    Expr condition;
    std::string why;
  };
  static constexpr int64_t kMost = int64_t{1} << 31;  // of a symbol without a bound

  Dim add(const std::string& name, int64_t least, int64_t most, int64_t typical);
  // From `least` to `bound`, which is usually more than `typical`.
  Dim add_found(const std::string& name, const Dim& bound, int64_t least = 0, int64_t typical = 0);
  // Those that `other`, a copy which was added to, has besides; and what it requires of them.
  void take_found(const Symbols& other);
  bool uses_found(const Expr& e) const;
  const std::vector<Symbol>& all() const { return all_; }
  const Symbol* find(const std::string& name) const;
  const Facts& facts() const { return facts_; }
  int64_t typical(const Expr& e) const;
  std::string hint(const Expr& e = {}) const;    // how to give its symbols values; null: all
  Expr reduce(const Expr& e) const;              // simplified, with what is known to be equal put in
  PrimFunc with_equal(const PrimFunc& f) const;  // with what is known to be equal put in

  bool equal(const Expr& a, const Expr& b) const;  // whatever the symbols are
  bool decide(const Expr& condition);              // see `<` above
  // False where the condition can't hold. Else it holds, or is required from now on.
  bool require(const Expr& condition, const std::string& why);
  const std::vector<Requirement>& requirements() const { return requirements_; }
  // From now on what would be a new requirement throws SymbolicSize.
  void close() { closed_ = true; }

 private:
  std::vector<Symbol> all_;
  Facts facts_;
  void take_equal(const Expr& a, const Expr& b);
  Expr put_equal(const Expr& e) const;  // not simplified

  std::vector<std::pair<Var, Expr>> equal_;    // symbols that are put as others say
  std::vector<std::pair<Expr, Var>> choices_;  // the lesser or larger of some sizes, which is a symbol
  std::vector<Requirement> requirements_;
  bool closed_ = false;
};

Dim combine(BinaryOp op, const Dim& a, const Dim& b);  // arithmetic
bool holds(BinaryOp op, const Dim& a, const Dim& b);
bool surely_le(const Dim& a, const Dim& b);  // whatever the symbols are; requires nothing
bool must_equal(const Dim& a, const Dim& b, const std::string& why = "");
// Of numbers, whether the result overflows; that of symbolic sizes is checked when the model runs.
bool add_overflows(const Dim& a, const Dim& b, Dim& sum);
bool mul_overflows(const Dim& a, const Dim& b, Dim& product);
std::string to_string(const Dim& d);  // "2*N+1"

// Numbers beside sizes convert to sizes, not the other way round.
template <class A, class B>
concept DimOperands = (std::same_as<A, Dim> && (std::same_as<B, Dim> || std::integral<B>)) ||
                      (std::integral<A> && std::same_as<B, Dim>);

#define NESTOR_DIM_OPERATOR(result, symbol, function, op)                     \
  template <class A, class B>                                                 \
  requires DimOperands<A, B> result operator symbol(const A& a, const B& b) { \
    return function(BinaryOp::op, Dim(a), Dim(b));                            \
  }
NESTOR_DIM_OPERATOR(Dim, +, combine, add)
NESTOR_DIM_OPERATOR(Dim, -, combine, sub)
NESTOR_DIM_OPERATOR(Dim, *, combine, mul)
NESTOR_DIM_OPERATOR(Dim, /, combine, div)
NESTOR_DIM_OPERATOR(Dim, %, combine, mod)
NESTOR_DIM_OPERATOR(bool, ==, holds, eq)
NESTOR_DIM_OPERATOR(bool, <, holds, lt)
NESTOR_DIM_OPERATOR(bool, <=, holds, le)
NESTOR_DIM_OPERATOR(bool, >, holds, gt)
NESTOR_DIM_OPERATOR(bool, >=, holds, ge)
#undef NESTOR_DIM_OPERATOR
template <class A, class B>
requires DimOperands<A, B> Dim min(const A& a, const B& b) {
  return combine(BinaryOp::min, Dim(a), Dim(b));
}
template <class A, class B>
requires DimOperands<A, B> Dim max(const A& a, const B& b) {
  return combine(BinaryOp::max, Dim(a), Dim(b));
}
template <class A, class B>
requires DimOperands<A, B> Dim ceil_div(const A& a, const B& b) {
  if (Dim(a).known() && Dim(b).known()) return ceil_div(static_cast<int64_t>(a), static_cast<int64_t>(b));
  return (Dim(a) + Dim(b) - 1) / Dim(b);
}
inline Dim operator-(const Dim& a) {
  return Dim(0) - a;
}
inline Dim& operator+=(Dim& a, const Dim& b) {
  return a = a + b;
}
inline Dim& operator-=(Dim& a, const Dim& b) {
  return a = a - b;
}
inline Dim& operator*=(Dim& a, const Dim& b) {
  return a = a * b;
}
inline Dim& operator/=(Dim& a, const Dim& b) {
  return a = a / b;
}
inline Dim& operator++(Dim& a) {
  return a = a + 1;
}
inline Dim& operator--(Dim& a) {
  return a = a - 1;
}

// A shape. It converts to numbers where all of its sizes are known; else that throws SymbolicSize.
class Dims : public std::vector<Dim> {
 public:
  using std::vector<Dim>::vector;
  Dims(const std::vector<int64_t>& numbers) : std::vector<Dim>(numbers.begin(), numbers.end()) {}
  operator std::vector<int64_t>() const { return numbers(); }
  std::vector<int64_t> numbers() const { return {begin(), end()}; }
  std::vector<int64_t> typical() const;
  std::vector<Expr> exprs() const;
  bool known() const;
};
bool operator==(const Dims& a, const Dims& b);
Dim elements_of(const Dims& shape);
std::string text_of(DType dtype, const Dims& shape);  // "f32[N,64,56,56]"
// Beside those for numbers; lists of numbers are no candidates.
template <std::same_as<Dims> D>
Dim product(const D& shape) {
  return elements_of(shape);
}
template <std::same_as<Dims> D>
std::string to_string(DType dtype, const D& shape) {
  return text_of(dtype, shape);
}

}  // namespace nestor

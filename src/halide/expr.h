// Expressions of a block as Halide's.
#pragma once

#include <Halide.h>

#include <functional>
#include <map>

#include "nestor/ir.h"

namespace nestor::halide {

class ExprTranslator {
 public:
  // access gives the element of a buffer at Halide indices, innermost first.
  using AccessFn = std::function<Halide::Expr(const Buffer&, const std::vector<Halide::Expr>&)>;
  ExprTranslator(const std::map<Buffer, std::vector<int>>& extents, AccessFn access)
      : extents_(extents), access_(std::move(access)) {}

  void bind(const Var& v, Halide::Expr e) { vars_[v] = std::move(e); }
  Halide::Expr value(const Expr& e);  // of the type that the node has
  Halide::Expr index(const Expr& e);  // an integer as Halide's 32 bits, so that its bounds can be inferred

 private:
  Halide::Expr load(const Load& l);
  Halide::Expr binary(const Binary& b);
  Halide::Expr call(const Call& c, Type type);

  const std::map<Buffer, std::vector<int>>& extents_;
  AccessFn access_;
  std::map<Var, Halide::Expr> vars_;
  std::map<Var, Expr> lets_;
  int branches_ = 0;  // of Selects around us
};

}  // namespace nestor::halide

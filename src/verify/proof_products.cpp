#include "src/verify/proof_products.h"

#include <algorithm>
#include <unordered_map>

#include "nestor/walk.h"

namespace nestor::verify {

namespace {

class Products : public Rewriter {
 public:
  explicit Products(std::vector<Var> dims) : dims_(std::move(dims)) {}

  Expr expr(const Expr& e) override {
    const Expr out = children(e);
    const auto* b = out.as<Binary>();
    if (!b || b->op != BinaryOp::mul || !is_size(b->a) || !is_size(b->b)) return out;
    const auto [at, fresh] = products_.try_emplace(out, Expr());
    if (fresh) {
      dims_.push_back(make_var("product" + std::to_string(products_.size())));
      at->second = Expr(dims_.back());
    }
    return at->second;
  }

  PrimFunc func(const PrimFunc& f) {
    PrimFunc out = f;
    for (Param& p : out.params) shape(p.decl);
    for (BufferDecl& a : out.allocs) shape(a);
    out.body = stmt(f.body);
    return out;
  }
  bool found() const { return !products_.empty(); }
  const std::vector<Var>& dims() const { return dims_; }

 private:
  void shape(BufferDecl& decl) {
    for (Expr& e : decl.shape) e = expr(e);
  }
  // Computed from open sizes and numbers, and not a number.
  bool is_size(const Expr& e) const {
    if (as_int(e) || e.type() != Type{}) return false;
    bool of_sizes = true;
    for_each_expr(e, [&](const Expr& part) {
      const auto* ref = part.as<VarRef>();
      of_sizes = of_sizes && !part.as<Load>() &&
                 (!ref || std::find(dims_.begin(), dims_.end(), ref->var) != dims_.end());
    });
    return of_sizes;
  }

  std::vector<Var> dims_;
  std::unordered_map<Expr, Expr, HashExpr, SameExpr> products_;
};

PrimFunc with_names(const PrimFunc& f, const std::vector<Var>& dims) {
  VarMap names;
  for (size_t d = 0; d < dims.size(); ++d) names[f.dims[d]] = Expr(dims[d]);
  PrimFunc out = f;
  for (Param& p : out.params)
    for (Expr& e : p.decl.shape) e = substitute(e, names);
  for (BufferDecl& a : out.allocs)
    for (Expr& e : a.shape) e = substitute(e, names);
  out.body = substitute(f.body, names);
  return out;
}

}  // namespace

std::optional<std::pair<PrimFunc, PrimFunc>> with_products_as_sizes(const PrimFunc& before,
                                                                    const PrimFunc& after) {
  if (before.dims.size() < 2 || before.dims.size() != after.dims.size()) return std::nullopt;
  Products products(before.dims);
  PrimFunc one = products.func(before), other = products.func(with_names(after, before.dims));
  if (!products.found()) return std::nullopt;
  one.dims = other.dims = products.dims();
  return std::pair(std::move(one), std::move(other));
}

}  // namespace nestor::verify

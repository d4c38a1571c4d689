#include "src/graph/own_sizes.h"

#include <algorithm>
#include <set>
#include <string>

#include "nestor/nest_file.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

bool is_quotient(const Expr& e) {
  const auto* b = e.as<Binary>();
  return b && (b->op == BinaryOp::div || b->op == BinaryOp::mod) && as_int(b->b);
}

// Other arithmetic that no loop can be split over.
bool is_choice(const Expr& e) {
  if (is_float(e.dtype()) || e.dtype() == DType::boolean) return false;
  const auto* b = e.as<Binary>();
  const bool sum = b && (b->op == BinaryOp::add || b->op == BinaryOp::sub || b->op == BinaryOp::mul);
  return (b && !sum) || e.as<Select>() || e.as<Cast>();
}

class Namer : public Rewriter {
 public:
  // `name` gives what it is to name back where it has no name for it.
  Namer(const std::vector<Var>& dims, std::function<Expr(const Expr&)> name)
      : dims_(dims), name_(std::move(name)) {}

  Expr expr(const Expr& e) override {
    if (!(is_quotient(e) || is_choice(e)) || !of_sizes(e)) return children(e);
    const Expr named = name_(e);
    return named.same_as(e) ? children(e) : named;
  }
  std::vector<Expr> shape(const std::vector<Expr>& from) {
    std::vector<Expr> out;
    for (const Expr& e : from) out.push_back(expr(e));
    return out;
  }

 private:
  // Nothing but sizes and numbers.
  bool of_sizes(const Expr& e) const {
    bool only = true, any = false;
    for_each_expr(e, [&](const Expr& part) {
      const auto* ref = part.as<VarRef>();
      const bool size = ref && std::find(dims_.begin(), dims_.end(), ref->var) != dims_.end();
      any = any || size;
      only = only && (!ref || size) && !part.as<Load>();
    });
    return only && any;
  }

  const std::vector<Var>& dims_;
  std::function<Expr(const Expr&)> name_;
};

// (a + b)/c with constants b and c.
struct Quotient {
  Expr a;
  int64_t b, c;
};
std::optional<Quotient> as_quotient(const Expr& e) {
  const auto* div = e.as<Binary>();
  const auto by = div && div->op == BinaryOp::div ? as_int(div->b) : std::nullopt;
  if (!by) return std::nullopt;
  const auto* sum = div->a.as<Binary>();
  const auto more = sum && sum->op == BinaryOp::add ? as_int(sum->b) : std::nullopt;
  return more ? Quotient{sum->a, *more, *by} : Quotient{div->a, 0, *by};
}

// v + more, as a parameter has it.
struct Extent {
  Var v;
  int64_t more = 0;
};

// The quotient as tiles of an extent (v + more + c - 1)/c, if it is that: from ((a + b)/d + more + c - 1)/c
// the simplifier makes (a + b + d*(more + c - 1))/(c*d).
std::optional<Expr> as_tiles(const Expr& quotient, const Extent& extent, const Expr& value) {
  const auto whole = as_quotient(quotient);
  const Quotient part = as_quotient(value).value_or(Quotient{value, 0, 1});
  if (!whole || whole->c % part.c != 0 || !same_expr(whole->a, part.a)) return std::nullopt;
  const int64_t c = whole->c / part.c;
  const int64_t rounded = extent.more + c - 1;
  if (c < 2 || whole->b - part.b != part.c * rounded) return std::nullopt;
  return (Expr(extent.v) + rounded) / c;
}

}  // namespace

Var OwnSizes::named(const Expr& size) {
  for (const auto& [var, value] : named_)
    if (same_expr(value, size)) return var;
  std::string name;
  for_each_expr(size, [&](const Expr& e) {
    if (const auto* ref = e.as<VarRef>(); ref && name.empty()) name = ref->var->name;
  });
  name += "_" + std::to_string(named_.size() + 1);
  std::set<std::string> taken;
  for (const Symbol& s : symbols_->all()) taken.insert(s.var->name);
  for (const auto& known : named_) taken.insert(known.first->name);
  while (taken.count(name)) name += '_';
  return named_.emplace_back(make_var(name), size).first;
}

void OwnSizes::know(const Var& dim, const Expr& value) {
  const auto& all = symbols_->all();
  const bool of_model = std::any_of(all.begin(), all.end(), [&](const Symbol& s) { return s.var == dim; });
  const auto same = [&](const auto& known) { return known.first == dim; };
  if (!of_model && std::none_of(named_.begin(), named_.end(), same)) named_.emplace_back(dim, value);
}

void OwnSizes::name(PrimFunc& f) {
  std::vector<Var> dims = f.dims;
  std::vector<Extent> given;  // by the parameters' shapes
  const auto give = [&](const Var& v, int64_t more) {
    const auto same = [&](const Extent& e) { return e.v == v && e.more == more; };
    if (std::none_of(given.begin(), given.end(), same)) given.push_back({v, more});
  };
  bool of_params = true;
  Namer namer(f.dims, [&](const Expr& size) -> Expr {
    for (const Extent& e : given)
      if (same_expr(size, value(e.v))) return e.v;
    for (const Extent& e : given)
      if (const auto tiles = as_tiles(size, e, value(e.v)); tiles && !of_params) return *tiles;
    if (!of_params && !is_quotient(size)) return size;
    const Var v = named(size);
    if (std::find(dims.begin(), dims.end(), v) == dims.end()) dims.push_back(v);
    return v;
  });
  for (Param& p : f.params) {
    p.decl.shape = namer.shape(p.decl.shape);
    for (const Expr& extent : p.decl.shape) {
      for_each_expr(extent, [&](const Expr& e) {
        if (const auto* size = e.as<VarRef>()) give(size->var, 0);
      });
      if (const auto sum = as_affine(extent); sum && sum->terms.size() == 1 && sum->terms[0].second == 1)
        give(sum->terms[0].first, sum->constant);
    }
  }
  of_params = false;
  for (BufferDecl& d : f.allocs) d.shape = namer.shape(d.shape);
  f.body = namer.stmt(f.body);
  std::erase_if(dims, [&](const Var& v) { return !uses_dim(f, v); });
  f.dims = std::move(dims);
}

Expr OwnSizes::value(const Var& dim) const {
  for (const auto& [var, value] : named_)
    if (var == dim) return value;
  return Expr(dim);
}

}  // namespace nestor

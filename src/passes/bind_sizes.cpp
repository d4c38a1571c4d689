// What is computed of open sizes alone is computed once, where the function begins:
//
//   for i in n/8 { Y[i*(n*m) + n%8*4] = ... }
//   ->  let from_n = n/8 { let from_n_1 = n*m { let from_n_2 = n%8 { for i in from_n { ... } } } }
//
// LLVM would do so loop by loop, and see each address as a sum over all sizes, which takes it long.
#include <algorithm>
#include <map>

#include "nestor/walk.h"
#include "src/ir/simplify_linear.h"
#include "src/passes/passes.h"

namespace nestor::passes {

namespace {

using algebra::Linear, algebra::Term;

class SizeBinder : public Rewriter {
 public:
  explicit SizeBinder(const std::vector<Var>& dims) : dims_(dims) {}

  Stmt run(const Stmt& body) {
    Stmt out = stmt(body);
    for (auto it = bound_.rbegin(); it != bound_.rend(); ++it)
      out = make::let_stmt(it->second, it->first, std::move(out));
    return out;
  }

 private:
  Expr expr(const Expr& e) override {
    if (e.type() != Type{} || !e.as<Binary>()) return children(e);
    Linear rest, sizes;
    add(algebra::parts(e), 1, rest, sizes);
    // Terms of equal coefficients are one number: of rows n + n%16 apart, each is at a multiple of it.
    std::map<int64_t, Linear> by_coefficient;
    for (const Term& t : sizes.terms) by_coefficient[t.coefficient].terms.push_back({t.atom, 1});
    const auto is_a_size = [](const Linear& l) {
      return l.terms.size() == 1 && l.terms[0].atom.as<VarRef>();
    };
    if (std::ranges::all_of(by_coefficient, [&](const auto& part) { return is_a_size(part.second); }))
      return children(e);
    Linear out = Linear::of_constant(rest.constant);
    for (const Term& t : rest.terms) out.add(expr(t.atom), t.coefficient);
    for (const auto& [c, part] : by_coefficient)
      out.add(is_a_size(part) ? part : Linear::of_atom(bound(algebra::to_expr(part))), c);
    return algebra::to_expr(out);
  }

  // Sizes of temporaries are read outside of the function, too.
  Stmt stmt(const Stmt& s) override {
    const auto* a = s.as<Alloc>();
    if (!a) return children(s);
    Stmt body = stmt(a->body);
    return body.same_as(a->body) ? s : make::alloc(a->decl, std::move(body));
  }

  // Sorts terms; (n + 3) * m is n*m and 3*m.
  void add(const Linear& sum, int64_t factor, Linear& rest, Linear& sizes) const {
    rest.constant += sum.constant * factor;
    for (const Term& t : sum.terms) {
      const int64_t c = t.coefficient * factor;
      const auto* b = t.atom.as<Binary>();
      const bool of_sizes = is_of_sizes(t.atom);
      if (of_sizes && b && b->op == BinaryOp::mul) {
        Linear x = algebra::parts(b->a);
        const int64_t k = std::exchange(x.constant, 0);
        if (k != 0 && !x.terms.empty()) {
          add(algebra::parts(algebra::to_expr(x) * b->b), c, rest, sizes);
          add(algebra::parts(b->b), c * k, rest, sizes);
          continue;
        }
      }
      (of_sizes ? sizes : rest).add(t.atom, c);
    }
  }
  // Whatever the sizes are, there is such a number: no division by one of them.
  bool is_of_sizes(const Expr& e) const {
    if (const auto* v = e.as<VarRef>()) return std::ranges::find(dims_, v->var) != dims_.end();
    const auto* b = e.as<Binary>();
    if (!b) return e.as<IntImm>() && e.type() == Type{};
    const bool divides = b->op == BinaryOp::div || b->op == BinaryOp::mod;
    const bool total = divides ? as_int(b->b).value_or(0) > 0
                               : b->op == BinaryOp::add || b->op == BinaryOp::sub || b->op == BinaryOp::mul ||
                                     b->op == BinaryOp::min || b->op == BinaryOp::max;
    return total && is_of_sizes(b->a) && is_of_sizes(b->b);
  }

  Var bound(const Expr& value) {
    for (const auto& [known, var] : bound_)
      if (same_expr(known, value)) return var;
    std::string size;
    for_each_expr(value, [&](const Expr& e) {
      if (const auto* v = e.as<VarRef>(); v && size.empty()) size = v->var->name;
    });
    return bound_.emplace_back(value, make_var("from_" + size)).second;
  }

  const std::vector<Var>& dims_;
  std::vector<std::pair<Expr, Var>> bound_;
};

}  // namespace

PrimFunc bind_sizes(const PrimFunc& f, const Target&) {
  if (f.dims.empty()) return f;
  PrimFunc out = f;
  out.body = SizeBinder(f.dims).run(f.body);
  return out;
}

}  // namespace nestor::passes

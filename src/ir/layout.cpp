#include "nestor/layout.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/simplify.h"
#include "nestor/tensor.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

struct Range {
  int64_t lo, hi;
};

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a % b < 0) != (b < 0)));
}

int64_t constant(const Expr& e, const std::string& what) {
  const auto* i = e.as<IntImm>();
  if (!i) throw UserError(what + " is not constant");
  return i->value;
}

// The values a layout's expression takes over the buffer's box; a modulus spans its divisor whatever it is
// taken of.
Range range_of_layout(const Expr& e, const std::unordered_map<Var, Range>& vars, const std::string& name) {
  if (const auto* i = e.as<IntImm>()) return {i->value, i->value};
  if (const auto* v = e.as<VarRef>()) {
    const auto it = vars.find(v->var);
    if (it == vars.end())
      throw UserError("the layout of " + name + " uses " + v->var->name + ", not its variable");
    return it->second;
  }
  const auto* b = e.as<Binary>();
  if (!b) throw UserError("the layout of " + name + " holds more than + - * / % and constants");
  const Range x = range_of_layout(b->a, vars, name);
  const auto divisor = [&] {
    const int64_t d = constant(b->b, "a divisor in the layout of " + name);
    if (d <= 0) throw UserError("a divisor in the layout of " + name + " is not positive");
    return d;
  };
  if (b->op == BinaryOp::mod) return {0, divisor() - 1};
  if (b->op == BinaryOp::div) return {floor_div(x.lo, divisor()), floor_div(x.hi, divisor())};
  const Range y = range_of_layout(b->b, vars, name);
  if (b->op == BinaryOp::add) return {x.lo + y.lo, x.hi + y.hi};
  if (b->op == BinaryOp::sub) return {x.lo - y.hi, x.hi - y.lo};
  if (b->op == BinaryOp::mul) {
    const std::array<int64_t, 4> c = {x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi};
    return {*std::min_element(c.begin(), c.end()), *std::max_element(c.begin(), c.end())};
  }
  throw UserError("the layout of " + name + " uses `" + symbol(b->op) + "`; it may use + - * / %");
}

// Of sums, multiples and quotients by positive numbers: where all variables are highest. It is what
// range_of_layout finds for numbers. Null: `e` has other operators.
Expr highest_of(const Expr& e, const VarMap& last) {
  const auto* b = e.as<Binary>();
  const auto factor = b ? as_int(b->b) : std::nullopt;
  if (!b) return substitute(e, last);
  if (b->op == BinaryOp::mod && factor && *factor > 0) return *factor - 1;
  const Expr x = highest_of(b->a, last);
  if (!x) return {};
  if (b->op == BinaryOp::div && factor && *factor > 0) return x / *factor;
  if (b->op == BinaryOp::mul && factor && *factor > 0) return x * *factor;
  const Expr y = b->op == BinaryOp::add ? highest_of(b->b, last) : Expr();
  return y ? x + y : Expr();
}

}  // namespace

std::vector<int64_t> logical_shape(const BufferDecl& decl) {
  std::vector<int64_t> shape;
  for (const Expr& e : decl.shape) shape.push_back(constant(e, "the shape of " + decl.buffer->name));
  return shape;
}

std::vector<int64_t> physical_shape(const BufferDecl& decl) {
  const std::string& name = decl.buffer->name;
  std::vector<int64_t> shape;
  for (const Expr& e : decl.shape) shape.push_back(constant(e, "a dimension of " + name));
  if (!decl.layout) return shape;
  const IndexMap& map = *decl.layout;
  if (map.vars.size() != shape.size())
    throw UserError("the layout of " + name + " has " + std::to_string(map.vars.size()) + " variables for " +
                    std::to_string(shape.size()) + " dimensions");
  std::unordered_map<Var, Range> vars;
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    vars[map.vars[i]] = {0, std::max<int64_t>(shape[i] - 1, 0)};
    empty |= shape[i] == 0;
  }
  std::vector<int64_t> physical;
  for (const Expr& e : map.exprs) {
    const Range r = range_of_layout(e, vars, name);
    if (r.lo < 0) throw UserError("the layout of " + name + " reaches negative indices");
    physical.push_back(empty ? 0 : r.hi + 1);
  }
  return physical;
}

std::vector<Expr> physical_extents(const BufferDecl& decl) {
  if (!decl.layout) return decl.shape;
  const auto known = [](const Expr& e) { return as_int(e).has_value(); };
  std::vector<Expr> out;
  if (std::all_of(decl.shape.begin(), decl.shape.end(), known)) {
    for (const int64_t n : physical_shape(decl)) out.emplace_back(n);
    return out;
  }
  const IndexMap& map = *decl.layout;
  Facts facts;
  VarMap last;
  for (size_t d = 0; d < decl.shape.size(); ++d) {
    for_each_expr(decl.shape[d], [&](const Expr& e) {
      if (const auto* size = e.as<VarRef>()) facts.set(size->var, {0, Interval::kMax});
    });
    facts.set(map.vars[d], {0, as_int(decl.shape[d]).value_or(Interval::kMax) - 1});
    last[map.vars[d]] = decl.shape[d] - 1;
  }
  constexpr int64_t kLargest = int64_t{1} << 40;  // of a dimension that no symbolic size makes larger
  for (const Expr& e : map.exprs) {
    const Expr highest = highest_of(e, last);
    const Interval r = range_of(simplify(e, facts), facts);
    if (!highest && r.hi >= kLargest)
      throw UserError("the layout of " + decl.buffer->name + ", " + print(e) +
                      ", may only use + * / % by positive numbers of a symbolic size");
    out.push_back(highest ? simplify(highest + 1, facts) : Expr(r.hi + 1));
  }
  return out;
}

int64_t physical_size(const BufferDecl& decl) {
  return product(physical_shape(decl));
}

BufferDecl in_channel_blocks(DType dtype, const std::vector<int64_t>& shape, int64_t block) {
  BufferDecl d;
  d.buffer = make_buffer("x", {dtype, 1});
  IndexMap map;
  for (const int64_t extent : shape) {
    d.shape.emplace_back(extent);
    map.vars.push_back(make_var("d" + std::to_string(map.vars.size())));
    map.exprs.emplace_back(map.vars.back());
  }
  map.exprs.push_back(map.exprs[1] % Expr(block));
  map.exprs[1] = map.exprs[1] / Expr(block);
  d.layout = map;
  return d;
}

}  // namespace nestor

#include "src/driver/open_rows.h"

#include <algorithm>

#include "nestor/nest_file.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "src/driver/given_layouts.h"

namespace nestor {

namespace {

// From so many rows on, a schedule for more of them is the same.
constexpr int64_t kManyRows = 64;

// Indices of a load, all in one.
bool uses(const Load& load, const IterVar& i) {
  return std::any_of(load.indices.begin(), load.indices.end(),
                     [&](const Expr& e) { return uses_var(e, i.var); });
}

bool is_open(const Expr& e) {
  return !as_int(e);
}

// The number of rows of a sum of products of a constant and something else: only the other has rows, and only
// the constant columns. Null where the block isn't that; windows have more than rows.
Expr rows_of(const PrimFunc& f, const Block& block) {
  const auto* update = block.body.as<Update>();
  if (!update || update->op != ReduceOp::add) return {};
  std::vector<const Load*> weights, others;
  for_each_expr(update->value, [&](const Expr& e) {
    if (const auto* load = e.as<Load>()) {
      const Param* p = find_param(f, load->buffer);
      (p && p->role == Role::constant && load->indices.size() > 1 ? weights : others).push_back(load);
    }
  });
  if (weights.size() != 1 || others.empty()) return {};
  const auto moves = [&](const IterVar& i, bool weight, bool other) {
    return uses(*weights[0], i) == weight &&
           std::any_of(others.begin(), others.end(), [&](const Load* l) { return uses(*l, i); }) == other;
  };
  Expr rows;
  bool columns = false, sums = false;
  for (const IterVar& i : block.iters) {
    const bool spatial = i.kind == IterKind::spatial;
    columns = columns || (spatial && moves(i, true, false));
    sums = sums || (!spatial && moves(i, true, true));
    if (!spatial || is_const_int(i.extent, 1) || moves(i, true, false)) continue;
    if (rows || !is_open(i.extent) || !moves(i, false, true)) return {};
    rows = i.extent;
  }
  return columns && sums ? rows : Expr();
}

// Each use of a value as a variable.
class Name : public Rewriter {
 public:
  Name(Expr value, const Var& var) : value_(std::move(value)), var_(var) {}
  Expr expr(const Expr& e) override { return same_expr(e, value_) ? Expr(var_) : children(e); }

 private:
  const Expr value_;
  const Var var_;
};

PrimFunc named(const PrimFunc& f, const Expr& value, const Var& var) {
  Name name(value, var);
  PrimFunc out = f;
  out.dims = {var};
  for (Param& p : out.params)
    for (Expr& e : p.decl.shape) e = name.expr(e);
  for (BufferDecl& a : out.allocs)
    for (Expr& e : a.shape) e = name.expr(e);
  out.body = name.stmt(f.body);
  return out;
}

bool uses_any(const PrimFunc& f, const std::vector<Var>& dims) {
  return std::any_of(dims.begin(), dims.end(), [&](const Var& d) {
    const auto in = [&](const BufferDecl& decl) {
      return std::any_of(decl.shape.begin(), decl.shape.end(), [&](const Expr& e) { return uses_var(e, d); });
    };
    return uses_var(f.body, d) || std::any_of(f.allocs.begin(), f.allocs.end(), in) ||
           std::any_of(f.params.begin(), f.params.end(), [&](const Param& p) { return in(p.decl); });
  });
}

int64_t at(const Expr& value, const VarMap& sizes) {
  return as_int(simplify(substitute(value, sizes))).value();
}

}  // namespace

std::optional<OpenRows> open_rows(const PrimFunc& f, const std::unordered_map<Var, int64_t>& typical) {
  Expr value;
  for_each_stmt(f.body, [&](const Stmt& s) {
    if (const auto* block = s.as<Block>(); block && !value) value = rows_of(f, *block);
  });
  if (!value) return std::nullopt;
  const auto* plain = value.as<VarRef>();
  OpenRows out{f, plain ? plain->var : make_var("rows"), value};
  if (!plain) out.func = named(f, value, out.rows);
  std::vector<Var> others = f.dims;
  std::erase(others, out.rows);
  if (uses_any(out.func, others)) return std::nullopt;
  out.func.dims = {out.rows};
  VarMap ones, usual;
  for (const Var& d : f.dims) {
    ones[d] = Expr(1);
    usual[d] = Expr(typical.at(d));
  }
  out.fewest = at(value, ones);
  out.typical = at(value, usual);
  if (out.typical <= out.fewest) out.typical = std::max(out.fewest, kManyRows);
  return out;
}

std::optional<PrimFunc> of_fewest(const OpenRows& rows, const PrimFunc& any, const Target& target) {
  PrimFunc f = with_dims(rows.func, VarMap{{rows.rows, Expr(rows.fewest)}});
  GivenLayouts layouts;
  for (const Param& p : any.params)
    layouts.push_back(p.role == Role::constant ? std::optional(layout_of(p.decl)) : std::nullopt);
  return suit(layouts, f, target) ? std::optional(with_layouts(std::move(f), layouts)) : std::nullopt;
}

namespace {

// What is allocated is counted outside of the function, by its dimensions.
class SizeAllocations : public Rewriter {
 public:
  explicit SizeAllocations(VarMap sizes) : sizes_(std::move(sizes)) {}
  BufferDecl sized(BufferDecl decl) const {
    for (Expr& e : decl.shape) e = simplify(substitute(e, sizes_));
    return decl;
  }
  Stmt stmt(const Stmt& s) override {
    const Stmt out = children(s);
    const auto* a = out.as<Alloc>();
    return a ? make::alloc(sized(a->decl), a->body) : out;
  }

 private:
  const VarMap sizes_;
};

}  // namespace

PrimFunc over_rows(const PrimFunc& f, const OpenRows& rows, const PrimFunc& any, const PrimFunc* fewest) {
  PrimFunc out = any;
  out.dims = f.dims;
  if (fewest) {
    BufferMap buffers;
    for (size_t i = 0; i < any.params.size(); ++i)
      buffers[fewest->params[i].decl.buffer] = any.params[i].decl.buffer;
    out.body = make::if_then(eq(Expr(rows.rows), rows.fewest), fresh_copy(substitute(fewest->body, buffers)),
                             any.body);
  }
  if (rows.value.as<VarRef>()) return out;
  SizeAllocations by_dims({{rows.rows, rows.value}});
  out.body = make::let_stmt(rows.rows, rows.value, by_dims.stmt(out.body));
  for (Param& p : out.params) p.decl = by_dims.sized(p.decl);
  for (BufferDecl& a : out.allocs) a = by_dims.sized(a);
  return out;
}

}  // namespace nestor

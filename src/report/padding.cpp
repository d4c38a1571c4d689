#include "src/report/padding.h"

#include <algorithm>

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor::report {

namespace {

constexpr uint64_t kMostPoints = 4096;  // that are looked at: of more, so many all over

// The condition of `if cond then x else 0` over indices; null where it is no such thing.
Expr padding_condition(const Expr& e) {
  const auto* select = e.as<Select>();
  if (!select || has_load(select->cond)) return {};
  const auto* otherwise = select->b.as<FloatImm>();
  return otherwise && otherwise->value == 0 ? select->cond : Expr();
}

void split(const Expr& e, std::vector<Expr>& out) {
  const auto* both = e.as<Binary>();
  if (!both || both->op != BinaryOp::logical_and) return out.push_back(e);
  split(both->a, out);
  split(both->b, out);
}

// Conditions that share no variable are independent.
struct Group {
  std::vector<Expr> conditions;
  Iterations over;
};
std::vector<Group> groups_of(const std::vector<Expr>& conditions, const Iterations& iterations) {
  std::vector<Group> out;
  for (const Expr& c : conditions) {
    Group g{{c}, {}};
    for (const auto& [var, size] : iterations)
      if (uses_var(c, var)) g.over.emplace_back(var, size);
    for (size_t i = out.size(); i-- > 0;) {
      const bool shares = std::any_of(g.over.begin(), g.over.end(), [&](const auto& v) {
        return std::count(out[i].over.begin(), out[i].over.end(), v) > 0;
      });
      if (!shares) continue;
      g.conditions.insert(g.conditions.end(), out[i].conditions.begin(), out[i].conditions.end());
      for (const auto& v : out[i].over)
        if (!std::count(g.over.begin(), g.over.end(), v)) g.over.push_back(v);
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
    }
    out.push_back(std::move(g));
  }
  return out;
}

double share_of(const Group& g) {
  double all = 1, inside = 0;
  for (const auto& [var, size] : g.over) all *= size;
  if (all < 1 || all > 1e15) return 1;
  const auto points = static_cast<uint64_t>(all), looked = std::min(points, kMostPoints);
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // multiples of it fall evenly
  for (uint64_t i = 0; i < looked; ++i) {
    uint64_t point = looked == points ? i : (i * kGolden >> 13) % points;
    VarMap at;
    for (const auto& [var, size] : g.over) {
      const auto n = static_cast<uint64_t>(size);
      at[var] = Expr(static_cast<int64_t>(point % n));
      point /= n;
    }
    inside += std::all_of(g.conditions.begin(), g.conditions.end(), [&](const Expr& c) {
      return as_int(simplify(substitute(c, at))).value_or(1) != 0;
    });
  }
  return inside / static_cast<double>(looked);
}

}  // namespace

Padding::Padding(const PrimFunc& f) {
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* store = s.as<Store>();
    if (!store) return;
    const Expr condition = padding_condition(store->value);
    Padded p{{}, condition};
    for (const Expr& i : store->indices)
      if (const auto* v = i.as<VarRef>()) p.vars.push_back(v->var);
    if (condition && p.vars.size() == store->indices.size()) padded_[store->buffer] = p;
  });
}

void Padding::conditions(const Expr& factor, std::vector<Expr>& out) const {
  const auto* product = factor.as<Binary>();
  if (product && product->op == BinaryOp::mul) {
    conditions(product->a, out);
    conditions(product->b, out);
    return;
  }
  if (const Expr here = padding_condition(factor)) split(here, out);
  const auto* load = factor.as<Load>();
  const auto written = load ? padded_.find(load->buffer) : padded_.end();
  if (written == padded_.end()) return;
  VarMap at;
  for (size_t i = 0; i < load->indices.size(); ++i) {
    if (has_load(load->indices[i])) return;
    at[written->second.vars[i]] = load->indices[i];
  }
  split(substitute(written->second.holds, at), out);
}

namespace {

double share_where_all(const std::vector<Expr>& conditions, const Iterations& iterations) {
  double share = 1;
  for (const Group& g : groups_of(conditions, iterations)) share *= share_of(g);
  return share;
}

}  // namespace

double Padding::share(const Expr& product, const Iterations& iterations) const {
  std::vector<Expr> all;
  conditions(product, all);
  return share_where_all(all, iterations);
}

double share_where(const Expr& condition, const Iterations& iterations) {
  if (has_load(condition)) return 1;
  std::vector<Expr> all;
  split(condition, all);
  return share_where_all(all, iterations);
}

}  // namespace nestor::report

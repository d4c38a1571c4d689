#include "src/passes/open_parts.h"

#include <algorithm>
#include <unordered_set>

#include "src/passes/linear.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

// A condition as base + stride * v < 0.
struct Below {
  Expr base;
  int64_t stride;
};
std::optional<Below> as_below(const Expr& condition, const Var& v) {
  const auto* b = condition.as<Binary>();
  if (!b || b->a.type() != Type{}) return std::nullopt;
  Expr difference;
  if (b->op == BinaryOp::lt) difference = b->a - b->b;
  if (b->op == BinaryOp::le) difference = b->a - b->b - 1;
  if (b->op == BinaryOp::gt) difference = b->b - b->a;
  if (b->op == BinaryOp::ge) difference = b->b - b->a - 1;
  if (!difference) return std::nullopt;
  const auto s = strided(difference, v);
  const auto stride = s ? as_int(simplify(s->stride)) : std::nullopt;
  if (!stride || *stride == 0) return std::nullopt;
  return Below{simplify(s->base), *stride};
}

// What the body binds, and of its loops how far they run.
struct Inside {
  Facts facts;
  std::unordered_set<Var> bound;
  std::unordered_map<Var, int64_t> loops;

  Inside(const Stmt& body, const Facts& around) : facts(around) {
    for_each_stmt(body, [&](const Stmt& s) {
      if (const auto* l = s.as<LetStmt>()) bound.insert(l->var);
      const auto* f = s.as<For>();
      if (!f) return;
      bound.insert(f->var);
      loops[f->var] = as_int(f->extent).value_or(0);
      const Interval extent = range_of(f->extent, facts);
      facts.set(f->var, {0, extent.hi >= Interval::kMax ? Interval::kMax : extent.hi - 1});
    });
    for_each_expr(body, [&](const Expr& e) {
      if (const auto* l = e.as<Let>()) bound.insert(l->var);
    });
  }
  bool varies(const Expr& e) const {
    return std::any_of(bound.begin(), bound.end(), [&](const Var& v) { return uses_var(e, v); });
  }
  // The highest that what is bound inside makes of a sum; null where that isn't known.
  Expr highest(const Expr& e) const {
    Linear fixed = linear(e);
    for (auto& [atom, coefficient] : fixed.terms) {
      if (!varies(atom)) continue;
      const Interval r = range_of(atom, facts);
      if (r.lo <= Interval::kMin || r.hi >= Interval::kMax) return {};
      fixed.constant += coefficient * (coefficient > 0 ? r.hi : r.lo);
      coefficient = 0;
    }
    std::erase_if(fixed.terms, [](const auto& t) { return t.second == 0; });
    return to_expr(fixed);
  }
};

// base + step * v < 0 as `row` + step * v < size; null where it isn't that.
struct Row {
  Var row;
  Expr size;
};
std::optional<Row> row_of(const Below& b, const Inside& inside) {
  Linear rest = linear(b.base);
  std::optional<Row> out;
  for (auto& [atom, coefficient] : rest.terms) {
    if (!inside.varies(atom)) continue;
    const auto* r = atom.as<VarRef>();
    const auto loop = r ? inside.loops.find(r->var) : inside.loops.end();
    if (out || loop == inside.loops.end() || coefficient != 1 || loop->second != b.stride)
      return std::nullopt;
    out = Row{r->var, {}};
    coefficient = 0;
  }
  if (!out) return std::nullopt;
  std::erase_if(rest.terms, [](const auto& t) { return t.second == 0; });
  out->size = simplify(Expr(0) - to_expr(rest));
  return out;
}

struct Quotient {
  Expr of;
  int64_t by;
};
std::optional<Quotient> as_quotient(const Expr& e) {
  const auto* q = e.as<Binary>();
  const auto more = q && (q->op == BinaryOp::add || q->op == BinaryOp::sub) ? as_int(q->b) : std::nullopt;
  const int64_t whole = !more ? 0 : q->op == BinaryOp::add ? *more : -*more;
  if (more) q = q->a.as<Binary>();
  const auto by = q && q->op == BinaryOp::div ? as_int(q->b) : std::nullopt;
  return by && *by > 0 ? std::optional(Quotient{q->a + whole * *by, *by}) : std::nullopt;
}

bool at_most(const Expr& a, const Expr& b, const Facts& facts) {
  if (can_prove(le(a, b), facts)) return true;
  const auto x = as_quotient(a), y = as_quotient(b);
  return x && y && x->by == y->by && can_prove(le(x->of, y->of), facts);
}

}  // namespace

Expr lesser(const Expr& a, const Expr& b, const Facts& facts) {
  if (const auto* least = a.as<Binary>(); least && least->op == BinaryOp::min) {
    if (at_most(least->a, b, facts) || at_most(least->b, b, facts)) return a;
    if (at_most(b, least->a, facts)) return lesser(least->b, b, facts);
  }
  if (at_most(a, b, facts)) return a;
  return at_most(b, a, facts) ? b : simplify(min(a, b), facts);
}

std::optional<OpenParts> open_parts(const Var& v, const Expr& extent, const std::vector<Expr>& conditions,
                                    const Stmt& body, const Facts& facts) {
  constexpr int64_t kFurthest = 1 << 10;  // the first iteration without guards
  Inside inside(body, facts);
  inside.facts.set(v, {0, Interval::kMax});
  inside.facts.assume(lt(v, extent));
  OpenParts out;
  bool clash = false;
  for (const Expr& c : conditions) {
    if (can_prove(c, inside.facts)) continue;
    const auto below = as_below(c, v);
    if (!below) continue;
    const Expr highest = inside.highest(below->base);
    if (!highest) continue;
    if (below->stride < 0) {  // v > highest / -stride
      const auto base = as_int(simplify(highest));
      if (!base || *base < 0 || *base / -below->stride >= kFurthest) continue;
      out.first = std::max(out.first, *base / -below->stride + 1);
      out.only_rows = false;
      continue;
    }
    const Expr end = simplify((Expr(below->stride - 1) - highest) / below->stride, facts);
    const auto row = row_of(*below, inside);
    out.only_rows = out.only_rows && row;
    if (row) {
      clash = clash || (out.size && !(same_expr(out.size, row->size) && out.step == below->stride));
      out.size = row->size;
      out.step = below->stride;
    }
    out.full = out.full ? lesser(out.full, end, facts) : end;
  }
  if (clash) out.size = {};
  return out.full || out.first ? std::optional(out) : std::nullopt;
}

namespace {

// The body for `count` rows from `start` on: loops over rows run from 0, and so do the indices of what is
// allocated inside.
class Rows : public Rewriter {
 public:
  Rows(const Var& tile, const OpenParts& parts, const Stmt& body) : tile_(tile), parts_(parts) {
    const Inside inside(body, {});
    const auto see = [&](const Expr& e) {
      if (const auto row = row_in(e, inside)) rows_.insert(*row);
    };
    for_each_expr(body, see);
    for_each_stmt(body, [&](const Stmt& s) {
      if (const auto* a = s.as<Alloc>()) own_.insert(a->decl.buffer);
    });
    check(body, nullptr, false);
  }
  bool possible() const { return possible_ && !rows_.empty() && (!vectors_ || folds_); }

  Stmt piece(const Stmt& body, const Expr& start, int64_t count) {
    start_ = start;
    count_ = count;
    return stmt(fresh_copy_with_rows(body));
  }

  Expr expr(const Expr& e) override {
    if (is_guard(e)) return make::bool_imm(true);
    if (const auto* r = e.as<VarRef>(); r && rows_.count(r->var)) return start_ + e;
    if (const auto* l = e.as<Load>(); l && own_.count(l->buffer)) return e;
    return children(e);
  }
  Stmt stmt(const Stmt& s) override {
    if (const auto* st = s.as<Store>(); st && own_.count(st->buffer))
      return make::store(st->buffer, st->indices, expr(st->value), st->mask, st->streaming);
    const Stmt out = children(s);
    const auto* f = out.as<For>();
    return f && rows_.count(f->var) ? make::loop(f->var, count_, f->body, f->kind, f->thread, f->annotations)
                                    : out;
  }

 private:
  std::optional<Var> row_in(const Expr& e, const Inside& inside) const {
    const auto below = as_below(e, tile_);
    const auto row = below && below->stride == parts_.step ? row_of(*below, inside) : std::nullopt;
    return row && same_expr(row->size, parts_.size) ? std::optional(row->row) : std::nullopt;
  }
  bool is_guard(const Expr& e) const {
    const auto below = as_below(e, tile_);
    if (!below || below->stride != parts_.step) return false;
    for (const Var& row : rows_)
      if (is_const_int(simplify(below->base - Expr(row) + parts_.size), 0)) return true;
    return false;
  }

  // Each store is in one loop over rows, and under its guard unless it is to a buffer of the body's own; the
  // elements of such a one are all as far apart by row.
  void check(const Stmt& s, const For* around, bool guarded) {
    if (const auto* f = s.as<For>(); f && rows_.count(f->var)) {
      possible_ = possible_ && !around && f->kind != ForKind::parallel;
      const auto* inner = f->body.as<For>();
      const bool vector = f->kind == ForKind::vectorized;
      vectors_ = vectors_ || vector;
      folds_ = folds_ || (vector && inner && inner->kind == ForKind::vectorized);
      return check(f->body, f, false);
    }
    match(
        s,
        [&](const Seq& q) {
          for (const Stmt& inner : q.stmts) check(inner, around, guarded);
        },
        [&](const For& f) { check(f.body, around, guarded); }, [&](const Block&) { possible_ = false; },
        [&](const Store& st) {
          const bool own = own_.count(st.buffer) > 0;
          possible_ = possible_ && around && (own || guarded);
          if (!possible_) return;
          if (own) see_index(st.buffer, st.indices[0], around->var);
          see_loads(st.value, around);
        },
        [&](const Update&) { possible_ = false; },
        [&](const If& i) {
          see_loads(i.cond, around);
          bool is_row = false;
          for (const Expr& c : conjuncts(i.cond))
            is_row = is_row || (around && uses_var(c, around->var) && is_guard(c));
          check(i.then_case, around, guarded || is_row);
          if (i.else_case) possible_ = false;
        },
        [&](const Alloc& a) { check(a.body, around, guarded); },
        [&](const LetStmt& l) {
          see_loads(l.value, around);
          check(l.body, around, guarded);
        },
        [](const Evaluate&) {});
  }
  void see_loads(const Expr& value, const For* around) {
    for_each_expr(value, [&](const Expr& e) {
      const auto* l = e.as<Load>();
      if (!l || !own_.count(l->buffer)) return;
      possible_ = possible_ && around;
      if (around) see_index(l->buffer, l->indices[0], around->var);
    });
  }
  void see_index(const Buffer& b, const Expr& index, const Var& row) {
    const auto s = strided(index, row);
    const int64_t apart = s ? as_int(simplify(s->stride)).value_or(0) : 0;
    const auto [known, first] = apart_.emplace(b, apart);
    possible_ = possible_ && apart != 0 && known->second == apart;
  }

  // The sets are about variables of the copy.
  Stmt fresh_copy_with_rows(const Stmt& body) {
    const Stmt copy = fresh_copy(body);
    Rows of_copy(tile_, parts_, copy);
    rows_ = of_copy.rows_;
    own_ = of_copy.own_;
    return copy;
  }

  const Var& tile_;
  const OpenParts& parts_;
  std::unordered_set<Var> rows_;
  std::unordered_set<Buffer> own_;
  std::unordered_map<Buffer, int64_t> apart_;
  bool possible_ = true;
  // Rows in vectors are better masked, save where each is a vector itself and their number is a constant
  // (fold_rows.h).
  bool vectors_ = false, folds_ = false;
  Expr start_;
  int64_t count_ = 0;
};

}  // namespace

std::optional<Stmt> rest_in_pieces(const Var& v, const OpenParts& parts, const Stmt& body) {
  constexpr int64_t kMostRows = 32;
  const int64_t together = parts.step > 6 ? 4 : parts.step;  // rows of a piece
  if (!parts.size || parts.step < 2 || parts.step > kMostRows) return std::nullopt;
  Rows rows(v, parts, body);
  if (!rows.possible()) return std::nullopt;
  const Var left = make_var(v->name + "_rows");
  // A tile at a border may have all rows. Which conditions fail in a piece is known by where it ends.
  const bool border = !parts.only_rows;
  const auto piece = [&](const Expr& start, int64_t count) {
    const Stmt some = rows.piece(body, start, count);
    return border ? make::if_then(lt(Expr(v) * parts.step + start + (count - 1), parts.size), some) : some;
  };
  std::vector<Stmt> out;
  if (together < parts.step || border) {
    const Var four = make_var(v->name + "_part");
    out.push_back(make::loop(four, Expr(left) / together, piece(Expr(four) * together, together)));
  }
  Stmt last;
  for (int64_t n = 1; n < together; ++n) {
    const Stmt some = piece(Expr(left) / together * together, n);
    const Expr is_last = eq(Expr(left) % together, n);
    last = make::if_then(is_last, some, last);
  }
  if (last) out.push_back(last);
  Expr count = max(parts.size - Expr(v) * parts.step, 0);
  if (border) count = min(count, parts.step);
  return make::let_stmt(left, count, make::seq(std::move(out)));
}

}  // namespace nestor::passes

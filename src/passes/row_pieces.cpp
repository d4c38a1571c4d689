#include "src/passes/row_pieces.h"

#include <algorithm>
#include <unordered_set>

#include "src/passes/linear.h"
#include "src/passes/row_guards.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

// The body for `count` rows from `start` on: loops over rows run from 0, and so do the indices of what is
// allocated inside. Either guards of rows hold for all of them, or what rows read is masked.
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
    see_taps(body);
  }
  bool possible() const { return possible_ && !rows_.empty() && (!vectors_ || folds_); }
  bool maskable() const { return possible() && maskable_ && !vectors_; }

  Stmt piece(const Stmt& body, const Expr& start, int64_t count) {
    masks_ = false;
    return some(body, start, count);
  }
  // Rows below `first` are computed, but not written. Without it all that are there are written.
  Stmt masked(const Stmt& body, const Expr& start, int64_t count, const Expr& first) {
    masks_ = true;
    first_ = first;
    return some(body, start, count);
  }
  // Whether the window of the last row begins inside of the image. Then few rows before it end outside.
  Expr last_begins_inside(const Stmt& body) const {
    const Inside inside(body, {});
    Expr all = make::bool_imm(true);
    const auto see = [&](const Expr& e) {
      const auto below = !is_guard(e) && moves(e) ? as_below(e, tile_) : std::nullopt;
      if (!below || below->stride < 0 || below->stride % parts_.step != 0) return;
      const int64_t apart = below->stride / parts_.step;  // of the windows
      Expr rest = below->base;
      for (const Var& row : rows_) rest = substitute(rest, VarMap{{row, 0}});
      const Expr highest = inside.highest(simplify(Expr(0) - rest));
      if (highest) all = logical_and(all, lt(Expr(apart) * (parts_.size - 1), highest));
    };
    for_each_expr(body, see);
    return all;
  }
  // Loops over taps that were unrolled for their guards, but for those that registers are indexed by. A few
  // around short loops stay as they are: there a loop costs time. (Zen 5, 3 taps around 3 lines: a fourth.)
  Stmt with_loops_of_taps(const Stmt& body, bool all) const {
    struct Roll : Rewriter {
      const std::unordered_set<Var>& taps;
      bool all;
      Roll(const std::unordered_set<Var>& vars, bool all_of_them) : taps(vars), all(all_of_them) {}
      Stmt stmt(const Stmt& s) override {
        const Stmt out = children(s);
        const auto* f = out.as<For>();
        return f && taps.count(f->var) && (all || pays(*f))
                   ? make::loop(f->var, f->extent, f->body, ForKind::serial)
                   : out;
      }
      static bool pays(const For& taps) {
        constexpr int64_t kFew = 4, kLong = 8;
        bool is_long = false;
        for_each_stmt(taps.body, [&](const Stmt& s) {
          if (const auto* f = s.as<For>(); f && f->kind == ForKind::serial && !holds_loop(f->body))
            is_long = as_int(f->extent).value_or(0) >= kLong;
        });
        return is_long || as_int(taps.extent).value_or(0) > kFew;
      }
    };
    return Roll(taps_, all).stmt(body);
  }

  Expr expr(const Expr& e) override {
    if (!masks_ && is_guard(e)) return make::bool_imm(true);
    if (const auto* r = e.as<VarRef>(); r && rows_.count(r->var)) return start_ + e;
    const auto* l = e.as<Load>();
    if (l && own_.count(l->buffer)) return e;
    return l && moves(e) ? masked(children(e)) : children(e);
  }
  Stmt stmt(const Stmt& s) override {
    if (const auto* st = s.as<Store>(); st && own_.count(st->buffer))
      return make::store(st->buffer, st->indices, value_of(*st), st->mask, st->streaming);
    if (const auto* i = s.as<If>(); i && masks_) return without_guards_of_rows(*i);
    const Stmt out = children(s);
    if (!masks_ || !out.as<Store>()) return rows_loop(out);
    return make::if_then(conjunction(written_), out);
  }

 private:
  Stmt some(const Stmt& body, const Expr& start, int64_t count) {
    start_ = start;
    count_ = count;
    return stmt(fresh_copy_with_rows(body));
  }
  Stmt rows_loop(const Stmt& s) const {
    const auto* f = s.as<For>();
    return f && rows_.count(f->var) ? make::loop(f->var, count_, f->body, f->kind, f->thread, f->annotations)
                                    : s;
  }

  // ---- Masks

  bool moves(const Expr& e) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const Var& v) { return uses_var(e, v); });
  }
  Expr masked(const Expr& e) const {
    return guards_.empty() ? e : make::select(conjunction(guards_), e, make::imm(0, e.type()));
  }
  Stmt without_guards_of_rows(const If& i) {
    const std::vector<Expr> around = guards_, written = written_;
    const bool border = border_;
    std::vector<Expr> others;
    for (const Expr& c : conjuncts(i.cond)) {
      const auto row = guarded_row(c);
      border_ = border_ || (moves(c) && !row);
      if (row && first_) {
        written_.push_back(le(first_, *row));
      } else {
        (moves(c) ? guards_ : others).push_back(expr(c));
        if (moves(c)) written_.push_back(guards_.back());
      }
    }
    const Stmt inside = stmt(i.then_case);
    guards_ = around;
    written_ = written;
    border_ = border;
    return others.empty() ? inside : make::if_then(conjunction(others), inside);
  }
  // What a row that isn't there gets is never read; one at the border gets nothing more.
  Expr value_of(const Store& st) {
    if (!masks_ || !border_) return expr(st.value);
    const auto* sum = st.value.as<Binary>();
    const bool is_last = is_own(sum->a, st);
    const auto* product = (is_last ? sum->b : sum->a).as<Binary>();
    const bool by_second = !moves(product->a) && moves(product->b);
    const auto factor = [&](const Expr& f, bool wanted) {
      const Expr out = expr(f);
      return wanted && !is_load(f) ? masked(out) : out;
    };
    const Expr added =
        make::binary(BinaryOp::mul, factor(product->a, !by_second), factor(product->b, by_second));
    return is_last ? make::binary(sum->op, sum->a, added) : make::binary(sum->op, added, sum->b);
  }
  bool is_load(const Expr& e) const {
    const auto* c = e.as<Cast>();
    return c ? is_load(c->a) : e.as<Load>() && moves(e);
  }
  static bool is_own(const Expr& e, const Store& st) {
    const auto* l = e.as<Load>();
    return l && l->buffer == st.buffer && same_expr(l->indices[0], st.indices[0]);
  }
  static bool adds_product(const Store& st) {
    const auto* sum = st.value.as<Binary>();
    const auto is_product = [](const Expr& e) {
      const auto* b = e.as<Binary>();
      return b && b->op == BinaryOp::mul;
    };
    if (!sum || (sum->op != BinaryOp::add && sum->op != BinaryOp::sub)) return false;
    return (is_own(sum->a, st) && is_product(sum->b)) ||
           (sum->op == BinaryOp::add && is_own(sum->b, st) && is_product(sum->a));
  }

  std::optional<Var> row_in(const Expr& e, const Inside& inside) const {
    const auto below = as_below(e, tile_);
    const auto row = below && below->stride == parts_.step ? row_of(*below, inside) : std::nullopt;
    return row && same_expr(row->size, parts_.size) ? std::optional(row->row) : std::nullopt;
  }
  std::optional<Var> guarded_row(const Expr& e) const {
    const auto below = as_below(e, tile_);
    if (!below || below->stride != parts_.step) return std::nullopt;
    for (const Var& row : rows_)
      if (is_const_int(simplify(below->base - Expr(row) + parts_.size), 0)) return row;
    return std::nullopt;
  }
  bool is_guard(const Expr& e) const { return guarded_row(e).has_value(); }

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
          maskable_ = maskable_ && (!border_ || (own && adds_product(st)));
        },
        [&](const Update&) { possible_ = false; },
        [&](const If& i) {
          see_loads(i.cond, around);
          bool is_row = false;
          const bool border = border_;
          for (const Expr& c : conjuncts(i.cond)) {
            const bool of_row = around && uses_var(c, around->var);
            is_row = is_row || (of_row && is_guard(c));
            border_ = border_ || (of_row && !is_guard(c));
            maskable_ = maskable_ && !(of_row && has_load(c));
          }
          check(i.then_case, around, guarded || is_row);
          border_ = border;
          if (i.else_case) possible_ = false;
        },
        [&](const Alloc& a) { check(a.body, around, guarded); },
        [&](const LetStmt& l) {
          see_loads(l.value, around);
          maskable_ = maskable_ && !border_;
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

  void see_taps(const Stmt& body) {
    for_each_stmt(body, [&](const Stmt& s) {
      if (const auto* f = s.as<For>(); f && f->kind == ForKind::unrolled && holds_loop(f->body))
        taps_.insert(f->var);
    });
    const auto see = [&](const Expr& index) {
      std::erase_if(taps_, [&](const Var& v) { return uses_var(index, v); });
    };
    for_each_stmt(body, [&](const Stmt& s) {
      if (const auto* st = s.as<Store>(); st && own_.count(st->buffer)) see(st->indices[0]);
    });
    for_each_expr(body, [&](const Expr& e) {
      if (const auto* l = e.as<Load>(); l && own_.count(l->buffer)) see(l->indices[0]);
    });
  }
  static bool holds_loop(const Stmt& s) {
    bool found = false;
    for_each_stmt(s, [&](const Stmt& inner) {
      const auto* f = inner.as<For>();
      found = found || (f && f->kind == ForKind::serial);
    });
    return found;
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
  std::unordered_set<Var> taps_;
  bool possible_ = true, maskable_ = true;
  // Rows in vectors are better masked, save where each is a vector itself and their number is a constant
  // (fold_rows.h).
  bool vectors_ = false, folds_ = false;
  Expr start_;
  int64_t count_ = 0;
  bool masks_ = false, border_ = false;
  Expr first_;
  std::vector<Expr> guards_;   // that were taken away around here: of what rows read
  std::vector<Expr> written_;  // and of what they write
};

constexpr int64_t kMostRows = 32;
constexpr int64_t kPiece = 4;  // rows

}  // namespace

std::optional<Stmt> rest_in_pieces(const Var& v, const OpenParts& parts, const Stmt& body) {
  const int64_t together = parts.step > 6 ? kPiece : parts.step;
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

std::optional<MaskedTiles> masked_tiles(const Var& v, const OpenParts& parts, const Stmt& body) {
  if (!parts.size || parts.only_rows || parts.step < 2 || parts.step > kMostRows) return std::nullopt;
  Rows rows(v, parts, body);
  if (!rows.maskable()) return std::nullopt;
  MaskedTiles out;
  out.body = rows.with_loops_of_taps(body, false);
  const Stmt small = rows.with_loops_of_taps(body, true);
  const int64_t together = std::min(parts.step, kPiece);
  out.usual = logical_and(le(together, parts.size), rows.last_begins_inside(body));
  out.whole = rows.masked(out.body, 0, parts.step, 0);
  const Var part = make_var(v->name + "_part"), at = make_var(v->name + "_at");
  const Expr begin = Expr(v) * parts.step, next = begin + Expr(part) * together;
  const Stmt piece = rows.masked(out.body, Expr(at) - begin, together, next - at);
  // The last one begins earlier, so that all its rows are there.
  const Stmt pieces = make::loop(part, (parts.size - begin + (together - 1)) / together,
                                 make::let_stmt(at, min(next, parts.size - together), piece));
  out.rest = pieces;
  const int64_t few = together - 1;
  const Var third = make_var(v->name + "_few");
  out.any = make::loop(third, (max(min(parts.size - begin, parts.step), 0) + (few - 1)) / few,
                       rows.masked(small, Expr(third) * few, few, {}));
  return out;
}

}  // namespace nestor::passes

// Cuts loops where their guards begin or end to hold for all iterations inside. Such loops have the
// annotation `tail("peel")` or `tail("balanced")` from split, or `peel(1)` (conditions of a padding). The
// full part needs no guards. The partial rest has guards with constants, which `hoist_guards` turns into
// extents. A parallel loop stays one loop with a branch inside, so that its parts still run at the same time.
//
//  - If no iteration is free of guards (two, one at each end), the parts are those that are free at one end.
//  - Two partial iterations at the end of a serial loop are separate: the windows of the last tile but one
//    may cross a border, and the last tile may have only a few elements. In one loop each vector would have
//    to check which it is. (Zen 3, 3x5 of 3 to 4 channels, 130 wide by 16: a fourth of the time.)
//  - Tiles over a symbolic size that sum products at the borders of an image are masked there (row_pieces.h).
//  - Iterations at the end without any work are removed, also if guards hold in no iteration for all inside:
//    of a panel of 16 tiles that has only a part of the first, that one remains.
//
//   for i0 in 5 @tail("peel") { for i1 in 14 { if (i0*14 + i1 < 65) S } }
//   ->  for i0 in 4 { for i1 in 14 S }  ;  for i1 in 14 { if (i1 < 9) S[i0 = 4] }
#include <algorithm>
#include <unordered_set>

#include "src/passes/join_branches.h"
#include "src/passes/open_parts.h"
#include "src/passes/passes.h"
#include "src/passes/row_pieces.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

struct ReplaceDigit : Rewriter {
  ReplaceDigit(const Expr& d, const Var& v) : digit(d), by(v) {}
  const Expr &digit, by;
  Expr expr(const Expr& e) override { return same_expr(e, digit) ? by : children(e); }
};

class Partitioner : public ScopedRewriter {
 public:
  using ScopedRewriter::ScopedRewriter;
  Stmt stmt(const Stmt& s) override {
    const auto* loop = s.as<For>();
    if (!loop || !wants_partition(*loop)) return ScopedRewriter::stmt(s);
    Annotations annotations = loop->annotations;
    annotations.erase("tail");
    annotations.erase("peel");
    if (has_tail(*loop) && !digits_of(*loop).empty()) {
      enter(*loop);
      return make::loop(loop->var, loop->extent, by_digits(loop->body, digits_of(*loop)), loop->kind,
                        loop->thread, annotations);
    }
    const auto extent = as_int(loop->extent);
    if (!extent)
      if (auto parts = open_parts(loop->var, loop->extent, conditions_about(loop->var, loop->body, false),
                                  loop->body, facts()))
        return cut_open(*loop, *parts, annotations);
    const Interval full = extent ? full_part(*loop, *extent) : Interval{0, -1};
    const bool shared = loop->kind == ForKind::parallel || loop->kind == ForKind::thread;
    const bool guarded = full.lo > full.hi;  // everywhere, at one end or the other
    const bool whole = extent && full.lo == 0 && full.hi == *extent - 1;
    const int64_t last = whole && !shared ? last_that_runs(*loop, *extent) : full.hi;
    if (!extent || (guarded && shared) || (whole && (last < 0 || last == full.hi))) {
      enter(*loop);
      return make::loop(loop->var, loop->extent, stmt(loop->body), loop->kind, loop->thread, annotations);
    }
    std::vector<Interval> parts = {{0, full.lo - 1}, full, {full.hi + 1, *extent - 1}};
    if (guarded) parts = {{0, full.hi}, {full.hi + 1, full.lo - 1}, {full.lo, *extent - 1}};
    if (shared) return branches(*loop, parts, annotations);
    (whole ? parts[1] : parts[2]).hi = whole ? last : last_that_runs(*loop, *extent);
    if (!guarded && parts[2].hi == parts[2].lo + 1) {
      parts.push_back({parts[2].hi, parts[2].hi});
      parts[2].hi = parts[2].lo;
    }
    std::vector<Stmt> out;
    for (const Interval& part : parts)
      if (part.lo <= part.hi) out.push_back(separate(*loop, part, annotations, !out.empty()));
    return make::seq(std::move(out));
  }

 private:
  static bool wants_partition(const For& loop) {
    const auto peel = loop.annotations.find("peel");
    return (peel != loop.annotations.end() && peel->second != Annotation(int64_t{0})) || has_tail(loop);
  }
  static bool has_tail(const For& loop) {
    const auto it = loop.annotations.find("tail");
    if (it == loop.annotations.end()) return false;
    const auto* how = std::get_if<std::string>(&it->second);
    return how && (*how == "peel" || *how == "balanced");
  }

  // Whether the conditions around all that writes something fail.
  static bool does_nothing(const Stmt& s, Facts& inner) {
    if (const auto* f = s.as<For>()) {
      inner.set(f->var, {0, range_of(f->extent, inner).hi - 1});
      return does_nothing(f->body, inner);
    }
    if (const auto* i = s.as<If>()) {
      for (const Expr& c : conjuncts(i->cond))
        if (!has_load(c) && can_prove(logical_not(c), inner))
          return !i->else_case || does_nothing(i->else_case, inner);
      return does_nothing(i->then_case, inner) && (!i->else_case || does_nothing(i->else_case, inner));
    }
    if (const auto* seq = s.as<Seq>())
      return std::all_of(seq->stmts.begin(), seq->stmts.end(),
                         [&](const Stmt& part) { return does_nothing(part, inner); });
    if (const auto* alloc = s.as<Alloc>()) return does_nothing(alloc->body, inner);
    const auto* effect = s.as<Evaluate>();
    const auto* call = effect ? effect->call.as<Call>() : nullptr;
    return call && call->fn == Intrinsic::prefetch;
  }

  // Behind it nothing happens in any iteration.
  int64_t last_that_runs(const For& loop, int64_t extent) {
    Facts inner = facts();
    int64_t runs = -1, nothing = extent;  // runs: perhaps
    while (nothing - runs > 1) {
      const int64_t mid = (runs + nothing) / 2;
      inner.set(loop.var, {mid, extent - 1});
      (does_nothing(loop.body, inner) ? nothing : runs) = mid;
    }
    return nothing - 1;
  }

  static bool only_prefetches(const Stmt& s) {
    bool only = true;
    for_each_stmt(s, [&](const Stmt& inner) { only = only && !inner.as<Store>() && !inner.as<Update>(); });
    return only;
  }

  static std::vector<Expr> conditions_about(const Var& v, const Stmt& body, bool of_prefetches = true) {
    std::vector<Expr> out;
    const auto collect = [&](const Expr& condition) {
      for (const Expr& c : conjuncts(condition))
        if (uses_var(c, v)) out.push_back(c);
    };
    for_each_stmt(body, [&](const Stmt& s) {
      if (const auto* i = s.as<If>(); i && (of_prefetches || !only_prefetches(s))) collect(i->cond);
    });
    for_each_expr(body, [&](const Expr& e) {
      if (const auto* s = e.as<Select>()) collect(s->cond);
    });
    return out;
  }

  // Quotients and remainders of what the loop counts that conditions of its body are about: the numbers of
  // the loops that it was fused of.
  std::vector<Expr> digits_of(const For& loop) {
    struct Digits : Walker {
      const Var& v;
      std::unordered_set<Var> inside;  // not known where the body begins
      std::vector<Expr> found;
      explicit Digits(const Var& of) : v(of) {}
      void expr(const Expr& e) override {
        const auto* b = e.as<Binary>();
        const bool digit = b && (b->op == BinaryOp::div || b->op == BinaryOp::mod) && uses_var(e, v);
        bool known = digit && !has_load(e);
        for_each_expr(e, [&](const Expr& part) {
          if (const auto* r = part.as<VarRef>()) known = known && !inside.count(r->var);
        });
        if (!known) return children(e);
        if (std::none_of(found.begin(), found.end(), [&](const Expr& f) { return same_expr(f, e); }))
          found.push_back(e);
      }
    } digits(loop.var);
    for_each_stmt(loop.body, [&](const Stmt& s) {
      if (const auto* f = s.as<For>()) digits.inside.insert(f->var);
      if (const auto* l = s.as<LetStmt>()) digits.inside.insert(l->var);
    });
    for (const Expr& c : conditions_about(loop.var, loop.body)) digits.expr(c);
    return std::move(digits.found);
  }

  // The body, once for each combination of the full and the ragged parts of the digits.
  Stmt by_digits(const Stmt& body, std::vector<Expr> digits) {
    if (digits.empty()) return stmt(body);
    const Expr digit = digits.back();
    digits.pop_back();
    const Interval range = range_of(digit, facts());
    const Var v = make_var("digit" + std::to_string(digits.size()));
    const Stmt counted = ReplaceDigit(digit, v).stmt(body);
    if (range.lo == 0 && range.hi >= Interval::kMax) return by_open_digit(body, counted, v, digit, digits);
    const Interval full =
        range.lo == 0 && range.hi < Interval::kMax ? full_part(v, counted, range.hi + 1) : range;
    if (full.lo > full.hi || (full.lo == range.lo && full.hi == range.hi)) return by_digits(body, digits);
    const auto part = [&](const Interval& values) {
      Stmt own = values.lo == full.lo ? counted : fresh_copy(counted);
      const Expr value = values.is_point() ? Expr(values.lo) : Expr(v);
      if (values.is_point()) own = substitute(own, VarMap{{v, value}});
      set_range(v, values);
      return substitute(by_digits(simplify(own, facts()), digits), VarMap{{v, digit}});
    };
    Stmt out = part(full);
    if (full.hi < range.hi) out = join_branches(lt(digit, full.hi + 1), out, part({full.hi + 1, range.hi}));
    if (range.lo < full.lo) out = join_branches(lt(digit, full.lo), part({range.lo, full.lo - 1}), out);
    return out;
  }

  // The same of a digit that runs over a symbolic size.
  Stmt by_open_digit(const Stmt& body, const Stmt& counted, const Var& v, const Expr& digit,
                     const std::vector<Expr>& digits) {
    const Expr none = Expr(Interval::kMax);
    const auto parts = open_parts(v, none, conditions_about(v, counted, false), counted, facts());
    if (!parts || !parts->full) return by_digits(body, digits);
    set_range(v, {parts->first, Interval::kMax});
    Stmt full = assuming(lt(v, parts->full), [&] { return by_digits(simplify(counted, facts()), digits); });
    full = substitute(full, VarMap{{v, digit}});
    set_range(v, {0, Interval::kMax});
    const auto pieces = rest_in_pieces(v, *parts, counted);
    const Stmt rest =
        substitute(by_digits(pieces ? *pieces : fresh_copy(counted), digits), VarMap{{v, digit}});
    Stmt out = join_branches(lt(digit, parts->full), full, rest);
    if (parts->first) out = join_branches(lt(digit, parts->first), fresh_copy(by_digits(body, digits)), out);
    return out;
  }

  // The iterations in which every condition of the body that can hold for a whole range of them does hold:
  // from where those that fail at first do to where those that fail at last do, which may be earlier.
  Interval full_part(const For& loop, int64_t extent) { return full_part(loop.var, loop.body, extent); }
  Interval full_part(const Var& v, const Stmt& body, int64_t extent) {
    Facts inner = facts();
    for_each_stmt(body, [&](const Stmt& s) {
      if (const auto* f = s.as<For>()) inner.set(f->var, {0, range_of(f->extent, inner).hi - 1});
    });
    Interval full{0, extent - 1};
    for (const Expr& c : conditions_about(v, body)) {
      const auto holds = [&](int64_t lo, int64_t hi) {
        inner.set(v, {lo, hi});
        return can_prove(c, inner);
      };
      const bool at_start = holds(0, 0), at_end = holds(extent - 1, extent - 1);
      if (at_start == at_end) continue;
      int64_t yes = at_start ? 0 : extent - 1, no = at_start ? extent - 1 : 0;
      while (std::abs(yes - no) > 1) {
        const int64_t mid = (yes + no) / 2;
        (at_start ? holds(0, mid) : holds(mid, extent - 1)) ? yes = mid : no = mid;
      }
      if (at_start)
        full.hi = std::min(full.hi, yes);
      else
        full.lo = std::max(full.lo, yes);
    }
    return full;
  }

  // The body for the iterations of `part`; a single one takes the loop's variable out.
  Stmt body_for(const For& loop, const Interval& part, bool copy) {
    Stmt body = copy ? fresh_copy(loop.body) : loop.body;
    if (part.is_point()) body = substitute(body, VarMap{{loop.var, Expr(part.lo)}});
    set_range(loop.var, part);
    return stmt(simplify(body, facts()));
  }

  // The body where no condition fails.
  Stmt free_of_guards(const Var& v, const Stmt& body, const OpenParts& parts, const Expr& end) {
    set_range(v, {parts.first, Interval::kMax});
    return assuming(below(v, end), [&] { return stmt(simplify(body, facts())); });
  }
  // Before: only what fails at first may fail, if the part without guards goes on from there.
  Stmt before(const Var& v, const Stmt& body, const OpenParts& parts, const Expr& end) {
    set_range(v, {0, parts.first - 1});
    const Stmt guarded = stmt(simplify(fresh_copy(body), facts()));
    if (!parts.full) return guarded;
    const Expr followed = le(Expr(parts.first), end);
    const Stmt alone = assuming(logical_and(followed, below(v, end)),
                                [&] { return stmt(simplify(fresh_copy(body), facts())); });
    return join_branches(followed, alone, guarded);
  }
  // Behind: a tile that isn't full.
  Stmt behind(const Var& v, const Stmt& body, const OpenParts& parts) {
    return guarded(v, body, parts, parts.first);
  }
  Stmt at_ends(const Var& v, const Stmt& body, const OpenParts& parts) { return guarded(v, body, parts, 0); }
  Stmt guarded(const Var& v, const Stmt& body, const OpenParts& parts, int64_t first) {
    set_range(v, {first, Interval::kMax});
    const auto pieces = rest_in_pieces(v, parts, body);
    return stmt(simplify(pieces ? *pieces : fresh_copy(body), facts()));
  }

  // A loop over a symbolic size: [0, first), [first, end) and [end, extent), or one loop with branches.
  Stmt cut_open(const For& loop, const OpenParts& parts, const Annotations& annotations) {
    const Var& v = loop.var;
    const Expr end = parts.full ? lesser(parts.full, loop.extent, facts()) : loop.extent;
    if (const auto masked = masked_tiles(v, parts, loop.body))
      return cut_masked(loop, parts, *masked, annotations);
    Stmt full = free_of_guards(v, loop.body, parts, end);
    if (loop.kind == ForKind::parallel || loop.kind == ForKind::thread) {
      // Threads take one body for both ends, as the last iteration may be the first.
      Expr inside = make::bool_imm(true);
      if (parts.first) inside = logical_and(inside, le(parts.first, v));
      if (parts.full) inside = logical_and(inside, lt(v, end));
      full = join_branches(inside, full, at_ends(v, loop.body, parts));
      return make::loop(v, loop.extent, full, loop.kind, loop.thread, annotations);
    }
    std::vector<Stmt> out;
    const auto add = [&](Stmt body, const Expr& from, const Expr& to) {
      const Var counter = make_var(v->name);
      body = substitute(body, VarMap{{v, Expr(counter) + from}});
      out.push_back(make::loop(counter, simplify(max(to - from, 0), facts()), body, loop.kind, loop.thread,
                               annotations));
    };
    if (parts.first) add(before(v, loop.body, parts, end), 0, lesser(parts.first, loop.extent, facts()));
    add(full, parts.first, end);
    if (parts.full) {
      // The full part may end before it begins, even below 0.
      add(behind(v, loop.body, parts), simplify(max(end, Expr(parts.first)), facts()), loop.extent);
    }
    return make::seq(std::move(out));
  }

  // Tiles of all rows, with masks where guards may fail; then what rows are left.
  Stmt cut_masked(const For& loop, const OpenParts& parts, const MaskedTiles& tiles,
                  const Annotations& annotations) {
    const Var& v = loop.var;
    const bool shared = loop.kind == ForKind::parallel || loop.kind == ForKind::thread;
    const auto of_tiles = [&](const Expr& count, const Stmt& body) {
      return make::loop(v, count, body, loop.kind, loop.thread, annotations);
    };
    const Expr usual = simplify(tiles.usual, facts());
    const Stmt as_usual = assuming(usual, [&] {
      const Expr whole = lesser(simplify(parts.size / parts.step, facts()), loop.extent, facts());
      const Stmt full = free_of_guards(v, tiles.body, parts, parts.full);
      set_range(v, {0, Interval::kMax});
      const Stmt border = assuming(le((Expr(v) + 1) * parts.step, parts.size),
                                   [&] { return stmt(simplify(tiles.whole, facts())); });
      const Expr inside = logical_and(le(Expr(parts.first), v), lt(v, parts.full));
      const Stmt body = make::if_then(simplify(inside, facts()), full, border);
      const Stmt rest = stmt(simplify(tiles.rest, facts()));
      if (shared) return make::if_then(lt(v, whole), body, rest);
      const Expr left = simplify(lt(whole, loop.extent), facts());
      return make::seq({of_tiles(whole, body), make::if_then(left, substitute(rest, VarMap{{v, whole}}))});
    });
    const Var other = make_var(v->name);
    const Stmt any = stmt(simplify(substitute(tiles.any, VarMap{{v, shared ? v : other}}), facts()));
    if (shared) return of_tiles(loop.extent, make::if_then(usual, as_usual, any));
    return make::if_then(usual, as_usual,
                         make::loop(other, loop.extent, any, loop.kind, loop.thread, annotations));
  }

  // A loop of its own for one part, counting from 0.
  Stmt separate(const For& loop, const Interval& part, const Annotations& annotations, bool copy) {
    Stmt body = body_for(loop, part, copy);
    if (part.is_point()) return body;
    Var v = make_var(loop.var->name);
    body = substitute(body, VarMap{{loop.var, Expr(v) + part.lo}});
    return make::loop(v, part.hi - part.lo + 1, std::move(body), loop.kind, loop.thread, annotations);
  }

  // One loop that chooses its part: `if i < lo {head} else if i < hi {full} else {rest}`.
  Stmt branches(const For& loop, const std::vector<Interval>& parts, const Annotations& annotations) {
    Stmt body = body_for(loop, parts[1], false);
    if (parts[2].lo <= parts[2].hi)
      body = join_branches(lt(loop.var, parts[2].lo), body, body_for(loop, parts[2], true));
    if (parts[0].lo <= parts[0].hi)
      body = join_branches(lt(loop.var, parts[1].lo), body_for(loop, parts[0], true), body);
    return make::loop(loop.var, loop.extent, std::move(body), loop.kind, loop.thread, annotations);
  }
};

}  // namespace

PrimFunc partition_loops(const PrimFunc& f, const Target&) {
  PrimFunc out = f;
  out.body = Partitioner(f).stmt(f.body);
  return out;
}

}  // namespace nestor::passes

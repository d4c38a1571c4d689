// Spreads the prefetches for a later iteration of an outer loop over the iterations of an inner loop, a few
// lines each. All at once they would fill the memory queue and delay the arithmetic. The outer loop has the
// annotation `share X` (the distance), the inner one `shares of X`.
//
// It runs after `flatten_buffers`. What an iteration reads is then one range of addresses if it is
// contiguous, whatever the layout, so its lines can be numbered. Inner iterations are numbered as if all
// loops around ran to their bounds; surplus ones prefetch the last line.
//
// Three other cases:
// - Several ranges of one length at a constant distance (lines of an image in planes, planes of a volume):
//    each iteration prefetches some ranges, or a part of one.
// - One line per page: the first access to a page waits for a page walk, and so does a prefetch; several in a
//    row overlap their walks. The value of `shares of X` is then the number of bytes per line; below a line
//    it means all lines.
// - Overlapping windows: lines that the iteration before has read aren't prefetched again, nor lines that a
//    stride skips.
//
// At the end of a loop it continues with the next iteration of the loop around, if that range follows;
// otherwise the last range is prefetched again. No address is outside of the buffer. A read with unknown
// bounds, or one that skips most of its range, gets no prefetch.
#include <algorithm>
#include <map>
#include <numeric>

#include "src/passes/passes.h"
#include "src/passes/region.h"

namespace nestor::passes {

namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kMostLeftOut = 2;  // bytes of the range for each byte that is read, at most
const std::string kShare = "share ", kShares = "shares of ";

// An expression in the next iteration of a loop, where no division by an extent carries over.
class OneOn : public Rewriter {
 public:
  explicit OneOn(Var var) : var_(std::move(var)) {}
  Expr expr(const Expr& e) override {
    const auto* b = e.as<Binary>();
    if (b && b->op == BinaryOp::div && same_expr(b->a, Expr(var_))) return e;
    if (b && b->op == BinaryOp::mod && same_expr(b->a, Expr(var_))) return e + 1;
    return same_expr(e, Expr(var_)) ? e + 1 : children(e);
  }

 private:
  Var var_;
};

class Sharer : public ScopedRewriter {
 public:
  explicit Sharer(const PrimFunc& f) : f_(f), decls_(declarations(f)) {}

  Stmt stmt(const Stmt& s) override {
    const auto* loop = s.as<For>();
    if (!loop) return ScopedRewriter::stmt(s);
    enter(*loop);
    path_.push_back(loop);
    const size_t streams = streams_.size();
    std::vector<Stmt> stmts;
    Annotations rest;
    for (const auto& [key, value] : loop->annotations) {
      const auto* distance = std::get_if<int64_t>(&value);
      if (key.starts_with(kShare) && distance)
        open(*loop, key.substr(kShare.size()), *distance);
      else if (!key.starts_with(kShares))
        rest.emplace(key, value);
    }
    for (const auto& [key, value] : loop->annotations)
      if (const auto* bytes = std::get_if<int64_t>(&value); bytes && key.starts_with(kShares))
        add_share(key.substr(kShares.size()), *bytes, stmts);
    Stmt body = stmt(loop->body);
    streams_.resize(streams);
    path_.pop_back();
    if (!body) return {};
    stmts.push_back(std::move(body));
    return make::loop(loop->var, loop->extent, make::seq(std::move(stmts)), loop->kind, loop->thread,
                      std::move(rest));
  }

 private:
  static int64_t line_of(const Buffer& buffer) {
    return std::max<int64_t>(1, kLineBytes / bytes_of(buffer->type.dtype));
  }

  // How many ranges there are, and how far apart: groups of groups of ranges, from without.
  struct Level {
    int64_t apart, count;
    bool operator==(const Level&) const = default;
  };
  struct Levels : std::vector<Level> {
    // Further ranges within each: those that go on where the ones around do fall together with them. False
    // where they overlap elsewhere.
    bool add(Level next) {
      for (; !empty() && back().apart <= next.apart * next.count; pop_back()) {
        if (back().apart % next.apart != 0) return false;
        next.count += (back().count - 1) * (back().apart / next.apart);
      }
      push_back(next);
      return true;
    }
    int64_t ranges() const {
      int64_t n = 1;
      for (const Level& l : *this) n *= l.count;
      return n;
    }
    // From the first range to the one of a number.
    template <typename Number>
    Number offset(Number number) const {
      Number sum = 0;
      for (size_t i = size(); i-- > 0; number = number / Number((*this)[i].count))
        sum = sum + (i == 0 ? number : number % Number((*this)[i].count)) * Number((*this)[i].apart);
      return sum;
    }
    // At least so many that lie alike wherever they begin at a multiple of them.
    int64_t alike(int64_t least) const {
      int64_t group = 1;
      for (size_t i = size(); i-- > 1; group *= (*this)[i].count)
        for (int64_t part = 1; part <= (*this)[i].count; ++part)
          if ((*this)[i].count % part == 0 && group * part >= least) return group * part;
      return ceil_div(least, group) * group;
    }
  };

  struct Stream {
    std::string name;
    BufferDecl decl;
    Span range;    // ahead already; the first, if there are several
    size_t depth;  // of its loop in path_
    Levels levels;
    int64_t every;  // elements from a line that is read to the next one
    bool leaps;     // leaves out those between
  };

  // The step in which an index reads, where it leaves out lines between: what moves by less stays in a line.
  static int64_t every_of(const Expr& index, const std::vector<Var>& running, const Facts& facts,
                          int64_t line) {
    int64_t step = 0, within = 1;
    for (const auto& [atom, coefficient] : linear(index).terms) {
      const auto in_atom = [&atom = atom](const Var& v) { return uses_var(atom, v); };
      if (std::none_of(running.begin(), running.end(), in_atom)) continue;
      const Interval r = range_of(atom, facts);
      if (r.lo <= Interval::kMin || r.hi >= Interval::kMax) return line;
      if (std::abs(coefficient) > line)
        step = std::gcd(step, coefficient);
      else
        within += std::abs(coefficient) * (r.hi - r.lo);
    }
    return step >= 2 * line && step % line == 0 && within <= line ? step : line;
  }

  // What is read: the first of some ranges of one length, `every` line of it.
  struct Range {
    std::optional<Span> span;
    int64_t every = 0;

    // Where an access reads so many elements of all of them, by steps.
    void add(const std::optional<Span>& part, int64_t elements, int64_t step, int64_t line) {
      if (every == 0) {
        base_ = part ? part->first() : Expr(0);
        every = step_ = step;
      }
      const auto distance = part ? as_int(simplify(part->first() - base_)) : std::optional<int64_t>(0);
      every = distance ? std::gcd(std::gcd(every, step), *distance) : line;
      if (every < 2 * line || every % line != 0) every = line;
      if (distance) {
        int64_t& most = lines_[(*distance % step_ + step_) % step_ / line];
        most = std::max(most, elements);
      }
      span = !part ? std::nullopt : span ? join(*span, *part) : part;
    }
    // Whether most of the lines that would be asked for in so many ranges are read: accesses that begin at
    // other lines of a step read others.
    bool mostly_read(int64_t ranges, int64_t line) const {
      int64_t read = 0;
      for (const auto& [_, elements] : lines_) read += elements;
      return span->extent() / (every / line) <= kMostLeftOut * (read / ranges);
    }

   private:
    Expr base_;                         // where the first access begins
    int64_t step_ = 0;                  // and what it moves by
    std::map<int64_t, int64_t> lines_;  // elements that are read from each line of a step on
  };

  // Some ranges of one length, a fixed distance apart: what moves by most in an index goes from one to the
  // next. So does what goes from row to row of several together, as steps that are written out do; else what
  // moves by next to most goes on within a group of them.
  struct Rows {
    Levels levels;
    Range first;
    bool alike(const Rows& o) const { return !levels.empty() && levels == o.levels; }
  };
  static Rows rows_of(Expr index, const std::vector<Var>& running, const Facts& facts, int64_t read,
                      int64_t line) {
    Rows rows;
    do {
      Var var;
      int64_t coefficient = 0;
      for (const auto& [atom, c] : linear(index).terms)
        if (const auto* r = atom.as<VarRef>();
            r && std::abs(c) > std::abs(coefficient) && std::count(running.begin(), running.end(), r->var)) {
          var = r->var;
          coefficient = c;
        }
      const int64_t count = var ? range_of(Expr(var), facts).hi + 1 : 0, apart = std::abs(coefficient);
      if (count < 1) break;
      if (!rows.levels.add({apart, count})) return {};
      const int64_t first = coefficient > 0 ? 0 : count - 1;  // ranges that are read from behind
      index = simplify(substitute(index, VarMap{{var, Expr(first)}}), facts);
      rows.first = {};
      rows.first.add(span_of(index, running, facts), read, every_of(index, running, facts, line), line);
    } while (rows.first.span && !rows.first.mostly_read(rows.levels.ranges(), line));
    return rows;
  }

  // The range that an iteration of the loop reads, if it is dense, `distance` ahead.
  void open(const For& loop, const std::string& name, int64_t distance) {
    std::unordered_set<Buffer> inside;  // of this iteration alone
    for_each_stmt(loop.body, [&](const Stmt& s) {
      if (const auto* a = s.as<Alloc>()) inside.insert(a->decl.buffer);
    });
    for (const auto& [buffer, accesses] : find_accesses(loop.body, facts())) {
      if (buffer->name != name || decls_.at(buffer).scope != Scope::global || inside.count(buffer)) continue;
      Range all;
      std::optional<Rows> rows;  // of all accesses, if those are alike
      bool alike = true;
      const int64_t line = line_of(buffer);
      const bool read = std::any_of(accesses.begin(), accesses.end(),
                                    [](const Access& a) { return a.kind == AccessKind::read; });
      for (const Access& a : accesses) {
        if ((read && a.kind != AccessKind::read) || a.indices.size() != 1) continue;
        std::vector<Var> running;
        int64_t steps = 1;
        for (const For* l : a.loops) {
          running.push_back(l->var);
          if (uses_var(a.indices[0], l->var)) steps *= range_of(l->extent, a.facts).hi;
        }
        if (jumps(a.indices[0], running)) return;
        const auto here = span_of(a.indices[0], running, a.facts);
        all.add(here, steps, every_of(a.indices[0], running, a.facts, line), line);
        if (!all.span) return;
        const Rows these = rows_of(a.indices[0], running, a.facts, steps, line);
        alike = alike && these.first.span && (!rows || rows->alike(these));
        if (!alike) continue;
        if (rows)
          rows->first.add(these.first.span, steps, these.first.every, line);
        else
          rows = these;
        alike = rows->first.span.has_value();
      }
      if (!all.span) return;
      const bool dense = all.mostly_read(1, line);
      if (!dense && !alike) return;
      const Range& part = dense ? all : rows->first;
      const Levels levels = dense ? Levels() : rows->levels;
      if (!dense && (part.span->extent() > levels.back().apart || !part.mostly_read(levels.ranges(), line) ||
                     part.span->extent() < line))
        return;
      Span range = *part.span;
      const int64_t every = part.every;
      leave_out_read(range, every == line ? 1 : every, loop);
      const Expr later = Expr(loop.var) + Expr(distance);
      if (goes_on_around(range.base, loop))
        range.base = min(substitute(range.base, VarMap{{loop.var, later}}),
                         decls_.at(buffer).shape[0] - (levels.offset(levels.ranges() - 1) + range.hi + 1));
      else
        range.base = substitute(range.base, VarMap{{loop.var, min(later, loop.extent - 1)}});
      range.base = readable_anywhere(range.base, f_, facts());
      if (!range.base) return;
      streams_.push_back({name, decls_.at(buffer), range, path_.size(), levels, every, every > line});
      return;
    }
  }

  // Of a range read by `step` that goes on by some steps, less than its length, those that the iteration
  // before doesn't read. In a loop that was fused of several the innermost goes on.
  void leave_out_read(Span& range, int64_t step, const For& loop) const {
    const Expr next = OneOn(loop.var).expr(range.base);
    const auto forward = as_int(simplify(next - range.base, facts()));
    if (forward && *forward > 0 && *forward < range.extent() && *forward % step == 0)
      range.lo += ceil_div(range.extent() - *forward, step) * step;
  }

  // Whether behind the loop's last iteration lies what the next iteration of the loop around it begins with.
  bool goes_on_around(const Expr& base, const For& loop) const {
    const auto runs = [](const For* l) { return !is_const_int(l->extent, 1); };
    const auto around = std::find_if(path_.rbegin() + 1, path_.rend(), runs);
    if (around == path_.rend()) return false;
    const Var& outer = (*around)->var;
    const Expr behind = substitute(base, VarMap{{loop.var, loop.extent}});
    const Expr next = substitute(base, VarMap{{loop.var, Expr(0)}, {outer, Expr(outer) + 1}});
    return as_int(simplify(behind - next, facts())) == 0;
  }

  // Of each `bytes` one line, where that is more than one.
  void add_share(const std::string& name, int64_t bytes, std::vector<Stmt>& out) {
    const auto found =
        std::find_if(streams_.rbegin(), streams_.rend(), [&](const Stream& s) { return s.name == name; });
    if (found == streams_.rend()) return;
    Stream stream = *found;
    if (const int64_t part = bytes / bytes_of(stream.decl.buffer->type.dtype); part > stream.every) {
      stream.every = part;
      stream.leaps = false;
    }
    Expr number = 0;
    int64_t iterations = 1;
    for (size_t d = stream.depth; d < path_.size(); ++d) {
      const int64_t extent = range_of(path_[d]->extent, facts()).hi;
      if (extent < 1 || extent >= Interval::kMax / iterations) return;
      number = number * Expr(extent) + Expr(path_[d]->var);
      iterations *= extent;
    }
    if (stream.levels.ranges() > 1)
      share_ranges(stream, number, iterations, out);
    else
      share_lines(stream, number, iterations, out);
  }

  void share_lines(const Stream& stream, Expr number, int64_t iterations, std::vector<Stmt>& out) {
    const int64_t line = stream.every, lines = ceil_div(stream.range.extent(), line);
    if (iterations > lines) number = number / Expr(iterations / lines);
    const int64_t each = (lines + iterations - 1) / iterations;
    // Bounds are kept once for all lines of an iteration: near the end it asks again for some.
    const int64_t reach = (each - 1) * line;
    const int64_t last = stream.leaps ? (lines - 1) * line : stream.range.extent() - 1;
    const Expr first =
        inside(stream, stream.range.first() + min(number * Expr(each * line), last - reach), reach);
    for (int64_t i = 0; i < each; ++i) ask(stream, first + i * line, out);
  }

  // Ranges without gaps begin anywhere in a line: the last element of each is asked for too.
  void share_ranges(const Stream& stream, Expr number, int64_t iterations, std::vector<Stmt>& out) {
    const int64_t line = stream.every;
    const int64_t lines = ceil_div(stream.range.extent() - (stream.leaps ? line : 1), line) + 1;
    const int64_t length = stream.leaps ? (lines - 1) * line + 1 : stream.range.extent();
    const int64_t ranges = stream.levels.ranges();
    const int64_t least = ceil_div(ranges, iterations), alike = stream.levels.alike(least);
    const int64_t each = alike <= 2 * least ? alike : least;  // else each is found by itself
    const int64_t parts = std::clamp<int64_t>(iterations / ranges, 1, lines);
    const int64_t in_part = (lines + parts - 1) / parts, reach = (in_part - 1) * line;
    if (iterations > ranges * parts) number = number / Expr(iterations / (ranges * parts));
    const Expr range = min(number / Expr(parts) * Expr(each), ranges - each);
    const Expr part =
        parts == 1 ? Expr(0) : min(number % Expr(parts) * Expr(in_part), lines - in_part) * line;
    const int64_t last = parts == 1 ? length - 1 : reach;
    const auto from = [&](const Expr& n, int64_t to_others) {
      return inside(stream, stream.range.first() + stream.levels.offset(n) + part, to_others + last);
    };
    for (int64_t r = 0; r < each; ++r) {
      const Expr first = each == alike ? from(range, stream.levels.offset(each - 1)) + stream.levels.offset(r)
                                       : from(range + r, 0);
      for (int64_t i = 0; i < in_part; ++i) ask(stream, first + std::min(i * line, last), out);
    }
  }

  // Where what is asked for behind `first`, up to `reach`, is inside of the buffer.
  Expr inside(const Stream& stream, Expr first, int64_t reach) const {
    const Expr& size = stream.decl.shape[0];
    if (!can_prove(le(0, first), facts())) first = max(first, 0);
    if (!can_prove(lt(first + reach, size), facts())) first = min(first, max(size - (1 + reach), 0));
    return first;
  }

  void ask(const Stream& stream, Expr at, std::vector<Stmt>& out) const {
    if (!can_prove(lt(at, stream.decl.shape[0]), facts())) at = min(at, stream.decl.shape[0] - 1);
    const Expr ahead = make::load(stream.decl.buffer, {simplify(at, facts())});
    out.push_back(make::evaluate(make::call(Intrinsic::prefetch, {ahead})));
  }

  const PrimFunc& f_;
  std::unordered_map<Buffer, BufferDecl> decls_;
  std::vector<const For*> path_;
  std::vector<Stream> streams_;
};

}  // namespace

PrimFunc share_prefetches(const PrimFunc& f, const Target&) {
  if (!has_loop_annotation(f, kShare)) return f;
  PrimFunc out = f;
  out.body = Sharer(f).stmt(f.body);
  return out;
}

}  // namespace nestor::passes

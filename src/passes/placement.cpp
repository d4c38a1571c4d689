// A temporary sinks into a loop if no iteration of it needs what an earlier one left behind. Two ways to know
// that:
//  - iterations touch different elements (`told_apart`): in some dimension all accesses of one iteration
//    lie within one step;
//  - each element that is read was written before, in the same iteration (`covered`): some write,
//    whatever its guards, that comes first in program order reaches all that the read reaches, without
//    gaps.
#include "src/passes/placement.h"

#include <algorithm>
#include <set>

#include "src/passes/digits.h"
#include "src/passes/refuse.h"

namespace nestor::passes {

namespace {

bool is_thread_index(const For& loop) {
  return loop.kind == ForKind::thread && loop.thread >= ThreadTag::thread_x &&
         loop.thread <= ThreadTag::thread_z;
}

class Placer {
 public:
  // `inside` loops are around the allocation already.
  Placer(const BufferDecl& decl, size_t inside, const std::vector<Access>& accesses, const Facts& loops,
         bool cuda)
      : decl_(decl), inside_(inside), accesses_(accesses), loops_(loops), cuda_(cuda) {
    common_ = accesses_[0].loops.size();
    for (const Access& a : accesses_) common_ = std::min(common_, common_loops(accesses_[0], a));
  }

  Placement place() const {
    Placement out{decl_, std::vector<Expr>(decl_.shape.size(), 0), {}, {}, nullptr, false};
    out.digits.resize(decl_.shape.size());
    out.ends.resize(decl_.shape.size());
    if (cuda_ && decl_.scope == Scope::global) {  // device memory is allocated outside of kernels
      require_elements_of_own();
      return out;
    }
    const std::vector<const For*>& path = accesses_[0].loops;
    // `depth` loops stand still when regions are measured; the allocation lies inside `home` of them.
    size_t depth = 0, home = 0;
    bool in_threads = false;
    for (; depth < common_; ++depth) {
      const For& loop = *path[depth];
      if (loop.kind == ForKind::vectorized && depth >= inside_) break;
      const bool all_threads = decl_.scope == Scope::shared && cuda_ && is_thread_index(loop);
      const bool own = cuda_ && loop.kind == ForKind::thread;
      // Shared memory never crosses blocks: that is what the schedule promised.
      if (depth >= inside_ && !(own && decl_.scope == Scope::shared) && carries(depth)) {
        if (!own) break;
        refuse("buffer " + decl_.buffer->name + " is `local`, but what one iteration of `" + loop.var->name +
                   "` (" + name_of(loop.thread) + ") stores, another may read",
               "set_scope " + decl_.buffer->name +
                   " shared, or bind the same loops in its producer and its consumers");
      }
      out.in_kernel = out.in_kernel || own;
      in_threads = in_threads || all_threads;
      if (!in_threads) home = depth + 1;
    }
    for (size_t d = 0; d < decl_.shape.size(); ++d) {
      const auto span = span_at(depth, d);
      if (!span) continue;
      const auto full = as_int(decl_.shape[d]);
      if (full && (span->extent() >= *full || span->extent() <= 0)) continue;
      const Expr first = simplify(span->first());
      const Interval range = range_of(first, loops_);
      const Expr end = range.hi < Interval::kMax ? Expr(range.hi + 1) : end_of(first, depth);
      if (range.lo <= Interval::kMin || !end) continue;
      out.ends[d] = end;
      out.decl.shape[d] = span->extent();
      out.offsets[d] = first;
      const auto sparse = cuda_ && decl_.scope == Scope::local ? digits_at(depth, d) : std::nullopt;
      if (!sparse || elements_of(sparse->digits) >= span->extent()) continue;
      out.digits[d] = sparse->digits;
      out.decl.shape[d] = elements_of(sparse->digits);
    }
    out.loop = home ? path[home - 1] : nullptr;
    return out;
  }

 private:
  // What a sum of the outermost `depth` loops doesn't reach, where they run over symbolic sizes; null where
  // it isn't one.
  Expr end_of(const Expr& e, size_t depth) const {
    VarMap last;
    for (size_t i = 0; i < depth; ++i) {
      const For& loop = *accesses_[0].loops[i];
      last[loop.var] = loop.extent - 1;
    }
    for (const auto& [atom, coefficient] : linear(e).terms) {
      const auto* q = atom.as<Binary>();
      const bool quotient = q && q->op == BinaryOp::div && as_int(q->b).value_or(0) > 0 && q->a.as<VarRef>();
      if (coefficient < 0 || (!atom.as<VarRef>() && !quotient)) return {};
    }
    const Expr end = simplify(substitute(e, last) + 1, loops_);
    const bool of_sizes =
        std::all_of(last.begin(), last.end(), [&](const auto& loop) { return !uses_var(end, loop.first); });
    return of_sizes ? end : Expr();
  }

  // The loops around an access that run while the first `depth` stand still: the inner ones, and for shared
  // memory all threads of the block.
  std::vector<Var> running(const Access& a, size_t depth) const {
    std::vector<Var> vars;
    for (size_t i = 0; i < a.loops.size(); ++i)
      if (i >= depth || (cuda_ && decl_.scope == Scope::shared && is_thread_index(*a.loops[i])))
        vars.push_back(a.loops[i]->var);
    return vars;
  }

  std::optional<Span> span_at(size_t depth, size_t dim) const {
    std::optional<Span> all;
    for (const Access& a : accesses_) {
      auto span = span_of(a, dim, running(a, depth));
      if (!span) return std::nullopt;
      all = all ? join(*all, *span) : span;
      if (!all) return std::nullopt;
    }
    return all;
  }

  // What all accesses reach in a dimension while the first `depth` loops stand still, as `base` and digits:
  // i*64 + j with i in 2 and j in 4 reaches 8 elements of a span of 68. Nullopt where they differ in it, or
  // where two combinations may be one element.
  struct Sparse {
    Expr base;
    std::vector<Digit> digits;  // largest first
  };
  std::optional<Sparse> digits_at(size_t depth, size_t dim) const {
    std::optional<Sparse> all;
    for (const Access& a : accesses_) {
      auto one = digits_of(a, dim, running(a, depth));
      if (!one) return std::nullopt;
      if (all && (all->digits != one->digits || !is_const_int(simplify(all->base - one->base), 0)))
        return std::nullopt;
      if (!all) all = std::move(one);
    }
    return all;
  }
  static std::optional<Sparse> digits_of(const Access& a, size_t dim, const std::vector<Var>& running) {
    Linear base;
    std::vector<Digit> digits;
    const Linear sum = linear(a.indices[dim]);
    base.constant = sum.constant;
    for (const auto& [atom, coefficient] : sum.terms) {
      const bool runs =
          std::any_of(running.begin(), running.end(), [&, e = atom](const Var& v) { return uses_var(e, v); });
      if (!runs) {
        base.terms.emplace_back(atom, coefficient);
        continue;
      }
      const Interval range = range_of(atom, a.facts);
      if (coefficient <= 0 || range.lo != 0 || range.hi >= Interval::kMax) return std::nullopt;
      digits.push_back({coefficient, range.hi + 1});
    }
    if (!in_order(digits)) return std::nullopt;
    return Sparse{to_expr(base), std::move(digits)};
  }
  // Sorted, and those joined that follow each other without a gap; false where two combinations may meet.
  static bool in_order(std::vector<Digit>& digits) {
    std::erase_if(digits, [](const Digit& d) { return d.extent == 1; });
    std::sort(digits.begin(), digits.end(),
              [](const Digit& a, const Digit& b) { return a.coefficient > b.coefficient; });
    for (size_t i = digits.size(); i-- > 1;) {
      const Digit &high = digits[i - 1], &low = digits[i];
      int64_t reached = 0;
      for (size_t j = i; j < digits.size(); ++j) reached += digits[j].coefficient * (digits[j].extent - 1);
      if (high.coefficient <= reached) return false;
      if (high.coefficient != low.coefficient * low.extent) continue;
      digits[i - 1] = {low.coefficient, high.extent * low.extent};
      digits.erase(digits.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return true;
  }
  static int64_t elements_of(const std::vector<Digit>& digits) {
    int64_t n = 1;
    for (const Digit& d : digits) n *= d.extent;
    return n;
  }

  // A buffer allocated in a block or thread, but in device memory: as one buffer it must hold elements for
  // each of them.
  void require_elements_of_own() const {
    for (size_t depth = 0; depth < inside_; ++depth) {
      const For& loop = *accesses_[0].loops[depth];
      if (loop.kind == ForKind::thread && !is_const_int(loop.extent, 1) && !told_apart(depth))
        refuse("each iteration of `" + loop.var->name + "` has a buffer " + decl_.buffer->name +
                   " of its own, which can't be in device memory",
               "set_scope " + decl_.buffer->name + (is_thread_index(loop) ? " local" : " shared"));
    }
  }

  // True if iterations of the loop at `depth` touch different elements.
  bool told_apart(size_t depth) const {
    const Var& v = accesses_[0].loops[depth]->var;
    for (size_t d = 0; d < decl_.shape.size(); ++d) {
      const auto span = span_at(depth + 1, d);
      if (!span) continue;
      const auto step = strided(span->base, v);
      const auto stride = step ? as_int(simplify(step->stride)) : std::nullopt;
      if (stride && *stride != 0 && span->extent() <= std::abs(*stride)) return true;
    }
    return (cuda_ && apart_by_digits(depth)) || told_by_digits(depth);
  }

  // The same, where several dimensions say together which iteration it is: T[r/6, r/3%2, r%3], r = i*4 + j.
  bool told_by_digits(size_t depth) const {
    std::vector<Expr> known;
    for (size_t d = 0; d < decl_.shape.size(); ++d)
      if (const auto span = span_at(common_, d); span && span->extent() == 1)
        known.push_back(simplify(span->first()));
    return determines(known, accesses_[0].loops[depth]->var, loops_);
  }

  // True if the loop is one digit more of the elements that are reached, or several that say together which
  // iteration it is, as of loops that were fused.
  bool apart_by_digits(size_t depth) const {
    const Var& v = accesses_[0].loops[depth]->var;
    std::vector<Expr> known;
    for (size_t d = 0; d < decl_.shape.size(); ++d) {
      const auto sparse = digits_at(depth + 1, d);
      if (!sparse) continue;
      std::vector<Digit> digits = sparse->digits;
      bool apart = true;
      std::vector<Expr> atoms;
      for (const auto& [atom, coefficient] : linear(sparse->base).terms) {
        if (!uses_var(atom, v)) continue;
        const Interval range = range_of(atom, loops_);
        apart = apart && coefficient > 0 && range.lo == 0 && range.hi < Interval::kMax;
        if (!apart) break;
        digits.push_back({coefficient, range.hi + 1});
        atoms.push_back(atom);
      }
      if (apart && in_order(digits)) known.insert(known.end(), atoms.begin(), atoms.end());
    }
    return determines(known, v, loops_);
  }

  // True unless it is clear that iterations of the loop at `depth` pass nothing to each other through the
  // buffer.
  bool carries(size_t depth) const {
    if (is_const_int(accesses_[0].loops[depth]->extent, 1) || told_apart(depth)) return false;
    for (size_t i = 0; i < accesses_.size(); ++i)
      if (accesses_[i].kind == AccessKind::read || accesses_[i].kind == AccessKind::update)
        if (!covered(i, depth + 1)) return true;
    return false;
  }

  // True if everything read by access `r` was written before, in the same iteration of the first `depth`
  // loops.
  bool covered(size_t r, size_t depth) const {
    const Access& read = accesses_[r];
    for (size_t w = 0; w < accesses_.size(); ++w) {
      const Access& write = accesses_[w];
      const bool own_init =
          write.kind == AccessKind::init && read.kind == AccessKind::update && read.block == write.block;
      if (w >= r || (write.kind != AccessKind::write && write.kind != AccessKind::init)) continue;
      const size_t shared = own_init ? depth : common_loops(read, write);
      if (always_runs(write, read, shared) && covers(write, read, shared)) return true;
    }
    return false;
  }

  // True if `write` happens whatever the values of the loops below `depth` make of its guards, wherever
  // `read` happens.
  bool always_runs(const Access& write, const Access& read, size_t depth) const {
    for (const If* guard : write.ifs)
      if (std::find(read.ifs.begin(), read.ifs.end(), guard) == read.ifs.end() &&
          !only_narrows(*guard, write, depth))
        return false;
    for (size_t i = depth; i < write.loops.size(); ++i)
      if (!can_prove(gt(write.loops[i]->extent, 0), write.facts)) return false;
    if (!write.block) return true;
    if (write.block->where) return false;
    VarMap start;  // the first iteration of the loops below
    for (size_t i = depth; i < write.loops.size(); ++i) start.emplace(write.loops[i]->var, 0);
    // What the read's guards say, too, of loops that stand still, goes for both.
    Facts known = write.facts;
    for (const IterVar& i : write.block->iters)
      if (guards_both(i, write, read, depth)) known.assume(inside(i));
    for (const IterVar& i : write.block->iters) {
      if (i.kind == IterKind::reduce && write.kind == AccessKind::init) {
        if (!is_const_int(simplify(substitute(i.binding, start)), 0)) return false;
        continue;
      }
      if (can_prove(inside(i), known)) continue;
      if (guards_alike(i, write, read, depth)) continue;
      // A binding outside of its domain would be an element outside of the buffer, which nobody reads.
      bool is_index = false;
      for (size_t d = 0; d < write.indices.size(); ++d)
        is_index = is_index || (same_expr(write.indices[d], simplify(i.binding, write.facts)) &&
                                same_expr(i.extent, decl_.shape[d]));
      if (!is_index) return false;
    }
    return true;
  }

  static Expr inside(const IterVar& i) { return logical_and(le(0, i.binding), lt(i.binding, i.extent)); }
  bool guards_both(const IterVar& guard, const Access& write, const Access& read, size_t depth) const {
    const Expr at = simplify(guard.binding, write.facts);
    return stands(at, write, depth) &&
           std::any_of(read.guards.begin(), read.guards.end(), [&](const IterVar& g) {
             return same_expr(g.extent, guard.extent) && same_expr(g.binding, at);
           });
  }

  // True if the read has a guard that lets the same elements through: one of the same extent, each the same
  // distance from an index, which none of the loops below `depth` changes. An element that is read is then
  // one that the write's guard lets through too.
  bool guards_alike(const IterVar& guard, const Access& write, const Access& read, size_t depth) const {
    const Expr at = simplify(guard.binding, write.facts);
    for (const IterVar& g : read.guards) {
      if (!same_expr(g.extent, guard.extent)) continue;
      for (size_t d = 0; d < decl_.shape.size(); ++d) {
        const Expr distance = simplify(write.indices[d] - at);
        if (same_expr(distance, simplify(read.indices[d] - g.binding)) && stands(distance, write, depth))
          return true;
      }
    }
    return false;
  }
  bool stands(const Expr& e, const Access& a, size_t depth) const {
    const std::vector<Var> vars = running(a, depth);
    return std::none_of(vars.begin(), vars.end(), [&](const Var& v) { return uses_var(e, v); });
  }

  // True for guards such as `t < 32` and `t == 0` on loops that run: the ranges account for them already.
  bool only_narrows(const If& guard, const Access& write, size_t depth) const {
    const std::vector<Var> vars = running(write, depth);
    for (const Expr& c : conjuncts(guard.cond)) {
      const auto* b = c.as<Binary>();
      const auto* v = b ? b->a.as<VarRef>() : nullptr;
      if (!v || !as_int(b->b) || (b->op != BinaryOp::lt && b->op != BinaryOp::le && b->op != BinaryOp::eq))
        return false;
      if (std::find(vars.begin(), vars.end(), v->var) == vars.end()) return false;
    }
    return !guard.else_case;
  }

  // True if what `write` reaches while the loops below `depth` run holds what `read` reaches, without gaps.
  bool covers(const Access& write, const Access& read, size_t depth) const {
    const std::vector<Var> writing = running(write, depth), reading = running(read, depth);
    const Facts& facts = read.facts;
    std::set<const VarNode*> used;
    for (size_t d = 0; d < decl_.shape.size(); ++d) {
      if (!is_dense(write, d, writing, used)) return false;
      const auto w = span_of(write, d, writing), r = span_of(read, d, reading);
      if (!w || !r) return false;
      const Expr end = decl_.shape[d] - 1;
      const bool from_start = can_prove(le(w->first(), r->first()), facts) ||
                              can_prove(le(w->first(), 0), facts) ||
                              can_prove(le(w->first(), max(r->first(), 0)), facts);
      const bool to_end = can_prove(ge(w->last(), r->last()), facts) ||
                          can_prove(ge(w->last(), end), facts) ||
                          can_prove(ge(w->last(), min(r->last(), end)), facts);
      if (!from_start || !to_end) return false;
    }
    return true;
  }

  const BufferDecl& decl_;
  const size_t inside_;
  const std::vector<Access>& accesses_;
  const Facts& loops_;  // of all loops, without what ifs add
  const bool cuda_;
  size_t common_;  // loops around all accesses
};

}  // namespace

Placement place(const BufferDecl& decl, size_t inside, const std::vector<Access>& accesses,
                const Facts& loops, bool cuda) {
  return Placer(decl, inside, accesses, loops, cuda).place();
}

}  // namespace nestor::passes

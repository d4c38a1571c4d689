// Vectorized loops become vector statements with the machine's native lanes.
//
// A loop of any constant extent is cut into whole vectors and one rest. The rest is a narrower vector where its length is a
// power of two, else a whole vector under a mask. A few pieces stand side by side at each statement, so that a register
// tile of 14 rows by 32 columns is 28 statements inside its k loop; many pieces become a loop over vectors.
// Inside, conditions that depend on the lane turn into masks, all others stay branches.
#include <bit>

#include "nestor/error.h"
#include "nestor/print.h"
#include "src/passes/passes.h"
#include "src/passes/reduce_lanes.h"
#include "src/passes/scoped.h"
#include "src/passes/widen.h"

namespace nestor::passes {

namespace {

constexpr int64_t kSideBySide = 8;  // more whole vectors than that become a loop

[[noreturn]] void fail(const Var& loop, const std::string& why, const std::string& hint) {
  throw ScheduleError(Diagnostic{"loop `" + loop->name + "` can't be vectorized: " + why, {}, {}, hint});
}

// One vectorized loop's body turned into vectors of `lanes`, starting at `start`, of which the first `count` are wanted.
class Piece : public ScopedRewriter {
 public:
  Piece(const Facts& facts, const BufferSizes& sizes, const Var& loop, Expr start, int lanes, int64_t count)
      : loop_(loop), lane_(make_var(loop->name)), widener_(lane_, lanes, this->facts(), sizes) {
    set_facts(facts);
    set_range(lane_, {0, count - 1});
    start_ = std::move(start);
    if (count < lanes) mask_ = lt(make::ramp(0, 1, lanes), make::broadcast(count, lanes));
  }

  Stmt run(const Stmt& body) {
    return vector(simplify(substitute(body, VarMap{{loop_, start_ + Expr(lane_)}}), facts()), mask_);
  }

 private:
  Stmt vector(const Stmt& s, const Expr& mask) {
    return match(
        s,
        [&](const Seq& q) {
          std::vector<Stmt> out;
          for (const Stmt& inner : q.stmts) out.push_back(vector(inner, mask));
          return make::seq(std::move(out));
        },
        [&](const For& f) {
          if (f.kind == ForKind::parallel || f.kind == ForKind::thread || f.kind == ForKind::vectorized)
            fail(loop_, "loop `" + f.var->name + "` inside of it is not serial", "reorder, so that it is innermost");
          if (widener_.varies(f.extent))
            fail(loop_, "the extent of loop `" + f.var->name + "` depends on it", "");
          enter(f);
          return make::loop(f.var, f.extent, vector(f.body, mask), f.kind, f.thread, f.annotations);
        },
        [&](const Store& st) { return store(st, mask); }, [&](const If& i) { return branch(i, mask); },
        [&](const LetStmt& l) {
          Expr value = widener_.widen(l.value, mask);
          Var v = value.type().is_vector() ? widener_.widen_var(l.var) : l.var;
          return make::let_stmt(v, std::move(value), vector(l.body, mask));
        },
        [&](const Evaluate& e) {  // a prefetch: the first lane's
          return make::evaluate(substitute(e.call, VarMap{{lane_, 0}}));
        },
        [&](const Alloc& a) -> Stmt {
          fail(loop_, "buffer " + a.decl.buffer->name + " is allocated inside", "allocate it outside of the loop");
        },
        [&](const Block& b) -> Stmt { throw InternalError("block " + b.id->name + " in vectorize"); },
        [&](const Update& u) -> Stmt { throw InternalError("update of " + u.buffer->name + " in vectorize"); });
  }

  Stmt store(const Store& st, const Expr& mask) {
    Expr index = widener_.widen(st.indices[0], mask);
    Expr value = widener_.widen(st.value, mask);
    if (!index.type().is_vector()) {
      if (mask || value.type().is_vector())
        fail(loop_, "its iterations all write one element of " + st.buffer->name,
             "vectorize a spatial loop, or a loop around nothing but one reduction");
      return make::store(st.buffer, {index}, value);
    }
    return make::store(st.buffer, {std::move(index)}, widener_.spread(value), mask);
  }

  // Conjuncts that no lane changes stay a branch, the others join the mask.
  Stmt branch(const If& i, const Expr& mask) {
    std::vector<Expr> same, differing;
    for (const Expr& c : conjuncts(i.cond)) {
      const bool by_lane = widener_.varies(c) || !differing.empty() || (mask && has_load(c));
      (by_lane ? differing : same).push_back(c);
    }
    if (differing.empty()) return plain_branch(i, mask);
    const Expr outer = conjunction(same);
    const bool branches = !is_const_int(outer, 1);
    Stmt inner = assuming(outer, [&] {
      Expr cond = widener_.widen_to_vector(conjunction(differing), mask);
      if (!has_load(cond)) return masked(i, mask, cond);
      Var m = make_var("m", cond.type());
      return make::let_stmt(m, cond, masked(i, mask, m));
    });
    if (!branches) return inner;
    return make::if_then(outer, inner, i.else_case ? vector(fresh_copy(i.else_case), mask) : Stmt());
  }
  Stmt plain_branch(const If& i, const Expr& mask) {
    Stmt then_case = assuming(i.cond, [&] { return vector(i.then_case, mask); });
    return make::if_then(i.cond, then_case, i.else_case ? vector(i.else_case, mask) : Stmt());
  }
  Stmt masked(const If& i, const Expr& mask, const Expr& cond) {
    Stmt then_case = vector(i.then_case, mask_and(mask, cond));
    if (!i.else_case) return then_case;
    return make::seq({then_case, vector(i.else_case, mask_and(mask, logical_not(cond)))});
  }

  Var loop_, lane_;
  Widener widener_;
  Expr start_, mask_;
};

class Vectorizer : public ScopedRewriter {
 public:
  Vectorizer(const Target& target, BufferSizes sizes) : target_(target), sizes_(std::move(sizes)) {}

  Stmt stmt(const Stmt& s) override {
    if (const auto* a = s.as<Alloc>()) sizes_[a->decl.buffer] = a->decl.shape[0];
    const auto* loop = s.as<For>();
    if (!loop || loop->kind != ForKind::vectorized) return ScopedRewriter::stmt(s);
    const auto extent = as_int(loop->extent);
    if (!extent) fail(loop->var, "its extent " + print(loop->extent) + " isn't constant", "split it by a constant first");
    if (*extent <= 0) return make::seq({});
    const int64_t lanes = lanes_for(*loop);
    if (auto reduced = reduce_lanes(*loop, static_cast<int>(lanes), facts(), sizes_)) return *reduced;
    const int64_t whole = *extent / lanes, rest = *extent % lanes;
    if (whole <= kSideBySide) return side_by_side(loop->body, *loop, lanes, whole, rest);
    Var v = make_var(loop->var->name);
    set_range(v, {0, whole - 1});
    Stmt vectors = make::loop(v, whole, piece(loop->body, *loop, Expr(v) * lanes, lanes, lanes));
    if (rest == 0) return vectors;
    return make::seq({vectors, rest_piece(fresh_copy(loop->body), *loop, whole * lanes, lanes, rest)});
  }

 private:
  // By the widest element that is stored or computed with.
  int64_t lanes_for(const For& loop) const {
    int bytes = 1;
    const auto see = [&](const Type& t) { bytes = std::max(bytes, bytes_of(t.dtype)); };
    for_each_stmt(loop.body, [&](const Stmt& s) {
      if (const auto* st = s.as<Store>()) see(st->buffer->type);
    });
    for_each_expr(loop.body, [&](const Expr& e) {
      if (e.as<Load>() && is_float(e.dtype())) see(e.type());
    });
    return std::max(1, target_.lanes(bytes));
  }

  Stmt piece(const Stmt& body, const For& loop, Expr start, int64_t lanes, int64_t count) {
    if (count == 1) return simplify(substitute(body, VarMap{{loop.var, start}}), facts());
    return Piece(facts(), sizes_, loop.var, std::move(start), static_cast<int>(lanes), count).run(body);
  }
  Stmt rest_piece(const Stmt& body, const For& loop, int64_t start, int64_t lanes, int64_t rest) {
    const bool narrow = std::has_single_bit(static_cast<uint64_t>(rest));
    return piece(body, loop, start, narrow ? rest : lanes, rest);
  }

  // Every statement that does not itself contain loops or branches is repeated for each piece, where it stands.
  Stmt side_by_side(const Stmt& s, const For& loop, int64_t lanes, int64_t whole, int64_t rest) {
    if (const auto* q = s.as<Seq>()) {
      std::vector<Stmt> out;
      for (const Stmt& inner : q->stmts) out.push_back(side_by_side(inner, loop, lanes, whole, rest));
      return make::seq(std::move(out));
    }
    if (const auto* f = s.as<For>(); f && (f->kind == ForKind::serial || f->kind == ForKind::unrolled) &&
                                     !uses_var(f->extent, loop.var)) {
      enter(*f);
      return make::loop(f->var, f->extent, side_by_side(f->body, loop, lanes, whole, rest), f->kind, f->thread,
                        f->annotations);
    }
    if (const auto* i = s.as<If>(); i && !i->else_case && !uses_var(i->cond, loop.var))
      return make::if_then(i->cond,
                           assuming(i->cond, [&] { return side_by_side(i->then_case, loop, lanes, whole, rest); }));
    std::vector<Stmt> out;
    const auto copy = [&] { return out.empty() ? s : fresh_copy(s); };
    for (int64_t w = 0; w < whole; ++w) out.push_back(piece(copy(), loop, w * lanes, lanes, lanes));
    if (rest) out.push_back(rest_piece(copy(), loop, whole * lanes, lanes, rest));
    return make::seq(std::move(out));
  }

  const Target& target_;
  BufferSizes sizes_;
};

}  // namespace

PrimFunc vectorize(const PrimFunc& f, const Target& target) {
  BufferSizes sizes;
  for (const Param& p : f.params) sizes[p.decl.buffer] = p.decl.shape[0];
  for (const BufferDecl& d : f.allocs) sizes[d.buffer] = d.shape[0];
  PrimFunc out = f;
  out.body = Vectorizer(target, std::move(sizes)).stmt(f.body);
  return out;
}

}  // namespace nestor::passes

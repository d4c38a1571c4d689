// Turns vectorized loops into vector statements of the target's width.
//
// A loop of any constant extent is cut into full vectors and one remainder. The remainder is the narrowest
// vector that contains it, masked if it has more lanes. On a processor with double-pumped vectors, 3 to 8
// floats then need one pass instead of two (Zen 4: 3x3/2 of 14 groups of 6 filters, 116 to 62 us). A few
// vectors become consecutive statements, so that a register tile of 14 rows by 32 columns is 28 statements
// inside its k loop. Many vectors become a loop over vectors. Conditions that depend on the lane become
// masks; others stay branches. A vectorized loop around a vectorized reduction reduces the lanes of its rows
// together: see fold_rows.cpp. Where some rows may not be there, in what is left of an open size, each is
// reduced by itself.
#include <algorithm>
#include <set>
#include <utility>

#include "nestor/error.h"
#include "nestor/print.h"
#include "src/passes/fold_rows.h"
#include "src/passes/passes.h"
#include "src/passes/reduce_lanes.h"
#include "src/passes/refuse.h"
#include "src/passes/scoped.h"
#include "src/passes/widen.h"

namespace nestor::passes {

namespace {

constexpr int64_t kSideBySide = 8;  // more whole vectors than that become a loop

[[noreturn]] void fail(const Var& loop, const std::string& why, const std::string& hint) {
  refuse("loop `" + loop->name + "` can't be vectorized: " + why, hint);
}

// One vectorized loop's body turned into vectors of `lanes`, starting at `start`, of which the first `count`
// are wanted.
class Piece : public ScopedRewriter {
 public:
  Piece(const Facts& facts, const BufferSizes& sizes, const Var& loop, Expr start, int lanes,
        const Expr& count)
      : loop_(loop),
        lane_(make_var(loop->name)),
        count_(count),
        widener_(lane_, lanes, this->facts(), sizes) {
    // Of one lane alone the number isn't put into indices: what stands there stays a vector.
    Facts inside = facts;
    set_lane(inside, lane_, is_const_int(count, 1) && lanes > 1 ? Expr(2) : count, lanes);
    set_facts(inside);
    in_lane_ = inside;
    start_ = std::move(start);
    mask_ = mask_of_first(count, lanes);
  }

  Stmt run(const Stmt& body) {
    return vector(substitute(body, VarMap{{loop_, start_ + Expr(lane_)}}), mask_);
  }

 private:
  Expr simple(const Expr& e) const { return simplify(e, in_lane_); }

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
            fail(loop_, "loop `" + f.var->name + "` inside of it is not serial",
                 "reorder, so that it is innermost");
          if (widener_.varies(f.extent))
            fail(loop_, "the extent of loop `" + f.var->name + "` depends on it", "");
          enter(f);
          in_lane_.set(f.var, facts().range(f.var));
          return make::loop(f.var, simple(f.extent), vector(f.body, mask), f.kind, f.thread, f.annotations);
        },
        [&](const Store& st) { return store(st, mask); }, [&](const If& i) { return branch(i, mask); },
        [&](const LetStmt& l) {
          Expr value = widener_.widen(simple(l.value), mask);
          Var v = value.type().is_vector() ? widener_.widen_var(l.var) : l.var;
          return make::let_stmt(v, std::move(value), vector(l.body, mask));
        },
        [&](const Evaluate& e) {  // a prefetch: the first lane's
          return make::evaluate(substitute(e.call, VarMap{{lane_, 0}}));
        },
        [&](const Alloc& a) -> Stmt {
          fail(loop_, "buffer " + a.decl.buffer->name + " is allocated inside",
               "allocate it outside of the loop");
        },
        [&](const Block& b) -> Stmt { throw InternalError("block " + b.id->name + " in vectorize"); },
        [&](const Update& u) -> Stmt {
          throw InternalError("update of " + u.buffer->name + " in vectorize");
        });
  }

  Stmt store(const Store& st, const Expr& mask) {
    Expr index = widener_.widen(simple(st.indices[0]), mask);
    // Where the mask leaves one lane, what holds in it says which: the index is then one number, yet one
    // lane's.
    if (mask && !index.type().is_vector()) index = widener_.widen(st.indices[0], mask);
    Expr value = widener_.widen(simple(st.value), mask);
    if (!index.type().is_vector()) {
      if (mask || value.type().is_vector())
        fail(loop_, "its iterations all write one element of " + st.buffer->name,
             "vectorize a spatial loop, or a loop around nothing but one reduction");
      return make::store(st.buffer, {index}, value, {}, st.streaming);
    }
    return make::store(st.buffer, {std::move(index)}, widener_.spread(value), mask, st.streaming);
  }

  // Conjuncts that no lane changes stay a branch, the others join the mask. One that happens to be the same
  // for all lanes of this piece joins it too: a branch would cut a register tile's straight line in two.
  Stmt branch(const If& i, const Expr& mask) {
    if (leaves_one_lane(i, mask)) return lane_by_lane(i);
    const Facts outside = in_lane_;
    std::vector<Expr> same, differing;
    bool never = false;
    for (const Expr& c : conjuncts(i.cond)) {
      const Expr now = simple(c);
      never = never || is_const_int(now, 0);
      if (is_const_int(now, 1)) continue;
      const bool by_lane = widener_.varies(c) || !differing.empty() || (mask && has_load(c));
      (by_lane ? differing : same).push_back(now);
      in_lane_.assume(now);
    }
    std::vector<Expr> of_lanes = of_lanes_;
    of_lanes.insert(of_lanes.end(), differing.begin(), differing.end());
    if (!differing.empty() && !runs_somewhere(of_lanes, same)) {
      in_lane_ = outside;
      for (const Expr& c : same) in_lane_.assume(c);
    }
    const Facts inside = std::exchange(in_lane_, outside);
    const auto else_under = [&](const Expr& m) {
      if (!i.else_case) return Stmt();
      const auto around = std::exchange(of_lanes_, {make::bool_imm(false)});  // nobody knows of one
      Stmt out = vector(i.else_case, m);
      of_lanes_ = around;
      return out;
    };
    if (never) return i.else_case ? else_under(mask) : make::seq({});
    const auto then_under = [&](const Expr& m) {
      in_lane_ = inside;
      std::swap(of_lanes_, of_lanes);
      Stmt out = vector(i.then_case, m);
      std::swap(of_lanes_, of_lanes);
      in_lane_ = outside;
      return out;
    };
    const Expr outer = conjunction(same);
    Stmt inner = assuming(outer, [&] {
      if (differing.empty()) return then_under(mask);
      Expr cond = widener_.widen_to_vector(conjunction(differing), mask);
      const auto masked = [&](const Expr& m) {
        return make::seq({then_under(mask_and(mask, m)), else_under(mask_and(mask, logical_not(m)))});
      };
      if (!has_load(cond)) return masked(cond);
      Var m = make_var("m", cond.type());  // what it reads may change inside
      return make::let_stmt(m, cond, masked(m));
    });
    if (is_const_int(outer, 1)) return inner;
    Stmt otherwise = else_under(mask);
    return make::if_then(outer, inner, otherwise && !differing.empty() ? fresh_copy(otherwise) : otherwise);
  }

  // Whether the conditions around that lanes differ in are sure to hold in one. Else what follows from them
  // for what is the same in all lanes, such as an index, needn't hold where it is computed for none.
  bool runs_somewhere(const std::vector<Expr>& of_lanes, const std::vector<Expr>& same) const {
    Facts all = facts();
    for (const Expr& c : same) all.assume(c);
    const auto runs_in = [&](const Expr& lane) {
      return std::all_of(of_lanes.begin(), of_lanes.end(), [&](const Expr& c) {
        return !has_load(c) && can_prove(substitute(c, VarMap{{lane_, lane}}), all);
      });
    };
    return runs_in(0) || runs_in(count_ - 1);
  }

  // What lanes write is one element, under a condition about the lane: a condition that leaves one of them,
  // which a simplifier has put in the index.
  bool leaves_one_lane(const If& i, const Expr& mask) const {
    if (!widener_.varies(i.cond) || i.else_case || (mask && (!mask_ || !mask.same_as(mask_)))) return false;
    bool one = false;
    for_each_stmt(i.then_case, [&](const Stmt& s) {
      if (const auto* st = s.as<Store>()) one |= !widener_.varies(st->indices[0]);
    });
    return one;
  }
  Stmt lane_by_lane(const If& i) const {
    Var v = make_var(lane_->name);
    const VarMap at{{lane_, Expr(v)}};
    return make::loop(v, count_, make::if_then(substitute(i.cond, at), substitute(i.then_case, at)),
                      ForKind::unrolled);
  }

  Var loop_, lane_;
  Expr count_;
  Widener widener_;
  Expr start_, mask_;
  Facts in_lane_;               // what holds in every lane that runs; facts() hold in all
  std::vector<Expr> of_lanes_;  // conditions around that lanes differ in
};

class Vectorizer : public ScopedRewriter {
 public:
  Vectorizer(const PrimFunc& f, const Target& target, BufferSizes sizes, std::set<Buffer> whole)
      : ScopedRewriter(f), target_(target), sizes_(std::move(sizes)), whole_(std::move(whole)) {}

  Stmt stmt(const Stmt& s) override {
    if (const auto* a = s.as<Alloc>()) {
      sizes_[a->decl.buffer] = a->decl.shape[0];
      if (a->decl.scope == Scope::local) local_.insert(a->decl.buffer);
    }
    const auto* loop = s.as<For>();
    if (!loop || loop->kind != ForKind::vectorized) return ScopedRewriter::stmt(s);
    const auto extent = as_int(loop->extent);
    if (extent && *extent <= 0) return make::seq({});
    const int64_t lanes = lanes_for(*loop);
    if (is_vectorized(loop->body)) return fold_rows(*loop, static_cast<int>(lanes), facts(), sizes_);
    if (const auto* guard = loop->body.as<If>();
        guard && !guard->else_case && is_vectorized(guard->then_case))
      return stmt(make::loop(loop->var, loop->extent, loop->body,
                             uses_registers(loop->body) ? ForKind::unrolled : ForKind::serial));
    if (extent != 1)  // one lane alone always writes one element, but sums nothing up across lanes
      if (auto reduced = reduce_lanes(*loop, static_cast<int>(lanes), facts(), sizes_)) return *reduced;
    if (!extent) return open(*loop, lanes);
    const int64_t whole = *extent / lanes, rest = *extent % lanes;
    if (whole <= kSideBySide) return side_by_side(loop->body, *loop, lanes, whole, rest);
    Var v = make_var(loop->var->name);
    set_range(v, {0, whole - 1});
    Stmt vectors = make::loop(v, whole, piece(loop->body, *loop, Expr(v) * lanes, lanes, lanes));
    if (rest == 0) return vectors;
    return make::seq({vectors, rest_piece(fresh_copy(loop->body), *loop, whole * lanes, lanes, rest)});
  }

 private:
  // Which can't be indexed by a loop.
  bool uses_registers(const Stmt& s) const {
    return std::any_of(local_.begin(), local_.end(), [&](const Buffer& b) { return uses_buffer(s, b); });
  }
  static bool is_vectorized(const Stmt& s) {
    const auto* loop = s.as<For>();
    return loop && loop->kind == ForKind::vectorized;
  }

  // By the widest element that is stored or computed with: bytes that are sums brought down are sums first.
  // By registers' elements where there are any: a register is one vector, whatever its elements become.
  int64_t lanes_for(const For& loop) const {
    int bytes = 1, of_registers = 0;
    const auto see = [&](const Type& t) { bytes = std::max(bytes, bytes_of(t.dtype)); };
    const auto see_buffer = [&](const Buffer& b) {
      if (local_.contains(b)) of_registers = std::max(of_registers, bytes_of(b->type.dtype));
    };
    for_each_stmt(loop.body, [&](const Stmt& s) {
      if (const auto* st = s.as<Store>()) {
        see(st->buffer->type);
        see_buffer(st->buffer);
      }
    });
    for_each_expr(loop.body, [&](const Expr& e) {
      if (const auto* l = e.as<Load>()) see_buffer(l->buffer);
      if (e.as<Load>() && is_float(e.dtype())) see(e.type());
      if (const auto* c = e.as<Cast>(); c && bytes_of(c->a.dtype()) > bytes_of(e.dtype()) && has_load(c->a))
        see(c->a.type());
    });
    return std::max(1, target_.lanes(of_registers ? of_registers : bytes));
  }

  // Of a symbolic size: whole vectors, and one with a mask.
  Stmt open(const For& loop, int64_t lanes) {
    const Expr whole = simplify(loop.extent / lanes, facts()), rest = simplify(loop.extent % lanes, facts());
    const Var v = make_var(loop.var->name);
    set_range(v, {0, Interval::kMax});
    const Stmt vectors = assuming(lt(v, whole), [&] {
      return make::loop(v, whole, piece(loop.body, loop, Expr(v) * lanes, lanes, lanes));
    });
    if (is_const_int(rest, 0)) return vectors;
    const Expr some = lt(0, rest);
    return make::seq({vectors, make::if_then(some, assuming(some, [&] {
                                               return piece(fresh_copy(loop.body), loop, whole * lanes, lanes,
                                                            rest);
                                             }))});
  }

  Stmt piece(const Stmt& body, const For& loop, Expr start, int64_t lanes, const Expr& count) {
    if (lanes == 1) return simplify(substitute(body, VarMap{{loop.var, start}}), facts());
    return Piece(facts(), sizes_, loop.var, std::move(start), static_cast<int>(lanes), count).run(body);
  }
  Stmt rest_piece(const Stmt& body, const For& loop, int64_t start, int64_t lanes, int64_t rest) {
    const bool narrow =
        std::none_of(whole_.begin(), whole_.end(), [&](const Buffer& b) { return uses_buffer(body, b); });
    return piece(body, loop, start, narrow ? lanes_of_rest(rest, lanes) : lanes, rest);
  }

  // Every statement that does not itself contain loops or branches is repeated for each piece, where it
  // stands.
  Stmt side_by_side(const Stmt& s, const For& loop, int64_t lanes, int64_t whole, int64_t rest) {
    if (const auto* q = s.as<Seq>()) {
      std::vector<Stmt> out;
      for (const Stmt& inner : q->stmts) out.push_back(side_by_side(inner, loop, lanes, whole, rest));
      return make::seq(std::move(out));
    }
    if (const auto* f = s.as<For>();
        f && (f->kind == ForKind::serial || f->kind == ForKind::unrolled) && !uses_var(f->extent, loop.var)) {
      enter(*f);
      return make::loop(f->var, f->extent, side_by_side(f->body, loop, lanes, whole, rest), f->kind,
                        f->thread, f->annotations);
    }
    if (const auto* i = s.as<If>(); i && !i->else_case && !uses_var(i->cond, loop.var))
      return make::if_then(
          i->cond, assuming(i->cond, [&] { return side_by_side(i->then_case, loop, lanes, whole, rest); }));
    std::vector<Stmt> out;
    const auto copy = [&] { return out.empty() ? s : fresh_copy(s); };
    for (int64_t w = 0; w < whole; ++w) out.push_back(piece(copy(), loop, w * lanes, lanes, lanes));
    if (rest) out.push_back(rest_piece(copy(), loop, whole * lanes, lanes, rest));
    return make::seq(std::move(out));
  }

  const Target& target_;
  BufferSizes sizes_;
  std::set<Buffer> whole_;  // registers that are used in whole vectors
  std::set<Buffer> local_;  // registers
};

}  // namespace

PrimFunc vectorize(const PrimFunc& f, const Target& target) {
  BufferSizes sizes;
  for (const Param& p : f.params) sizes[p.decl.buffer] = p.decl.shape[0];
  for (const BufferDecl& d : f.allocs) sizes[d.buffer] = d.shape[0];
  // What an instruction takes and gives, even where its tile hangs over the end.
  std::set<Buffer> whole;
  for_each_stmt(f.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    const auto kept = loop ? loop->annotations.find("whole") : Annotations::const_iterator();
    if (!loop || kept == loop->annotations.end() || kept->second == Annotation(int64_t{0})) return;
    for_each_stmt(loop->body, [&](const Stmt& inner) {
      if (const auto* st = inner.as<Store>()) whole.insert(st->buffer);
    });
  });
  PrimFunc out = f;
  out.body = Vectorizer(f, target, std::move(sizes), std::move(whole)).stmt(f.body);
  return out;
}

}  // namespace nestor::passes

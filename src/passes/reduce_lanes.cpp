// Each lane reduces every L-th value; up to eight such vectors run side by side, or as many as the loop's
// annotation `chains` says, since one alone would wait for its own last result; at the end the lanes are
// folded into the element, once.
//
//   vectorized k in 256 { X[i] = X[i] + A[k] }
//   ->  alloc lanes: f32x16[8] local { lanes[0..7] = 0; for k in 2 { lanes[0] += A[...]; ... }; X[i] +=
//   fold(lanes) }
#include "src/passes/reduce_lanes.h"

#include "nestor/walk.h"
#include "src/passes/refuse.h"
#include "src/passes/scoped.h"

namespace nestor::passes {

namespace {

constexpr int64_t kSideBySide = 8, kMostChains = 64;

// `if (k == 0) S` as S, or null.
Stmt at_first_iteration(const Stmt& s, const Var& k) {
  const auto* branch = s.as<If>();
  if (!branch || branch->else_case || uses_var(branch->then_case, k)) return {};
  std::vector<Expr> others;
  bool first = false;
  for (const Expr& c : conjuncts(branch->cond)) {
    const auto* b = c.as<Binary>();
    if (!uses_var(c, k))
      others.push_back(c);
    else if (b && b->op == BinaryOp::eq && b->a.as<VarRef>() && is_const_int(b->b, 0))
      first = true;
    else
      return {};
  }
  if (!first) return {};
  return others.empty() ? branch->then_case : make::if_then(conjunction(others), branch->then_case);
}

}  // namespace

std::optional<LaneReduction> find_lane_reduction(const For& loop) {
  LaneReduction r{};
  Stmt body = loop.body;
  if (const auto* seq = body.as<Seq>()) {
    if (seq->stmts.size() != 2) return std::nullopt;
    r.init = at_first_iteration(seq->stmts[0], loop.var);
    if (!r.init) return std::nullopt;
    body = seq->stmts[1];
  }
  if (const auto* branch = body.as<If>(); branch && !branch->else_case) {
    r.guard = branch->cond;
    body = branch->then_case;
  }
  const auto* st = body.as<Store>();
  const auto* b = st ? st->value.as<Binary>() : nullptr;
  const auto* old = b ? b->a.as<Load>() : nullptr;
  if (!old || old->buffer != st->buffer || !same_expr(old->indices[0], st->indices[0])) return std::nullopt;
  if (uses_var(st->indices[0], loop.var) || uses_buffer(b->b, st->buffer)) return std::nullopt;
  if (r.guard && uses_buffer(r.guard, st->buffer)) return std::nullopt;
  for (ReduceOp op : {ReduceOp::add, ReduceOp::mul, ReduceOp::max, ReduceOp::min})
    if (binary_of(op) == b->op) {
      r.op = op;
      r.buffer = st->buffer;
      r.index = st->indices[0];
      r.value = b->b;
      return r;
    }
  return std::nullopt;
}

Expr values_in_lanes(const LaneReduction& r, const Var& k, const Expr& start, const Expr& count, int lanes,
                     Facts facts, const BufferSizes& sizes) {
  Var lane = make_var(k->name);
  set_lane(facts, lane, count, lanes);
  const VarMap at{{k, start + Expr(lane)}};
  Widener widener(lane, lanes, facts, sizes);
  Expr mask = mask_of_first(count, lanes);
  if (r.guard) {
    const Expr guard = simplify(substitute(r.guard, at), facts);
    if (!is_const_int(guard, 1)) mask = mask_and(mask, widener.widen_to_vector(guard, mask));
  }
  Expr value = widener.widen_to_vector(simplify(substitute(r.value, at), facts), mask);
  if (!mask) return value;
  const Expr identity = identity_of(r.op, value.type());
  const auto* load = value.as<Load>();  // gives 0 where its mask is false
  if (load && load->mask && same_expr(load->mask, mask) && same_expr(identity, make::imm(0, value.type())))
    return value;
  return make::select(mask, value, identity);
}

namespace {

class Builder {
 public:
  Builder(const LaneReduction& r, const For& loop, int lanes, const Facts& facts, const BufferSizes& sizes)
      : r_(r),
        loop_(loop),
        lanes_(lanes),
        facts_(facts),
        sizes_(sizes),
        type_(r.buffer->type.with_lanes(lanes)) {}

  Stmt run(const Expr& extent) {
    const auto known = as_int(extent);
    std::vector<Stmt> out = known ? collect(*known) : collect_open(extent);
    const int64_t width = width_;
    std::vector<Expr> parts;
    for (int64_t a = 0; a < width; ++a) parts.push_back(make::load(partial_, {a}));
    while (parts.size() > 1) {  // as a tree
      std::vector<Expr> halves;
      for (size_t i = 0; i < parts.size(); i += 2)
        halves.push_back(i + 1 < parts.size() ? r_.combine(parts[i], parts[i + 1]) : parts[i]);
      parts = std::move(halves);
    }
    const Stmt last =
        make::store(r_.buffer, {r_.index},
                    r_.combine(make::load(r_.buffer, {r_.index}), make::vector_reduce(r_.op, parts[0])));
    out.push_back(runs_somewhere(extent) ? last : if_any_runs(extent, last));
    return make::alloc({partial_, {width}, Scope::local, std::nullopt}, make::seq(std::move(out)));
  }

 private:
  std::vector<Stmt> identities() {
    partial_ = make_buffer(r_.buffer->name + "_lanes", type_);
    std::vector<Stmt> out;
    for (int64_t a = 0; a < width_; ++a) out.push_back(make::store(partial_, {a}, identity_of(r_.op, type_)));
    return out;
  }
  // Rounds of all chains, then single vectors, then a masked one.
  std::vector<Stmt> collect_open(const Expr& extent) {
    constexpr int64_t kChainsOfOpen = 4;  // few, as there may be no round of them
    width_ = std::min(chains(), kChainsOfOpen);
    std::vector<Stmt> out = identities(), round;
    const Expr rounds = extent / (width_ * lanes_), done = rounds * width_, whole = extent / lanes_;
    const Var v = make_var(loop_.var->name), w = make_var(loop_.var->name);
    const Facts outside = facts_;
    facts_.set(v, {0, Interval::kMax});
    facts_.assume(lt(v, rounds));
    for (int64_t a = 0; a < width_; ++a) round.push_back(take(a, (Expr(v) * width_ + a) * lanes_, lanes_));
    out.push_back(make::loop(v, rounds, make::seq(std::move(round))));
    facts_ = outside;
    facts_.set(w, {0, Interval::kMax});
    facts_.assume(lt(done + Expr(w), whole));
    out.push_back(make::loop(w, whole - done, take(0, (done + Expr(w)) * lanes_, lanes_)));
    facts_ = outside;
    const Expr rest = extent % lanes_;
    facts_.assume(lt(0, rest));
    out.push_back(make::if_then(lt(0, rest), take(0, whole * lanes_, rest)));
    facts_ = outside;
    return out;
  }

  std::vector<Stmt> collect(int64_t extent) {
    const int64_t whole = extent / lanes_, rest = extent % lanes_;
    const int64_t width = std::max<int64_t>(1, std::min(whole, chains())), rounds = whole / width;
    width_ = width;
    std::vector<Stmt> out = identities();
    if (rounds > 1) {
      Var v = make_var(loop_.var->name);
      facts_.set(v, {0, rounds - 1});
      std::vector<Stmt> round;
      for (int64_t a = 0; a < width; ++a) round.push_back(take(a, (Expr(v) * width + a) * lanes_, lanes_));
      out.push_back(make::loop(v, rounds, make::seq(std::move(round))));
    } else {
      for (int64_t a = 0; a < rounds * width; ++a) out.push_back(take(a, a * lanes_, lanes_));
    }
    for (int64_t w = rounds * width; w < whole; ++w)
      out.push_back(take(w - rounds * width, w * lanes_, lanes_));
    if (rest) out.push_back(take(0, whole * lanes_, rest));
    return out;
  }

  int64_t chains() const {
    const auto told = loop_.annotations.find("chains");
    if (told == loop_.annotations.end()) return kSideBySide;
    const auto* n = std::get_if<int64_t>(&told->second);
    if (!n || *n < 1 || *n > kMostChains)
      refuse("the annotation `chains` of loop " + loop_.var->name + " isn't a number from 1 to " +
                 std::to_string(kMostChains),
             "chains=4");
    return *n;
  }
  bool runs_somewhere(const Expr& extent) const {
    const auto runs_at = [&](const Expr& k) {
      return can_prove(substitute(r_.guard, VarMap{{loop_.var, k}}), facts_);
    };
    return !r_.guard || runs_at(0) || runs_at(extent - 1);
  }

  // The index was simplified under the guard: where no iteration passes it, it may be another element's.
  Stmt if_any_runs(const Expr& extent, const Stmt& s) const {
    const Buffer any = make_buffer(r_.buffer->name + "_any", Type{DType::i32});
    const Var k = make_var(loop_.var->name);
    const Stmt look = make::if_then(substitute(r_.guard, VarMap{{loop_.var, Expr(k)}}),
                                    make::store(any, {0}, make::imm(1, any->type)));
    return make::alloc({any, {1}, Scope::global, std::nullopt},
                       make::seq({make::store(any, {0}, make::imm(0, any->type)),
                                  make::loop(k, extent, look, ForKind::serial),
                                  make::if_then(lt(0, make::load(any, {0})), s)}));
  }

  // partial[a] = partial[a] op the values from `start` on, of which `count` lanes are wanted.
  Stmt take(int64_t a, const Expr& start, const Expr& count) {
    Expr value = values_in_lanes(r_, loop_.var, start, count, lanes_, facts_, sizes_);
    return make::store(partial_, {a}, r_.combine(make::load(partial_, {a}), std::move(value)));
  }

  const LaneReduction& r_;
  const For& loop_;
  int lanes_;
  Facts facts_;
  const BufferSizes& sizes_;
  Type type_;
  Buffer partial_;
  int64_t width_ = 1;  // chains
};

}  // namespace

std::optional<Stmt> reduce_lanes(const For& loop, int lanes, const Facts& facts, const BufferSizes& sizes) {
  const auto r = find_lane_reduction(loop);
  if (!r || lanes < 2) return std::nullopt;
  Stmt s = Builder(*r, loop, lanes, facts, sizes).run(loop.extent);
  return r->init ? make::seq({r->init, std::move(s)}) : s;
}

}  // namespace nestor::passes

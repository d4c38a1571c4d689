// A reduced element is its start and a multiset of terms, in any order. Two elements are equal if the starts
// are equal, and if some relation pairs the terms of one with equal terms of the other, each with exactly
// one. (For max and min, with at least one, because a repeated term changes nothing.) These relations are
// tried:
//  - iterators of the same name are equal;
//  - whatever makes the terms' loads equal;
//  - iterators of the same name except S iterators, which the element determines (a part of a block may
//    count its own from 0);
//  - whatever makes the loads of inputs equal;
//  - the same with the terms divided by which of several stores they read.
//
// Terms that are reductions of the same operation count as their own terms, and terms that are the
// operation's identity don't count. This covers partial sums (rfactor) and sums split into several loops. If
// a start continues from such a sum, copied half-way, that sum's start and terms are used.
#include <algorithm>

#include "nestor/walk.h"
#include "src/verify/proof_families.h"

namespace nestor::verify {

namespace {

bool contains(const std::vector<V>& list, V v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

}  // namespace

class Reductions {
 public:
  Reductions(Matcher& m, const Term& b, const Term& a, const Set& where)
      : m_(m),
        home_(m.home_),
        b_(b),
        a_(a),
        where_(where),
        readers_(m.vars_of(b.at, a.at)),
        families_(m, readers_) {}

  void run() {
    const Source &sb = *m_.source_of(b_), &sa = *m_.source_of(a_);
    op_ = operation(b_, sb);
    if (operation(a_, sa) != op_)
      m_.differ(b_, a_, where_, Verdict::wrong, "the reductions are of different kinds");
    const std::vector<Sum> sums_b = chain(b_), sums_a = chain(a_);
    for (const Source::Piece& pb : m_.source_of(sums_b.back().value)->stores)
      for (const Source::Piece& pa : m_.source_of(sums_a.back().value)->stores)
        match_starts(sums_b.back(), pb, sums_a.back(), pa);
    std::vector<Family> fb, fa;
    for (const Sum& x : sums_b) collect(x.value, x.where, {}, fb);
    for (const Sum& x : sums_a) collect(x.value, x.where, {}, fa);
    if (fb.size() != 1 || fa.size() != 1) reassociate();
    try_each({[&] { pair_up(fb, fa, How::names); }, [&] { pair_up(fb, fa, How::loads); },
              [&] { pair_up(fb, fa, How::reduced_names); }, [&] { pair_up(fb, fa, How::inputs); },
              [&] { pair_up(families_.by_stores(fb), families_.by_stores(fa), How::inputs); }});
  }

 private:
  // A maximum is one in every order, NaN or not.
  void reassociate() { m_.reassociated_ |= !may_repeat(op_); }
  // Until one succeeds; else fails as the first.
  void try_each(std::vector<std::function<void()>> ways) {
    std::function<void()> all = ways.back();
    for (size_t i = ways.size() - 1; i-- > 0;)
      all = [this, first = ways[i], rest = all] { m_.attempt(first, rest); };
    all();
  }

  ReduceOp operation(const Term& x, const Source& s) const {
    for (const Source::Piece& u : s.updates)
      if (u.writer->op != s.updates[0].writer->op)
        throw Failure{Verdict::unproved,
                      "elements of " + x.e.as<Load>()->buffer->name + " are reduced by two operations", ""};
    return *s.updates[0].writer->op;
  }

  // A load of a reduced element, for the points of `where`.
  struct Sum {
    Term value;
    Set where;
  };

  // Each instance of it runs once: no loop around it that its variables don't tell.
  static bool runs_once(const Statement& s) {
    return s.domain.determines(s.vars, s.loop_vars(s.loops.size()));
  }

  // What x was before its terms, if it was another temporary, copied by one store, for each reader one
  // instance of that.
  std::optional<Sum> only_start(const Sum& x) {
    const Source* s = m_.source_of(x.value);
    if (!s || s->stores.size() != 1 || !m_.read_of(x.value).free.empty()) return std::nullopt;
    const auto [frame, relation] = m_.enter(x.value, s->stores[0], {});
    const Term value{frame, s->stores[0].writer->value};
    if (!m_.source_of(value)) return std::nullopt;
    const Sum start{value, x.where & relation};
    if (!runs_once(*frame.statement) || !start.where.determines(x.where.vars(), frame.vars()))
      return std::nullopt;
    return start;
  }

  // x, the sum that it goes on from (perhaps by copies), the one that that goes on from, and so on.
  std::vector<Sum> chain(const Term& x) {
    constexpr size_t kMostSums = 8, kMostCopies = 16;
    std::vector<Sum> sums = {{x, where_}};
    std::optional<Sum> start = only_start(sums.back());
    for (size_t copies = 0; start && copies < kMostCopies && sums.size() < kMostSums; ++copies) {
      const Source* s = m_.source_of(start->value);
      if (s && !s->updates.empty()) {
        if (!m_.read_of(start->value).free.empty() || operation(start->value, *s) != op_) break;
        sums.push_back(*start);
      }
      start = only_start(*start);
    }
    return sums;
  }

  void match_starts(const Sum& sb, const Source::Piece& pb, const Sum& sa, const Source::Piece& pa) {
    Set wb = sb.where, wa = sa.where;
    const auto [fb, rb] = m_.enter(sb.value, pb, m_.data_of(sb.value, wb));
    const auto [fa, ra] = m_.enter(sa.value, pa, m_.data_of(sa.value, wa));
    const Term b{fb, pb.writer->value}, a{fa, pa.writer->value};
    try {
      m_.match(b, a, (wb & wa & rb & ra).onto(m_.vars_of(fb, fa)));
    } catch (const Failure& failure) {
      // Its terms may be those that the other one adds later; of which sums it is one, nobody knows.
      if (failure.verdict != Verdict::wrong || !(goes_on(b) || goes_on(a))) throw;
      throw Failure{Verdict::unproved, "a sum starts from what another sum left", ""};
    }
  }

  // Whether the start is what a reduction left, or a copy of that.
  bool goes_on(Term x) {
    constexpr int kMostCopies = 16;
    for (int copies = 0; copies < kMostCopies; ++copies) {
      const Source* s = m_.source_of(x);
      if (!s) return false;
      if (!s->updates.empty()) return true;
      if (s->stores.size() != 1 || !m_.read_of(x).free.empty()) return true;  // nobody knows
      x = {m_.enter(x, s->stores[0], {}).first, s->stores[0].writer->value};
    }
    return true;
  }

  bool is_identity(const Expr& e) const { return structural_equal(e, identity_of(op_, e.type())); }

  // The terms of a load of a reduced element, for the points of `where`.
  void collect(const Term& x, Set where, const std::vector<V>& instance, std::vector<Family>& out) {
    const Source& s = *m_.source_of(x);
    const Renaming free = m_.data_of(x, where);
    m_.check_troubles(x, s, free, where);
    for (const Source::Piece& u : s.updates) {
      const auto [frame, relation] = m_.enter(x, u, free);
      std::vector<V> inner = instance;
      append(inner, frame.vars());
      flatten({{frame, u.writer->value}, inner, where & relation}, out);
    }
  }

  void flatten(Family f, std::vector<Family>& out) {
    if (f.where.empty()) return;
    const Model& model = f.term.at.model();
    if (is_identity(f.term.e)) return;
    if (const auto* s = f.term.e.as<Select>()) {
      const auto yes = model.condition(s->cond, f.term.at.statement->env, true),
                 no = model.condition(s->cond, f.term.at.statement->env, false);
      if (yes && no) {
        flatten({{f.term.at, s->a}, f.instance, families_.kept(f, f.where & m_.condition(f.term, *yes))},
                out);
        flatten({{f.term.at, s->b}, f.instance, families_.kept(f, f.where & m_.condition(f.term, *no))}, out);
        return;
      }
    }
    const Source* s = m_.source_of(f.term);
    // At an index that depends on data the two sides' data are first tied to each other, when they are
    // matched.
    if (!s || !m_.read_of(f.term).free.empty()) return keep(std::move(f), out);
    const Renaming free = m_.data_of(f.term, f.where);
    m_.check_troubles(f.term, *s, free, f.where);
    if ((f.where & m_.reduced(f.term, *s, free)).empty()) {
      std::vector<Family> stored;
      for (const Source::Piece& p : s->stores) {
        const auto [frame, relation] = m_.enter(f.term, p, free);
        stored.push_back({{frame, p.writer->value}, f.instance, f.where & relation});
      }
      if (families_.overlap(f, stored)) return keep(std::move(f), out);
      for (Family& p : stored) flatten(std::move(p), out);
      return;
    }
    if (operation(f.term, *s) != op_ || !starts_empty(f.term, *s, f.where)) return keep(std::move(f), out);
    reassociate();
    collect(f.term, f.where, f.instance, out);
  }

  Set both(const Family& b, const Family& a, const Set& s) const {
    std::vector<V> keep = m_.vars_of(b_.at, a_.at);
    for (const Family* f : {&b, &a}) {
      append(keep, f->instance);
      append(keep, f->term.at.vars());
    }
    return s.onto(keep);
  }
  void keep(Family f, std::vector<Family>& out) {
    f.where = families_.kept(f, f.where);
    if (const Set none = identities(f.term, f.where); !none.empty()) f.where = f.where - none;
    if (!f.where.empty()) out.push_back(std::move(f));
  }

  // The points of `where` at which x is seen to be the identity: a padding, or a product of paddings with
  // zeros.
  Set identities(const Term& x, const Set& where) {
    const Set none = Set::none(home_);
    if (where.empty() || !may_be_identity(x)) return none;
    if (x.e.as<IntImm>() || x.e.as<FloatImm>()) return where;
    const std::vector<V> keep = where.vars();
    if (const auto* b = x.e.as<Binary>()) return identities({x.at, b->b}, identities({x.at, b->a}, where));
    if (const auto* c = x.e.as<Cast>()) return identities({x.at, c->a}, where);
    const Env& env = x.at.statement->env;
    if (const auto* s = x.e.as<Select>()) {
      const auto yes = x.at.model().condition(s->cond, env, true),
                 no = x.at.model().condition(s->cond, env, false);
      if (!yes || !no) return none;
      return (identities({x.at, s->a}, where & m_.condition(x, *yes)) |
              identities({x.at, s->b}, where & m_.condition(x, *no)))
          .onto(keep);
    }
    const Source* s = m_.source_of(x);
    if (!s || !s->updates.empty() || !m_.read_of(x).free.empty()) return none;
    Set out = none;
    for (const Source::Piece& p : s->stores) {
      const auto [frame, relation] = m_.enter(x, p, {});
      out = out | identities({frame, p.writer->value}, where & relation).onto(keep);
    }
    return out;
  }

  // Before sets are asked: what can't be, most often.
  bool may_be_identity(const Term& x) const {
    const auto child = [&](const Expr& e) { return may_be_identity({x.at, e}); };
    if (x.e.as<IntImm>() || x.e.as<FloatImm>()) return is_identity(x.e);
    if (const auto* l = x.e.as<Load>()) return !x.at.model().is_input(l->buffer);
    if (const auto* s = x.e.as<Select>()) return child(s->a) || child(s->b);
    if (op_ != ReduceOp::add) return false;
    if (const auto* c = x.e.as<Cast>()) return child(c->a);
    const auto* b = x.e.as<Binary>();
    return b && (b->op == BinaryOp::mul || b->op == BinaryOp::add || b->op == BinaryOp::sub) && child(b->a) &&
           child(b->b);
  }

  bool starts_empty(const Term& x, const Source& s, const Set& where) {
    return std::all_of(s.stores.begin(), s.stores.end(), [&](const Source::Piece& p) {
      if (is_identity(p.writer->value)) return true;
      const auto [frame, relation] = m_.enter(x, p, {});
      const Set at = where & relation;
      return at.within(identities({frame, p.writer->value}, at));
    });
  }

  // ---- Pairs ---------------------------------------------------------------------------------------------

  enum class How { names, loads, reduced_names, inputs };

  void pair_up(const std::vector<Family>& before, const std::vector<Family>& after, How how) {
    std::vector<Set> rest_b, rest_a;
    for (const Family& f : before) rest_b.push_back(f.where);
    for (const Family& f : after) rest_a.push_back(f.where);
    const bool only = before.size() == 1 && after.size() == 1;
    for (size_t i = 0; i < before.size(); ++i)
      for (size_t k = 0; k < after.size(); ++k) {
        const bool repeat = may_repeat(op_);  // then a term may have several counterparts
        if (repeat ? rest_b[i].empty() && rest_a[k].empty() : rest_b[i].empty() || rest_a[k].empty())
          continue;
        const Set& from_b = repeat ? before[i].where : rest_b[i];
        const Set& from_a = repeat ? after[k].where : rest_a[k];
        const bool by_loads = how == How::loads || how == How::inputs;
        const Guess guess = by_loads ? guess_by_loads(m_, before[i], after[k], how == How::loads)
                                     : guess_by_names(home_, before[i], after[k], how == How::names);
        const Set pairs =
            both(before[i], after[k], from_b & from_a & guess.defined & Set::where(home_, guess.equal, {}));
        if (pairs.empty()) continue;
        if (!repeat && !one_to_one(pairs, before[i], after[k], guess.equal)) {
          doubtful_ = doubtful_ || !only || takes_copies(before[i].term) || takes_copies(after[k].term);
          continue;
        }
        const auto same = [&] {
          m_.match(before[i].term, after[k].term,
                   m_.linked(pairs).onto(m_.vars_of(before[i].term.at, after[k].term.at)));
        };
        if (only) {
          same();
        } else {
          bool matched = true;
          m_.attempt(same, [&] { matched = false; });
          doubtful_ = doubtful_ || !matched;
          if (!matched) continue;
        }
        rest_b[i] = less(rest_b[i], pairs);
        rest_a[k] = less(rest_a[k], pairs);
      }
    leave_out_zeros(before, rest_b);
    leave_out_zeros(after, rest_a);
    for (size_t i = 0; i < before.size(); ++i)
      if (!rest_b[i].empty()) lost(before[i], rest_b[i], "is never added", "a term of the original is lost");
    for (size_t k = 0; k < after.size(); ++k)
      if (!rest_a[k].empty())
        lost(after[k], rest_a[k], "has no counterpart before",
             "a term is added that the original doesn't have");
  }

  // A term that reads what several stores make, each for a part: guesses by names don't tell the parts apart.
  bool takes_copies(const Term& x) const {
    bool found = false;
    for_each_expr(x.e, [&](const Expr& e) {
      if (!e.as<Load>()) return;
      const Source* s = m_.source_of({x.at, e});
      found = found || (s && s->updates.empty() && s->stores.size() > 1);
    });
    return found;
  }

  // Products one of whose factors is 0 need no partner, if the other one is finite.
  void leave_out_zeros(const std::vector<Family>& families, std::vector<Set>& rest) {
    for (size_t i = 0; i < families.size(); ++i) {
      if (rest[i].empty() || op_ != ReduceOp::add) continue;
      const Set zeros = zero_products(families[i].term, rest[i]);
      if (zeros.empty()) continue;
      rest[i] = less(rest[i], zeros);
      m_.assumes_finite_ = true;
    }
  }
  Set zero_products(const Term& x, const Set& where) {
    const auto* b = x.e.as<Binary>();
    if (!b || b->op != BinaryOp::mul) return identities(x, where);
    return zero_products({x.at, b->a}, where) | zero_products({x.at, b->b}, where);
  }

  Set less(const Set& from, const Set& pairs) const {
    const Set gone = pairs.onto(from.vars());
    return from.within(gone) ? Set::none(home_) : from - gone;
  }

  [[noreturn]] void lost(const Family& f, const Set& rest, const std::string& what,
                         const std::string& why) const {
    for (const Term* x : {&b_, &a_})
      if (const Source* source = m_.source_of(*x); source && !source->voided.empty())
        throw source->voided.front();
    // Where terms that were guessed to be partners weren't, others may be.
    Failure failure{doubtful_ ? Verdict::unproved : Verdict::wrong, why, ""};
    if (doubtful_) failure.reason = "terms of reductions couldn't be paired";
    std::vector<V> order = readers_;
    append(order, f.instance);
    if (const auto p = rest.first(order)) {
      const Statement& s = *f.term.at.statement;
      failure.witness = sizes_at(*s.model, *p) + "the term of block " + s.name + " at " +
                        iterators_at(s, *p, f.term.at.copy) + " " + (doubtful_ ? "found no partner" : what);
    }
    throw failure;
  }

  bool one_to_one(const Set& pairs, const Family& b, const Family& a, const std::vector<Lin>& equal) {
    return single(pairs, b.instance, a.instance, equal) && single(pairs, a.instance, b.instance, equal);
  }
  // For each value of `from` one value of `to`.
  bool single(const Set& pairs, const std::vector<V>& from, const std::vector<V>& to,
              const std::vector<Lin>& equal) {
    std::vector<V> open, told = readers_;
    append(told, from);
    for (const V v : to) {
      const bool tied = std::any_of(equal.begin(), equal.end(), [&](const Lin& l) {
        return l.terms.size() == 2 && ((l.terms[0].first == v && contains(from, l.terms[1].first)) ||
                                       (l.terms[1].first == v && contains(from, l.terms[0].first)));
      });
      if (!tied) open.push_back(v);
    }
    return open.empty() || pairs.determines(told, open);
  }

  Matcher& m_;
  Sets& home_;
  const Term &b_, &a_;
  const Set& where_;
  const std::vector<V> readers_;
  Families families_;
  ReduceOp op_ = ReduceOp::add;
  bool doubtful_ = false;  // a guess which terms are equal was wrong
};

void match_reductions(Matcher& m, const Term& b, const Term& a, const Set& where) {
  Reductions(m, b, a, where).run();
}

}  // namespace nestor::verify

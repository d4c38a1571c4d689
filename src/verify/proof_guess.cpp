#include "src/verify/proof_guess.h"

#include <algorithm>

#include "nestor/walk.h"

namespace nestor::verify {

namespace {

// Whether an iterator of S has the name.
bool is_spatial(const Family& f, const std::string& name) {
  const Block* block = f.term.at.statement->block;
  return block && std::any_of(block->iters.begin(), block->iters.end(), [&](const IterVar& i) {
           return i.kind == IterKind::spatial && i.var->name == name;
         });
}

}  // namespace

class Guesser {
 public:
  Guesser(Matcher& m, const Set& where, bool temporaries)
      : m_(m), where_(where), temporaries_(temporaries), out_{{}, Set::all(m.home_)} {}
  Guess guess(const Term& b, const Term& a) {
    unify(b, a);
    return out_;
  }

 private:
  void unify(Term b, Term a) {
    if (b.e.as<Load>() && a.e.as<Load>() && same_buffer(b, a)) return equate(b, a);
    b = unfolded(b);
    a = unfolded(a);
    if (b.e->v.index() != a.e->v.index()) return;
    const auto child = [&](const Expr& p, const Expr& q) { unify({b.at, p}, {a.at, q}); };
    if (b.e.as<Load>() && (same_buffer(b, a) || both_reduced(b, a))) equate(b, a);
    if (const auto* p = b.e.as<Binary>(); p && p->op == a.e.as<Binary>()->op)
      child(p->a, a.e.as<Binary>()->a), child(p->b, a.e.as<Binary>()->b);
    if (const auto* p = b.e.as<Unary>()) child(p->a, a.e.as<Unary>()->a);
    if (const auto* p = b.e.as<Cast>()) child(p->a, a.e.as<Cast>()->a);
    if (const auto* p = b.e.as<Select>()) {
      child(p->cond, a.e.as<Select>()->cond);
      child(p->a, a.e.as<Select>()->a);
      child(p->b, a.e.as<Select>()->b);
    }
    if (const auto* p = b.e.as<Call>(); p && p->args.size() == a.e.as<Call>()->args.size())
      for (size_t i = 0; i < p->args.size(); ++i) child(p->args[i], a.e.as<Call>()->args[i]);
  }
  bool same_buffer(const Term& b, const Term& a) const {
    const Buffer &x = b.e.as<Load>()->buffer, &y = a.e.as<Load>()->buffer;
    const bool inputs = b.at.model().is_input(x);
    if (!inputs && !temporaries_) return false;
    if (inputs != a.at.model().is_input(y) ||
        b.e.as<Load>()->indices.size() != a.e.as<Load>()->indices.size())
      return false;
    return inputs ? b.at.model().param_of(x) == a.at.model().param_of(y) : x->name == y->name;
  }
  // Of temporaries that can't be unfolded, whatever they are called: most often an element is the same one.
  bool both_reduced(const Term& b, const Term& a) const {
    const auto *x = b.e.as<Load>(), *y = a.e.as<Load>();
    return temporaries_ && !b.at.model().is_input(x->buffer) && !a.at.model().is_input(y->buffer) &&
           x->indices.size() == y->indices.size();
  }
  void equate(const Term& b, const Term& a) {
    const auto *x = b.e.as<Load>(), *y = a.e.as<Load>();
    for (size_t d = 0; d < x->indices.size(); ++d) {
      const auto lx = b.at.model().lower(x->indices[d], b.at.statement->env),
                 ly = a.at.model().lower(y->indices[d], a.at.statement->env);
      if (!lx || !ly) {  // an index that depends on data: what that is loaded from
        unify({b.at, x->indices[d]}, {a.at, y->indices[d]});
        continue;
      }
      const Lin in_b = in_frame(*lx, b.at);
      out_.equal.push_back(in_b - in_frame(*ly, a.at));
    }
  }
  Lin in_frame(const Lin& l, const Frame& f) {
    const Set d = f.model().definitions_of(l);
    std::vector<V> vars = d.vars();
    for (const auto& [v, c] : l.terms) vars.push_back(v);
    const Renaming names = f.names(vars);
    out_.defined = out_.defined & d.renamed(names);
    return renamed(l, names);
  }
  // What was stored where x loads from, if one statement stored it at the points that matter; of a padding's
  // two sides that with a load.
  Term unfolded(Term x) {
    for (;;) {
      if (const auto* s = x.e.as<Select>(); s && x.at.model().condition(s->cond, x.at.statement->env, true)) {
        x.e = has_load(s->a) ? s->a : s->b;
        continue;
      }
      const Source* s = m_.source_of(x);
      if (!s || !s->updates.empty() || !m_.read_of(x).free.empty()) return x;
      const Source::Piece* only = nullptr;
      for (const Source::Piece& p : s->stores) {
        if (s->stores.size() > 1 && (where_ & out_.defined & m_.enter(x, p, {}).second).empty()) continue;
        if (only) return x;
        only = &p;
      }
      if (!only) return x;
      const auto [frame, relation] = m_.enter(x, *only, {});
      out_.defined = out_.defined & relation;
      x = {frame, only->writer->value};
    }
  }

  Matcher& m_;
  const Set where_;
  bool temporaries_;
  Guess out_;
};

Guess guess_by_names(Sets& home, const Family& b, const Family& a, bool spatial) {
  Guess out{{}, Set::all(home)};
  std::vector<V> used;
  for (const V x : b.instance)
    for (const V y : a.instance) {
      const std::string& name = home.name(x);
      if (name != home.name(y) || std::find(used.begin(), used.end(), y) != used.end()) continue;
      if (!spatial && (is_spatial(b, name) || is_spatial(a, name))) continue;
      out.equal.push_back(Lin::of(x) - Lin::of(y));
      used.push_back(y);
      break;
    }
  return out;
}

Guess guess_by_loads(Matcher& m, const Family& b, const Family& a, bool temporaries) {
  return Guesser(m, b.where & a.where, temporaries).guess(b.term, a.term);
}

}  // namespace nestor::verify

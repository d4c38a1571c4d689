// Replaces a load of a temporary by what was stored there, in both functions, until both sides are operations,
// loads of inputs, or reductions (proof_reduce.cpp). So inlining, copies and layouts need no rules of their
// own. Conditions on indices split the relation. A pair of loads that is already being compared is assumed to
// be equal: what a load sees was computed earlier, an induction over time. A pair that occurs again is
// compared on the affine hull of both occurrences: all products of an unrolled sum are one proof.
#include "src/verify/proof_match.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "nestor/error.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/verify/proof_value.h"

namespace nestor::verify {

namespace {

constexpr unsigned long kQuestion = 10'000;  // operations of isl, to find that something is known
constexpr int kDeepest = 400;                // expressions nested in each other, temporaries unfolded

bool is_leaf(const Expr& e) {
  return e.as<Load>() || e.as<IntImm>() || e.as<FloatImm>();
}

bool is_constant(const Expr& e) {
  return e.as<IntImm>() || e.as<FloatImm>();
}

// Does an input reach the expression, through whatever temporaries?
bool takes_inputs(const Term& x) {
  const Model& m = x.at.model();
  std::vector<Buffer> open;
  std::unordered_set<Buffer> seen;
  const auto look = [&](const Expr& e) {
    if (const auto* l = e.as<Load>(); l && seen.insert(l->buffer).second) open.push_back(l->buffer);
  };
  for_each_expr(x.e, look);
  while (!open.empty()) {
    const Buffer b = open.back();
    open.pop_back();
    if (m.is_input(b)) return true;
    for (const Statement* w : m.writers(b)) for_each_expr(w->value, look);
  }
  return false;
}

bool is_bool_op(const Expr& e, BinaryOp op) {
  const auto* b = e.as<Binary>();
  return b && b->op == op;
}

}  // namespace

std::vector<V> Frame::vars() const {
  std::vector<V> out;
  for (const V v : statement->vars) out.push_back(model().home().copy(v, copy));
  return out;
}

Renaming Frame::names(const std::vector<V>& canonical) const {
  Renaming out;
  for (const V v : canonical)
    if (!model().is_dim(v)) out[v] = model().home().copy(v, copy);
  return out;
}

std::vector<V> Matcher::vars_of(const Frame& b, const Frame& a) const {
  std::vector<V> out = b.model().dim_vars();
  const auto add = [&](const std::vector<V>& more) { out.insert(out.end(), more.begin(), more.end()); };
  add(b.vars());
  add(a.vars());
  for (const Data& d : data_) {
    add(d.term.at.vars());
    out.push_back(d.value);
  }
  return out;
}

Set Matcher::condition(const Term& x, const Set& canonical) const {
  const Set s = x.at.model().define(canonical);
  return s.renamed(x.at.names(s.vars()));
}

const Read& Matcher::read_of(const Term& x) const {
  for (const Read& r : x.at.statement->reads)
    if (r.expr == x.e.get()) return r;
  throw InternalError("the proof lost a load");
}

const Source* Matcher::source_of(const Term& x) const {
  const auto* load = x.e.as<Load>();
  if (!load || x.at.model().is_input(load->buffer)) return nullptr;
  return &x.at.flow->source(*x.at.statement, read_of(x));
}

namespace {

Renaming readers(const Term& x, const Renaming& free) {
  Renaming names = x.at.names(x.at.statement->vars);
  names.insert(free.begin(), free.end());
  return names;
}

}  // namespace

void Matcher::check_troubles(const Term& x, const Source& s, const Renaming& free, const Set& where) const {
  for (const Source::Trouble& t : s.troubles)
    if (!(where & t.readers.renamed(readers(x, free))).empty()) {
      Failure failure = t.failure;
      if (x.at.flow == &before_) {  // nobody's step has done this
        failure.verdict = Verdict::unproved;
        failure.reason = "before any step: " + failure.reason;
      }
      throw failure;
    }
}

std::pair<Frame, Set> Matcher::enter(const Term& x, const Source::Piece& piece, const Renaming& free) {
  const Frame made{x.at.flow, piece.writer, next_copy_++};
  Renaming names = readers(x, free);
  for (const V v : piece.writer->vars) names[home_.copy(v, 1)] = home_.copy(v, made.copy);
  return {made, piece.relation.renamed(names)};
}

Set Matcher::reduced(const Term& x, const Source& s, const Renaming& free) const {
  const Renaming names = readers(x, free);
  std::vector<V> keep = x.at.model().dim_vars();
  for (const auto& [from, to] : names) keep.push_back(from);
  Set out = Set::none(home_);
  for (const Source::Piece& u : s.updates) out = out | u.relation.onto(keep).renamed(names);
  return out;
}

Set Matcher::instances(const Frame& at, int copy) const {
  std::vector<V> keep = at.model().dim_vars();
  keep.insert(keep.end(), at.statement->vars.begin(), at.statement->vars.end());
  return at.statement->domain.onto(keep).renamed(Frame{at.flow, at.statement, copy}.names(keep));
}

void Matcher::match_output(const Buffer& before, const Buffer& after) {
  const Statement &b = before_.final_reader(before), &a = after_.final_reader(after);
  const Frame fb{&before_, &b, next_copy_++}, fa{&after_, &a, next_copy_++};
  Set where = b.domain.renamed(fb.names(b.domain.vars())) & a.domain.renamed(fa.names(a.domain.vars()));
  std::vector<Lin> same;
  for (size_t i = 0; i < b.vars.size(); ++i) same.push_back(Lin::of(fb.vars()[i]) - Lin::of(fa.vars()[i]));
  where = where & Set::where(home_, same, {});
  match({fb, b.value}, {fa, a.value}, where);
}

void Matcher::match(const Term& b, const Term& a, const Set& where) {
  if (where.empty()) return;
  struct Depth {
    int& d;
    ~Depth() {
      --d;
      data.erase(data.begin() + static_cast<long>(scope), data.end());
    }
    std::vector<Data>& data;
    size_t scope;
  } depth{++depth_, data_, data_.size()};
  if (depth_ > kDeepest)
    throw Failure{Verdict::unproved, "expressions unfold more than " + std::to_string(kDeepest) + " deep",
                  ""};
  if (match_indices(b, a, where) || split_select(b, b, a, where) || split_select(a, b, a, where) ||
      match_temporaries(b, a, where) || match_data(b, a, where))
    return;
  match_nodes(b, a, where);
}

// Where two linear integer expressions differ; nullopt where they aren't linear.
std::optional<Set> Matcher::unequal(const Term& b, const Term& a, const Set& where) const {
  if (!(b.e.type() == a.e.type()) || is_float(b.e.dtype())) return std::nullopt;
  const auto x = b.at.model().lower(b.e, b.at.statement->env),
             y = a.at.model().lower(a.e, a.at.statement->env);
  if (!x || !y) return std::nullopt;
  const Set dx = b.at.model().definitions_of(*x), dy = a.at.model().definitions_of(*y);
  std::vector<V> vx = dx.vars(), vy = dy.vars();
  for (const auto& t : x->terms) vx.push_back(t.first);
  for (const auto& t : y->terms) vy.push_back(t.first);
  const Renaming nx = b.at.names(vx), ny = a.at.names(vy);
  const Set all = where & dx.renamed(nx) & dy.renamed(ny);
  const Set equal = Set::where(home_, {renamed(*x, nx) - renamed(*y, ny)}, {});
  if (all.within(equal)) return Set::none(home_);
  return (all - equal).onto(vars_of(b.at, a.at));
}

bool Matcher::match_indices(const Term& b, const Term& a, const Set& where) {
  const auto off = unequal(b, a, where);
  if (off && !off->empty())
    differ(b, a, *off, Verdict::wrong, "the index " + print(a.e) + " is not " + print(b.e));
  return off.has_value();
}

// x is b or a. A condition that is linear only in part is taken apart first.
bool Matcher::split_select(const Term& x, const Term& b, const Term& a, const Set& where) {
  const auto* s = x.e.as<Select>();
  if (!s) return false;
  const bool first = &x == &b;
  const auto with = [&](const Expr& e, const Set& w) {
    first ? match({b.at, e}, a, w) : match(b, {a.at, e}, w);
  };
  const Env& env = x.at.statement->env;
  const auto yes = x.at.model().condition(s->cond, env, true),
             no = x.at.model().condition(s->cond, env, false);
  if (yes && no) {
    const std::vector<V> keep = vars_of(b.at, a.at);
    with(s->a, (where & condition(x, *yes)).onto(keep));
    with(s->b, (where & condition(x, *no)).onto(keep));
    return true;
  }
  const bool both = is_bool_op(s->cond, BinaryOp::logical_and);
  if (!both && !is_bool_op(s->cond, BinaryOp::logical_or)) return false;
  const auto* c = s->cond.as<Binary>();
  if (!x.at.model().condition(c->a, env, true) && !x.at.model().condition(c->b, env, true)) return false;
  made_.push_back(both ? make::select(c->a, make::select(c->b, s->a, s->b), s->b)
                       : make::select(c->a, s->a, make::select(c->b, s->a, s->b)));
  with(Expr(made_.back()), where);
  return true;
}

// One of them at least is a load of a temporary.
bool Matcher::match_temporaries(const Term& b, const Term& a, const Set& where) {
  if (!source_of(b) && !source_of(a)) return false;
  claim(b, a, where, [&](const Set& points) { expand_loads(b, a, points); });
  return true;
}

void Matcher::claim(const Term& b, const Term& a, const Set& where,
                    const std::function<void(const Set&)>& prove) {
  Renaming names, back;  // claims speak of copies 2 and 3, whichever frames they were met in
  const auto stand = [&](const Frame& at, int copy) {
    for (const V v : at.statement->vars) {
      names[home_.copy(v, at.copy)] = home_.copy(v, copy);
      back[home_.copy(v, copy)] = home_.copy(v, at.copy);
    }
  };
  stand(b.at, 2);
  stand(a.at, 3);
  const Key key{b.e.get(), b.at.statement->number, a.e.get(), a.at.statement->number};
  const Set points = where.renamed(names);
  const std::vector<Set>& claims = claims_[key];
  for (const Set& known : claims)
    if (points.within(known, kQuestion).value_or(false)) return;
  if (!claims.empty() && data_.empty() && !narrow_.count(key)) {
    Set all = points;
    for (const Set& known : claims) all = all | known;
    const Set wide = all.affine_hull() & instances(b.at, 2) & instances(a.at, 3);
    bool proved = true;
    attempt(
        [&] {
          claims_[key] = {wide};
          prove(wide.renamed(back));
        },
        [&] { proved = false; });
    if (proved) return;
    narrow_.insert(key);
  }
  claims_[key].push_back(points);
  prove(where);
}

void Matcher::expand_loads(const Term& b, const Term& a, Set where) {
  const Source *sb = source_of(b), *sa = source_of(a);
  const Renaming db = sb ? data_of(b, where) : Renaming{}, da = sa ? data_of(a, where) : Renaming{};
  if (sb) check_troubles(b, *sb, db, where);
  if (sa) check_troubles(a, *sa, da, where);
  const Set reduced_b = sb ? reduced(b, *sb, db) : Set::none(home_),
            reduced_a = sa ? reduced(a, *sa, da) : Set::none(home_);
  const bool rb = !(where & reduced_b).empty(), ra = !(where & reduced_a).empty();
  if (rb && ra) {
    const Set both = where & reduced_b & reduced_a;
    const auto together = [&] { match_reductions(*this, b, a, where); };
    if (both.empty() || where.within(both)) return together();
    return attempt(together, [&] {  // some are copies of sums; `match` would take the pair for known
      match_reductions(*this, b, a, both), expand_loads(b, a, where - both);
    });
  }
  if (rb ? !sa : ra ? !sb : false) {
    // A reduction against something else: sums that are written out are not looked for.
    const Term& other = rb ? a : b;
    differ(b, a, where & (rb ? reduced_b : reduced_a), is_leaf(other.e) ? Verdict::wrong : Verdict::unproved,
           std::string("only the function ") + (rb ? "before" : "after") + " has a reduction here");
  }
  // Both at once where both can be: which loads the stored values were met by is forgotten then.
  for (const auto& [x, wx] : stored(b, rb ? nullptr : sb, db, where, a))
    for (const auto& [y, wy] : stored(a, ra ? nullptr : sa, da, wx, x)) {
      if (source_of(x) || source_of(y))
        match(x, y, wy);
      else
        claim(x, y, wy, [&, &x = x, &y = y](const Set& points) { match(x, y, points); });
    }
}

// What x reads, for the points of `where` each; x itself where there is no source.
std::vector<std::pair<Term, Set>> Matcher::stored(const Term& x, const Source* s, const Renaming& free,
                                                  const Set& where, const Term& other) {
  if (!s) return {{x, where}};
  std::vector<std::pair<Term, Set>> out;
  for (const Source::Piece& p : s->stores) {
    const auto [frame, relation] = enter(x, p, free);
    const Set at = (where & relation).onto(vars_of(frame, other.at));
    if (!at.empty()) out.push_back({{frame, p.writer->value}, at});
  }
  return out;
}

// Neither side is a load of a temporary any more.
void Matcher::match_nodes(const Term& b, const Term& a, const Set& where) {
  const auto child = [&](const Expr& x, const Expr& y) { match({b.at, x}, {a.at, y}, where); };
  const auto other = [&] {
    if (is_leaf(b.e) && is_leaf(a.e)) differ(b, a, where, Verdict::wrong, "the values differ");
    if ((is_constant(b.e) && takes_inputs(a)) || (is_constant(a.e) && takes_inputs(b)))
      differ(b, a, where, Verdict::wrong, "a constant stands for a computation");
    differ(b, a, where, Verdict::unproved, "the operations differ");
  };
  if (b.e->v.index() != a.e->v.index() || !(b.e.type() == a.e.type())) return other();
  if (b.e.as<Load>()) return match_inputs(b, a, where);
  if (b.e.as<IntImm>() || b.e.as<FloatImm>()) {
    if (!structural_equal(b.e, a.e)) differ(b, a, where, Verdict::wrong, "the constants differ");
    return;
  }
  if (const auto* x = b.e.as<Binary>()) {
    const auto* y = a.e.as<Binary>();
    if (x->op != y->op) return other();
    return match_operands(b, a, where);
  }
  if (const auto* x = b.e.as<Unary>()) {
    if (x->op != a.e.as<Unary>()->op) return other();
    return child(x->a, a.e.as<Unary>()->a);
  }
  if (const auto* x = b.e.as<Cast>()) return child(x->a, a.e.as<Cast>()->a);
  if (const auto* x = b.e.as<Select>()) {
    const auto* y = a.e.as<Select>();
    child(x->cond, y->cond);
    child(x->a, y->a);
    return child(x->b, y->b);
  }
  if (const auto* x = b.e.as<Call>()) {
    const auto* y = a.e.as<Call>();
    if (x->fn != y->fn || x->name != y->name || x->args.size() != y->args.size()) return other();
    for (size_t i = 0; i < x->args.size(); ++i) child(x->args[i], y->args[i]);
    return;
  }
  other();
}

// a + b is b + a to the last bit, and so for the other operations that don't prefer a side.
void Matcher::match_operands(const Term& b, const Term& a, const Set& where) {
  const auto *x = b.e.as<Binary>(), *y = a.e.as<Binary>();
  const auto pair = [&](const Expr& p, const Expr& q, const Expr& r, const Expr& s) {
    match({b.at, p}, {a.at, q}, where);
    match({b.at, r}, {a.at, s}, where);
  };
  const bool commutes = x->op == BinaryOp::add || x->op == BinaryOp::mul || x->op == BinaryOp::eq ||
                        x->op == BinaryOp::ne || x->op == BinaryOp::bit_and || x->op == BinaryOp::bit_or ||
                        x->op == BinaryOp::bit_xor;
  if (!commutes) return pair(x->a, y->a, x->b, y->b);
  attempt([&] { pair(x->a, y->a, x->b, y->b); }, [&] { pair(x->a, y->b, x->b, y->a); });
}

// The second way where the first fails; where both do, the first failure. What was proved on the way to a
// failure may rest on it, and is forgotten.
void Matcher::attempt(const std::function<void()>& first, const std::function<void()>& second) {
  const auto known = claims_;
  struct Attempt {
    int& n;
    ~Attempt() { --n; }
  } attempt{++attempts_};
  try {
    return first();
  } catch (const Failure& failure) {
    claims_ = known;
    try {
      return second();
    } catch (const Failure&) {
      claims_ = known;
    }
    throw failure;
  }
}

// Loads of a parameter that nothing writes.
void Matcher::match_inputs(const Term& b, const Term& a, const Set& where) {
  const auto *x = b.e.as<Load>(), *y = a.e.as<Load>();
  if (b.at.model().param_of(x->buffer) != a.at.model().param_of(y->buffer))
    differ(b, a, where, Verdict::wrong, "they read different parameters");
  for (size_t d = 0; d < x->indices.size(); ++d) {
    const Term i{b.at, x->indices[d]}, k{a.at, y->indices[d]};
    const auto off = unequal(i, k, where);
    if (!off) match(i, k, where);
    if (off && !off->empty())
      differ(b, a, *off, Verdict::wrong, "they read different elements of " + x->buffer->name);
  }
}

}  // namespace nestor::verify

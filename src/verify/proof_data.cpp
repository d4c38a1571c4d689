// Indices that depend on data. Each is a variable on its side. Two of them are equal if their expressions are
// proved to be; nothing else is known of them.
#include "nestor/print.h"
#include "src/verify/proof_match.h"

namespace nestor::verify {

V Matcher::data(const Term& x, Set& where) {
  for (const Data& d : data_)
    if (d.term.e.same_as(x.e) && d.term.at.copy == x.at.copy) return d.value;
  const V value = home_.make("d");
  data_.push_back({x, value});
  link(data_.size() - 1, where);
  return value;
}

// Says in `where` which data of the other side data_[i] is equal to.
void Matcher::link(size_t i, Set& where) {
  const Data made = data_[i];
  const std::vector<Data> known(data_.begin(), data_.begin() + static_cast<long>(i));
  for (const Data& d : known) {
    if (d.term.at.flow == made.term.at.flow) continue;
    const bool before = made.term.at.flow == &before_;
    const Term &b = before ? made.term : d.term, &a = before ? d.term : made.term;
    bool same = true;
    attempt([&] { match(b, a, where.onto(vars_of(b.at, a.at))); }, [&] { same = false; });
    if (same) where = where & Set::where(home_, {Lin::of(made.value) - Lin::of(d.value)}, {});
  }
}

Set Matcher::linked(Set where) {
  for (size_t i = 0; i < data_.size(); ++i) link(i, where);
  return where;
}

Renaming Matcher::data_of(const Term& x, Set& where) {
  Renaming out;
  const Read& r = read_of(x);
  size_t next = 0;
  for (size_t d = 0; d < r.indices.size(); ++d)
    if (!r.indices[d]) out[r.free[next++]] = data({x.at, x.e.as<Load>()->indices[d]}, where);
  return out;
}

// One is linear, the other depends on data: equal where the data's variable is.
bool Matcher::match_data(const Term& b, const Term& a, const Set& where) {
  if (!(b.e.type() == Type{DType::i64, 1}) || !(a.e.type() == b.e.type())) return false;
  const auto x = b.at.model().lower(b.e, b.at.statement->env),
             y = a.at.model().lower(a.e, a.at.statement->env);
  if (!x == !y) return false;
  const Term &linear = x ? b : a, &other = x ? a : b;
  const Lin l = x ? *x : *y;
  const Set defined = linear.at.model().definitions_of(l);
  std::vector<V> vars = defined.vars();
  for (const auto& [v, c] : l.terms) vars.push_back(v);
  const Renaming names = linear.at.names(vars);
  Set all = where;
  const V v = data(other, all);
  all = all & defined.renamed(names);
  const Set same = Set::where(home_, {renamed(l, names) - Lin::of(v)}, {});
  if (!all.within(same))
    differ(b, a, where, Verdict::unproved, "the index " + print(a.e) + " is not seen to be " + print(b.e));
  return true;
}

}  // namespace nestor::verify

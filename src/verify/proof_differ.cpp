// Evaluates a difference between the two sides and describes it: with a witness, and whether the schedule is
// wrong or only couldn't be proved.
#include <cmath>

#include "nestor/print.h"
#include "src/verify/proof_match.h"
#include "src/verify/proof_value.h"

namespace nestor::verify {

namespace {

std::string in_words(const Term& x, const Point& p) {
  const auto* load = x.e.as<Load>();
  std::string what = print(x.e);
  if (load) {
    std::vector<std::optional<Lin>> indices;
    Renaming names;
    for (const Expr& i : load->indices) {
      indices.push_back(x.at.model().lower(i, x.at.statement->env));
      if (indices.back())
        for (const auto& [v, c] : indices.back()->terms) names[v] = x.at.model().home().copy(v, x.at.copy);
    }
    what = "reads " + element_at(load->buffer, indices, p, names);
  } else {
    what = "computes " + what;
  }
  const std::string at = iterators_at(*x.at.statement, p, x.at.copy);
  return (x.at.statement->block ? "block " : "") + x.at.statement->name + (at.empty() ? "" : " at " + at) +
         " " + what;
}

}  // namespace

void Matcher::differ(const Term& b, const Term& a, const Set& where, Verdict verdict,
                     const std::string& why) {
  std::vector<Lin> equal;
  bool alike = false;  // one function of the data on both sides; 8 - I[i] may be what I[i] was
  for (const Data& x : data_)
    for (const Data& y : data_)
      if (x.term.at.flow == &before_ && y.term.at.flow == &after_) {
        equal.push_back(Lin::of(x.value) - Lin::of(y.value));
        alike = alike || print(x.term.e) == print(y.term.e);
      }
  if (!equal.empty() && !alike) verdict = Verdict::unproved;
  // Data that weren't seen to be equal may be all the same.
  if (!equal.empty() && (where & Set::where(home_, equal, {})).empty()) verdict = Verdict::unproved;
  Failure f{verdict, why, ""};
  if (const auto p = where.first(b.at.vars())) {
    f.witness = sizes_at(b.at.model(), *p) + "before, " + in_words(b, *p) + "; after, " + in_words(a, *p);
    const std::string more = verdict == Verdict::unproved ? other_value(b, a, *p) : "";
    if (!more.empty()) f.verdict = Verdict::wrong;
    f.witness += more;
  }
  throw f;
}

std::string Matcher::other_value(const Term& b, const Term& a, const Point& p) const {
  if (attempts_ || !data_.empty()) return "";
  std::vector<double> values;
  for (const Term* x : {&b, &a}) {
    Point own;
    for (const V v : x->at.statement->vars) {
      const auto at = p.find(home_.copy(v, x->at.copy));
      if (at != p.end()) own[v] = at->second;
    }
    const auto value = value_at(*x->at.flow, *x->at.statement, x->e, own);
    if (own.size() != x->at.statement->vars.size() || !value) return "";
    values.push_back(*value);
  }
  if (std::abs(values[0] - values[1]) <= 1e-3 * (1 + std::abs(values[0]))) return "";
  return ": " + std::to_string(values[0]) + " and " + std::to_string(values[1]) + " for random inputs";
}

}  // namespace nestor::verify

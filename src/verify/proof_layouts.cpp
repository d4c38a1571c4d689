// Checks that a layout gives each element its own place. The comparison of functions can't see this: before
// lowering all indices are logical.
#include "nestor/walk.h"
#include "src/verify/proof_checks.h"

namespace nestor::verify {

namespace {

struct Copy {  // of an element
  std::vector<Lin> at;
  std::vector<Lin> places;
};

Copy element_of(const Model& m, const BufferDecl& d, std::vector<Lin>& nonnegative) {
  Copy c;
  Env env;
  for (size_t k = 0; k < d.shape.size(); ++k) {
    const Lin v = Lin::of(m.home().make(d.layout->vars[k]->name));
    c.at.push_back(v);
    env[d.layout->vars[k]] = v;
    nonnegative.push_back(v);
    nonnegative.push_back(m.shape(d.buffer, k) - v - 1);
  }
  for (const Expr& e : d.layout->exprs) {
    const auto place = m.lower(e, env);
    if (!place) throw Unmodelled{"the layout of " + d.buffer->name + " isn't linear"};
    c.places.push_back(*place);
  }
  return c;
}

std::string text_of(const Copy& c, const Point& p) {
  std::string out;
  for (const Lin& l : c.at) out += (out.empty() ? "[" : ",") + std::to_string(value_at(l, p));
  return out + "]";
}

void check(const Model& m, const BufferDecl& d) {
  if (!d.layout) return;
  std::vector<Lin> nonnegative, same;
  const Copy x = element_of(m, d, nonnegative), y = element_of(m, d, nonnegative);
  for (size_t k = 0; k < x.places.size(); ++k) same.push_back(x.places[k] - y.places[k]);
  // The first index in which they differ.
  for (size_t k = 0; k < x.at.size(); ++k) {
    std::vector<Lin> zero = same, positive = nonnegative;
    for (size_t i = 0; i < k; ++i) zero.push_back(x.at[i] - y.at[i]);
    positive.push_back(y.at[k] - x.at[k] - 1);
    const Set both = m.define(Set::where(m.home(), zero, positive));
    if (both.empty()) continue;
    std::vector<V> order;
    for (const Copy* c : {&x, &y})
      for (const Lin& l : c->at) order.push_back(l.terms[0].first);
    Failure f{Verdict::wrong, "the layout of " + d.buffer->name + " gives two elements one place", ""};
    if (const auto p = both.first(order))
      f.witness = sizes_at(m, *p) + text_of(x, *p) + " and " + text_of(y, *p);
    throw f;
  }
}

}  // namespace

void check_layouts(const Model& m) {
  for (const Param& p : m.func().params) check(m, p.decl);
  for (const BufferDecl& d : m.func().allocs) check(m, d);
  for_each_stmt(m.func().body, [&](const Stmt& s) {
    if (const auto* a = s.as<Alloc>()) check(m, a->decl);
  });
}

}  // namespace nestor::verify

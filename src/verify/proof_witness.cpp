// Prints points.
#include <algorithm>

#include "src/verify/proof_result.h"

namespace nestor::verify {

Renaming copy_of(const Statement& s, const Set& set, int n, size_t shared) {
  Renaming names;
  Sets& home = s.model->home();
  const std::vector<V> kept = s.loop_vars(shared);
  for (const V v : set.vars())
    if (std::find(kept.begin(), kept.end(), v) == kept.end() && !s.model->is_dim(v))
      names[v] = home.copy(v, n);
  return names;
}

namespace {

std::string assignment(const std::string& name, V v, const Point& p) {
  const auto it = p.find(v);
  return name + "=" + (it == p.end() ? "0" : std::to_string(it->second));
}

}  // namespace

std::string loops_at(const Statement& s, const Point& p, int n, size_t shared) {
  std::string out;
  for (size_t i = 0; i < s.loops.size(); ++i) {
    if (s.loops[i]->single) continue;
    const V v = i < shared ? s.loops[i]->var : s.model->home().copy(s.loops[i]->var, n);
    out += (out.empty() ? "" : ",") + assignment(s.loops[i]->node->var->name, v, p);
  }
  return out;
}

std::string instance_at(const Statement& s, const Point& p, int n, size_t shared) {
  const std::string at = loops_at(s, p, n, shared);
  return (s.block ? "block " + s.name : s.name) + (at.empty() ? "" : " at " + at);
}

std::string sizes_at(const Model& m, const Point& p) {
  std::string out;
  for (const V v : m.dim_vars()) out += (out.empty() ? "with " : ", ") + assignment(m.home().name(v), v, p);
  return out.empty() ? out : out + ": ";
}

std::string element_at(const Buffer& b, const std::vector<std::optional<Lin>>& indices, const Point& p,
                       const Renaming& names) {
  std::string out = b->name;
  for (size_t i = 0; i < indices.size(); ++i)
    out += (i ? "," : "[") + (indices[i] ? std::to_string(value_at(renamed(*indices[i], names), p)) : "_");
  return out + (indices.empty() ? "" : "]");
}

std::string written_at(const Statement& s, const Point& p, int n) {
  Renaming names;
  std::vector<std::optional<Lin>> element(s.element.begin(), s.element.end());
  for (const Lin& l : s.element)
    for (const auto& [v, c] : l.terms) names[v] = s.model->is_dim(v) ? v : s.model->home().copy(v, n);
  return element_at(s.buffer, element, p, names);
}

std::string iterators_at(const Statement& s, const Point& p, int n) {
  std::string out;
  for (const V v : s.vars) {
    out += (out.empty() ? "" : ",") + assignment(s.model->home().name(v), s.model->home().copy(v, n), p);
  }
  return out;
}

}  // namespace nestor::verify

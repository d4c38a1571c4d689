#include "src/verify/proof_families.h"

#include "nestor/walk.h"

namespace nestor::verify {

Set Families::kept(const Family& f, const Set& s) const {
  std::vector<V> keep = readers_;
  append(keep, f.instance);
  append(keep, f.term.at.vars());
  return s.onto(keep);
}

bool Families::overlap(const Family& f, const std::vector<Family>& stored) const {
  for (const Family& x : stored)
    if (!x.where.determines(f.where.vars(), x.term.at.vars())) return true;
  for (size_t i = 0; i < stored.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (!(kept(f, stored[i].where) & kept(f, stored[k].where)).empty()) return true;
  return false;
}

std::vector<Family> Families::by_stores(const std::vector<Family>& families) {
  constexpr size_t kMost = 16;
  std::vector<Family> out, open(families.rbegin(), families.rend());
  while (!open.empty()) {
    const Family f = open.back();
    open.pop_back();
    const std::vector<Family> parts = parts_of(f);
    if (parts.size() < 2 || out.size() + open.size() + parts.size() > families.size() + kMost)
      out.push_back(f);
    else
      open.insert(open.end(), parts.rbegin(), parts.rend());
  }
  return out;
}

std::vector<Family> Families::parts_of(const Family& f) {
  std::vector<Family> parts;
  for_each_expr(f.term.e, [&](const Expr& e) {
    const Term load{f.term.at, e};
    const Source* s = parts.size() < 2 && e.as<Load>() ? m_.source_of(load) : nullptr;
    if (!s || s->stores.size() < 2 || !s->updates.empty() || !m_.read_of(load).free.empty()) return;
    m_.check_troubles(load, *s, {}, f.where);  // all is stored by one of them
    std::vector<Family> stored;
    for (const Source::Piece& p : s->stores) {
      const auto [frame, relation] = m_.enter(load, p, {});
      if (Set where = f.where & relation; !where.empty())
        stored.push_back({{frame, p.writer->value}, f.instance, std::move(where)});
    }
    if (overlap(f, stored)) return;
    parts.clear();
    for (const Family& x : stored) parts.push_back({f.term, f.instance, kept(f, x.where)});
  });
  return parts;
}

}  // namespace nestor::verify

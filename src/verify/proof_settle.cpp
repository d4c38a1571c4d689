// Decides which of the stores and updates in a slot count: of several stores to an element the last one, and
// the updates after it, each of which must happen once. Loops inside of a slot are examined only if a
// question can't be decided without them.
#include <algorithm>

#include "nestor/walk.h"
#include "src/verify/proof_trace.h"

namespace nestor::verify {

void Flow::Tracer::keep_last(std::vector<Found>& stores) {
  for (Found& f : stores)
    if (!unambiguous(f)) without_overwritten(f, {&f});
  std::vector<std::vector<const Found*>> later(stores.size());
  for (size_t i = 0; i < stores.size(); ++i)
    for (size_t k = 0; k < stores.size(); ++k) {
      if (i == k) continue;
      const std::vector<V> keep = own(stores[i].shared, stores[i].carried);
      if ((stores[i].relation.onto(keep) & stores[k].relation.onto(keep)).empty()) continue;
      if (any_before(stores[i], stores[k])) later[i].push_back(&stores[k]);
    }
  const std::vector<Found> all = stores;
  for (size_t i = 0; i < stores.size(); ++i) {
    std::vector<const Found*> by;
    for (const Found* f : later[i]) by.push_back(&all[static_cast<size_t>(f - stores.data())]);
    if (!by.empty()) without_overwritten(stores[i], by);
  }
  std::erase_if(stores, [](const Found& f) { return f.relation.empty(); });
}

bool Flow::Tracer::any_before(const Found& x, const Found& y) {
  const Set pair = copy_set(*x.writer, 1, x.shared) & copy_set(*y.writer, 2, y.shared) &
                   same_element(*x.writer, 1, *y.writer, 2);
  for (const Set& order : precedes(*x.writer, 1, *y.writer, 2, x.depth))
    if (!(pair & order).empty()) return true;
  return false;
}

bool Flow::Tracer::unambiguous(const Found& f) {
  const Statement& w = *f.writer;
  const auto plain = [&](V v) {
    return std::any_of(w.element.begin(), w.element.end(),
                       [&](const Lin& l) { return l.terms.size() == 1 && l.terms[0].first == v; });
  };
  std::vector<V> open;
  for (const V v : w.vars)
    if (!plain(v) && used(w, v)) open.push_back(v);
  if (open.empty()) return true;
  const Set pair = copy_set(w, 1, f.shared) & copy_set(w, 2, f.shared) & same_element(w, 1, w, 2);
  return std::all_of(open.begin(), open.end(), [&](V v) {
    return (pair & Set::where(home_, {}, {Lin::of(home_.copy(v, 2)) - Lin::of(home_.copy(v, 1)) - 1}))
        .empty();
  });
}

Set Flow::Tracer::second(const Set& first) const {
  Renaming names;
  for (const V v : first.vars())
    if (home_.origin(v) != v) names[v] = home_.copy(v, 2);
  return first.renamed(names);
}

std::optional<Set> Flow::Tracer::last_of(const Found& f, const std::vector<const Found*>& others,
                                         Failure& unordered) {
  const Statement& w = *f.writer;
  const Set one = within_slot(f, w.loops.size());
  Set overwritten = Set::none(home_);
  for (const Found* other : others) {
    const Statement& x = *other->writer;
    const Set pair = one & second(within_slot(*other, x.loops.size()));
    for (const Set& order : precedes(w, 1, x, 2, f.depth))
      overwritten = overwritten | (pair & order).onto(one.vars());
    for (const Set& order : precedes(w, 1, x, 2, f.depth, true)) {
      const auto p = ((pair & order) - overwritten).first({});
      if (!p) continue;
      unordered = {Verdict::unproved,
                   w.name + " stores to elements of " + w.buffer->name + " in iterations of no fixed order",
                   instance_at(w, *p, 1, f.shared) + " and " + instance_at(x, *p, 2, f.shared) +
                       " both write " + written_at(w, *p, 1)};
      return std::nullopt;
    }
  }
  return one - overwritten;
}

void Flow::Tracer::without_overwritten(Found& f, const std::vector<const Found*>& others) {
  Failure unordered;
  if (const auto last = last_of(f, others, unordered))
    f.relation = last->onto(f.relation.vars());
  else
    trouble(f.relation, unordered);
}

std::optional<Set> Flow::Tracer::after_the_last(const Found& u, const std::vector<Found>& stores) {
  const Statement& w = *u.writer;
  std::vector<const Found*> others;
  for (const Found& s : stores) others.push_back(&s);
  const Set updates = within_slot(u, w.loops.size()), two = second(updates);
  Set kept = Set::none(home_);
  Failure unordered;
  for (const Found& s : stores) {
    const auto last = last_of(s, others, unordered);
    if (!last) return std::nullopt;
    for (const Set& order : precedes(*s.writer, 1, w, 2, u.depth))
      kept = kept | (*last & two & order).onto(two.vars());
  }
  Renaming first;
  for (const V v : updates.vars())
    if (home_.origin(v) != v) first[home_.copy(v, 2)] = v;
  const Set alive = kept.renamed(first);
  if (may_repeat(*w.op)) return alive.onto(u.relation.vars());
  std::vector<Lin> zero;
  for (const V v : w.vars) zero.push_back(Lin::of(home_.copy(v, 1)) - Lin::of(home_.copy(v, 2)));
  const Set twice = alive & kept & Set::where(home_, zero, {});
  for (const Set& order : precedes(w, 1, w, 2, u.depth, true))
    if (!(twice & order).empty()) return std::nullopt;
  return alive.onto(u.relation.vars());
}

bool Flow::Tracer::used(const Statement& w, V v) {
  bool found = false;
  const auto look = [&](const Expr& e) {
    const auto* r = e.as<VarRef>();
    const auto it = r ? w.env.find(r->var) : w.env.end();
    if (it == w.env.end()) return;
    for (const auto& [x, c] : it->second.terms) found = found || x == v;
  };
  for_each_expr(w.value, look);
  return found;
}

void Flow::Tracer::check_updates(Found& u, const std::vector<Found>& stores) {
  std::optional<Source::Trouble> first;
  size_t shared = u.shared;
  for (size_t depth = u.depth;; ++depth) {
    const bool root = depth == u.depth;
    const auto& path = u.writer->path;
    if (!root) {
      const auto common = [&](const Found& s) { return starts_with(s.writer->path, path, depth); };
      if (stores.empty() || depth >= path.size() || !std::all_of(stores.begin(), stores.end(), common)) break;
      if (!path[depth - 1].loop) continue;
      ++shared;
      if (path[depth - 1].loop->single || !starts_anew(u, stores, shared)) continue;
    }
    auto found = may_repeat(*u.writer->op) ? std::nullopt : once_each(u, {depth, shared});
    for (size_t i = 0; !found && i < stores.size(); ++i)
      found = store_comes_first(stores[i], u, {depth, shared});
    if (!found && (root || all_alike(u, shared))) return;
    if (!found) break;
    if (!first) first = std::move(found);
  }
  const auto alive = stores.empty() ? std::nullopt : after_the_last(u, stores);
  if (!alive) return trouble(first->readers, first->failure);
  if (!u.relation.within(*alive)) out_.voided.push_back(first->failure);
  u.relation = *alive;
}

bool Flow::Tracer::starts_anew(const Found& u, const std::vector<Found>& stores, size_t shared) {
  std::vector<V> keep = own(u.shared, u.carried);
  for (const V v : u.writer->loop_vars(shared)) keep.push_back(home_.copy(v, 1));
  Set started = Set::none(home_);
  for (const Found& s : stores) started = started | within_slot(s, shared).onto(keep);
  const Set updated = within_slot(u, shared);
  return updated.onto(keep).within(started) && (started & u.relation).within(updated);
}

bool Flow::Tracer::all_alike(const Found& u, size_t shared) {
  const Set all = within_slot(u, shared);
  std::vector<V> loops = own(u.shared, u.carried);
  for (const V v : u.writer->loop_vars(shared)) loops.push_back(home_.copy(v, 1));
  return (u.relation & all.onto(loops)).within(all);
}

Set Flow::Tracer::within_slot(const Found& f, size_t shared) {
  const Statement& w = *f.writer;
  const Set& seen = flow_.seen_from(w, shared, quotients_in(w, w.element));
  const Renaming names = copy_of(w, seen, 1, f.shared);
  std::vector<V> keep = own(f.shared, f.carried);
  for (const V v : w.vars) keep.push_back(home_.copy(v, 1));
  for (const V v : w.loop_vars(shared)) keep.push_back(home_.copy(v, 1));
  return (f.relation & seen.renamed(names)).onto(keep);
}

std::optional<Source::Trouble> Flow::Tracer::once_each(const Found& u, Epoch e) {
  const Statement& w = *u.writer;
  std::vector<Lin> zero;
  for (const V v : w.vars) zero.push_back(Lin::of(home_.copy(v, 1)) - Lin::of(home_.copy(v, 2)));
  const Set pair = copy_set(w, 1, e.shared) & copy_set(w, 2, e.shared) & Set::where(home_, zero, {});
  for (const Set& order : precedes(w, 1, w, 2, e.depth, true)) {
    const Set twice = pair & order;
    const auto p = twice.first(order_of(w, 1, e.shared));
    if (!p) continue;
    std::vector<V> keep = w.loop_vars(u.shared);
    for (const V v : w.vars) keep.push_back(home_.copy(v, 1));
    return Source::Trouble{
        u.relation & twice.onto(keep),
        {Verdict::wrong, "an update of " + w.buffer->name + " happens twice",
         instance_at(w, *p, 1, e.shared) + " and " + loops_at(w, *p, 2, e.shared) + " both update " +
             written_at(w, *p, 1) + " with the term of " + iterators_at(w, *p, 1)}};
  }
  return std::nullopt;
}

std::vector<V> Flow::Tracer::order_of(const Statement& s, int n, size_t shared) const {
  std::vector<V> out = s.loop_vars(shared);
  for (size_t i = shared; i < s.loops.size(); ++i) out.push_back(home_.copy(s.loops[i]->var, n));
  return out;
}

std::optional<Source::Trouble> Flow::Tracer::store_comes_first(const Found& s, const Found& u, Epoch e) {
  const Statement &w = *s.writer, &x = *u.writer;
  const Set pair = copy_set(x, 2, e.shared) & copy_set(w, 1, e.shared) & same_element(w, 1, x, 2);
  for (const Set& order : precedes(x, 2, w, 1, e.depth)) {
    const Set lost = pair & order;
    const auto p = lost.first(order_of(x, 2, e.shared));
    if (!p) continue;
    return Source::Trouble{
        u.relation,
        {Verdict::wrong, "an update of " + w.buffer->name + " comes before the store that starts it",
         instance_at(x, *p, 2, e.shared) + " updates " + written_at(x, *p, 2) + " before " +
             instance_at(w, *p, 1, e.shared) + " stores to it"}};
  }
  return std::nullopt;
}

void Flow::Tracer::settle_updates() {
  std::vector<const Statement*> writers;
  for (const Found& u : updates_)
    if (std::find(writers.begin(), writers.end(), u.writer) == writers.end()) writers.push_back(u.writer);
  for (const Statement* w : writers) {
    size_t deepest = 0;  // shared loops, that of a carried slot included
    Set relation = Set::none(home_), readers = Set::none(home_);
    for (const Found& u : updates_)
      if (u.writer == w) deepest = std::max(deepest, u.shared + u.carried);
    const Set all = readers_at(deepest, {});
    for (const Found& u : updates_) {
      if (u.writer != w) continue;
      relation = relation | (u.relation & all);
      readers = readers | (u.readers & all);
    }
    std::vector<V> keep = own(deepest, false);
    for (const V v : w->vars) keep.push_back(home_.copy(v, 1));
    relation = relation.onto(keep);
    const Set seen = relation_only({w, 0, 0, false, relation, relation});
    if (deepest > 0) complete(*w, readers.onto(own(deepest, false)) & seen, relation);
    out_.updates.push_back({w, seen});
  }
}

void Flow::Tracer::complete(const Statement& w, const Set& wanted, const Set& relation) {
  if (wanted.within(relation)) return;
  const Set missed = wanted - relation;
  const Set here = missed & r_.domain & copy_set(w, 1, 0);
  std::vector<V> order = r_.loop_vars(r_.loops.size());
  append(order, order_of(w, 1, 0));
  Failure f{Verdict::wrong, r_.name + " reads " + read_.buffer->name + " before all its updates are done",
            ""};
  if (const auto p = here.first(order))
    f.witness = sizes_at(m_, *p) + reading(*p) + " before " + instance_at(w, *p, 1) + " updates it";
  trouble(missed, f);
}

}  // namespace nestor::verify

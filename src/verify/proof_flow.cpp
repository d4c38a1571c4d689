// The writes before a read are taken slot by slot, the nearest in time first: a slot is what stands before
// the reader in one of the sequences around it, or what earlier iterations of one of the loops around it did.
// In nearly all schedules the first slot that writes the buffer answers for all readers at once, and then
// nothing further away matters. Loops inside of a slot are projected out, those around it are shared by
// reader and writer: so relations have few variables however many loops there are.
#include "src/verify/proof_flow.h"

#include <algorithm>

#include "nestor/walk.h"

namespace nestor::verify {

std::vector<Set> precedes(const Statement& x, int nx, const Statement& y, int ny, size_t depth,
                          bool any_kind) {
  Sets& home = x.model->home();
  std::vector<Set> out;
  std::vector<Lin> same;
  for (size_t i = depth; i < std::min(x.path.size(), y.path.size()); ++i) {
    const PathItem &a = x.path[i], &b = y.path[i];
    if (!(a == b)) {
      if (!a.exclusive && a.index < b.index) out.push_back(Set::where(home, same, {}));
      break;
    }
    if (!a.loop) continue;
    const Lin vx = Lin::of(home.copy(a.loop->var, nx)), vy = Lin::of(home.copy(a.loop->var, ny));
    if (!a.loop->single && (a.loop->sequential || any_kind))
      out.push_back(Set::where(home, same, {vy - vx - 1}));
    same.push_back(vx - vy);
  }
  return out;
}

namespace {

Lin in_copy(const Statement& s, const Lin& l, int n) {
  Renaming names;
  for (const auto& [v, c] : l.terms)
    if (!s.model->is_dim(v)) names[v] = s.model->home().copy(v, n);
  return renamed(l, names);
}

bool starts_with(const std::vector<PathItem>& path, const std::vector<PathItem>& prefix, size_t n) {
  return path.size() > n && std::equal(prefix.begin(), prefix.begin() + static_cast<long>(n), path.begin());
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Set same_element(const Statement& x, int nx, const Statement& y, int ny) {
  std::vector<Lin> zero;
  for (size_t d = 0; d < x.element.size(); ++d)
    zero.push_back(in_copy(x, x.element[d], nx) - in_copy(y, y.element[d], ny));
  return Set::where(x.model->home(), zero, {});
}

struct Flow::Slot {
  size_t depth;  // into the reader's path
  bool carried;  // by the loop there; else a child before the reader's own
  std::vector<const Statement*> writers;
};

std::vector<Flow::Slot> Flow::slots_of(const Statement& reader, const Buffer& b) const {
  const std::vector<const Statement*> writers = m_.writers(b);
  std::vector<Slot> out;
  for (size_t p = reader.path.size(); p-- > m_.alloc_depth(b);) {
    const PathItem& item = reader.path[p];
    if (item.loop) {
      if (!item.loop->sequential || item.loop->single) continue;
      Slot slot{p, true, {}};
      for (const Statement* w : writers)
        if (starts_with(w->path, reader.path, p + 1)) slot.writers.push_back(w);
      if (!slot.writers.empty()) out.push_back(slot);
      continue;
    }
    if (item.exclusive) continue;
    for (int i = item.index; i-- > 0;) {
      Slot slot{p, false, {}};
      for (const Statement* w : writers)
        if (starts_with(w->path, reader.path, p) && w->path[p].index == i) slot.writers.push_back(w);
      if (!slot.writers.empty()) out.push_back(slot);
    }
  }
  return out;
}

const Set& Flow::seen_from(const Statement& s, size_t shared, const std::vector<V>& more) {
  const auto [it, added] = projections_.try_emplace({s.number, shared, more}, Set());
  if (!added) return it->second;
  std::vector<V> keep = s.loop_vars(shared);
  append(keep, s.vars);
  append(keep, more);
  append(keep, m_.dim_vars());
  return it->second = s.domain.onto(keep);
}

std::vector<V> quotients_in(const Statement& s, const std::vector<Lin>& indices) {
  std::vector<V> out;
  for (const Lin& l : indices)
    for (const auto& [v, c] : l.terms)
      if (std::find(s.vars.begin(), s.vars.end(), v) == s.vars.end() && !s.model->is_dim(v)) out.push_back(v);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

namespace {

std::vector<V> quotients_of(const Statement& s, const Read& read) {
  std::vector<V> out = quotients_in(s, read.points);
  std::erase_if(out,
                [&](V v) { return std::find(read.free.begin(), read.free.end(), v) != read.free.end(); });
  return out;
}

}  // namespace

struct Flow::Found {
  const Statement* writer;
  size_t depth, shared;
  bool carried;
  Set relation;  // shared loops, reader's variables, writer's first copy
  Set readers;   // that were still looking
};

// One search for the sources of one read.
class Flow::Tracer {
 public:
  Tracer(Flow& flow, const Statement& reader, const Read& read)
      : flow_(flow),
        m_(flow.m_),
        home_(m_.home()),
        r_(reader),
        read_(read),
        quotients_(quotients_of(reader, read)),
        dims_(m_.dim_vars()),
        vars_(reader.vars) {
    append(vars_, read.free);
  }

  Source run() {
    for (const Slot& slot : flow_.slots_of(r_, read_.buffer)) {
      take(slot);
      if (pending_ && pending_->empty()) break;
    }
    if (!pending_) pending_ = readers_at(0, {});
    if (!pending_->empty()) nothing_written();
    settle_updates();
    return std::move(out_);
  }

 private:
  Set readers_at(size_t shared, const std::vector<V>& more) {
    std::vector<V> keep = quotients_;
    append(keep, more);
    std::vector<V> all = r_.loop_vars(shared);
    append(all, vars_);
    append(all, keep);
    append(all, dims_);
    return (flow_.seen_from(r_, shared, keep) & read_.guard).onto(all);
  }

  std::vector<V> own(size_t shared, bool carried) const {
    std::vector<V> keep = r_.loop_vars(shared + (carried ? 1 : 0));
    append(keep, vars_);
    append(keep, dims_);
    return keep;
  }

  void take(const Slot& slot) {
    const size_t shared = r_.loops_before(slot.depth);
    const std::vector<V> more = slot.carried ? std::vector<V>{r_.loops[shared]->var} : std::vector<V>{};
    const Set now = readers_at(shared, more);
    std::vector<V> keep = own(shared, slot.carried);
    append(keep, quotients_);
    pending_ = pending_ ? pending_->onto(keep) & now : now;
    std::vector<Found> stores, updates;
    for (const Statement* w : slot.writers) {
      Found f{w, slot.depth, shared, slot.carried, relate(slot, shared, *w), *pending_};
      if (!f.relation.empty()) (w->op ? updates : stores).push_back(std::move(f));
    }
    for (Found& u : updates) {
      check_updates(u, stores);
      if (!u.relation.empty()) updates_.push_back(u);
    }
    keep_last(stores);
    if (stores.empty()) return;
    Set covered = Set::none(home_);
    for (const Found& s : stores) {
      covered = covered | s.relation.onto(own(shared, slot.carried));
      out_.stores.push_back({s.writer, relation_only(s)});
    }
    if (pending_->within(covered))
      pending_ = Set::none(home_);
    else
      pending_ = *pending_ - covered;
  }

  // Readers and the instances of w in the slot that wrote the element they read.
  Set relate(const Slot& slot, size_t shared, const Statement& w) {
    std::vector<V> more = quotients_in(w, w.element);
    if (slot.carried) more.push_back(w.loops[shared]->var);
    const Set& seen = flow_.seen_from(w, shared, more);
    const Renaming names = copy_of(w, seen, 1, shared);
    std::vector<Lin> zero, nonnegative;
    for (size_t d = 0; d < w.element.size(); ++d)
      zero.push_back(read_.points[d] - renamed(w.element[d], names));
    if (slot.carried) {
      const V loop = w.loops[shared]->var;
      nonnegative.push_back(Lin::of(loop) - Lin::of(home_.copy(loop, 1)) - 1);
    }
    std::vector<V> keep = own(shared, slot.carried);
    for (const V v : w.vars) keep.push_back(home_.copy(v, 1));
    return (*pending_ & seen.renamed(names) & Set::where(home_, zero, nonnegative)).onto(keep);
  }

  Set relation_only(const Found& f) const {
    std::vector<V> keep = vars_;
    append(keep, dims_);
    for (const V v : f.writer->vars) keep.push_back(home_.copy(v, 1));
    return f.relation.onto(keep);
  }
  Set readers_only(const Set& s) const {
    std::vector<V> keep = vars_;
    append(keep, dims_);
    return s.onto(keep);
  }

  void trouble(const Set& readers, Failure f, bool unwritten = false) {
    if (!read_.exact && f.verdict == Verdict::wrong) f.verdict = Verdict::unproved;
    out_.troubles.push_back({readers_only(readers), std::move(f), unwritten});
  }
  std::string reading(const Point& p) const {
    return instance_at(r_, p) + " reads " + element_at(read_.buffer, read_.indices, p);
  }

  // Of several stores into an element the last one counts.
  void keep_last(std::vector<Found>& stores) {
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

  // Is there an instance of x before one of y that writes the same element?
  bool any_before(const Found& x, const Found& y) {
    const Set pair = copy_set(*x.writer, 1, x.shared) & copy_set(*y.writer, 2, y.shared) &
                     same_element(*x.writer, 1, *y.writer, 2);
    for (const Set& order : precedes(*x.writer, 1, *y.writer, 2, x.depth))
      if (!(pair & order).empty()) return true;
    return false;
  }

  Set copy_set(const Statement& s, int n, size_t shared) {
    return s.domain.renamed(copy_of(s, s.domain, n, shared));
  }

  // Do all instances that store to one element store the same, as far as one can see?
  bool unambiguous(const Found& f) {
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

  Set second(const Set& first) const {
    Renaming names;
    for (const V v : first.vars())
      if (home_.origin(v) != v) names[v] = home_.copy(v, 2);
    return first.renamed(names);
  }

  // The instances of f, with all their loops, after which none of the others stores to what the reader reads;
  // nullopt, and `unordered` says why, where they have no fixed order.
  std::optional<Set> last_of(const Found& f, const std::vector<const Found*>& others, Failure& unordered) {
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

  void without_overwritten(Found& f, const std::vector<const Found*>& others) {
    Failure unordered;
    if (const auto last = last_of(f, others, unordered))
      f.relation = last->onto(f.relation.vars());
    else
      trouble(f.relation, unordered);
  }

  // The updates behind the last store to the element; what came before it counts no more. nullopt where one
  // of them happens twice, or there is no order.
  std::optional<Set> after_the_last(const Found& u, const std::vector<Found>& stores) {
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
    std::vector<Lin> zero;
    for (const V v : w.vars) zero.push_back(Lin::of(home_.copy(v, 1)) - Lin::of(home_.copy(v, 2)));
    const Set twice = alive & kept & Set::where(home_, zero, {});
    for (const Set& order : precedes(w, 1, w, 2, u.depth, true))
      if (!(twice & order).empty()) return std::nullopt;
    return alive.onto(u.relation.vars());
  }

  static bool used(const Statement& w, V v) {
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

  // Loops of a slot in which an element may be started anew, so that only what one iteration does counts:
  // none, or the first few that the update and the stores have in common.
  struct Epoch {
    size_t depth, shared;
  };

  // Between the store that starts an element and its reading, each update must happen once.
  void check_updates(Found& u, const std::vector<Found>& stores) {
    std::optional<Source::Trouble> first;
    size_t shared = u.shared;
    for (size_t depth = u.depth;; ++depth) {
      const bool root = depth == u.depth;
      const auto& path = u.writer->path;
      if (!root) {
        const auto common = [&](const Found& s) { return starts_with(s.writer->path, path, depth); };
        if (stores.empty() || depth >= path.size() || !std::all_of(stores.begin(), stores.end(), common))
          break;
        if (!path[depth - 1].loop) continue;
        ++shared;
        if (path[depth - 1].loop->single || !starts_anew(u, stores, shared)) continue;
      }
      auto found = once_each(u, {depth, shared});
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

  // In each iteration of the first `shared` loops that has an update of an element, a store starts it; and
  // where one does, all its updates follow: so the last such iteration, which the reader sees, is like every
  // other.
  bool starts_anew(const Found& u, const std::vector<Found>& stores, size_t shared) {
    std::vector<V> keep = own(u.shared, u.carried);
    for (const V v : u.writer->loop_vars(shared)) keep.push_back(home_.copy(v, 1));
    Set started = Set::none(home_);
    for (const Found& s : stores) started = started | within_slot(s, shared).onto(keep);
    const Set updated = within_slot(u, shared);
    return updated.onto(keep).within(started) && (started & u.relation).within(updated);
  }

  // Has each iteration of the first `shared` loops the same updates? Not where the writer's iterators tell
  // the iterations apart.
  bool all_alike(const Found& u, size_t shared) {
    const Set all = within_slot(u, shared);
    std::vector<V> loops = own(u.shared, u.carried);
    for (const V v : u.writer->loop_vars(shared)) loops.push_back(home_.copy(v, 1));
    return (u.relation & all.onto(loops)).within(all);
  }

  // As f.relation, with the writer's first `shared` loops.
  Set within_slot(const Found& f, size_t shared) {
    const Statement& w = *f.writer;
    const Set& seen = flow_.seen_from(w, shared, quotients_in(w, w.element));
    const Renaming names = copy_of(w, seen, 1, f.shared);
    std::vector<V> keep = own(f.shared, f.carried);
    for (const V v : w.vars) keep.push_back(home_.copy(v, 1));
    for (const V v : w.loop_vars(shared)) keep.push_back(home_.copy(v, 1));
    return (f.relation & seen.renamed(names)).onto(keep);
  }

  std::optional<Source::Trouble> once_each(const Found& u, Epoch e) {
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

  std::vector<V> order_of(const Statement& s, int n, size_t shared) const {
    std::vector<V> out = s.loop_vars(shared);
    for (size_t i = shared; i < s.loops.size(); ++i) out.push_back(home_.copy(s.loops[i]->var, n));
    return out;
  }

  // What is stored after an update destroys it.
  std::optional<Source::Trouble> store_comes_first(const Found& s, const Found& u, Epoch e) {
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

  void nothing_written() {
    const bool output = r_.number < 0;
    Failure f{Verdict::wrong,
              output
                  ? "elements of " + read_.buffer->name + " are left unwritten"
                  : r_.name + " reads elements of " + read_.buffer->name + " that nothing has written before",
              ""};
    // The whole instance, and who writes that element at another time.
    Set here = r_.domain & read_.guard & *pending_;
    for (const Statement* w : m_.writers(read_.buffer)) {
      std::vector<Lin> zero;
      for (size_t d = 0; d < w->element.size(); ++d)
        zero.push_back(read_.points[d] - in_copy(*w, w->element[d], 1));
      if (w->op) continue;
      const Set late = here & copy_set(*w, 1, 0) & Set::where(home_, zero, {});
      std::vector<V> order = r_.loop_vars(r_.loops.size());
      append(order, order_of(*w, 1, 0));
      if (const auto q = late.first(order)) {
        f.witness = reading(*q) + " before " + instance_at(*w, *q, 1) + " writes it";
        trouble(*pending_, f, true);
        return;
      }
    }
    if (const auto q = here.first(r_.loop_vars(r_.loops.size())))
      f.witness = output ? "nothing writes " + element_at(read_.buffer, read_.indices, *q)
                         : reading(*q) + ", which nothing writes";
    trouble(*pending_, f, true);
  }

  // Each statement's updates as one relation. Which updates a reader sees must depend on its variables alone:
  // else some reading comes too early.
  void settle_updates() {
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

  void complete(const Statement& w, const Set& wanted, const Set& relation) {
    if (wanted.within(relation)) return;
    const Set missed = wanted - relation;
    const Set here = missed & r_.domain & copy_set(w, 1, 0);
    std::vector<V> order = r_.loop_vars(r_.loops.size());
    append(order, order_of(w, 1, 0));
    Failure f{Verdict::wrong, r_.name + " reads " + read_.buffer->name + " before all its updates are done",
              ""};
    if (const auto p = here.first(order))
      f.witness = reading(*p) + " before " + instance_at(w, *p, 1) + " updates it";
    trouble(missed, f);
  }

  Flow& flow_;
  const Model& m_;
  Sets& home_;
  const Statement& r_;
  const Read& read_;
  std::vector<V> quotients_, dims_;
  std::vector<V> vars_;  // the reader's, and of indices that depend on data
  std::optional<Set> pending_;
  std::vector<Found> updates_;
  Source out_;
};

const Source& Flow::source(const Statement& reader, const Read& read) {
  const auto [it, added] = sources_.try_emplace({reader.number, read.expr});
  if (!added) return it->second;
  return it->second = Tracer(*this, reader, read).run();
}

const Statement& Flow::final_reader(const Buffer& out) {
  const Statement*& known = final_of_[out];
  if (known) return *known;
  Statement& s = finals_.emplace_back();
  s.number = -static_cast<int>(finals_.size());
  s.model = &m_;
  s.name = "the caller";
  s.buffer = out;
  s.path = {{nullptr, 1, nullptr, false}};
  Read r;
  std::vector<Lin> bounds;
  std::vector<Expr> indices;
  for (size_t d = 0; d < m_.decl(out).shape.size(); ++d) {
    const Var var = make_var("i" + std::to_string(d));
    const V v = m_.home().make(var->name);
    s.vars.push_back(v);
    s.env[var] = Lin::of(v);
    indices.push_back(var);
    r.indices.push_back(Lin::of(v));
    r.points.push_back(Lin::of(v));
    bounds.push_back(Lin::of(v));
    bounds.push_back(m_.shape(out, d) - Lin::of(v) - 1);
  }
  s.domain = Set::where(m_.home(), {}, bounds);
  s.value = make::load(out, indices);
  r.expr = s.value.get();
  r.buffer = out;
  r.guard = Set::all(m_.home());
  s.reads.push_back(r);
  return *(known = &s);
}

}  // namespace nestor::verify

// Finds the writes before a read slot by slot, the latest first. A slot is either what precedes the reader in
// one of the sequences around it, or the earlier iterations of one of the loops around it. In nearly all
// schedules the first slot that writes the buffer is the answer for all readers, and the earlier slots don't
// matter. Loops inside of a slot are projected out, and loops around it are shared by reader and writer. So
// relations have few variables, however many loops there are.
#include <algorithm>

#include "nestor/walk.h"
#include "src/verify/proof_trace.h"

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

Lin in_copy(const Statement& s, const Lin& l, int n) {
  Renaming names;
  for (const auto& [v, c] : l.terms)
    if (!s.model->is_dim(v)) names[v] = s.model->home().copy(v, n);
  return renamed(l, names);
}

bool starts_with(const std::vector<PathItem>& path, const std::vector<PathItem>& prefix, size_t n) {
  return path.size() > n && std::equal(prefix.begin(), prefix.begin() + static_cast<long>(n), path.begin());
}

Set same_element(const Statement& x, int nx, const Statement& y, int ny) {
  std::vector<Lin> zero;
  for (size_t d = 0; d < x.element.size(); ++d)
    zero.push_back(in_copy(x, x.element[d], nx) - in_copy(y, y.element[d], ny));
  return Set::where(x.model->home(), zero, {});
}

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

std::vector<V> quotients_of(const Statement& s, const Read& read) {
  std::vector<V> out = quotients_in(s, read.points);
  std::erase_if(out,
                [&](V v) { return std::find(read.free.begin(), read.free.end(), v) != read.free.end(); });
  return out;
}

Source Flow::Tracer::run() {
  for (const Slot& slot : flow_.slots_of(r_, read_.buffer)) {
    take(slot);
    if (pending_ && pending_->empty()) break;
  }
  if (!pending_) pending_ = readers_at(0, {});
  if (!pending_->empty()) nothing_written();
  settle_updates();
  return std::move(out_);
}

Set Flow::Tracer::readers_at(size_t shared, const std::vector<V>& more) {
  std::vector<V> keep = quotients_;
  append(keep, more);
  std::vector<V> all = r_.loop_vars(shared);
  append(all, vars_);
  append(all, keep);
  append(all, dims_);
  return (flow_.seen_from(r_, shared, keep) & read_.guard).onto(all);
}

std::vector<V> Flow::Tracer::own(size_t shared, bool carried) const {
  std::vector<V> keep = r_.loop_vars(shared + (carried ? 1 : 0));
  append(keep, vars_);
  append(keep, dims_);
  return keep;
}

void Flow::Tracer::take(const Slot& slot) {
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
    if (u.relation.empty()) continue;
    if (starts_again_)
      trouble(u.readers, {Verdict::unproved,
                          "which updates of " + read_.buffer->name + " " + r_.name +
                              " sees depends on a loop that no iterator is bound to",
                          ""});
    updates_.push_back(u);
  }
  keep_last(stores);
  if (stores.empty()) return;
  starts_again_ = starts_again_ || (slot.carried && !r_.domain.determines(r_.vars, {r_.loops[shared]->var}));
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

Set Flow::Tracer::relate(const Slot& slot, size_t shared, const Statement& w) {
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

Set Flow::Tracer::relation_only(const Found& f) const {
  std::vector<V> keep = vars_;
  append(keep, dims_);
  for (const V v : f.writer->vars) keep.push_back(home_.copy(v, 1));
  return f.relation.onto(keep);
}

Set Flow::Tracer::readers_only(const Set& s) const {
  std::vector<V> keep = vars_;
  append(keep, dims_);
  return s.onto(keep);
}

void Flow::Tracer::trouble(const Set& readers, Failure f, bool unwritten) {
  if (!read_.exact && f.verdict == Verdict::wrong) f.verdict = Verdict::unproved;
  out_.troubles.push_back({readers_only(readers), std::move(f), unwritten});
}

std::string Flow::Tracer::reading(const Point& p) const {
  return instance_at(r_, p) + " reads " + element_at(read_.buffer, read_.indices, p);
}

Set Flow::Tracer::copy_set(const Statement& s, int n, size_t shared) {
  return s.domain.renamed(copy_of(s, s.domain, n, shared));
}

void Flow::Tracer::nothing_written() {
  const bool output = r_.number < 0;
  Failure f{Verdict::wrong,
            output
                ? "elements of " + read_.buffer->name + " are left unwritten"
                : r_.name + " reads elements of " + read_.buffer->name + " that nothing has written before",
            ""};
  if (!output) f.at.push_back(read_.expr ? static_cast<const void*>(read_.expr) : r_.node);
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
      f.witness = sizes_at(m_, *q) + reading(*q) + " before " + instance_at(*w, *q, 1) + " writes it";
      trouble(*pending_, f, true);
      return;
    }
  }
  if (const auto q = here.first(r_.loop_vars(r_.loops.size())))
    f.witness = sizes_at(m_, *q) + (output ? "nothing writes " + element_at(read_.buffer, read_.indices, *q)
                                           : reading(*q) + ", which nothing writes");
  trouble(*pending_, f, true);
}

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
  Set defined = m_.dims_domain();
  for (size_t d = 0; d < m_.decl(out).shape.size(); ++d) {
    const Var var = make_var("i" + std::to_string(d));
    const V v = m_.home().make(var->name);
    s.vars.push_back(v);
    s.env[var] = Lin::of(v);
    indices.push_back(var);
    r.indices.push_back(Lin::of(v));
    r.points.push_back(Lin::of(v));
    bounds.push_back(Lin::of(v));
    const Lin size = m_.shape(out, d);
    bounds.push_back(size - Lin::of(v) - 1);
    defined = defined & m_.definitions_of(size);
  }
  s.domain = Set::where(m_.home(), {}, bounds) & defined;
  s.value = make::load(out, indices);
  r.expr = s.value.get();
  r.buffer = out;
  r.guard = Set::all(m_.home());
  s.reads.push_back(r);
  return *(known = &s);
}

}  // namespace nestor::verify

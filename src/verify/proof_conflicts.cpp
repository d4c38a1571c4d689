// Checks iterations that are unordered. Statements are described by the loop, the loops around it and their
// own variables; everything else is projected out.
#include <algorithm>

#include "nestor/walk.h"
#include "src/verify/proof_checks.h"

namespace nestor::verify {

namespace {

struct Access {
  const Statement* statement;
  const Read* read;  // null: the write
  Set points;        // over loops up to the one in question, variables and quotients
};

std::vector<std::optional<Lin>> indices_of(const Access& a) {
  if (a.read) return a.read->indices;
  return {a.statement->element.begin(), a.statement->element.end()};
}

class Conflicts {
 public:
  Conflicts(Flow& flow, const Loop& loop) : flow_(flow), m_(flow.model()), home_(m_.home()), loop_(loop) {}

  void check() {
    std::map<std::string, Buffer> written;  // by name: in a fixed order
    for (const Statement& s : m_.statements())
      if (const auto depth = depth_in(s); depth && m_.alloc_depth(s.buffer) <= *depth)
        written[s.buffer->name] = s.buffer;
    for (const auto& [name, b] : written) check(b);
  }

 private:
  std::optional<size_t> depth_in(const Statement& s) const {
    for (size_t i = 0; i < s.path.size(); ++i)
      if (s.path[i].loop == &loop_) return i;
    return std::nullopt;
  }

  void check(const Buffer& b) {
    std::vector<Access> writes, all;
    for (const Statement& s : m_.statements()) {
      const auto depth = depth_in(s);
      if (!depth) continue;
      shared_ = s.loops_before(*depth);
      if (s.buffer == b) writes.push_back({&s, nullptr, seen(s, nullptr)});
      for (const Read& r : s.reads)
        if (r.buffer == b) all.push_back({&s, &r, seen(s, &r)});
    }
    all.insert(all.begin(), writes.begin(), writes.end());
    for (size_t i = 0; i < writes.size(); ++i)
      for (size_t k = i; k < all.size(); ++k) {
        if (lanes(writes[i], all[k])) continue;
        meet(writes[i], all[k], false);
        if (k != i) meet(writes[i], all[k], true);
      }
  }

  Set seen(const Statement& s, const Read* read) {
    std::vector<V> more = {loop_.var};
    std::vector<Lin> indices = s.element;
    if (read)
      for (const auto& i : read->indices)
        if (i) indices.push_back(*i);
    for (const V v : quotients_in(s, indices)) more.push_back(v);
    const Set points = flow_.seen_from(s, shared_, more);
    return read ? points & read->guard : points;
  }

  // A sum over vector lanes.
  bool lanes(const Access& x, const Access& y) const {
    return x.statement == y.statement && loop_.node->kind == ForKind::vectorized &&
           reduces_lanes(*loop_.node);
  }

  // Does x touch, in an earlier iteration than y (or a later one), what y touches?
  void meet(const Access& x, const Access& y, bool later) {
    const Renaming nx = names(x, 1), ny = names(y, 2);
    const Lin lx = Lin::of(home_.copy(loop_.var, 1)), ly = Lin::of(home_.copy(loop_.var, 2));
    std::vector<Lin> zero;
    bool exact = !y.read || y.read->exact;
    const auto ix = indices_of(x), iy = indices_of(y);
    for (size_t d = 0; d < ix.size(); ++d) {
      if (ix[d] && iy[d])
        zero.push_back(renamed(*ix[d], nx) - renamed(*iy[d], ny));
      else
        exact = false;
    }
    const Set both = x.points.renamed(nx) & y.points.renamed(ny) &
                     Set::where(home_, zero, {(later ? lx - ly : ly - lx) - 1});
    if (both.empty()) return;
    fail(x, y, both, exact);
  }

  Renaming names(const Access& a, int n) const { return copy_of(*a.statement, a.points, n, shared_); }

  [[noreturn]] void fail(const Access& x, const Access& y, const Set& both, bool exact) const {
    const std::string kind = name_of(loop_.node->kind);
    const Statement &sx = *x.statement, &sy = *y.statement;
    Failure f{exact ? Verdict::wrong : Verdict::unproved,
              "two iterations of the " + kind + " loop " + loop_.node->var->name +
                  " access the same element of " + sx.buffer->name + ", one of them writing it",
              "",
              {sx.node}};
    f.at.push_back(y.read ? static_cast<const void*>(y.read->expr) : sy.node);
    // The whole instances, with the loops inside.
    const Set whole = both & sx.domain.renamed(copy_of(sx, sx.domain, 1, shared_)) &
                      sy.domain.renamed(copy_of(sy, sy.domain, 2, shared_));
    std::vector<V> order = sx.loop_vars(shared_);
    for (const auto& [s, n] : {std::pair{&sx, 1}, std::pair{&sy, 2}})
      for (size_t i = shared_; i < s->loops.size(); ++i) order.push_back(home_.copy(s->loops[i]->var, n));
    if (const auto p = whole.first(order)) {
      Renaming nx = names(x, 1);
      f.witness = sizes_at(*sx.model, *p) + instance_at(sx, *p, 1, shared_) +
                  (sx.op ? " updates " : " writes ") + element_at(sx.buffer, indices_of(x), *p, nx) + ", " +
                  instance_at(sy, *p, 2, shared_) +
                  (y.read  ? " reads it"
                   : sy.op ? " updates it"
                           : " writes it");
    }
    throw f;
  }

  Flow& flow_;
  const Model& m_;
  Sets& home_;
  const Loop& loop_;
  size_t shared_ = 0;
};

}  // namespace

void check_conflicts(Flow& flow) {
  for (const Loop& l : flow.model().loops())
    if (!l.sequential && !l.single) Conflicts(flow, l).check();
}

}  // namespace nestor::verify

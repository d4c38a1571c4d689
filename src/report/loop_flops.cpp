// The operations of each loop. Where sizes don't divide, the guards of a block skip some iterations: 13 rows
// in tiles of 7 are 14 iterations, but 13 rows of work. So only the iterations of a block in which every
// iterator is in its domain are counted. Iterators that depend on different loops are independent; those that
// share loops are counted together, by running through these loops. A `where` counts as true, as in flops_of.
#include <algorithm>

#include "nestor/flops.h"
#include "nestor/value_of.h"
#include "nestor/walk.h"
#include "schedules/access.h"
#include "src/report/loop_costs.h"

namespace nestor::report {

namespace {

using schedules::Place;

constexpr int64_t kMost = int64_t{1} << 16;  // iterations that are run through

struct Group {
  std::vector<Stmt> loops;
  std::vector<const IterVar*> iterators;
};

// Iterators that may leave their domain, those that share loops together.
std::vector<Group> groups_of(const Place& p) {
  const Facts facts = schedules::facts_at(p);
  std::vector<Group> out;
  for (const IterVar& i : p.block().iters) {
    const auto extent = as_int(i.extent);
    const Interval range = range_of(i.binding, facts);
    if (!extent || (range.lo >= 0 && range.hi < *extent)) continue;
    Group g{{}, {&i}};
    for (const Stmt& l : p.loops())
      if (uses_var(i.binding, schedules::as_for(l).var)) g.loops.push_back(l);
    for (size_t k = out.size(); k-- > 0;) {
      const bool shares = std::any_of(out[k].loops.begin(), out[k].loops.end(), [&](const Stmt& l) {
        return std::any_of(g.loops.begin(), g.loops.end(), [&](const Stmt& own) { return own.same_as(l); });
      });
      if (!shares) continue;
      for (const Stmt& l : out[k].loops)
        if (std::none_of(g.loops.begin(), g.loops.end(), [&](const Stmt& own) { return own.same_as(l); }))
          g.loops.push_back(l);
      g.iterators.insert(g.iterators.end(), out[k].iterators.begin(), out[k].iterators.end());
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(k));
    }
    out.push_back(std::move(g));
  }
  return out;
}

// The share of the group's iterations that stay in all its domains; 1 where they are too many to run through.
double share_of(const Group& g) {
  int64_t points = 1, inside = 0;
  for (const Stmt& l : g.loops) {
    const int64_t extent = schedules::extent_of(l);
    if (extent < 1 || points > kMost / extent) return 1;
    points *= extent;
  }
  std::unordered_map<Var, int64_t> at;
  for (int64_t n = 0; n < points; ++n) {
    int64_t rest = n;
    for (const Stmt& l : g.loops) {
      at[schedules::as_for(l).var] = rest % schedules::extent_of(l);
      rest /= schedules::extent_of(l);
    }
    bool runs = true;
    for (const IterVar* i : g.iterators) {
      const auto v = value_of(i->binding, at);
      if (!v) return 1;
      runs = runs && *v >= 0 && *v < *as_int(i->extent);
    }
    inside += runs;
  }
  return static_cast<double>(inside) / static_cast<double>(points);
}

class Counter : public Walker {
 public:
  explicit Counter(const PrimFunc& f) {
    for (const Place& p : schedules::places(f.body)) {
      double share = 1;
      for (const Group& g : groups_of(p)) share *= share_of(g);
      share_[p.stmt.get()] = share;
    }
    stmt(f.body);
  }
  std::vector<double> out;

 private:
  void stmt(const Stmt& s) override {
    const auto* loop = s.as<For>();
    if (loop) {
      around_.push_back(out.size());
      out.push_back(0);
    }
    const double outside = trips_;
    if (loop) trips_ *= static_cast<double>(as_int(loop->extent).value_or(1));
    const bool block = s.as<Block>() && !schedules::holds_blocks(*s.as<Block>());
    if (block || s.as<Store>() || s.as<Update>()) {
      PrimFunc f;
      f.body = s;
      const double flops = trips_ * (block ? share_.at(s.get()) : 1) * flops_of(f);
      for (size_t l : around_) out[l] += flops;
    }
    if (block) {
      for (const For* inner : loops_in(s.as<Block>()->body)) out.push_back(trips_of(*inner) * trips_);
    } else {
      children(s);
    }
    trips_ = outside;
    if (loop) around_.pop_back();
  }
  // What a loop inside of a block computes in one instance, its own extent included.
  static double trips_of(const For& loop) {
    PrimFunc f;
    f.body = loop.body;
    return static_cast<double>(as_int(loop.extent).value_or(1)) * flops_of(f);
  }

  std::unordered_map<const void*, double> share_;
  std::vector<size_t> around_;
  double trips_ = 1;
};

}  // namespace

std::vector<double> flops_of_loops(const PrimFunc& f) {
  return Counter(f).out;
}

}  // namespace nestor::report

// The legality tests prove. If they can't, there is usually a counterexample in the first iterations. So
// these are enumerated, with the other loops at 0, and the elements they touch are compared. If none is
// found, nothing is concluded.
#include "schedules/witness.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "schedules/primitive.h"
#include "schedules/words.h"

namespace nestor::schedules {

namespace {

constexpr int kMost = 2000;  // instances looked at

struct Iteration {
  std::vector<int64_t> values;  // of the loops asked about
  std::vector<int64_t> touched;
};

std::optional<int64_t> value_of(const Expr& e, const VarMap& at) {
  return as_int(simplify(substitute(e, at)));
}

// Does the block run there? Unknown counts as no.
bool runs(const Block& b, const VarMap& loops, VarMap& iterators) {
  for (const IterVar& i : b.iters) {
    const auto value = value_of(i.binding, loops), extent = as_int(i.extent);
    if (!value || !extent || *value < 0 || *value >= *extent) return false;
    iterators[i.var] = Expr(*value);
  }
  if (!b.where) return true;
  const auto where = value_of(b.where, iterators);
  return where && *where != 0;
}

// How many iterations of each loop are looked at, kMost in all: short loops run whole, and what they leave is
// shared by the long ones.
std::vector<int64_t> first_iterations(const std::vector<Stmt>& loops) {
  std::vector<size_t> order(loops.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return extent_of(loops[a]) < extent_of(loops[b]); });
  std::vector<int64_t> out(loops.size(), 1);
  double left = kMost;
  for (size_t i = 0; i < order.size(); ++i) {
    const double share = std::pow(left, 1.0 / static_cast<double>(order.size() - i));
    const int64_t extent = std::max<int64_t>(extent_of(loops[order[i]]), 1);
    out[order[i]] = std::min(extent, std::max<int64_t>(2, static_cast<int64_t>(share)));
    left = std::max(left / static_cast<double>(out[order[i]]), 1.0);
  }
  return out;
}

// The instances of p in the order of the loops `moving` (of p's path), the others at 0: what `exprs`, over
// loops and the block's iterators, are there. Stops where `see` gives true.
template <class See>
void run_through(const Place& p, const std::vector<Stmt>& moving, const std::vector<Expr>& exprs, See&& see) {
  VarMap at;
  for (const Stmt& l : p.loops()) at[as_for(l).var] = Expr(0);
  std::vector<int64_t> values(moving.size(), 0);
  const std::vector<int64_t> ends = first_iterations(moving);
  for (int seen = 0; seen < 2 * kMost; ++seen) {
    for (size_t i = 0; i < moving.size(); ++i) at[as_for(moving[i]).var] = Expr(values[i]);
    VarMap iterators;
    if (runs(p.block(), at, iterators)) {
      iterators.insert(at.begin(), at.end());
      Iteration now{values, {}};
      bool known = true;
      for (const Expr& e : exprs) {
        const auto v = value_of(e, iterators);
        known = known && v;
        now.touched.push_back(v.value_or(0));
      }
      if (known && see(now)) return;
    }
    size_t digit = moving.size();
    while (digit > 0 && ++values[digit - 1] >= ends[digit - 1]) values[--digit] = 0;
    if (digit == 0) return;
  }
}

std::string listed(const std::vector<int64_t>& values) {
  std::vector<std::string> words;
  for (int64_t v : values) words.push_back(std::to_string(v));
  return join(words, ",");
}

const char* verb(const BlockAccess& a) {
  return a.write ? a.read ? "update" : "write" : "read";
}

}  // namespace

std::string meeting_of(const Stmt& loop, const Place& a, const BlockAccess& x, const Place& b,
                       const BlockAccess& y) {
  if (quiet_refusals()) return "";
  const auto from_loop = [&](const Place& p) {
    std::vector<Stmt> out;
    for (const Stmt& l : p.loops())
      if (p.depth_of(l) >= p.depth_of(loop)) out.push_back(l);
    return out;
  };
  std::map<std::vector<int64_t>, std::vector<int64_t>>
      seen;  // element -> iterations of the loop, two at most
  run_through(a, from_loop(a), x.indices, [&](const Iteration& i) {
    std::vector<int64_t>& at = seen[i.touched];
    if (at.empty() || (at.size() == 1 && at[0] != i.values[0])) at.push_back(i.values[0]);
    return false;
  });
  std::string out;
  const std::string name = loop_name(loop);
  run_through(b, from_loop(b), y.indices, [&](const Iteration& i) {
    const auto it = seen.find(i.touched);
    if (it == seen.end()) return false;
    for (int64_t other : it->second) {
      if (other == i.values[0]) continue;
      const std::string element = x.buffer->name + "[" + listed(i.touched) + "]";
      const std::string first = name + "=" + std::to_string(other),
                        second = name + "=" + std::to_string(i.values[0]);
      if (a.stmt.same_as(b.stmt) && x.write == y.write && x.read == y.read)
        out = ": " + (other < i.values[0] ? first + " and " + second : second + " and " + first) + " both " +
              verb(x) + " " + element;
      else
        out = ": " + first + " " + verb(x) + "s " + element + ", " + second + " " + verb(y) + "s it";
      return true;
    }
    return false;
  });
  return out;
}

std::string repetition_of(const Place& p, const std::vector<Stmt>& moving) {
  if (quiet_refusals()) return "";
  std::vector<Expr> iterators;
  for (const IterVar& i : p.block().iters)
    if (!is_guard(p.block(), i)) iterators.emplace_back(i.var);
  std::map<std::vector<int64_t>, std::vector<int64_t>> seen;
  std::string out;
  run_through(p, moving, iterators, [&](const Iteration& i) {
    const auto [it, added] = seen.emplace(i.touched, i.values);
    if (added) return false;
    std::vector<std::string> first, second, what;
    for (size_t k = 0; k < moving.size(); ++k) {
      first.push_back(loop_name(moving[k]) + "=" + std::to_string(it->second[k]));
      second.push_back(loop_name(moving[k]) + "=" + std::to_string(i.values[k]));
    }
    size_t k = 0;
    for (const IterVar& v : p.block().iters)
      if (!is_guard(p.block(), v)) what.push_back(v.var->name + "=" + std::to_string(i.touched[k++]));
    out = ": " + join(first) + " and " + join(second) + " both run " + join(what);
    return true;
  });
  return out;
}

}  // namespace nestor::schedules

// Suppose thread t makes access x, thread t' access y, and they meet: in each dimension the difference of the
// two indices is 0. Written as c1*d1 + c2*d2 + ... + k = 0, d being differences of variables (t-t', loops
// that run) in known ranges, it is like a number with digits: where all that follows is smaller than c1, at
// most one d1 is possible. Where that proves all t = t', nobody needs to wait. 32*e + t, for example, with t
// in 32 tells threads apart whatever e does; 31*e + t does not.
//
// An atom like t/16 counts as a digit of its own. Where u/16 and u%16 are known, so is u, of which t may be a
// digit in turn; u%16 may be written with multiples of 16 left out.
#include "src/passes/same_thread.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "src/passes/counting.h"

namespace nestor::passes {

namespace {

constexpr int64_t kUnbounded = Interval::kMax;

bool uses_any(const Expr& e, const std::vector<Var>& vars) {
  return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return uses_var(e, v); });
}

bool bounded(const Interval& i) {
  return i.lo > -kUnbounded / 1024 && i.hi < kUnbounded / 1024;
}

Interval common(const Interval& a, const Interval& b) {
  return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// All terms with one coefficient (without its sign): the range of their sum, and what is in it.
struct Digit {
  int64_t lo = 0, hi = 0;
  std::vector<Expr> atoms;  // whose difference between the two accesses it is
  bool mixed = false;       // something else too
  void add(Interval range, int64_t sign) {
    lo += sign > 0 ? range.lo : -range.hi;
    hi += sign > 0 ? range.hi : -range.lo;
  }
};

class Meeting {
 public:
  Meeting(const Access& x, const Access& y, const std::vector<Var>& threads, const std::vector<Var>& running)
      : x_(x), y_(y), threads_(threads), running_(running) {}

  bool only_in_same_thread() {
    for (const Var& t : threads_) {
      const auto a = only_value(t, x_.facts), b = only_value(t, y_.facts);
      if (a && a == b) equal_.push_back(t);
    }
    // What one dimension tells may help in another.
    for (int round = 0; round < 2; ++round) {
      for (size_t d = 0; d < x_.indices.size(); ++d)
        if (in_different_slots(x_.indices[d], y_.indices[d]) || !can_meet(x_.indices[d], y_.indices[d]))
          return true;
      for (const Expr& whole : known_by_parts())
        if (!can_meet(whole, whole)) return true;
    }
    return std::all_of(threads_.begin(), threads_.end(), [&](const Var& t) { return is_equal(t); });
  }

 private:
  // A condition like 25*u + t < 24 leaves u no other.
  static std::optional<int64_t> only_value(const Var& t, const Facts& facts) {
    const Interval range = facts.range(t);
    if (range.is_point() || can_prove(le(t, range.lo), facts)) return range.lo;
    return std::nullopt;
  }
  bool is_equal(const Expr& atom) const {
    return std::any_of(equal_.begin(), equal_.end(), [&](const Expr& e) { return same_expr(e, atom); });
  }
  std::vector<Expr> known_by_parts() const {
    std::vector<Expr> out;
    for (const Expr& quotient : equal_)
      for (const Expr& remainder : equal_) {
        const auto *q = quotient.as<Binary>(), *r = remainder.as<Binary>();
        if (!q || !r || q->op != BinaryOp::div || r->op != BinaryOp::mod) continue;
        const auto k = as_int(q->b);
        if (k && k == as_int(r->b) && *k > 0 && are_congruent(q->a, r->a, *k)) out.push_back(q->a);
      }
    return out;
  }
  static bool are_congruent(const Expr& a, const Expr& b, int64_t modulus) {
    const Linear difference = linear(simplify(a - b));
    return difference.constant % modulus == 0 &&
           std::all_of(difference.terms.begin(), difference.terms.end(),
                       [&](const auto& t) { return t.second % modulus == 0; });
  }

  // k % 2 and (k + 1) % 2, where k stands still and is the same for all threads: the slots of a pipeline.
  bool in_different_slots(const Expr& x, const Expr& y) const {
    const auto modulus = [](const Expr& e) {
      const auto* b = e.as<Binary>();
      return b && b->op == BinaryOp::mod ? as_int(b->b) : std::nullopt;
    };
    const auto m = modulus(x) ? modulus(x) : modulus(y);
    if (!m || *m < 2) return false;
    // What is below m anyway is its own remainder.
    const auto number = [&](const Expr& e, const Facts& facts) -> Expr {
      if (modulus(e)) return modulus(e) == m ? e.as<Binary>()->a : Expr();
      const Interval range = range_of(e, facts);
      return range.lo >= 0 && range.hi < *m ? e : Expr();
    };
    const Expr a = number(x, x_.facts), b = number(y, y_.facts);
    for (const Expr& e : {x, y})
      if (uses_any(e, running_) || uses_any(e, threads_)) return false;
    const auto distance = a && b ? as_int(simplify(a - b)) : std::nullopt;
    return distance && *distance % *m != 0;
  }

  // False where a of access x is never b of access y; learns what is equal where it is.
  bool can_meet(const Expr& a, const Expr& b) {
    const Linear x = linear(a), y = linear(b);
    std::map<int64_t, Digit, std::greater<>> digits;  // largest coefficient first
    if (!collect(x, y, 1, digits) || !collect(y, x, -1, digits)) return true;
    int64_t constant = x.constant - y.constant;
    for (auto it = digits.begin(); it != digits.end(); ++it) {
      int64_t lo = constant, hi = constant;
      for (auto rest = std::next(it); rest != digits.end(); ++rest) {
        lo += rest->first * rest->second.lo;
        hi += rest->first * rest->second.hi;
      }
      // coefficient * digit lies in [-hi, -lo].
      const int64_t coefficient = it->first;
      const int64_t first = std::max(-floor_div(hi, coefficient), it->second.lo),
                    last = std::min(floor_div(-lo, coefficient), it->second.hi);
      if (first > last) return false;
      if (first < last) return true;
      if (first == 0 && !it->second.mixed && it->second.atoms.size() == 1)
        equal_.push_back(it->second.atoms[0]);
      constant += coefficient * first;
    }
    return constant == 0;
  }

  // Adds the terms of `mine`, times sign, that the other side doesn't cancel; false where one isn't bounded.
  // Differences of one atom in both are added when sign is 1.
  bool collect(const Linear& mine, const Linear& other, int64_t sign,
               std::map<int64_t, Digit, std::greater<>>& digits) const {
    const Facts& facts = sign > 0 ? x_.facts : y_.facts;
    for (const auto& [atom, coefficient] : mine.terms) {
      Digit& digit = digits[std::abs(coefficient)];
      const int64_t direction = (coefficient > 0 ? 1 : -1) * sign;
      Interval range = range_of(atom, facts);
      const bool in_both = std::any_of(
          other.terms.begin(), other.terms.end(),
          [&, a = atom, c = coefficient](const auto& t) { return t.second == c && same_expr(t.first, a); });
      const bool runs = uses_any(atom, running_), of_threads = uses_any(atom, threads_);
      if (in_both && (is_equal(atom) || (!runs && !of_threads))) continue;  // the same value
      // What stands still is the same for both: where they can't agree, they don't meet.
      if (!runs && !of_threads) range = common(range, range_of(atom, sign > 0 ? y_.facts : x_.facts));
      if (!bounded(range)) return false;
      if (in_both) {
        if (sign < 0) continue;
        const Interval there = range_of(atom, y_.facts);
        if (!bounded(there)) return false;
        digit.add({range.lo - there.hi, range.hi - there.lo}, direction);
        digit.atoms.push_back(atom);
        continue;
      }
      digit.add(range, direction);
      digit.mixed = true;
    }
    return true;
  }

  const Access &x_, &y_;
  const std::vector<Var>&threads_, &running_;
  std::vector<Expr> equal_;
};

// Of two accesses of one index, where its digits are hidden in quotients and remainders of many loops: which
// thread touches which element is counted, if these are few.
class Counting {
 public:
  Counting(const Access& x, const std::vector<Var>& threads, const std::vector<Var>& running)
      : threads_(threads) {
    for (const Expr& index : x.indices) {
      Linear moving;
      for (const auto& term : linear(index).terms)
        if (uses_any(term.first, threads) || uses_any(term.first, running)) moving.terms.push_back(term);
      element_.push_back(to_expr(moving));
    }
    vars_ = threads_;
    for (const Expr& e : element_)
      for (const Var& v : vars_of(e))
        if (std::find(vars_.begin(), vars_.end(), v) == vars_.end()) vars_.push_back(v);
  }

  // False where an element is touched by another thread than before. What the loops' ranges are is said by
  // the conditions around an access, and differs.
  bool add(const Facts& facts) {
    bool apart = true;
    const bool counted = run_through(vars_, facts, [&](const Values& at) {
      std::vector<int64_t> place, thread;
      for (const Expr& e : element_) {
        const auto v = value_of(e, at);
        if (!v) return apart = false;
        place.push_back(*v);
      }
      for (const Var& t : threads_) thread.push_back(at.at(t));
      return apart = touched_.emplace(std::move(place), thread).first->second == thread;
    });
    return counted && apart;
  }

 private:
  const std::vector<Var>& threads_;
  std::vector<Expr> element_;
  std::vector<Var> vars_;
  std::map<std::vector<int64_t>, std::vector<int64_t>> touched_;  // by which thread
};

bool same_place(const Access& x, const Access& y) {
  return x.indices.size() == y.indices.size() &&
         std::equal(x.indices.begin(), x.indices.end(), y.indices.begin(), same_expr);
}

}  // namespace

bool only_same_thread(const Access& x, const Access& y, const std::vector<Var>& threads,
                      const std::vector<Var>& running) {
  if (Meeting(x, y, threads, running).only_in_same_thread()) return true;
  if (!same_place(x, y)) return false;
  Counting count(x, threads, running);
  return count.add(x.facts) && count.add(y.facts);
}

}  // namespace nestor::passes

// Sets of integer points, over isl, for the proof of schedules.
//
// A point gives values to named variables; a set joins with another by the names that both have, as tables
// join by their columns. isl knows such variables as parameters, which it aligns by identity, so that
// relations between instances of several statements need no bookkeeping of dimensions. Everything may throw
// OutOfTime.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

struct isl_ctx;
struct isl_id;
struct isl_set;

namespace nestor::verify {

using V = int;  // a variable, an index into its Sets
using Renaming = std::unordered_map<V, V>;
using Point = std::map<V, int64_t>;

struct OutOfTime {};

// What can't be said in linear terms: the text names the block and the expression.
struct Unmodelled {
  std::string what;
};

// A sum of coefficient * variable, and a constant. Terms are in order of their variables, none is zero.
// Arithmetic throws Unmodelled where a number passes 64 bits.
struct Lin {
  std::vector<std::pair<V, int64_t>> terms;
  int64_t constant = 0;
  Lin() = default;
  Lin(int64_t c) : constant(c) {}
  static Lin of(V v) {
    Lin l;
    l.terms = {{v, 1}};
    return l;
  }
  bool is_constant() const { return terms.empty(); }
  bool operator==(const Lin&) const = default;
  auto operator<=>(const Lin&) const = default;
};
Lin operator+(const Lin& a, const Lin& b);
Lin operator-(const Lin& a, const Lin& b);
Lin operator*(const Lin& a, int64_t factor);
Lin renamed(const Lin& l, const Renaming& names);
int64_t value_at(const Lin& l, const Point& p);  // saturates

// The home of variables, and the clock: after `seconds` whatever isl is doing ends with OutOfTime.
class Sets {
 public:
  explicit Sets(double seconds);
  ~Sets();
  Sets(const Sets&) = delete;
  Sets& operator=(const Sets&) = delete;

  V make(const std::string& name);
  V copy(V v, int n);  // another variable of the same name: always the same one for the same n; n = 0: v
  V origin(V v) const { return infos_[static_cast<size_t>(v)].origin; }
  const std::string& name(V v) const { return infos_[static_cast<size_t>(v)].name; }

  isl_ctx* ctx() const { return ctx_; }
  isl_id* id(V v) const { return infos_[static_cast<size_t>(v)].id; }
  [[noreturn]] void fail() const;  // isl returned nothing: says why

 private:
  struct Info {
    std::string name;
    V origin;
    isl_id* id;
  };
  struct Clock;
  isl_ctx* ctx_;
  std::vector<Info> infos_;
  std::map<std::pair<V, int>, V> copies_;
  std::unique_ptr<Clock> clock_;
};

class Set {
 public:
  Set() = default;
  static Set all(Sets& home);
  static Set none(Sets& home);
  static Set where(Sets& home, const std::vector<Lin>& zero, const std::vector<Lin>& nonnegative);
  Set(const Set& other);
  Set(Set&& other) noexcept : home_(other.home_), raw_(std::exchange(other.raw_, nullptr)) {}
  Set& operator=(Set other) noexcept {
    std::swap(home_, other.home_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Set();

  Set operator&(const Set& other) const;
  Set operator|(const Set& other) const;
  Set operator-(const Set& other) const;
  Set affine_hull() const;  // all points at which the equalities hold that hold in the whole set
  bool empty() const;
  bool within(const Set& other) const;
  // The same, if isl finds out within so many of its operations.
  std::optional<bool> within(const Set& other, unsigned long operations) const;
  std::vector<V> vars() const;
  // Whether each of `what` has one value for each value of `by`.
  bool determines(const std::vector<V>& by, const std::vector<V>& what) const;
  Set onto(const std::vector<V>& keep) const;     // the others are projected out
  Set without(const std::vector<V>& drop) const;  // these are projected out
  Set renamed(const Renaming& names) const;       // no two variables may become one
  // The lexicographically smallest point (any, where there is no smallest), the variables of `order` first;
  // nullopt where the set is empty.
  std::optional<Point> first(const std::vector<V>& order) const;
  std::string text() const;  // for debugging

 private:
  Set(Sets* home, isl_set* raw);  // takes raw
  Sets* home_ = nullptr;
  isl_set* raw_ = nullptr;
};

}  // namespace nestor::verify

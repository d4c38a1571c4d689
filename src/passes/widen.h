// Turns scalar expressions of one loop variable into vector expressions over its lanes.
#pragma once

#include <algorithm>
#include <bit>

#include "nestor/simplify.h"

namespace nestor::passes {

// Sizes of one-dimensional buffers, for showing that a load is inside.
using BufferSizes = std::unordered_map<Buffer, Expr>;

// Of a loop's last vector, of `count` elements where a whole one has `lanes`: the narrowest that holds them.
inline int64_t lanes_of_rest(int64_t count, int64_t lanes) {
  return std::min(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count))), lanes);
}

// The first `count` of so many lanes; null where that's all of them.
Expr mask_of_first(const Expr& count, int lanes);
// The lane's number, of `count`.
void set_lane(Facts& facts, const Var& lane, const Expr& count, int lanes);

class Widener {
 public:
  // `lane` runs 0 .. lanes-1 and is in `facts`.
  Widener(Var lane, int lanes, const Facts& facts, const BufferSizes& sizes)
      : lane_(std::move(lane)), lanes_(lanes), facts_(facts), sizes_(sizes) {}

  // The value of `e` in the lanes where `mask` (null: all) holds: a vector, or the scalar itself where no
  // lane differs. Loads read nothing, and divisions don't trap, in lanes where `mask` is false.
  Expr widen(const Expr& e, const Expr& mask);
  Expr widen_to_vector(const Expr& e, const Expr& mask) { return spread(widen(e, mask)); }
  Expr spread(const Expr& e) const { return e.type().is_vector() ? e : make::broadcast(e, lanes_); }

  // True where the value differs between lanes.
  bool varies(const Expr& e) const;
  // A variable whose value is a vector from now on.
  Var widen_var(const Var& v);
  const Var& lane() const { return lane_; }
  int lanes() const { return lanes_; }

 private:
  Expr load(const Load& l, const Expr& wanted);
  Expr mask_of(const Load& l, const Expr& mask) const;
  Expr binary(const Binary& b, const Expr& mask);
  Expr select(const Select& s, const Expr& mask);
  bool safe(const Expr& e) const;  // all its loads are in bounds, whatever the lanes' masks

  Var lane_;
  int lanes_;
  const Facts& facts_;
  const BufferSizes& sizes_;
  std::unordered_map<Var, Var> widened_;
};

Expr mask_and(const Expr& a, const Expr& b);  // either may be null

}  // namespace nestor::passes

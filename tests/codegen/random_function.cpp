// Functions of random expressions: every type, lane counts from 1 to 16, every operation.
#include "random_function.h"

#include <array>
#include <random>

namespace nestor::testing {

namespace {

// Grows an expression of a wanted type. Divisors are nonzero and shifts within the width, since those are
// faults.
class Grower {
 public:
  Grower(uint64_t seed, Var index, RandomKinds kinds) : rng_(seed), index_(std::move(index)), kinds_(kinds) {
    for (size_t t = 0; t < buffers_.size(); ++t)
      buffers_[t] = make_buffer("X" + std::to_string(t), {static_cast<DType>(t), 1});
  }
  const std::array<Buffer, kDTypes.size()>& buffers() const { return buffers_; }
  uint64_t below(uint64_t n) { return rng_() % n; }
  DType any_dtype() { return allowed(static_cast<DType>(below(kDTypes.size()))); }

  Expr grow(Type t, int depth) {
    if (depth == 0 || below(12) == 0) return leaf(t);
    if (t.lanes > 1 && below(8) == 0) return make::broadcast(grow(t.with_lanes(1), depth - 1), t.lanes);
    if (below(6) == 0) return make::cast(t, grow({any_dtype(), t.lanes}, depth - 1));
    if (below(8) == 0)
      return make::select(grow({DType::boolean, t.lanes}, depth - 1), grow(t, depth - 1), grow(t, depth - 1));
    if (below(10) == 0) {
      Var v = make_var("v", t);
      Expr value = grow(t, depth - 1);
      lets_.push_back(v);
      Expr body = grow(t, depth - 1);
      lets_.pop_back();
      return make::let(v, value, body);
    }
    if (t.lanes > 1 && below(10) == 0) return shuffle(t, depth - 1);
    if (kinds_.vectors && t.lanes == 1 && below(10) == 0)
      return make::vector_reduce(static_cast<ReduceOp>(is_bool(t.dtype) ? 2 + below(2) : below(4)),
                                 grow(t.with_lanes(static_cast<int>(2 + below(16))), depth - 1));
    return is_bool(t.dtype)    ? boolean(t, depth - 1)
           : is_float(t.dtype) ? floating(t, depth - 1)
                               : integer(t, depth - 1);
  }

 private:
  DType allowed(DType t) const {
    return !kinds_.halves && (t == DType::f16 || t == DType::bf16) ? DType::f32 : t;
  }
  Expr shuffle(Type t, int depth) {
    const Type from = t.with_lanes(static_cast<int>(2 + below(16)));
    std::vector<int64_t> lanes;
    for (int i = 0; i < t.lanes; ++i)
      lanes.push_back(static_cast<int64_t>(below(2 * static_cast<uint64_t>(from.lanes))));
    Expr a = grow(from, depth);
    return make::shuffle(a, grow(from, depth), std::move(lanes));
  }
  Expr leaf(Type t) {
    for (const Var& v : lets_)
      if (v->type == t && below(2)) return v;
    const Buffer& b = buffers_[static_cast<size_t>(t.dtype)];
    if (below(4) == 0) {
      static const double values[] = {0, 1, 2, 3, 5};
      return make::imm(is_bool(t.dtype) ? static_cast<double>(below(2)) : values[below(5)], t);
    }
    if (t.lanes == 1) return make::load(b, {Expr(index_) + static_cast<int64_t>(below(8))});
    static const int64_t strides[] = {1, 1, 1, 2, 3, 4, 0, 7};
    const int64_t stride = strides[below(8)], span = stride * (t.lanes - 1);
    const bool backward = below(5) == 0;
    Expr base = Expr(index_) + static_cast<int64_t>(below(8)) + (backward ? span : 0);
    Expr ramp = make::ramp(base, backward ? -stride : stride, t.lanes);
    if (below(3)) return make::load(b, {ramp});
    return make::load(b, {ramp}, grow({DType::boolean, t.lanes}, 1));
  }

  Expr boolean(Type t, int depth) {
    switch (below(4)) {
      case 0:
        return make::unary(UnaryOp::logical_not, grow(t, depth));
      case 1:
        return make::binary(below(2) ? BinaryOp::logical_and : BinaryOp::logical_or, grow(t, depth),
                            grow(t, depth));
      case 2:
        return make::call(Intrinsic::is_nan, {grow({allowed(static_cast<DType>(below(4))), t.lanes}, depth)});
      default: {
        const Type of{any_dtype(), t.lanes};
        const auto op = static_cast<BinaryOp>(static_cast<uint64_t>(BinaryOp::eq) + below(6));
        return make::binary(op, grow(of, depth), grow(of, depth));
      }
    }
  }

  Expr floating(Type t, int depth) {
    static const Intrinsic unary[] = {Intrinsic::sqrt, Intrinsic::abs, Intrinsic::floor, Intrinsic::ceil,
                                      Intrinsic::round};
    static const BinaryOp binary[] = {BinaryOp::add, BinaryOp::sub, BinaryOp::mul,
                                      BinaryOp::div, BinaryOp::min, BinaryOp::max};
    switch (below(6)) {
      case 5:
        if (t.dtype == DType::f32) return make::call(Intrinsic::scalef, {grow(t, depth), grow(t, depth)});
        [[fallthrough]];
      case 0:
        return make::call(unary[below(5)], {grow(t, depth)});
      case 1:
        return make::call(Intrinsic::fma, {grow(t, depth), grow(t, depth), grow(t, depth)});
      case 2:
        return make::unary(UnaryOp::neg, grow(t, depth));
      default:
        return make::binary(binary[below(6)], grow(t, depth), grow(t, depth));
    }
  }

  Expr integer(Type t, int depth) {
    static const BinaryOp binary[] = {BinaryOp::add, BinaryOp::sub,     BinaryOp::mul,    BinaryOp::min,
                                      BinaryOp::max, BinaryOp::bit_and, BinaryOp::bit_or, BinaryOp::bit_xor};
    switch (below(6)) {
      case 0: {
        Expr divisor = grow(t, depth);
        if (below(2)) {
          static const double constants[] = {1, 2, 3, 7, 8, 16};
          divisor = make::imm(constants[below(6)], t);
        }
        Expr zero = make::imm(0, t), one = make::imm(1, t);
        divisor = divisor.as<IntImm>() || divisor.as<Broadcast>()
                      ? make::binary(BinaryOp::max, divisor, one)
                      : make::select(make::binary(BinaryOp::eq, divisor, zero), one, divisor);
        if (below(3) == 0) return make::call(Intrinsic::tdiv, {grow(t, depth), divisor});
        return make::binary(below(2) ? BinaryOp::div : BinaryOp::mod, grow(t, depth), divisor);
      }
      case 1:
        return make::binary(below(2) ? BinaryOp::shl : BinaryOp::shr, grow(t, depth),
                            make::imm(static_cast<double>(below(8)), t));
      case 2:
        return make::call(Intrinsic::abs, {grow(t, depth)});
      default:
        return make::binary(binary[below(8)], grow(t, depth), grow(t, depth));
    }
  }

  std::mt19937_64 rng_;
  Var index_;
  RandomKinds kinds_;
  std::array<Buffer, kDTypes.size()> buffers_;
  std::vector<Var> lets_;
};

}  // namespace

// 8 expressions of one lane count, each stored for 12 consecutive indices.
PrimFunc random_function(uint64_t seed, RandomKinds kinds) {
  Var i = make_var("i");
  Grower g(seed, i, kinds);
  static const int lane_counts[] = {1, 1, 2, 4, 8, 16};
  const uint64_t choice = g.below(6);
  const int lanes = kinds.vectors ? lane_counts[choice] : 1;
  PrimFunc f;
  f.name = "random";
  for (const Buffer& b : g.buffers()) {
    const bool half = b->type.dtype == DType::f16 || b->type.dtype == DType::bf16;
    if (kinds.halves || !half) f.params.push_back({Role::in, {b, {160}, Scope::global, {}}});
  }
  std::vector<Stmt> stores;
  for (int n = 0; n < 8; ++n) {
    const Type t{g.any_dtype(), lanes};
    Buffer y = make_buffer("Y" + std::to_string(n), {t.dtype});
    f.params.push_back({Role::out, {y, {12 * lanes}, Scope::global, {}}});
    Expr at = Expr(i) * lanes;
    stores.push_back(make::store(y, {lanes == 1 ? at : make::ramp(at, 1, lanes)}, g.grow(t, 4)));
  }
  f.body = make::loop(i, 12, make::seq(stores));
  return f;
}

}  // namespace nestor::testing

// The interpreter's arithmetic. Each operation is computed in the type's own representation (f64, f32, or i64
// for all integers) and rounded or wrapped once; f16 and bf16 compute in f32 and round the result, as
// hardware without native half arithmetic does.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "nestor/half.h"
#include "nestor/scalef.h"
#include "src/ir/interpret_maps.h"

namespace nestor::interpreter {

namespace {

uint64_t u(int64_t v) {
  return static_cast<uint64_t>(v);
}

uint64_t unsigned_div(uint64_t a, uint64_t b) {
  if (b == 0) throw Fault{"division by zero"};
  return a / b;
}
uint64_t unsigned_mod(uint64_t a, uint64_t b) {
  return a - b * unsigned_div(a, b);
}

uint64_t unsigned_shift(uint64_t a, uint64_t n) {
  if (n > 63) throw Fault{"a shift by " + std::to_string(n)};
  return a >> n;
}

int64_t truncated_div(int64_t a, int64_t b) {
  if (b == 0) throw Fault{"division by zero"};
  return b == -1 ? static_cast<int64_t>(0 - u(a)) : a / b;
}
int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = truncated_div(a, b);
  return b != -1 && a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}
int64_t floor_mod(int64_t a, int64_t b) {
  return static_cast<int64_t>(u(a) - u(b) * u(floor_div(a, b)));
}

// Shifting by the width or more has no meaning on the machine, so it is an error here.
int64_t shift_left(int64_t a, int64_t n) {
  if (n < 0 || n > 63) throw Fault{"a shift by " + std::to_string(n)};
  return static_cast<int64_t>(u(a) << n);
}
int64_t shift_right(int64_t a, int64_t n) {
  if (n < 0 || n > 63) throw Fault{"a shift by " + std::to_string(n)};
  return a >> n;
}

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(x);
  else
    return false;
}

// Operations of integers and floats alike.
template <class T>
Handler common_binary(BinaryOp op) {
  using B = int64_t;
  switch (op) {
    case BinaryOp::min:
      return map2<T, T, [](T a, T b) { return is_nan(a) || a < b ? a : b; }>;
    case BinaryOp::max:
      return map2<T, T, [](T a, T b) { return is_nan(a) || b < a ? a : b; }>;
    case BinaryOp::eq:
      return map2<T, B, [](T a, T b) { return a == b; }>;
    case BinaryOp::ne:
      return map2<T, B, [](T a, T b) { return a != b; }>;
    case BinaryOp::lt:
      return map2<T, B, [](T a, T b) { return a < b; }>;
    case BinaryOp::le:
      return map2<T, B, [](T a, T b) { return a <= b; }>;
    case BinaryOp::gt:
      return map2<T, B, [](T a, T b) { return b < a; }>;
    case BinaryOp::ge:
      return map2<T, B, [](T a, T b) { return a >= b; }>;
    default:
      return nullptr;
  }
}

template <class T>
Handler float_binary(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return map2<T, T, [](T a, T b) { return a + b; }>;
    case BinaryOp::sub:
      return map2<T, T, [](T a, T b) { return a - b; }>;
    case BinaryOp::mul:
      return map2<T, T, [](T a, T b) { return a * b; }>;
    case BinaryOp::div:
      return map2<T, T, [](T a, T b) { return a / b; }>;
    default:
      return common_binary<T>(op);
  }
}

Handler int_binary(BinaryOp op) {
  using I = int64_t;
  switch (op) {
    case BinaryOp::add:
      return map2<I, I, [](I a, I b) { return u(a) + u(b); }>;
    case BinaryOp::sub:
      return map2<I, I, [](I a, I b) { return u(a) - u(b); }>;
    case BinaryOp::mul:
      return map2<I, I, [](I a, I b) { return u(a) * u(b); }>;
    case BinaryOp::div:
      return map2<I, I, floor_div>;
    case BinaryOp::mod:
      return map2<I, I, floor_mod>;
    case BinaryOp::logical_and:
    case BinaryOp::bit_and:
      return map2<I, I, [](I a, I b) { return a & b; }>;
    case BinaryOp::logical_or:
    case BinaryOp::bit_or:
      return map2<I, I, [](I a, I b) { return a | b; }>;
    case BinaryOp::bit_xor:
      return map2<I, I, [](I a, I b) { return a ^ b; }>;
    case BinaryOp::shl:
      return map2<I, I, shift_left>;
    case BinaryOp::shr:
      return map2<I, I, shift_right>;
    default:
      return common_binary<I>(op);
  }
}

// Of numbers that words hold with another sign; other operations are those of int_binary.
Handler u64_binary(BinaryOp op) {
  using U = uint64_t;
  switch (op) {
    case BinaryOp::div:
      return map2<U, U, unsigned_div>;
    case BinaryOp::mod:
      return map2<U, U, unsigned_mod>;
    case BinaryOp::shr:
      return map2<U, U, unsigned_shift>;
    default: {
      const Handler common = common_binary<U>(op);
      return common ? common : int_binary(op);
    }
  }
}

template <class T>
void fused_multiply_add(Word* r, const Instruction& i) {
  for (int l = 0; l < i.lanes; ++l)
    r[i.dst + l] = put<T>(std::fma(get<T>(r[i.a + l]), get<T>(r[i.b + l]), get<T>(r[i.c + l])));
}

// A math function is the C library's in double precision, rounded to the type.
template <class T, auto F>
constexpr Handler math1 = map1<T, T, [](T a) { return F(static_cast<double>(a)); }>;

template <class T>
Handler float_call(Intrinsic fn) {
  switch (fn) {
    case Intrinsic::exp:
    case Intrinsic::exp_nonpositive:
      return math1<T, [](double x) { return std::exp(x); }>;
    case Intrinsic::expm1:
      return math1<T, [](double x) { return std::expm1(x); }>;
    case Intrinsic::log:
      return math1<T, [](double x) { return std::log(x); }>;
    case Intrinsic::log1p:
      return math1<T, [](double x) { return std::log1p(x); }>;
    case Intrinsic::sqrt:
      return map1<T, T, [](T x) { return std::sqrt(x); }>;
    case Intrinsic::tanh:
      return math1<T, [](double x) { return std::tanh(x); }>;
    case Intrinsic::erf:
      return math1<T, [](double x) { return std::erf(x); }>;
    case Intrinsic::sigmoid:
      return math1<T, [](double x) { return 1 / (1 + std::exp(-x)); }>;
    case Intrinsic::sin:
      return math1<T, [](double x) { return std::sin(x); }>;
    case Intrinsic::cos:
      return math1<T, [](double x) { return std::cos(x); }>;
    case Intrinsic::pow:
      return map2<T, T, [](T a, T b) { return std::pow(static_cast<double>(a), static_cast<double>(b)); }>;
    case Intrinsic::abs:
      return map1<T, T, [](T x) { return std::fabs(x); }>;
    case Intrinsic::floor:
      return map1<T, T, [](T x) { return std::floor(x); }>;
    case Intrinsic::ceil:
      return map1<T, T, [](T x) { return std::ceil(x); }>;
    case Intrinsic::round:
      return map1<T, T, [](T x) { return std::nearbyint(x); }>;
    case Intrinsic::fma:
      return fused_multiply_add<T>;
    case Intrinsic::scalef:
      if constexpr (std::is_same_v<T, float>)
        return map2<T, T, nestor::scalef>;
      else
        return nullptr;
    case Intrinsic::is_nan:
      return map1<T, int64_t, [](T x) { return std::isnan(x); }>;
    default:
      return nullptr;
  }
}

Handler int_call(Intrinsic fn) {
  using I = int64_t;
  switch (fn) {
    case Intrinsic::tdiv:
      return map2<I, I, truncated_div>;
    case Intrinsic::abs:
      return map1<I, I, [](I x) { return x < 0 ? 0 - u(x) : u(x); }>;
    case Intrinsic::fma:
      return [](Word* r, const Instruction& i) {
        for (int l = 0; l < i.lanes; ++l)
          r[i.dst + l] = static_cast<Word>(u(r[i.a + l]) * u(r[i.b + l]) + u(r[i.c + l]));
      };
    default:
      return nullptr;
  }
}

Handler u64_call(Intrinsic fn) {
  if (fn == Intrinsic::tdiv) return map2<uint64_t, uint64_t, unsigned_div>;
  return fn == Intrinsic::abs ? map1<Word, Word, [](Word x) { return x; }> : int_call(fn);
}

// Lane i with lane i + n/2, and so on; an odd last lane is carried along.
void reduce_lanes(Word* r, const Instruction& i) {
  const Handler combine = binary_handler(binary_of(static_cast<ReduceOp>(i.extra)), i.dtype);
  const Handler wrap = wrap_handler(i.dtype);
  std::memcpy(r + i.b, r + i.a, sizeof(Word) * i.lanes);
  Instruction step = i;
  step.a = step.dst = i.b;
  for (int n = i.lanes; n > 1; n = (n + 1) / 2) {
    step.lanes = static_cast<uint16_t>(n / 2);
    step.b = i.b + n / 2;
    combine(r, step);
    if (wrap) wrap(r, step);
    if (n % 2 != 0) r[i.b + n / 2] = r[i.b + n - 1];
  }
  r[i.dst] = r[i.b];
}

}  // namespace

Handler binary_handler(BinaryOp op, DType t) {
  switch (rep_of(t)) {
    case Rep::f64:
      return float_binary<double>(op);
    case Rep::f32:
      return float_binary<float>(op);
    case Rep::integer:
      return t == DType::u64 ? u64_binary(op) : int_binary(op);
  }
  return nullptr;
}

Handler unary_handler(UnaryOp op, DType t) {
  if (op == UnaryOp::logical_not) return map1<Word, Word, [](Word a) { return a == 0; }>;
  switch (rep_of(t)) {
    case Rep::f64:
      return map1<double, double, [](double a) { return -a; }>;
    case Rep::f32:
      return map1<float, float, [](float a) { return -a; }>;
    case Rep::integer:
      return map1<Word, Word, [](Word a) { return 0 - u(a); }>;
  }
  return nullptr;
}

Handler call_handler(Intrinsic fn, DType t) {
  switch (rep_of(t)) {
    case Rep::f64:
      return float_call<double>(fn);
    case Rep::f32:
      return float_call<float>(fn);
    case Rep::integer:
      return t == DType::u64 ? u64_call(fn) : int_call(fn);
  }
  return nullptr;
}

Handler reduce_handler() {
  return reduce_lanes;
}
Handler select_handler() {
  return [](Word* r, const Instruction& i) {
    for (int l = 0; l < i.lanes; ++l) r[i.dst + l] = r[i.c + l] ? r[i.a + l] : r[i.b + l];
  };
}
Handler move_handler() {
  return [](Word* r, const Instruction& i) { std::memmove(r + i.dst, r + i.a, sizeof(Word) * i.lanes); };
}
Handler lookup_handler() {
  return [](Word* r, const Instruction& i) {
    for (int l = 0; l < i.lanes; ++l) {
      const uint32_t which = std::bit_cast<uint32_t>(get<float>(r[i.a + l])) & (u(r[i.c]) - 1);
      r[i.dst + l] = r[i.b + static_cast<int32_t>(which) * i.lanes + l];
    }
  };
}
Handler broadcast_handler() {
  return [](Word* r, const Instruction& i) {
    for (int l = 0; l < i.lanes; ++l) r[i.dst + l] = r[i.a];
  };
}
Handler ramp_handler() {
  return [](Word* r, const Instruction& i) {
    for (int l = 0; l < i.lanes; ++l) r[i.dst + l] = static_cast<Word>(u(r[i.a]) + u(l) * u(r[i.b]));
  };
}

}  // namespace nestor::interpreter

// The interpreter's arithmetic. Each operation is computed in the type's own representation (f64, f32, or i64 for all
// integers) and rounded or wrapped once; f16 and bf16 compute in f32 and round the result, as hardware without native
// half arithmetic does.
#include <cmath>
#include <cstring>
#include <limits>

#include "src/ir/interpret_code.h"
#include "nestor/half.h"

namespace nestor::interpreter {

namespace {

template <class T, class R, auto F>
void map1(Word* r, const Instruction& i) {
  for (int l = 0; l < i.lanes; ++l) r[i.dst + l] = put<R>(static_cast<R>(F(get<T>(r[i.a + l]))));
}
template <class T, class R, auto F>
void map2(Word* r, const Instruction& i) {
  for (int l = 0; l < i.lanes; ++l) r[i.dst + l] = put<R>(static_cast<R>(F(get<T>(r[i.a + l]), get<T>(r[i.b + l]))));
}

uint64_t u(int64_t v) { return static_cast<uint64_t>(v); }

int64_t truncated_div(int64_t a, int64_t b) {
  if (b == 0) throw Fault{"division by zero"};
  return b == -1 ? static_cast<int64_t>(0 - u(a)) : a / b;
}
int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = truncated_div(a, b);
  return b != -1 && a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}
int64_t floor_mod(int64_t a, int64_t b) { return static_cast<int64_t>(u(a) - u(b) * u(floor_div(a, b))); }

// Shifting by the width or more has no meaning on the machine, so it is an error here.
int64_t shift_left(int64_t a, int64_t n) {
  if (n < 0 || n > 63) throw Fault{"a shift by " + std::to_string(n)};
  return static_cast<int64_t>(u(a) << n);
}
int64_t shift_right(int64_t a, int64_t n) {
  if (n < 0 || n > 63) throw Fault{"a shift by " + std::to_string(n)};
  return a >> n;
}

// Operations of integers and floats alike.
template <class T>
Handler common_binary(BinaryOp op) {
  using B = int64_t;
  switch (op) {
    case BinaryOp::min: return map2<T, T, [](T a, T b) { return a < b ? a : b; }>;
    case BinaryOp::max: return map2<T, T, [](T a, T b) { return b < a ? a : b; }>;
    case BinaryOp::eq: return map2<T, B, [](T a, T b) { return a == b; }>;
    case BinaryOp::ne: return map2<T, B, [](T a, T b) { return a != b; }>;
    case BinaryOp::lt: return map2<T, B, [](T a, T b) { return a < b; }>;
    case BinaryOp::le: return map2<T, B, [](T a, T b) { return a <= b; }>;
    case BinaryOp::gt: return map2<T, B, [](T a, T b) { return b < a; }>;
    case BinaryOp::ge: return map2<T, B, [](T a, T b) { return a >= b; }>;
    default: return nullptr;
  }
}

template <class T>
Handler float_binary(BinaryOp op) {
  switch (op) {
    case BinaryOp::add: return map2<T, T, [](T a, T b) { return a + b; }>;
    case BinaryOp::sub: return map2<T, T, [](T a, T b) { return a - b; }>;
    case BinaryOp::mul: return map2<T, T, [](T a, T b) { return a * b; }>;
    case BinaryOp::div: return map2<T, T, [](T a, T b) { return a / b; }>;
    default: return common_binary<T>(op);
  }
}

Handler int_binary(BinaryOp op) {
  using I = int64_t;
  switch (op) {
    case BinaryOp::add: return map2<I, I, [](I a, I b) { return u(a) + u(b); }>;
    case BinaryOp::sub: return map2<I, I, [](I a, I b) { return u(a) - u(b); }>;
    case BinaryOp::mul: return map2<I, I, [](I a, I b) { return u(a) * u(b); }>;
    case BinaryOp::div: return map2<I, I, floor_div>;
    case BinaryOp::mod: return map2<I, I, floor_mod>;
    case BinaryOp::logical_and:
    case BinaryOp::bit_and: return map2<I, I, [](I a, I b) { return a & b; }>;
    case BinaryOp::logical_or:
    case BinaryOp::bit_or: return map2<I, I, [](I a, I b) { return a | b; }>;
    case BinaryOp::bit_xor: return map2<I, I, [](I a, I b) { return a ^ b; }>;
    case BinaryOp::shl: return map2<I, I, shift_left>;
    case BinaryOp::shr: return map2<I, I, shift_right>;
    default: return common_binary<I>(op);
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
    case Intrinsic::exp: return math1<T, [](double x) { return std::exp(x); }>;
    case Intrinsic::log: return math1<T, [](double x) { return std::log(x); }>;
    case Intrinsic::sqrt: return map1<T, T, [](T x) { return std::sqrt(x); }>;
    case Intrinsic::tanh: return math1<T, [](double x) { return std::tanh(x); }>;
    case Intrinsic::erf: return math1<T, [](double x) { return std::erf(x); }>;
    case Intrinsic::sigmoid: return math1<T, [](double x) { return 1 / (1 + std::exp(-x)); }>;
    case Intrinsic::pow:
      return map2<T, T, [](T a, T b) { return std::pow(static_cast<double>(a), static_cast<double>(b)); }>;
    case Intrinsic::abs: return map1<T, T, [](T x) { return std::fabs(x); }>;
    case Intrinsic::floor: return map1<T, T, [](T x) { return std::floor(x); }>;
    case Intrinsic::ceil: return map1<T, T, [](T x) { return std::ceil(x); }>;
    case Intrinsic::round: return map1<T, T, [](T x) { return std::nearbyint(x); }>;
    case Intrinsic::fma: return fused_multiply_add<T>;
    case Intrinsic::is_nan: return map1<T, int64_t, [](T x) { return std::isnan(x); }>;
    default: return nullptr;
  }
}

Handler int_call(Intrinsic fn) {
  using I = int64_t;
  switch (fn) {
    case Intrinsic::tdiv: return map2<I, I, truncated_div>;
    case Intrinsic::abs: return map1<I, I, [](I x) { return x < 0 ? 0 - u(x) : u(x); }>;
    case Intrinsic::fma:
      return [](Word* r, const Instruction& i) {
        for (int l = 0; l < i.lanes; ++l)
          r[i.dst + l] = static_cast<Word>(u(r[i.a + l]) * u(r[i.b + l]) + u(r[i.c + l]));
      };
    default: return nullptr;
  }
}

enum class Rep { f64, f32, integer };
Rep rep_of(DType t) { return t == DType::f64 ? Rep::f64 : is_float(t) ? Rep::f32 : Rep::integer; }

// Float to integer truncates and saturates, NaN gives 0 (LLVM's fptosi.sat).
template <class Int>
int64_t saturate(double x) {
  if (std::isnan(x)) return 0;
  constexpr double lo = static_cast<double>(std::numeric_limits<Int>::min());
  constexpr double hi = static_cast<double>(std::numeric_limits<Int>::max());
  if (x <= lo) return std::numeric_limits<Int>::min();
  if (x >= hi) return std::numeric_limits<Int>::max();
  return static_cast<int64_t>(static_cast<Int>(x));
}

template <class T>
Handler from_float(DType to) {
  switch (to) {
    case DType::f64: return map1<T, double, [](T x) { return static_cast<double>(x); }>;
    case DType::f32: return map1<T, float, [](T x) { return static_cast<float>(x); }>;
    case DType::f16: return map1<T, float, [](T x) { return round_to(DType::f16, static_cast<double>(x)); }>;
    case DType::bf16: return map1<T, float, [](T x) { return round_to(DType::bf16, static_cast<double>(x)); }>;
    case DType::i64: return map1<T, Word, [](T x) { return saturate<int64_t>(static_cast<double>(x)); }>;
    case DType::i32: return map1<T, Word, [](T x) { return saturate<int32_t>(static_cast<double>(x)); }>;
    case DType::i16: return map1<T, Word, [](T x) { return saturate<int16_t>(static_cast<double>(x)); }>;
    case DType::i8: return map1<T, Word, [](T x) { return saturate<int8_t>(static_cast<double>(x)); }>;
    case DType::u8: return map1<T, Word, [](T x) { return saturate<uint8_t>(static_cast<double>(x)); }>;
    case DType::boolean: return map1<T, Word, [](T x) { return x != 0; }>;
  }
  return nullptr;
}

Handler from_int(DType to) {
  using I = int64_t;
  switch (to) {
    case DType::f64: return map1<I, double, [](I x) { return static_cast<double>(x); }>;
    case DType::f32: return map1<I, float, [](I x) { return static_cast<float>(x); }>;
    case DType::f16: return map1<I, float, [](I x) { return round_to(DType::f16, static_cast<double>(x)); }>;
    case DType::bf16: return map1<I, float, [](I x) { return round_to(DType::bf16, static_cast<double>(x)); }>;
    case DType::i64: return move_handler();
    case DType::boolean: return map1<I, I, [](I x) { return x != 0; }>;
    default: return wrap_handler(to);
  }
}

Word to_bits(DType t, Word w) {
  if (t == DType::f16) return to_f16(get<float>(w));
  if (t == DType::bf16) return to_bf16(get<float>(w));
  return w;
}
Word from_bits(DType t, Word w) {
  switch (t) {
    case DType::f16: return put<float>(static_cast<float>(from_f16(static_cast<uint16_t>(w))));
    case DType::bf16: return put<float>(static_cast<float>(from_bf16(static_cast<uint16_t>(w))));
    case DType::f32: return static_cast<Word>(static_cast<uint32_t>(w));
    case DType::i32: return static_cast<int32_t>(w);
    case DType::i16: return static_cast<int16_t>(w);
    case DType::i8: return static_cast<int8_t>(w);
    case DType::u8: return static_cast<uint8_t>(w);
    case DType::boolean: return (w & 0xff) != 0;
    default: return w;
  }
}

template <DType From, DType To>
void bitcast_words(Word* r, const Instruction& i) {
  for (int l = 0; l < i.lanes; ++l) r[i.dst + l] = from_bits(To, to_bits(From, r[i.a + l]));
}
template <DType From>
Handler bitcast_from(DType to) {
  switch (to) {
    case DType::f64: return bitcast_words<From, DType::f64>;
    case DType::f32: return bitcast_words<From, DType::f32>;
    case DType::f16: return bitcast_words<From, DType::f16>;
    case DType::bf16: return bitcast_words<From, DType::bf16>;
    case DType::i64: return bitcast_words<From, DType::i64>;
    case DType::i32: return bitcast_words<From, DType::i32>;
    case DType::i16: return bitcast_words<From, DType::i16>;
    case DType::i8: return bitcast_words<From, DType::i8>;
    case DType::u8: return bitcast_words<From, DType::u8>;
    case DType::boolean: return bitcast_words<From, DType::boolean>;
  }
  return nullptr;
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

template <class T>
T peek(const uint8_t* data, int64_t i) {
  T v;
  std::memcpy(&v, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}
template <class T>
void poke(uint8_t* data, int64_t i, T v) {
  std::memcpy(data + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
}

}  // namespace

Handler binary_handler(BinaryOp op, DType t) {
  switch (rep_of(t)) {
    case Rep::f64: return float_binary<double>(op);
    case Rep::f32: return float_binary<float>(op);
    case Rep::integer: return int_binary(op);
  }
  return nullptr;
}

Handler unary_handler(UnaryOp op, DType t) {
  if (op == UnaryOp::logical_not) return map1<Word, Word, [](Word a) { return a == 0; }>;
  switch (rep_of(t)) {
    case Rep::f64: return map1<double, double, [](double a) { return -a; }>;
    case Rep::f32: return map1<float, float, [](float a) { return -a; }>;
    case Rep::integer: return map1<Word, Word, [](Word a) { return 0 - u(a); }>;
  }
  return nullptr;
}

Handler call_handler(Intrinsic fn, DType t) {
  switch (rep_of(t)) {
    case Rep::f64: return float_call<double>(fn);
    case Rep::f32: return float_call<float>(fn);
    case Rep::integer: return int_call(fn);
  }
  return nullptr;
}

Handler cast_handler(DType from, DType to) {
  switch (rep_of(from)) {
    case Rep::f64: return from_float<double>(to);
    case Rep::f32: return from_float<float>(to);
    case Rep::integer: return from_int(to);
  }
  return nullptr;
}

Handler bitcast_handler(DType from, DType to) {
  switch (from) {
    case DType::f64: return bitcast_from<DType::f64>(to);
    case DType::f32: return bitcast_from<DType::f32>(to);
    case DType::f16: return bitcast_from<DType::f16>(to);
    case DType::bf16: return bitcast_from<DType::bf16>(to);
    default: return bitcast_from<DType::i64>(to);  // integers are their own bits
  }
}

Handler reduce_handler() { return reduce_lanes; }
Handler select_handler() {
  return [](Word* r, const Instruction& i) {
    for (int l = 0; l < i.lanes; ++l) r[i.dst + l] = r[i.c + l] ? r[i.a + l] : r[i.b + l];
  };
}
Handler move_handler() {
  return [](Word* r, const Instruction& i) { std::memmove(r + i.dst, r + i.a, sizeof(Word) * i.lanes); };
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

Handler wrap_handler(DType t) {
  switch (t) {
    case DType::f16: return map1<float, float, [](float x) { return round_to(DType::f16, x); }>;
    case DType::bf16: return map1<float, float, [](float x) { return round_to(DType::bf16, x); }>;
    case DType::i32: return map1<Word, Word, [](Word x) { return static_cast<int32_t>(x); }>;
    case DType::i16: return map1<Word, Word, [](Word x) { return static_cast<int16_t>(x); }>;
    case DType::i8: return map1<Word, Word, [](Word x) { return static_cast<int8_t>(x); }>;
    case DType::u8: return map1<Word, Word, [](Word x) { return static_cast<uint8_t>(x); }>;
    case DType::boolean: return map1<Word, Word, [](Word x) { return x & 1; }>;
    default: return nullptr;
  }
}

Word read_element(DType t, const uint8_t* data, int64_t i) {
  switch (t) {
    case DType::f64:
    case DType::i64: return peek<int64_t>(data, i);
    case DType::f32: return peek<uint32_t>(data, i);
    case DType::i32: return peek<int32_t>(data, i);
    case DType::i16: return peek<int16_t>(data, i);
    case DType::i8: return peek<int8_t>(data, i);
    case DType::u8: return peek<uint8_t>(data, i);
    case DType::boolean: return peek<uint8_t>(data, i) != 0;
    case DType::f16:
    case DType::bf16: return from_bits(t, peek<uint16_t>(data, i));
  }
  return 0;
}

void write_element(DType t, uint8_t* data, int64_t i, Word w) {
  w = to_bits(t, w);
  switch (bytes_of(t)) {
    case 8: return poke<int64_t>(data, i, w);
    case 4: return poke<uint32_t>(data, i, static_cast<uint32_t>(w));
    case 2: return poke<uint16_t>(data, i, static_cast<uint16_t>(w));
    default: return poke<uint8_t>(data, i, static_cast<uint8_t>(w));
  }
}

}  // namespace nestor::interpreter

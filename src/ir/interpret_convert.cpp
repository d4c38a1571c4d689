// Conversions: casts, bit casts, rounding of results to their type, and elements in memory.
#include <cmath>
#include <cstring>
#include <limits>

#include "nestor/half.h"
#include "src/ir/interpret_maps.h"

namespace nestor::interpreter {

namespace {

// Float to integer truncates and saturates, NaN gives 0 (LLVM's fptosi.sat).
template <class Int>
int64_t saturate(double x) {
  if (std::isnan(x)) return 0;
  constexpr double lo = static_cast<double>(std::numeric_limits<Int>::min());
  constexpr double hi = static_cast<double>(std::numeric_limits<Int>::max());
  if (x <= lo) return static_cast<int64_t>(std::numeric_limits<Int>::min());
  if (x >= hi) return static_cast<int64_t>(std::numeric_limits<Int>::max());
  return static_cast<int64_t>(static_cast<Int>(x));
}

template <class T>
Handler from_float(DType to) {
  switch (to) {
    case DType::f64:
      return map1<T, double, [](T x) { return static_cast<double>(x); }>;
    case DType::f32:
      return map1<T, float, [](T x) { return static_cast<float>(x); }>;
    case DType::f16:
      return map1<T, float, [](T x) { return round_to(DType::f16, static_cast<double>(x)); }>;
    case DType::bf16:
      return map1<T, float, [](T x) { return round_to(DType::bf16, static_cast<double>(x)); }>;
    case DType::i64:
      return map1<T, Word, [](T x) { return saturate<int64_t>(static_cast<double>(x)); }>;
    case DType::i32:
      return map1<T, Word, [](T x) { return saturate<int32_t>(static_cast<double>(x)); }>;
    case DType::i16:
      return map1<T, Word, [](T x) { return saturate<int16_t>(static_cast<double>(x)); }>;
    case DType::i8:
      return map1<T, Word, [](T x) { return saturate<int8_t>(static_cast<double>(x)); }>;
    case DType::u64:
      return map1<T, Word, [](T x) { return saturate<uint64_t>(static_cast<double>(x)); }>;
    case DType::u32:
      return map1<T, Word, [](T x) { return saturate<uint32_t>(static_cast<double>(x)); }>;
    case DType::u16:
      return map1<T, Word, [](T x) { return saturate<uint16_t>(static_cast<double>(x)); }>;
    case DType::u8:
      return map1<T, Word, [](T x) { return saturate<uint8_t>(static_cast<double>(x)); }>;
    case DType::boolean:
      return map1<T, Word, [](T x) { return x != 0; }>;
  }
  return nullptr;
}

template <class I>
Handler from_int(DType to) {
  switch (to) {
    case DType::f64:
      return map1<I, double, [](I x) { return static_cast<double>(x); }>;
    case DType::f32:
      return map1<I, float, [](I x) { return static_cast<float>(x); }>;
    case DType::f16:
      return map1<I, float, [](I x) { return round_to(DType::f16, static_cast<double>(x)); }>;
    case DType::bf16:
      return map1<I, float, [](I x) { return round_to(DType::bf16, static_cast<double>(x)); }>;
    case DType::i64:
    case DType::u64:
      return move_handler();
    case DType::boolean:
      return map1<I, Word, [](I x) { return x != 0; }>;
    default:
      return wrap_handler(to);
  }
}

Word to_bits(DType t, Word w) {
  if (t == DType::f16) return to_f16(get<float>(w));
  if (t == DType::bf16) return to_bf16(get<float>(w));
  return w;
}
Word from_bits(DType t, Word w) {
  switch (t) {
    case DType::f16:
      return put<float>(static_cast<float>(from_f16(static_cast<uint16_t>(w))));
    case DType::bf16:
      return put<float>(static_cast<float>(from_bf16(static_cast<uint16_t>(w))));
    case DType::f32:
      return static_cast<Word>(static_cast<uint32_t>(w));
    case DType::i32:
      return static_cast<int32_t>(w);
    case DType::i16:
      return static_cast<int16_t>(w);
    case DType::i8:
      return static_cast<int8_t>(w);
    case DType::u32:
      return static_cast<uint32_t>(w);
    case DType::u16:
      return static_cast<uint16_t>(w);
    case DType::u8:
      return static_cast<uint8_t>(w);
    case DType::boolean:
      return (w & 0xff) != 0;
    default:
      return w;
  }
}

template <DType From, DType To>
void bitcast_words(Word* r, const Instruction& i) {
  for (int l = 0; l < i.lanes; ++l) r[i.dst + l] = from_bits(To, to_bits(From, r[i.a + l]));
}
template <DType From>
Handler bitcast_from(DType to) {
  switch (to) {
    case DType::f64:
      return bitcast_words<From, DType::f64>;
    case DType::f32:
      return bitcast_words<From, DType::f32>;
    case DType::f16:
      return bitcast_words<From, DType::f16>;
    case DType::bf16:
      return bitcast_words<From, DType::bf16>;
    case DType::i64:
      return bitcast_words<From, DType::i64>;
    case DType::i32:
      return bitcast_words<From, DType::i32>;
    case DType::i16:
      return bitcast_words<From, DType::i16>;
    case DType::i8:
      return bitcast_words<From, DType::i8>;
    case DType::u64:
      return bitcast_words<From, DType::u64>;
    case DType::u32:
      return bitcast_words<From, DType::u32>;
    case DType::u16:
      return bitcast_words<From, DType::u16>;
    case DType::u8:
      return bitcast_words<From, DType::u8>;
    case DType::boolean:
      return bitcast_words<From, DType::boolean>;
  }
  return nullptr;
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

Handler cast_handler(DType from, DType to) {
  switch (rep_of(from)) {
    case Rep::f64:
      return from_float<double>(to);
    case Rep::f32:
      return from_float<float>(to);
    case Rep::integer:
      return from == DType::u64 ? from_int<uint64_t>(to) : from_int<int64_t>(to);
  }
  return nullptr;
}

Handler bitcast_handler(DType from, DType to) {
  switch (from) {
    case DType::f64:
      return bitcast_from<DType::f64>(to);
    case DType::f32:
      return bitcast_from<DType::f32>(to);
    case DType::f16:
      return bitcast_from<DType::f16>(to);
    case DType::bf16:
      return bitcast_from<DType::bf16>(to);
    default:
      return bitcast_from<DType::i64>(to);  // integers are their own bits
  }
}

Handler wrap_handler(DType t) {
  switch (t) {
    case DType::f16:
      return map1<float, float, [](float x) { return round_to(DType::f16, x); }>;
    case DType::bf16:
      return map1<float, float, [](float x) { return round_to(DType::bf16, x); }>;
    case DType::i32:
      return map1<Word, Word, [](Word x) { return static_cast<int32_t>(x); }>;
    case DType::i16:
      return map1<Word, Word, [](Word x) { return static_cast<int16_t>(x); }>;
    case DType::i8:
      return map1<Word, Word, [](Word x) { return static_cast<int8_t>(x); }>;
    case DType::u32:
      return map1<Word, Word, [](Word x) { return static_cast<uint32_t>(x); }>;
    case DType::u16:
      return map1<Word, Word, [](Word x) { return static_cast<uint16_t>(x); }>;
    case DType::u8:
      return map1<Word, Word, [](Word x) { return static_cast<uint8_t>(x); }>;
    case DType::boolean:
      return map1<Word, Word, [](Word x) { return x & 1; }>;
    default:
      return nullptr;
  }
}

Word read_element(DType t, const uint8_t* data, int64_t i) {
  switch (t) {
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return peek<int64_t>(data, i);
    case DType::f32:
      return peek<uint32_t>(data, i);
    case DType::i32:
      return peek<int32_t>(data, i);
    case DType::i16:
      return peek<int16_t>(data, i);
    case DType::i8:
      return peek<int8_t>(data, i);
    case DType::u32:
      return peek<uint32_t>(data, i);
    case DType::u16:
      return peek<uint16_t>(data, i);
    case DType::u8:
      return peek<uint8_t>(data, i);
    case DType::boolean:
      return peek<uint8_t>(data, i) != 0;
    case DType::f16:
    case DType::bf16:
      return from_bits(t, peek<uint16_t>(data, i));
  }
  return 0;
}

void write_element(DType t, uint8_t* data, int64_t i, Word w) {
  w = to_bits(t, w);
  switch (bytes_of(t)) {
    case 8:
      return poke<int64_t>(data, i, w);
    case 4:
      return poke<uint32_t>(data, i, static_cast<uint32_t>(w));
    case 2:
      return poke<uint16_t>(data, i, static_cast<uint16_t>(w));
    default:
      return poke<uint8_t>(data, i, static_cast<uint8_t>(w));
  }
}

}  // namespace nestor::interpreter

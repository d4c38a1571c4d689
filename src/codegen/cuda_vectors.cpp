// Neighbours that one instruction loads or stores, as CUDA's vector types: float4, int2, uchar4. Those types
// end at four elements; more of 8 or 16 bits are the parts of words.
#include <fmt/format.h>

#include "nestor/error.h"
#include "nestor/print.h"
#include "src/codegen/cuda_source.h"

namespace nestor {

namespace {

struct VectorType {
  std::string name;
  int parts = 1;  // elements of one component
};

VectorType vector_type(Type t) {
  const int bytes = bytes_of(t.dtype);
  if (t.lanes > 4) {
    const int words = t.lanes * bytes / 4;
    return {"uint" + std::to_string(words), t.lanes / words};
  }
  const char* element = t.dtype == DType::f32   ? "float"
                        : t.dtype == DType::f64 ? "double"
                        : t.dtype == DType::i64 ? "longlong"
                        : t.dtype == DType::i32 ? "int"
                        : t.dtype == DType::i16 ? "short"
                        : is_half(t.dtype)      ? "ushort"
                        : t.dtype == DType::i8  ? "char"
                        : t.dtype == DType::u64 ? "ulonglong"
                        : t.dtype == DType::u32 ? "uint"
                        : t.dtype == DType::u16 ? "ushort"
                                                : "uchar";
  return {element + std::to_string(t.lanes)};
}

char component(const VectorType& v, int64_t lane) {
  return "xyzw"[lane / v.parts];
}

// The scalar in one lane of what split_lanes joined.
Expr lane_of(const Expr& e, int64_t lane) {
  if (const auto* b = e.as<Broadcast>()) return b->a;
  if (const auto* s = e.as<Shuffle>()) {
    const int64_t from = s->lanes[static_cast<size_t>(lane)], n = s->a.type().lanes;
    return from < n ? lane_of(s->a, from) : lane_of(s->b, from - n);
  }
  if (const auto value = as_int(e)) return make::int_imm(*value, e.type().with_lanes(1));
  if (const auto* f = e.as<FloatImm>()) return make::float_imm(f->value, e.type().with_lanes(1));
  return make::shuffle(e, e, {lane});
}

}  // namespace

CudaText CudaWriter::lane(const Shuffle& s) {
  const auto* v = s.a.as<VarRef>();
  NESTOR_CHECK(v && s.lanes.size() == 1 && s.lanes[0] < s.a.type().lanes) << "a shuffle in CUDA code";
  const VectorType t = vector_type(s.a.type());
  const std::string word = fmt::format("{}.{}", vars_.at(v->var), component(t, s.lanes[0]));
  const DType element = s.a.dtype();
  if (t.parts == 1) return is_bool(element) ? CudaText{word + " != 0", kEqual} : CudaText{word};
  const int64_t shift = s.lanes[0] % t.parts * bytes_of(element) * 8;
  const std::string part = shift ? fmt::format("({} >> {})", word, shift) : word;
  if (is_bool(element)) return {fmt::format("({} & 255) != 0", part), kEqual};
  return {fmt::format("({}){}", cuda_name(element), part), kUnary};
}

CudaText CudaWriter::vector(const Expr& e) {
  const VectorType t = vector_type(e.type());
  if (const auto* v = e.as<VarRef>()) return {vars_.at(v->var)};
  if (const auto* l = e.as<Load>()) return {vector_at(l->buffer, l->indices[0], true), kUnary};
  if (const auto* s = e.as<Select>(); s && !s->cond.type().is_vector()) {
    const std::string cond = operand(s->cond, kOr), a = vector(s->a).text;
    return {cond + " ? " + a + " : " + vector(s->b).text, kTernary};
  }
  std::string list;
  for (int64_t l = 0; l < e.type().lanes; l += t.parts) {
    std::string word;
    for (int64_t p = 0; p < t.parts; ++p) {
      const Expr value = lane_of(e, l + p);
      if (t.parts == 1) {
        word = expr(value);
        continue;
      }
      const int bits = bytes_of(e.dtype()) * 8;
      const std::string part =
          fmt::format("(unsigned)(unsigned {}){}", bits == 8 ? "char" : "short", operand(value, kUnary));
      word += p ? fmt::format(" | {} << {}", part, p * bits) : part;
    }
    list += (list.empty() ? "" : ", ") + word;
  }
  return {fmt::format("make_{}({})", t.name, list)};
}

std::string CudaWriter::vector_at(const Buffer& b, const Expr& index, bool constant) {
  const auto* r = index.as<Ramp>();
  NESTOR_CHECK(r && is_const_int(r->stride, 1)) << "a vector that isn't one of neighbours: " << print(index);
  return fmt::format("*({}{}*)&{}", constant ? "const " : "",
                     vector_type(b->type.with_lanes(index.type().lanes)).name, element(b, {r->base}));
}

std::string CudaWriter::vector_name(Type t) {
  return vector_type(t).name;
}

}  // namespace nestor

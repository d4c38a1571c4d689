// Casts and intrinsics as CUDA C++. Casts to integers saturate; math functions that `expand_math` left are
// the library's in double precision, as in the interpreter.
#include <fmt/format.h>

#include "nestor/error.h"
#include "src/codegen/cuda_source.h"

namespace nestor {

CudaText CudaWriter::cast(const Cast& c, Type t) {
  const DType from = c.a.dtype();
  if (is_half(from)) {
    if (t.dtype == DType::f32) return helper(from == DType::f16 ? "half_to_float" : "bfloat_to_float", {c.a});
    return text_of(make::cast(t, make::cast({DType::f32, 1}, c.a)));
  }
  if (is_half(t.dtype)) {
    if (from == DType::f32) return helper(t.dtype == DType::f16 ? "float_to_half" : "float_to_bfloat", {c.a});
    throw UserError(Diagnostic{"a cast of " + std::string(name_of(from)) + " to " +
                                   std::string(name_of(t.dtype)) + " is not supported in CUDA code",
                               {},
                               {},
                               "cast to f32 first"});
  }
  if (is_bool(t.dtype)) return {operand(c.a, kEqual + 1) + " != 0", kEqual};
  if (is_float(from) && !is_float(t.dtype))
    return helper(std::string("to_") + std::string(name_of(t.dtype)), {c.a});
  return {fmt::format("({}){}", cuda_name(t.dtype), operand(c.a, kUnary)), kUnary};
}

CudaText CudaWriter::bitcast(const Expr& a, DType to) {
  const DType from = a.dtype();
  if (from == to) return text_of(a);
  struct Row {
    DType from, to;
    const char* name;
  };
  for (const Row& r :
       {Row{DType::f32, DType::i32, "__float_as_int"}, Row{DType::i32, DType::f32, "__int_as_float"},
        Row{DType::f64, DType::i64, "__double_as_longlong"},
        Row{DType::i64, DType::f64, "__longlong_as_double"}})
    if (r.from == from && r.to == to) return {std::string(r.name) + "(" + expr(a) + ")"};
  if (!is_float(from) && !is_float(to) && bytes_of(from) == bytes_of(to))
    return {fmt::format("({}){}", cuda_name(to), operand(a, kUnary)), kUnary};
  throw UserError("the bits of " + std::string(name_of(from)) + " as " + std::string(name_of(to)) +
                  " are not supported in CUDA code");
}

// By halves, the highest bit first.
CudaText CudaWriter::lookup(const Call& c) {
  const Expr bits = make::bitcast({DType::i32, 1}, c.args[0]);
  std::vector<Expr> left(c.args.begin() + 1, c.args.end());
  for (int64_t bit = 1; left.size() > 1; bit *= 2) {
    const auto number = [](int64_t v) { return make::int_imm(v, {DType::i32, 1}); };
    const Expr odd = ne(make::binary(BinaryOp::bit_and, bits, number(bit)), number(0));
    std::vector<Expr> pairs;
    for (size_t i = 0; i < left.size(); i += 2) pairs.push_back(make::select(odd, left[i + 1], left[i]));
    left = pairs;
  }
  return text_of(left[0]);
}

CudaText CudaWriter::call(const Call& c, Type t) {
  const bool f = is_float(t.dtype);
  if (c.fn == Intrinsic::instruction) return shuffle(c, t);
  if (c.fn == Intrinsic::bitcast) return bitcast(c.args[0], t.dtype);
  if (c.fn == Intrinsic::exp_nonpositive) return text_of(make::call(Intrinsic::exp, c.args));
  if (c.fn == Intrinsic::is_nan)
    return is_float(c.args[0].dtype()) ? helper("is_nan", c.args) : CudaText{"false"};
  if (c.fn == Intrinsic::lookup) return lookup(c);
  if (c.fn == Intrinsic::scalef) return helper("scalef", c.args);
  if (c.fn == Intrinsic::tdiv) {
    if (!f) return helper("trunc_div", c.args, cuda_name(t.dtype));
    return {operand(c.args[0], kMul) + " / " + operand(c.args[1], kMul + 1), kMul};
  }
  if (c.fn == Intrinsic::abs && !f) return helper("abs_of", c.args, cuda_name(t.dtype));
  if (c.fn == Intrinsic::fma && !f) return text_of(c.args[0] * c.args[1] + c.args[2]);
  if (c.fn == Intrinsic::sync || c.fn == Intrinsic::prefetch)
    throw InternalError(std::string(info(c.fn).name) + " has no value");
  const bool rounding = c.fn == Intrinsic::floor || c.fn == Intrinsic::ceil || c.fn == Intrinsic::round;
  if (rounding && !f) return text_of(c.args[0]);
  if (!f)
    throw UserError(std::string(info(c.fn).name) + " of " + std::string(name_of(t.dtype)) +
                    " is not supported in CUDA code");
  // Math functions that expand_math left are the library's in double precision, as in the interpreter.
  const bool library = c.fn <= Intrinsic::pow && c.fn != Intrinsic::sqrt, single = t.dtype == DType::f32;
  if (library && single) {
    std::vector<Expr> args;
    for (const Expr& a : c.args) args.push_back(make::cast({DType::f64, 1}, a));
    return {"(float)" + text_of(make::call(c.fn, args)).text, kUnary};
  }
  if (c.fn == Intrinsic::sigmoid) return helper("sigmoid", c.args);
  const char* name = c.fn == Intrinsic::abs ? "fabs" : c.fn == Intrinsic::round ? "rint" : info(c.fn).name;
  std::string list;
  for (const Expr& a : c.args) list += (list.empty() ? "" : ", ") + expr(a);
  return {name + std::string(single ? "f" : "") + "(" + list + ")"};
}

}  // namespace nestor

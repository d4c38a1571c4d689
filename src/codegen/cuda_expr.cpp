// Expressions as CUDA C++, computed exactly as the interpreter does: one rounding per operation, floor
// division, integers that wrap, casts that saturate, `min` and `max` that give their right operand beside a
// NaN. The text is also compiled for the CPU by the tests, so it uses nothing but what C++17 and CUDA share.
//
// A `let` becomes a constant declared before the statement. Below the lazy side of a condition that would run
// too early: such a condition becomes an `if` statement.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "nestor/error.h"
#include "nestor/half.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/codegen/cuda_source.h"

namespace nestor {

namespace {

struct Operator {
  const char* text;
  int precedence;
};
Operator operator_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return {"+", kAdd};
    case BinaryOp::sub:
      return {"-", kAdd};
    case BinaryOp::mul:
      return {"*", kMul};
    case BinaryOp::div:
      return {"/", kMul};
    case BinaryOp::mod:
      return {"%", kMul};
    case BinaryOp::eq:
      return {"==", kEqual};
    case BinaryOp::ne:
      return {"!=", kEqual};
    case BinaryOp::lt:
      return {"<", kLess};
    case BinaryOp::le:
      return {"<=", kLess};
    case BinaryOp::gt:
      return {">", kLess};
    case BinaryOp::ge:
      return {">=", kLess};
    case BinaryOp::logical_and:
      return {"&&", kAnd};
    case BinaryOp::logical_or:
      return {"||", kOr};
    case BinaryOp::bit_and:
      return {"&", kBitAnd};
    case BinaryOp::bit_or:
      return {"|", kBitOr};
    case BinaryOp::bit_xor:
      return {"^", kBitXor};
    case BinaryOp::shl:
      return {"<<", kShift};
    case BinaryOp::shr:
      return {">>", kShift};
    case BinaryOp::min:
    case BinaryOp::max:
      break;
  }
  throw InternalError("min and max are functions in CUDA code");
}

bool is_small(DType t) {
  return t == DType::i16 || t == DType::i8 || t == DType::u16 || t == DType::u8 || t == DType::boolean;
}

bool has_let(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) { found |= x.as<Let>() != nullptr; });
  return found;
}

}  // namespace

const char* cuda_name(DType t) {
  switch (t) {
    case DType::f64:
      return "double";
    case DType::f32:
      return "float";
    case DType::i64:
      return "long long";
    case DType::i32:
      return "int";
    case DType::i16:
      return "short";
    case DType::i8:
      return "signed char";
    case DType::u64:
      return "unsigned long long";
    case DType::u32:
      return "unsigned";
    case DType::u16:
      return "unsigned short";
    case DType::u8:
      return "unsigned char";
    case DType::boolean:
      return "bool";
    case DType::f16:
    case DType::bf16:
      return "unsigned short";  // its bits: there are loads, stores and casts, and what instructions make of
                                // them
  }
  throw InternalError("a type without a name in CUDA code");
}

bool is_half(DType t) {
  return t == DType::f16 || t == DType::bf16;
}

// i64 made of variables and immediates alone: that is computed in `int` where everything fits.
bool CudaWriter::is_index(const Expr& e) const {
  if (e.dtype() != DType::i64) return false;
  bool plain = true;
  for_each_expr(e, [&](const Expr& x) {
    if (x.as<Load>() || x.as<Call>() || x.as<Cast>()) plain = false;
    if (const auto* v = x.as<VarRef>()) plain &= !wide_.count(v->var);
  });
  return plain;
}

// i32 and i64 data. Indices, and what they are made of, don't overflow.
bool CudaWriter::may_wrap(const Expr& e) const {
  return e.dtype() == DType::i32 || (e.dtype() == DType::i64 && !in_index_ && !is_index(e));
}

const char* CudaWriter::type_name(const Expr& e) const {
  return e.dtype() == DType::i64 && narrow_ && is_index(e) ? "int" : cuda_name(e.dtype());
}

std::string CudaWriter::operand(const Expr& e, int precedence) {
  CudaText t = text_of(e);
  return t.precedence < precedence ? "(" + t.text + ")" : t.text;
}

CudaText CudaWriter::integer(int64_t value, Type t) const {
  if (is_bool(t.dtype)) return {value ? "true" : "false"};
  if (t.dtype == DType::u64) return {std::to_string(static_cast<uint64_t>(value)) + "ULL"};
  std::string text = std::to_string(value);
  if (t.dtype == DType::u32) return {text + "u"};
  if (t.dtype == DType::i64) {
    if (value == std::numeric_limits<int64_t>::min()) return {"(-9223372036854775807LL - 1)"};
    if (value > std::numeric_limits<int32_t>::max() || value < -std::numeric_limits<int32_t>::max())
      text += "LL";
  } else if (value == std::numeric_limits<int32_t>::min()) {
    return {"(-2147483647 - 1)"};
  }
  return {text, value < 0 ? kUnary : kPrimary};
}

CudaText CudaWriter::number(double value, Type t) const {
  const bool single = t.dtype == DType::f32;
  if (is_half(t.dtype)) return {std::to_string(t.dtype == DType::f16 ? to_f16(value) : to_bf16(value))};
  if (std::isfinite(value)) {
    std::string text = single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return {text + (single ? "f" : ""), std::signbit(value) ? kUnary : kPrimary};
  }
  const bool nan = std::isnan(value), negative = std::signbit(value);
  if (single)
    return {std::string("__int_as_float(") +
            (nan        ? "0x7fc00000"
             : negative ? "(int)0xff800000"
                        : "0x7f800000") +
            ")"};
  return {std::string("__longlong_as_double(") +
          (nan        ? "0x7ff8000000000000LL"
           : negative ? "(long long)0xfff0000000000000ULL"
                      : "0x7ff0000000000000LL") +
          ")"};
}

CudaText CudaWriter::text_of(const Expr& e) {
  const Type t = e.type();
  const auto* arithmetic = e.as<Binary>();
  const DType computed = arithmetic ? arithmetic->a.dtype() : t.dtype;
  if (is_half(computed) && (arithmetic || e.as<Unary>() || e.as<Call>()))
    throw UserError(Diagnostic{
        "arithmetic in " + std::string(name_of(computed)) + " is not supported in CUDA code: " + print(e),
        {},
        {},
        "compute in f32, and cast what is stored"});
  if (t.is_vector()) return vector(e);
  return match(
      e, [&](const IntImm& i) { return integer(i.value, t); },
      [&](const FloatImm& f) { return number(f.value, t); },
      [&](const VarRef& v) {
        const auto it = vars_.find(v.var);
        NESTOR_CHECK(it != vars_.end()) << "variable " << v.var->name << " is used outside its scope";
        return CudaText{it->second};
      },
      [&](const Load& l) { return CudaText{element(l.buffer, l.indices)}; },
      [&](const Binary& b) { return binary(b, t); },
      [&](const Unary& u) -> CudaText {
        if (u.op == UnaryOp::logical_not) return {"!" + operand(u.a, kUnary), kUnary};
        if (may_wrap(u.a)) return wrapped("-", kAdd, make::int_imm(0, t), u.a, t.dtype);
        if (is_small(t.dtype))
          return {fmt::format("({})-{}", cuda_name(t.dtype), operand(u.a, kUnary + 1)), kUnary};
        return {"-" + operand(u.a, kUnary + 1), kUnary};
      },
      [&](const Select& s) { return select(s, t); }, [&](const Cast& c) { return cast(c, t); },
      [&](const Call& c) { return call(c, t); },
      [&](const Let& l) {
        let(l.var, l.value);
        return text_of(l.body);
      },
      [&](const Ramp&) -> CudaText { throw InternalError("vectors don't reach CUDA code"); },
      [&](const Broadcast&) -> CudaText { throw InternalError("vectors don't reach CUDA code"); },
      [&](const VectorReduce&) -> CudaText { throw InternalError("vectors don't reach CUDA code"); },
      [&](const Shuffle& s) { return lane(s); });
}

CudaText CudaWriter::helper(const std::string& name, const std::vector<Expr>& args, const std::string& type) {
  helpers_.insert(name);
  std::string list;
  for (const Expr& a : args) list += (list.empty() ? "" : ", ") + expr(a);
  return {name + (type.empty() ? "" : "<" + type + ">") + "(" + list + ")"};
}

CudaText CudaWriter::binary(const Binary& b, Type t) {
  const DType operands = b.a.dtype();
  switch (b.op) {
    case BinaryOp::min:
      return helper("min_of", {b.a, b.b},
                    is_index(b.a) && is_index(b.b) ? type_name(b.a) : cuda_name(t.dtype));
    case BinaryOp::max:
      return helper("max_of", {b.a, b.b},
                    is_index(b.a) && is_index(b.b) ? type_name(b.a) : cuda_name(t.dtype));
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
      return lazy(b);
    case BinaryOp::div:
    case BinaryOp::mod:
      if (!is_float(operands)) return divide(b, t);
      break;
    case BinaryOp::add:
    case BinaryOp::sub:
    case BinaryOp::mul:
      if (may_wrap(b.a) || (operands == DType::i64 && may_wrap(b.b)))
        return wrapped(operator_of(b.op).text, operator_of(b.op).precedence, b.a, b.b, operands);
      break;
    case BinaryOp::shl:
      if (operands == DType::i32 || operands == DType::i64) return wrapped("<<", kShift, b.a, b.b, operands);
      break;
    default:
      break;
  }
  const Operator op = operator_of(b.op);
  const std::string text =
      operand(b.a, op.precedence) + " " + op.text + " " + operand(b.b, op.precedence + 1);
  // Narrow integers are computed in `int` and wrap when they are put back.
  if (t == b.a.type() && is_small(t.dtype))
    return {fmt::format("({})({})", cuda_name(t.dtype), text), kUnary};
  return {text, op.precedence};
}

// Signed overflow means nothing in C++; unsigned integers wrap.
CudaText CudaWriter::wrapped(const char* op, int precedence, const Expr& a, const Expr& b, DType t) {
  const char* to = t == DType::i64 ? "long long" : "int";
  const char* from = t == DType::i64 ? "unsigned long long" : "unsigned";
  const std::string right =
      precedence == kShift ? operand(b, precedence + 1) : fmt::format("({}){}", from, operand(b, kUnary));
  return {fmt::format("({})(({}){} {} {})", to, from, operand(a, kUnary), op, right), kUnary};
}

// C++ truncates, which is the same where neither side is negative.
CudaText CudaWriter::divide(const Binary& b, Type t) {
  const bool remainder = b.op == BinaryOp::mod;
  if (range_of(b.a, facts_).lo >= 0 && range_of(b.b, facts_).lo > 0) {
    const Operator op = operator_of(b.op);
    const std::string text =
        operand(b.a, op.precedence) + " " + op.text + " " + operand(b.b, op.precedence + 1);
    return is_small(t.dtype) ? CudaText{fmt::format("({})({})", cuda_name(t.dtype), text), kUnary}
                             : CudaText{text, op.precedence};
  }
  const bool index = is_index(b.a) && is_index(b.b);
  return helper(remainder ? "floor_mod" : "floor_div", {b.a, b.b},
                index ? type_name(b.a) : cuda_name(t.dtype));
}

CudaText CudaWriter::select(const Select& s, Type t) {
  if (!has_let(s.a) && !has_let(s.b)) {
    std::string cond = operand(s.cond, kOr), a = operand(s.a, kTernary + 1);
    return {cond + " ? " + a + " : " + operand(s.b, kTernary), kTernary};
  }
  const std::string cond = expr(s.cond), name = new_name("chosen");
  line(fmt::format("{} {};", cuda_name(t.dtype), name));
  const auto side = [&](const Expr& value) {
    const std::string text = expr(value);
    line(name + " = " + text + ";");
  };
  nested("if (" + cond + ") {", [&] { side(s.a); });
  nested("} else {", [&] { side(s.b); });
  line("}");
  return {name};
}

CudaText CudaWriter::lazy(const Binary& b) {
  const bool is_and = b.op == BinaryOp::logical_and;
  const Operator op = operator_of(b.op);
  if (!has_let(b.b)) {
    const std::string a = operand(b.a, op.precedence);
    return {a + " " + op.text + " " + operand(b.b, op.precedence + 1), op.precedence};
  }
  const Expr decided = make::bool_imm(!is_and);
  return select(is_and ? Select{b.a, b.b, decided} : Select{b.a, decided, b.b}, {DType::boolean, 1});
}

std::string CudaWriter::element(const Buffer& b, const std::vector<Expr>& indices) {
  const auto it = buffers_.find(b);
  NESTOR_CHECK(it != buffers_.end()) << "buffer " << b->name << " is used outside its scope";
  NESTOR_CHECK(indices.size() <= 1) << "buffer " << b->name << " isn't flat";
  const bool outer = std::exchange(in_index_, true);
  const std::string index = indices.empty() ? "0" : expr(indices[0]);
  in_index_ = outer;
  return it->second + "[" + index + "]";
}

void CudaWriter::let(const Var& v, const Expr& value) {
  const std::string text = expr(value), type = type_name(value);
  if (value.dtype() == DType::i64 && !is_index(value)) wide_.insert(v);
  if (v->type.is_vector()) return line(fmt::format("const {} {} = {};", vector_name(v->type), bind(v), text));
  if (!is_float(value.dtype()) && !is_bool(value.dtype())) facts_.set(v, range_of(value, facts_));
  line(fmt::format("const {} {} = {};", type, bind(v), text));
}

}  // namespace nestor

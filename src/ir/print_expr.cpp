// Prints expressions with the fewest parentheses that parse back to the same tree, and literals in the
// shortest digits that read back as the same value of their type. Three rules beyond precedence keep the text
// unambiguous:
//  - `-5` is a literal, `-(5)` the negation of one;
//  - a right operand that begins with a minus stands in parentheses, x-(-5);
//  - if-then-else, let-in and masked loads reach as far right as they can, so inside an operator they are
//    parenthesized.
#include <array>
#include <charconv>
#include <cmath>

#include "nestor/half.h"
#include "src/ir/printer.h"

namespace nestor {

int precedence_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::sub:
      return kSum;
    case BinaryOp::mul:
    case BinaryOp::div:
    case BinaryOp::mod:
      return kProduct;
    case BinaryOp::min:
    case BinaryOp::max:
      return kPrimary;
    case BinaryOp::eq:
    case BinaryOp::ne:
    case BinaryOp::lt:
    case BinaryOp::le:
    case BinaryOp::gt:
    case BinaryOp::ge:
      return kCompare;
    case BinaryOp::logical_and:
      return kAnd;
    case BinaryOp::logical_or:
      return kOr;
    case BinaryOp::bit_and:
      return kBitAnd;
    case BinaryOp::bit_or:
      return kBitOr;
    case BinaryOp::bit_xor:
      return kBitXor;
    case BinaryOp::shl:
    case BinaryOp::shr:
      return kShift;
  }
  return kPrimary;
}

const char* word_of(ReduceOp op) {
  static constexpr const char* table[] = {"add", "mul", "max", "min"};
  return table[static_cast<size_t>(op)];
}

// ---- Literals -----------------------------------------------------------------------------------

namespace {

template <class T>
std::string shortest(T value) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

// f16 and bf16: the fewest significant digits that round back to the value.
std::string shortest_half(DType type, double value) {
  std::array<char, 64> buffer;
  for (int digits = 1; digits <= 17; ++digits) {
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                   std::chars_format::scientific, digits - 1)
                         .ptr;
    double back = 0;
    std::from_chars(buffer.data(), end, back);
    if (round_to(type, back) == value) return shortest(back);
  }
  return shortest(value);
}

}  // namespace

std::string print_type(Type type) {
  std::string out(name_of(type.dtype));
  if (type.lanes != 1) out += "x" + std::to_string(type.lanes);
  return out;
}

std::string print_literal(const IntImm& i, Type type) {
  if (is_bool(type.dtype)) return i.value != 0 ? "true" : "false";
  std::string out =
      type.dtype == DType::u64 ? std::to_string(static_cast<uint64_t>(i.value)) : std::to_string(i.value);
  if (type.dtype != DType::i64) out += name_of(type.dtype);
  return out;
}

std::string print_literal(const FloatImm& f, Type type) {
  const std::string suffix(name_of(type.dtype));
  if (std::isnan(f.value)) return "nan_" + suffix;
  if (std::isinf(f.value)) return (f.value < 0 ? "-inf_" : "inf_") + suffix;
  std::string digits = type.dtype == DType::f64   ? shortest(f.value)
                       : type.dtype == DType::f32 ? shortest(static_cast<float>(f.value))
                                                  : shortest_half(type.dtype, f.value);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits + suffix;
}

std::string quote(std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (byte < 32 || byte >= 127)
      ((out += "\\x") += hex[byte / 16]) += hex[byte % 16];
    else
      out += c;
  }
  return out + '"';
}

// ---- Nodes --------------------------------------------------------------------------------------

namespace {

int precedence_of(const Expr& e) {
  if (!e) return kPrimary;
  return match(
      e, [](const IntImm&) -> int { return kPrimary; }, [](const FloatImm&) -> int { return kPrimary; },
      [](const VarRef&) -> int { return kPrimary; },
      [](const Load& l) -> int { return l.mask ? kOpen : kPrimary; },
      [](const Binary& b) { return nestor::precedence_of(b.op); }, [](const Unary&) -> int { return kUnary; },
      [](const Select&) -> int { return kOpen; }, [](const Cast&) -> int { return kPrimary; },
      [](const Call&) -> int { return kPrimary; }, [](const Let&) -> int { return kOpen; },
      [](const Ramp&) -> int { return kPrimary; }, [](const Broadcast&) -> int { return kPrimary; },
      [](const VectorReduce&) -> int { return kPrimary; }, [](const Shuffle&) -> int { return kPrimary; });
}

bool is_literal(const Expr& e) {
  const auto* i = e.as<IntImm>();
  return e.as<FloatImm>() || (i && !is_bool(e.dtype()));
}

bool begins_with_minus(const Expr& e) {
  if (const auto* i = e.as<IntImm>()) return i->value < 0 && !is_unsigned(e.dtype());
  if (const auto* f = e.as<FloatImm>()) return std::signbit(f->value) && !std::isnan(f->value);
  if (const auto* u = e.as<Unary>()) return u->op == UnaryOp::neg;
  if (const auto* b = e.as<Binary>())
    return nestor::precedence_of(b->op) != kPrimary && precedence_of(b->a) >= nestor::precedence_of(b->op) &&
           begins_with_minus(b->a);
  return false;
}

}  // namespace

void Printer::expr(const Expr& e, int min_precedence) {
  if (!e) return put("<null>");
  const bool parenthesize = precedence_of(e) < min_precedence;
  if (parenthesize) put("(");
  const size_t from = mark();
  node(e);
  span(e.get(), from);
  if (parenthesize) put(")");
}

void Printer::list(const std::vector<Expr>& items, const char* separator) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) put(separator);
    expr(items[i]);
  }
}

void Printer::node(const Expr& e) {
  match(
      e, [&](const IntImm& i) { put(print_literal(i, e.type())); },
      [&](const FloatImm& f) { put(print_literal(f, e.type())); },
      [&](const VarRef& v) { put(variable(v.var)); },
      [&](const Load& l) { destination(l.buffer, l.indices, l.mask); }, [&](const Binary& b) { binary(b); },
      [&](const Unary& u) { unary(u); },
      [&](const Select& s) {
        put("if ");
        expr(s.cond, kOr);
        put(" then ");
        expr(s.a, kOr);
        put(" else ");
        expr(s.b);
      },
      [&](const Cast& c) {
        put(print_type(e.type()) + "(");
        expr(c.a);
        put(")");
      },
      [&](const Call& c) { call(c, e.type()); },
      [&](const Let& l) {
        std::string name = fresh_variable(l.var, false);
        put("let " + name + " = ");
        expr(l.value, kOr);
        put(" in ");
        Binding binding(*this, l.var, std::move(name));
        expr(l.body);
      },
      [&](const Ramp& r) {
        put("ramp(");
        list({r.base, r.stride}, ", ");
        put(", " + std::to_string(e.type().lanes) + ")");
      },
      [&](const Broadcast& b) {
        put("x" + std::to_string(e.type().lanes) + "(");
        expr(b.a);
        put(")");
      },
      [&](const VectorReduce& r) {
        put("reduce_" + std::string(word_of(r.op)) + "(");
        expr(r.a);
        put(")");
      },
      [&](const Shuffle& s) {
        put("shuffle(");
        list({s.a, s.b}, ", ");
        for (size_t i = 0; i < s.lanes.size(); ++i) put((i ? "," : ", [") + std::to_string(s.lanes[i]));
        put("])");
      });
}

void Printer::binary(const Binary& b) {
  const int precedence = nestor::precedence_of(b.op);
  if (precedence == kPrimary) {  // min, max
    put(std::string(symbol(b.op)) + "(");
    list({b.a, b.b}, ", ");
    return put(")");
  }
  const bool tight = compact_ && precedence >= kSum;
  expr(b.a, precedence == kCompare ? precedence + 1 : precedence);
  put(tight ? symbol(b.op) : std::string(" ") + symbol(b.op) + " ");
  expr(b.b, b.b && begins_with_minus(b.b) ? kPrimary + 1 : precedence + 1);
}

void Printer::unary(const Unary& u) {
  put(u.op == UnaryOp::neg ? "-" : "!");
  const bool minus_follows = u.op == UnaryOp::neg && u.a && (is_literal(u.a) || begins_with_minus(u.a));
  expr(u.a, minus_follows ? kPrimary + 1 : kUnary);
}

void Printer::call(const Call& c, Type type) {
  put(std::string(info(c.fn).name) + "(");
  if (c.fn == Intrinsic::instruction)
    put("\"" + c.name + "\", " + print_type(type) + (c.args.empty() ? "" : ", "));
  list(c.args, ", ");
  if (c.fn == Intrinsic::bitcast) put(", " + print_type(type));
  put(")");
}

}  // namespace nestor

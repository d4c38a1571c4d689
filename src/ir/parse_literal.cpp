// Literals: integers in the range of their type, floats rounded once from their digits, infinities and NaN.
#include <charconv>
#include <cmath>
#include <limits>

#include "nestor/half.h"
#include "src/ir/parser.h"

namespace nestor {

namespace {

bool in_range(DType dtype, bool negative, uint64_t magnitude) {
  const auto highest = static_cast<uint64_t>(greatest_word(dtype));
  if (is_unsigned(dtype)) return magnitude <= highest && (!negative || magnitude == 0);
  return magnitude <= highest + (negative ? 1 : 0);
}

std::string quoted(std::string_view text) {
  return "`" + std::string(text) + "`";
}

}  // namespace

Expr Parser::literal(bool negative) {
  const Token at = take();
  height_ = 1;
  // The suffix is the type's name at the end: the longest that leaves a number before it.
  size_t split = at.text.size();
  for (size_t i = 1; i < at.text.size(); ++i)
    if (parse_dtype(at.text.substr(i))) {
      split = i;
      break;
    }
  const std::string_view digits = at.text.substr(0, split), suffix = at.text.substr(split);
  const bool whole = digits.find_first_not_of("0123456789") == std::string_view::npos;
  const bool number = digits.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
  if (!number || suffix == "bool")
    fail(at, quoted(at.text) + " isn't a literal",
         "literals look like 3, 3i32, 1.5f32, 1e-05f32, true, inf_f32");
  if (suffix.empty() && !whole)
    fail(at, "a float literal needs its type", "write " + std::string(at.text) + "f32");
  const DType dtype = suffix.empty() ? DType::i64 : *parse_dtype(suffix);
  if (is_float(dtype)) return float_literal(at, digits, dtype, negative);
  if (!whole) fail(at, quoted(at.text) + " isn't an integer");
  return int_literal(at, digits, dtype, negative);
}

Expr Parser::int_literal(const Token& at, std::string_view digits, DType dtype, bool negative) const {
  uint64_t magnitude = 0;
  const bool read =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude).ec == std::errc();
  if (!read || !in_range(dtype, negative, magnitude))
    fail(at, quoted((negative ? "-" : "") + std::string(digits)) + " doesn't fit into " +
                 std::string(name_of(dtype)));
  return make::int_imm(static_cast<int64_t>(negative ? 0 - magnitude : magnitude), {dtype, 1});
}

Expr Parser::float_literal(const Token& at, std::string_view digits, DType dtype, bool negative) const {
  double value = 0;
  std::from_chars_result read{};
  if (dtype == DType::f32) {  // rounded once: by way of double it would be twice
    float single = 0;
    read = std::from_chars(digits.data(), digits.data() + digits.size(), single);
    value = static_cast<double>(single);
  } else {
    read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    value = round_to(dtype, value);
  }
  const bool zero_digits =
      digits.substr(0, digits.find_first_of("eE")).find_first_of("123456789") == std::string_view::npos;
  const bool lost = std::isinf(value) || (value == 0 && !zero_digits);
  if (read.ec == std::errc::invalid_argument || read.ptr != digits.data() + digits.size())
    fail(at, quoted(at.text) + " isn't a number");
  if (read.ec != std::errc() ? !zero_digits : lost)
    fail(at, quoted(digits) + " is out of the range of " + std::string(name_of(dtype)),
         "infinity is inf_" + std::string(name_of(dtype)));
  return make::float_imm(negative ? -value : value, {dtype, 1});
}

Expr Parser::special_float(bool negative) {
  const Token at = peek();
  const bool inf = at.text.starts_with("inf_"), nan = at.text.starts_with("nan_");
  if (at.kind != Token::identifier || !(inf || nan)) return {};
  const auto dtype = parse_dtype(at.text.substr(4));
  if (!dtype || !is_float(*dtype)) return {};
  take();
  height_ = 1;
  const double value =
      inf ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return make::float_imm(negative && inf ? -value : value, {*dtype, 1});
}

}  // namespace nestor

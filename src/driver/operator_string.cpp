// Operators written on the command line: 'Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1])'
// becomes a model of one node. So trying an operator needs no file, and takes the same path as a network.

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "nestor/driver.h"

namespace nestor {

namespace {

// A cursor over the text whose errors underline the place.
class Cursor {
 public:
  explicit Cursor(const std::string& text) : text_(text) {}

  [[noreturn]] void fail(const std::string& message, size_t at, const std::string& hint = "") const {
    SourceLoc loc{"<operator>", 1, static_cast<int>(at) + 1, 1, text_};
    throw UserError(Diagnostic{message, loc, {}, hint});
  }
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const {
    fail(message, at_, hint);
  }

  size_t place() {
    skip_space();
    return at_;
  }
  bool at_end() { return place() == text_.size(); }
  bool take(std::string_view token) {
    skip_space();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail("expected '" + std::string(token) + "'" + (at_end() ? " before the end" : ""));
  }
  char peek() { return at_end() ? '\0' : text_[at_]; }

  // Letters, digits, '_' and '.', beginning with a letter or '_'.
  std::string word(const char* what) {
    const size_t start = place();
    if (start < text_.size() &&
        (std::isalpha(static_cast<unsigned char>(text_[start])) || text_[start] == '_'))
      while (at_ < text_.size() &&
             (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.'))
        ++at_;
    if (at_ == start) fail(std::string("expected ") + what);
    return text_.substr(start, at_ - start);
  }
  int64_t integer() {
    const size_t start = place();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + start, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail("this integer doesn't fit 64 bits");
    if (error != std::errc{}) fail("expected an integer");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  // An integer, or a number with '.', 'e', inf or nan.
  std::variant<int64_t, double> number() {
    const size_t start = place();
    char* end = nullptr;
    const double value = std::strtod(text_.c_str() + start, &end);
    const size_t stop = static_cast<size_t>(end - text_.c_str());
    if (stop == start) fail("expected a number");
    const std::string spelled = text_.substr(start, stop - start);
    if (spelled.find_first_not_of("+-0123456789") == std::string::npos) return integer();
    at_ = stop;
    return value;
  }
  std::string quoted() {
    const char quote = peek();
    const size_t start = at_ + 1, end = text_.find(quote, start);
    if (end == std::string::npos) fail("this string has no end");
    at_ = end + 1;
    return text_.substr(start, end - start);
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  const std::string& text_;
  size_t at_ = 0;
};

ModelValue tensor_type(Cursor& in, const std::string& name) {
  const size_t at = in.place();
  const std::string spelled = in.word("a type such as f32[1,64]");
  const auto dtype = parse_dtype(spelled);
  if (!dtype) {
    std::string known;
    for (const DTypeRow& r : kDTypes) known += (known.empty() ? "" : " ") + std::string(r.name);
    in.fail("'" + spelled + "' isn't an element type", at, "one of: " + known);
  }
  ModelValue value{name, *dtype, {}, true, true};
  in.expect("[");
  while (!in.take("]")) {
    if (!value.shape.empty()) in.expect(",");
    const size_t dim_at = in.place();
    const int64_t extent = in.integer();
    if (extent < 0) in.fail("a dimension can't be negative", dim_at);
    value.shape.push_back({extent, ""});
  }
  return value;
}

std::vector<int64_t> shape_of(const ModelValue& value) {
  std::vector<int64_t> shape;
  for (const ModelDim& d : value.shape) shape.push_back(d.value.value());
  return shape;
}

double as_double(const std::variant<int64_t, double>& n) {
  return std::holds_alternative<double>(n) ? std::get<double>(n) : static_cast<double>(std::get<int64_t>(n));
}

// i64[2]{3,4}: the elements, in row-major order.
Tensor literal(Cursor& in, const ModelValue& type) {
  const size_t at = in.place();
  in.expect("{");
  std::vector<std::pair<std::variant<int64_t, double>, size_t>> elements;  // with their places
  while (!in.take("}")) {
    if (!elements.empty()) in.expect(",");
    const size_t place = in.place();
    elements.emplace_back(in.number(), place);
  }
  const std::vector<int64_t> shape = shape_of(type);
  int64_t size = 1;
  bool fits = true;
  for (const int64_t d : shape) fits = fits && !__builtin_mul_overflow(size, d, &size);
  if (!fits || size != static_cast<int64_t>(elements.size()))
    in.fail(to_string(type.dtype, shape) + " has " + (fits ? std::to_string(size) : "too many") +
                " elements, given are " + std::to_string(elements.size()),
            at);
  Tensor tensor(type.dtype, shape);
  for (int64_t i = 0; i < size; ++i) {
    const auto& [n, place] = elements[static_cast<size_t>(i)];
    const auto* integer = std::get_if<int64_t>(&n);
    if (integer)
      tensor.set_int(i, *integer);
    else
      tensor.set(i, std::get<double>(n));
    const bool same = integer ? tensor.get_int(i) == *integer : tensor.get(i) == std::get<double>(n);
    if (!is_float(type.dtype) && !same)
      in.fail("this doesn't fit " + std::string(name_of(type.dtype)), place);
  }
  return tensor;
}

AttrValue attribute_list(Cursor& in) {
  in.expect("[");
  std::vector<std::string> strings;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  bool any_float = false;
  while (!in.take("]")) {
    if (!strings.empty() || !floats.empty()) in.expect(",");
    const size_t at = in.place();
    if (in.peek() == '"' || in.peek() == '\'') {
      if (!floats.empty()) in.fail("a list is of numbers or of strings, not both", at);
      strings.push_back(in.quoted());
      continue;
    }
    if (!strings.empty()) in.fail("a list is of numbers or of strings, not both", at);
    const auto n = in.number();
    any_float |= std::holds_alternative<double>(n);
    floats.push_back(as_double(n));
    if (!any_float) ints.push_back(std::get<int64_t>(n));
  }
  if (!strings.empty()) return strings;
  if (any_float) return floats;
  return ints;
}

AttrValue attribute(Cursor& in) {
  const char c = in.peek();
  if (c == '[') return attribute_list(in);
  if (c == '"' || c == '\'') return in.quoted();
  const auto n = in.number();
  if (std::holds_alternative<int64_t>(n)) return std::get<int64_t>(n);
  return std::get<double>(n);
}

void arguments(Cursor& in, Model& model, uint64_t seed, std::vector<std::string>& drawn) {
  ModelNode& node = model.nodes.front();
  while (in.peek() != ')' && in.peek() != ';') {
    if (!node.inputs.empty()) in.expect(",");
    const std::string name = "x" + std::to_string(node.inputs.size());
    if (in.take("_")) {
      node.inputs.emplace_back();
      continue;
    }
    const bool constant = in.take("const ");
    const ModelValue value = tensor_type(in, name);
    node.inputs.push_back(name);
    if (in.peek() == '{') {
      model.initializers.emplace_back(name, literal(in, value));
    } else if (constant) {
      drawn.push_back(name);
      model.initializers.emplace_back(
          name, Tensor::random(value.dtype, shape_of(value), seed + node.inputs.size()));
    } else {
      model.inputs.push_back(value);
    }
  }
}

}  // namespace

// "Word(" or "Word@13(" or "domain.Word(": no path looks like this unless the file exists, and then the file
// wins.
bool looks_like_operator(const std::string& spec) {
  const size_t paren = spec.find('(');
  if (paren == std::string::npos || paren == 0 || std::ifstream(spec).good()) return false;
  for (size_t i = 0; i < paren; ++i)
    if (!std::isalnum(static_cast<unsigned char>(spec[i])) && !std::strchr("_.@ ", spec[i])) return false;
  return true;
}

Model parse_operator(const std::string& text, uint64_t seed, std::vector<std::string>* drawn) {
  Cursor in(text);
  std::vector<std::string> seeded;
  Model model;
  model.file = "<operator>";
  model.nodes.emplace_back();
  ModelNode& node = model.nodes.front();
  node.op = in.word("an operator's name");
  if (const size_t dot = node.op.rfind('.'); dot != std::string::npos) {
    node.domain = node.op.substr(0, dot);
    node.op = node.op.substr(dot + 1);
  }
  constexpr int64_t kOpset = 23;
  model.opsets[""] = kOpset;
  model.opsets[node.domain] = in.take("@") ? in.integer() : node.domain.empty() ? kOpset : 1;
  in.expect("(");
  arguments(in, model, seed, drawn ? *drawn : seeded);
  if (in.take(";")) {
    for (bool first = true; in.peek() != ')'; first = false) {
      if (!first && !in.take(",") && !in.take(";")) in.fail("expected ',' or ')'");
      const size_t at = in.place();
      const std::string key = in.word("an attribute's name");
      in.expect("=");
      if (!node.attrs.emplace(key, attribute(in)).second)
        in.fail("attribute '" + key + "' is given twice", at);
    }
  }
  in.expect(")");
  const int64_t outputs = in.take("->") ? in.integer() : 1;
  if (outputs < 1 || outputs > 1000) in.fail("an operator has at least one output");
  if (!in.at_end()) in.fail("nothing may follow the operator");
  for (int64_t i = 0; i < outputs; ++i) {
    const std::string name = outputs == 1 ? "y" : "y" + std::to_string(i);
    node.outputs.push_back(name);
    model.outputs.push_back({name, DType::f32, {}, false, false});
  }
  return model;
}

}  // namespace nestor

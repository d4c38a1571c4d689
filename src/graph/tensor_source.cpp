#include "nestor/tensor_source.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "nestor/error.h"
#include "nestor/npz.h"

namespace nestor {

namespace {

constexpr const char* kForms = "@file.npy, @file.npz:KEY, random:SEED, zeros, or elements such as 1,2,3";

Tensor read_file(const std::string& path, const std::string& key) {
  if (path.ends_with(".npy")) return read_npy(path);
  const size_t colon = path.rfind(".npz:");
  const std::string file = colon == std::string::npos ? path : path.substr(0, colon + 4),
                    name = colon == std::string::npos ? key : path.substr(colon + 5);
  const auto arrays = read_npz(file);
  if (const auto it = arrays.find(name); it != arrays.end()) return it->second;
  std::string keys;
  for (const auto& entry : arrays) keys += (keys.empty() ? "" : ", ") + entry.first;
  throw UserError(
      Diagnostic{file + " has no array \"" + name + "\"", {}, {"it has " + keys}, "@" + file + ":KEY"});
}

template <class Number, class Parse>
std::optional<Number> whole(const std::string& text, Parse parse) {
  char* end = nullptr;
  errno = 0;
  const Number n = parse(text.c_str(), &end);
  if (text.empty() || *end != '\0' || errno == ERANGE) return std::nullopt;
  return n;
}
std::optional<int64_t> integer(const std::string& text) {
  return whole<int64_t>(text, [](const char* s, char** end) { return std::strtoll(s, end, 10); });
}
std::optional<double> real(const std::string& text) {
  return whole<double>(text, [](const char* s, char** end) { return std::strtod(s, end); });
}

// "[1, 2,3]" in its pieces, without spaces.
std::vector<std::string> pieces_of(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<std::string> out;
  if (text.find_first_not_of(' ') == std::string_view::npos) return out;
  out.emplace_back();
  for (const char c : text) {
    if (c == ',')
      out.emplace_back();
    else if (c != ' ')
      out.back() += c;
  }
  return out;
}

// False where the text is no element of that type.
bool set_element(Tensor& t, int64_t i, const std::string& text) {
  if (is_bool(t.dtype()) && (text == "true" || text == "false")) {
    t.set_int(i, text == "true");
    return true;
  }
  if (is_float(t.dtype())) {
    const auto value = real(text);
    if (value) t.set(i, *value);
    return value.has_value();
  }
  const auto value = integer(text);
  if (!value) return false;
  t.set_int(i, *value);
  return t.get_int(i) == *value;
}

}  // namespace

TensorSource::TensorSource(std::string what, const std::string& text, const std::string& key)
    : what_(std::move(what)), text_(text) {
  if (text.starts_with('@')) file_ = read_file(text.substr(1), key);
  if (text.empty()) fail("nothing is given", kForms);
}

void TensorSource::fail(const std::string& message, const std::string& hint) const {
  throw UserError(Diagnostic{fmt::format("{}={}: {}", what_, text_, message), {}, {}, hint});
}

Tensor TensorSource::of(const TensorType& wanted) const {
  if (file_.defined() && file_.dtype() == DType::f32 && wanted.dtype == DType::bf16) return as_bf16();
  if (file_.defined()) return file_;
  if (text_ == "zeros") return Tensor(wanted.dtype, wanted.shape);
  if (!text_.starts_with("random:")) return elements(wanted);
  const auto seed = integer(text_.substr(7));
  if (!seed) fail(fmt::format("\"{}\" isn't an integer", text_.substr(7)), "random:1");
  return Tensor::random(wanted.dtype, wanted.shape, static_cast<uint64_t>(*seed));
}

// NumPy has no bf16: a file has f32 that hold the same numbers.
Tensor TensorSource::as_bf16() const {
  const Tensor out = file_.cast(DType::bf16);
  for (int64_t i = 0; i < out.size(); ++i)
    if (out.get(i) != file_.get(i) && !std::isnan(file_.get(i)))
      fail(fmt::format("{} is no bf16", file_.get(i)), "round the array to bf16, as ml_dtypes does");
  return out;
}

Tensor TensorSource::exactly(const TensorType& wanted) const {
  Tensor t = of(wanted);
  const TensorType type{t.dtype(), t.shape()};
  if (type == wanted) return t;
  throw UserError(fmt::format("{} is {}, it must be {}", what_, to_string(type), to_string(wanted)));
}

Tensor TensorSource::elements(const TensorType& wanted) const {
  const std::vector<std::string> pieces = pieces_of(text_);
  for (const std::string& piece : pieces)
    if (!real(piece) && piece != "true" && piece != "false")
      fail(fmt::format("\"{}\" isn't a number or another known value", piece), kForms);
  Tensor out(wanted.dtype, wanted.shape);
  if (static_cast<int64_t>(pieces.size()) != out.size())
    fail(fmt::format("{} element{} given, {} has {}", pieces.size(), pieces.size() == 1 ? " is" : "s are",
                     to_string(wanted), out.size()),
         kForms);
  for (size_t i = 0; i < pieces.size(); ++i)
    if (!set_element(out, static_cast<int64_t>(i), pieces[i]))
      fail(fmt::format("{} doesn't fit {}", pieces[i], name_of(wanted.dtype)));
  return out;
}

}  // namespace nestor

// The .npy format: a magic, a header that is a Python dict literal, and the bytes. The header's grammar is
// small and fixed by NumPy, so it is read strictly: what doesn't look as NumPy writes it is refused.
#include <fmt/format.h>

#include <cstring>

#include "nestor/limits.h"
#include "nestor/npz.h"
#include "src/graph/files.h"

namespace nestor {

namespace {

struct NpyType {
  std::string_view descr;
  DType dtype;
};
constexpr NpyType kTypes[] = {{"<f8", DType::f64}, {"<f4", DType::f32}, {"<f2", DType::f16},
                              {"<i8", DType::i64}, {"<i4", DType::i32}, {"<i2", DType::i16},
                              {"|i1", DType::i8},  {"<u8", DType::u64}, {"<u4", DType::u32},
                              {"<u2", DType::u16}, {"|u1", DType::u8},  {"|b1", DType::boolean}};

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Header parse() {
    Header h;
    bool seen[3] = {false, false, false};
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0 || seen[which]) bad(fmt::format("unexpected key '{}'", key));
      seen[which] = true;
      if (which == 0) h.descr = string();
      if (which == 1) h.fortran = boolean();
      if (which == 2) h.shape = tuple();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (pos_ != text_.size()) bad("text after the header");
    if (!seen[0] || !seen[1] || !seen[2]) bad("'descr', 'fortran_order' or 'shape' is missing");
    return h;
  }

 private:
  [[noreturn]] void bad(const std::string& why) const { file_error(where_, "malformed .npy header: " + why); }
  void skip() {
    while (pos_ < text_.size() && std::strchr(" \t\n", text_[pos_])) ++pos_;
  }
  bool accept(char c) {
    skip();
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(fmt::format("expected '{}' at character {}", c, pos_));
  }
  std::string string() {
    skip();
    if (accept('[')) bad("structured element types aren't supported");
    const char quote = pos_ < text_.size() ? text_[pos_] : '\0';
    if (quote != '\'' && quote != '"') bad(fmt::format("expected a string at character {}", pos_));
    const size_t end = text_.find(quote, ++pos_);
    if (end == std::string_view::npos) bad("a string without end");
    std::string out(text_.substr(pos_, end - pos_));
    pos_ = end + 1;
    return out;
  }
  bool boolean() {
    skip();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(pos_, word.size()) == word) {
        pos_ += word.size();
        return word == "True";
      }
    bad("'fortran_order' is neither True nor False");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> out;
    expect('(');
    while (!accept(')')) {
      skip();
      int64_t value = 0;
      const size_t start = pos_;
      for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text_[pos_] - '0', &value))
          bad("a dimension overflows");
      if (pos_ == start) bad("a dimension isn't a non-negative integer");
      out.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  std::string_view text_;
  const std::string& where_;
  size_t pos_ = 0;
};

DType element_type(const std::string& descr, const std::string& where) {
  if (descr == "<V2" || descr == "|V2") return DType::bf16;  // as NumPy writes arrays of ml_dtypes
  for (const NpyType& t : kTypes)
    if (t.descr == descr || (t.descr[0] == '|' && descr.size() == 3 && descr.substr(1) == t.descr.substr(1)))
      return t.dtype;
  if (!descr.empty() && descr[0] == '>')
    file_error(where, fmt::format("big-endian data ('{}') isn't supported", descr),
               "x.astype(x.dtype.newbyteorder('<'))");
  file_error(where, fmt::format("element type '{}' isn't supported", descr),
             "float16/32/64, int8/16/32/64, uint8/16/32/64 and bool are");
}

// Column-major bytes to row major: walks the result in order, the source by strides.
void from_fortran(const char* src, char* dst, const std::vector<int64_t>& shape, size_t bytes) {
  const size_t rank = shape.size();
  std::vector<int64_t> index(rank, 0), stride(rank, 1);
  for (size_t i = 1; i < rank; ++i) stride[i] = stride[i - 1] * shape[i - 1];
  const int64_t count = product(shape);
  for (int64_t n = 0; n < count; ++n) {
    int64_t from = 0;
    for (size_t i = 0; i < rank; ++i) from += index[i] * stride[i];
    std::memcpy(dst + static_cast<size_t>(n) * bytes, src + static_cast<size_t>(from) * bytes, bytes);
    for (size_t i = rank; i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace

Tensor parse_npy(std::string_view bytes, const std::string& where) {
  if (bytes.size() < 10 || bytes.substr(0, 6) != "\x93NUMPY")
    file_error(where, "not a .npy file (wrong magic)");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t major = byte(6);
  if (major < 1 || major > 3) file_error(where, fmt::format(".npy version {} isn't supported", major));
  size_t start = 10, length = byte(8) | byte(9) << 8;
  if (major > 1) {
    if (bytes.size() < 12) file_error(where, "truncated .npy header");
    start = 12;
    length |= byte(10) << 16 | byte(11) << 24;
  }
  if (bytes.size() - start < length) file_error(where, "truncated .npy header");
  const Header h = HeaderParser(bytes.substr(start, length), where).parse();
  const std::string_view data = bytes.substr(start + length);
  const DType dtype = element_type(h.descr, where);

  if (h.shape.size() > kMostDims)
    file_error(where, fmt::format("the array has {} dimensions; at most {} are supported", h.shape.size(),
                                  kMostDims));
  int64_t size = bytes_of(dtype);
  bool overflow = false;
  for (int64_t d : h.shape) overflow |= __builtin_mul_overflow(size, d, &size);
  if (overflow) file_error(where, "the array's dimensions overflow");
  if (static_cast<int64_t>(data.size()) != size)
    file_error(where, fmt::format("{} has {} bytes of data instead of {}", to_string(dtype, h.shape),
                                  data.size(), size));
  Tensor out(dtype, h.shape);
  if (h.fortran && h.shape.size() > 1 && size > 0)
    from_fortran(data.data(), static_cast<char*>(out.data()), h.shape, static_cast<size_t>(bytes_of(dtype)));
  else
    std::memcpy(out.data(), data.data(), data.size());
  if (is_bool(dtype))
    for (uint8_t& b : out.as<uint8_t>()) b = b != 0;
  return out;
}

Tensor read_npy(const std::string& path) {
  return parse_npy(read_file(path), path);
}

std::string format_npy(const Tensor& t) {
  std::string_view descr;
  for (const NpyType& type : kTypes)
    if (type.dtype == t.dtype()) descr = type.descr;
  if (descr.empty())
    throw UserError(Diagnostic{
        fmt::format("NumPy has no element type for {}", name_of(t.dtype())), {}, {}, "cast to f32"});
  std::string shape;
  for (int64_t d : t.shape()) shape += fmt::format("{}, ", d);
  if (t.shape().size() > 1) shape.resize(shape.size() - 2);
  if (t.shape().size() == 1) shape.resize(shape.size() - 1);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  header.append(64 - (10 + header.size() + 1) % 64, ' ');  // data begins at a multiple of 64 bytes
  header += '\n';
  std::string out = "\x93NUMPY";
  out += {'\x01', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  out += header;
  out.append(static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes()));
  return out;
}

}  // namespace nestor

// Reading a model file: which format it is in is found from its content, so that a wrong extension does no
// harm.
#include "src/graph/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>

#include "src/graph/tensor_limits.h"
#include "src/ops/formats.h"

namespace nestor {

namespace {

// TensorProto.DataType by number; empty for those that this onnx release doesn't know.
constexpr std::array<std::string_view, 27> kOnnxTypes = {
    "undefined", "float",      "uint8",      "int8",         "uint16",         "int16",      "int32",
    "int64",     "string",     "bool",       "float16",      "double",         "uint32",     "uint64",
    "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2"};

// Files that are often given in a model's place, by their first bytes.
struct OtherFormat {
  std::string_view start;
  const char* what;
  const char* hint;
};
constexpr OtherFormat kOtherFormats[] = {
    {"\x7f"
     "ELF",
     "a shared object, not a model",
     "`nestor run` runs one that Nestor made; other verbs read the model it was made from"},
    {"PK\x03\x04", "a zip archive, not a model; PyTorch saves its modules so",
     "in Python, torch.onnx.export(module, example, \"m.onnx\") writes a model"},
    {"func ", "a function, not a model", "name the file ...nest"},
};

}  // namespace

std::optional<DType> dtype_from_onnx(int code) {
  return dtype_by(&DTypeRow::onnx_number, code);
}

std::string onnx_dtype_name(int code) {
  if (code >= 0 && static_cast<size_t>(code) < kOnnxTypes.size())
    return std::string(kOnnxTypes[static_cast<size_t>(code)]);
  return fmt::format("number {}", code);
}

int64_t checked_size(const std::string& file, const std::string& where, DType dtype,
                     const std::vector<int64_t>& shape) {
  const std::string why = refusal_of({dtype, shape});
  if (!why.empty()) file_error(file, where + " " + why);
  return product(shape);
}

Tensor tensor_from_bytes(const std::string& file, const std::string& where, DType dtype,
                         const std::vector<int64_t>& shape, std::string_view bytes) {
  const int64_t want = checked_size(file, where, dtype, shape) * bytes_of(dtype);
  if (static_cast<int64_t>(bytes.size()) != want)
    file_error(file, fmt::format("{} is {}: {} bytes are given, {} needs {}", where,
                                 static_cast<int64_t>(bytes.size()) < want ? "short" : "over-long",
                                 bytes.size(), to_string(dtype, shape), want));
  Tensor out(dtype, shape);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  if (is_bool(dtype))
    for (uint8_t& b : out.as<uint8_t>()) b = b != 0;
  return out;
}

Tensor unpacked(const std::string& file, const std::string& where, const ops::Format& type,
                const std::vector<int64_t>& shape, std::string_view bytes) {
  const int64_t count = checked_size(file, where, type.stored, shape), in_a_byte = 8 / type.bits;
  const int64_t want = (count + in_a_byte - 1) / in_a_byte;
  if (static_cast<int64_t>(bytes.size()) != want)
    file_error(file, fmt::format("{} is {}: {} bytes are given, {} numbers of {} bits need {}", where,
                                 static_cast<int64_t>(bytes.size()) < want ? "short" : "over-long",
                                 bytes.size(), count, type.bits, want));
  Tensor out(type.stored, shape);
  const int values = 1 << type.bits;
  for (int64_t i = 0; i < count; ++i) {
    const int byte = static_cast<unsigned char>(bytes[static_cast<size_t>(i / in_a_byte)]);
    const int value = byte >> (i % in_a_byte * type.bits) & (values - 1);
    out.set_int(i, type.stored == DType::i8 && value >= values / 2 ? value - values : value);
  }
  return out;
}

Model read_model(const std::string& path) {
  if (path.empty())
    throw UserError(Diagnostic{
        "the model's name is empty", {}, {}, "a file, or an operator: MatMul(f32[8,8], f32[8,8])"});
  std::ifstream in = open_file(path);
  std::string start(8, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  for (const OtherFormat& format : kOtherFormats)
    if (start.starts_with(format.start)) file_error(path, format.what, format.hint);
  in.clear();
  in.seekg(0);
  const std::string_view blank = " \t\r\n\xEF\xBB\xBF";
  char first = ' ';
  while (in.get(first) && blank.find(first) != std::string_view::npos) {
  }
  if (!in) file_error(path, "the file is empty");
  // A protobuf ModelProto begins with a field tag, never with a brace.
  if (first == '{' || path.ends_with(".json")) return read_json_model(path, read_file(path));
  in.seekg(0);
  return read_onnx_binary(path, in);
}

}  // namespace nestor

// What the importers share. Each fills a Model; nothing here judges it beyond what reading needs.
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include "nestor/graph.h"
#include "src/graph/files.h"
#include "src/graph/json_at.h"

namespace nestor::ops {
struct Format;
}

namespace nestor {

// Takes each tensor out of the message that it comes in, so that there is one of it at a time.
Model read_onnx_binary(const std::string& path, std::istream& in);
// Protobuf's JSON mapping; `document` is the text as it was parsed.
Model read_onnx_json(const std::string& path, std::string_view text, Json document);
Model read_json_model(const std::string& path,
                      std::string_view text);  // finds out which of the two JSON forms

// TensorProto.DataType.
std::optional<DType> dtype_from_onnx(int code);
std::string onnx_dtype_name(int code);

// A tensor of exactly these little-endian bytes. `where` names it: "initializer 'W'".
Tensor tensor_from_bytes(const std::string& file, const std::string& where, DType dtype,
                         const std::vector<int64_t>& shape, std::string_view bytes);

// Numbers of 8 bits and less, several in a byte where they have fewer, the first in its lowest bits; each in
// a byte of its own now.
Tensor unpacked(const std::string& file, const std::string& where, const ops::Format& type,
                const std::vector<int64_t>& shape, std::string_view bytes);

// Throws where a dimension is negative or the size overflows; gives the size in elements.
int64_t checked_size(const std::string& file, const std::string& where, DType dtype,
                     const std::vector<int64_t>& shape);

}  // namespace nestor

#include "src/graph/json_tensor.h"

#include <fmt/ranges.h>

#include <cmath>

#include "nestor/nearest.h"
#include "nestor/npz.h"
#include "src/graph/import.h"

namespace nestor {

namespace {

std::vector<int64_t> read_shape(const std::string& file, const JsonAt& at, DType type) {
  const std::vector<int64_t> shape = at.at("shape").integers();
  checked_size(file, at.path(), type, shape);
  return shape;
}

void set_element(Tensor& t, int64_t i, const JsonAt& at) {
  if (is_float(t.dtype())) return t.set(i, at.number());
  if (is_bool(t.dtype()) && at.json().is_boolean()) return t.set_int(i, at.json().get<bool>());
  if (t.dtype() == DType::u64 && at.json().is_number_unsigned())
    return t.set_int(i, static_cast<int64_t>(at.json().get<uint64_t>()));
  const int64_t value = at.integer();
  t.set_int(i, value);
  if (t.get_int(i) != value || (value < 0 && t.dtype() == DType::u64))
    at.fail(fmt::format("{} doesn't fit {}", value, name_of(t.dtype())));
}

// Data is one flat list, or lists nested as deep as the shape has dimensions. Each list is checked, for its
// length and for what it holds, before anything is allocated or written: a small file can claim a huge
// tensor, and `fill` trusts the counts.
void check_list(const JsonAt& at, int64_t want, bool of_lists, const std::string& type) {
  if (!at.json().is_array()) at.wrong("a list");
  const auto count = static_cast<int64_t>(at.json().size());
  if (count != want)
    at.fail(fmt::format("the data is {}: {} elements are given here, {} needs {}",
                        count < want ? "short" : "over-long", count, type, want));
  for (int64_t i = 0; i < count; ++i)
    if (at.json()[static_cast<size_t>(i)].is_array() != of_lists)
      at.fail(fmt::format("element {} {} a list, {} has {} here", i, of_lists ? "isn't" : "is", type,
                          of_lists ? "lists" : "numbers"));
}

void check_nested(const JsonAt& at, const std::vector<int64_t>& shape, size_t depth,
                  const std::string& type) {
  const bool of_lists = depth + 1 < shape.size();
  check_list(at, shape[depth], of_lists, type);
  if (of_lists)
    for (const JsonAt& item : at.items()) check_nested(item, shape, depth + 1, type);
}

void check_data(const JsonAt& at, DType dtype, const std::vector<int64_t>& shape) {
  const std::string type = to_string(dtype, shape);
  const Json& data = at.json();
  const bool nested = data.is_array() && !data.empty() && data[0].is_array() && !shape.empty();
  if (nested)
    check_nested(at, shape, 0, type);
  else
    check_list(at, product(shape), false, type);
}

// The elements of checked data, in row-major order.
void fill(Tensor& t, const JsonAt& at, int64_t& next) {
  for (const JsonAt& item : at.items()) {
    if (item.json().is_array())
      fill(t, item, next);
    else
      set_element(t, next++, item);
  }
}

}  // namespace

DType TensorReader::dtype(const JsonAt& at) {
  const std::string name = at.string();
  if (const auto t = parse_dtype(name)) return *t;
  if (const auto t = dtype_by(&DTypeRow::numpy, std::string_view(name))) return *t;
  if (name == "float" || name == "double") return name == "float" ? DType::f32 : DType::f64;
  std::vector<std::string_view> names;
  for (const DTypeRow& r : kDTypes) names.push_back(r.name);
  at.fail(fmt::format("unknown element type '{}'", name), fmt::format("{}", fmt::join(names, " ")));
}

Tensor TensorReader::read(const JsonAt& at) const {
  if (!at.json().is_object()) at.wrong("an object with `data`, `npz` or `file`");
  if (at.find("npz")) return from_npz(at);
  if (at.find("file")) return from_file(at);
  return from_data(at);
}

Tensor TensorReader::from_data(const JsonAt& at) const {
  at.only({"dtype", "shape", "data"});
  const DType type = dtype(at.at("dtype"));
  const std::vector<int64_t> shape = read_shape(file_, at, type);
  const JsonAt data = at.at("data");
  check_data(data, type, shape);
  Tensor out(type, shape);
  int64_t next = 0;
  fill(out, data, next);
  NESTOR_CHECK(next == out.size()) << next << " elements of " << out.size() << " at " << data.path();
  return out;
}

Tensor TensorReader::from_npz(const JsonAt& at) const {
  at.only({"npz", "key", "dtype", "shape"});
  const std::string location = at.at("npz").string(), key = at.at("key").string();
  const std::string path = resolve_beside(file_, location);
  auto it = archives_.find(path);
  if (it == archives_.end()) {
    try {
      it = archives_.emplace(path, read_npz(path)).first;
    } catch (const UserError& e) {
      at.fail(fmt::format("'{}': {}", location, e.diagnostic().message));
    }
  }
  const auto found = it->second.find(key);
  if (found == it->second.end()) {
    std::vector<std::string> keys;
    for (const auto& entry : it->second) keys.push_back(entry.first);
    at.fail(fmt::format("'{}' has no array '{}'", location, key), did_you_mean(key, keys));
  }
  const Tensor& t = found->second;
  if (const auto type = at.find("dtype"); type && dtype(*type) != t.dtype())
    type->fail(
        fmt::format("'{}' holds {} instead of {}", location, name_of(t.dtype()), name_of(dtype(*type))));
  if (const auto shape = at.find("shape"); shape && shape->integers() != t.shape())
    shape->fail(fmt::format("'{}' holds {}", location, to_string(t.dtype(), t.shape())));
  return t;
}

Tensor TensorReader::from_file(const JsonAt& at) const {
  at.only({"file", "offset", "length", "dtype", "shape"});
  const std::string location = at.at("file").string();
  const DType type = dtype(at.at("dtype"));
  const std::vector<int64_t> shape = read_shape(file_, at, type);
  const int64_t want = product(shape) * bytes_of(type);
  const auto offset = at.find("offset"), length = at.find("length");
  if (length && length->integer() != want)
    length->fail(fmt::format("{} needs {} bytes", to_string(type, shape), want));
  // Without an offset the file is this tensor alone, so its size is checked too.
  const std::string path = resolve_beside(file_, location);
  std::string bytes;
  try {
    bytes = read_range(path, offset ? offset->integer() : 0,
                       offset || length ? std::optional(want) : std::nullopt);
  } catch (const UserError& e) {
    at.fail(fmt::format("'{}': {}", location, e.diagnostic().message));
  }
  return tensor_from_bytes(file_, fmt::format("{} ('{}')", at.path(), location), type, shape, bytes);
}

}  // namespace nestor

#include "src/python/bindings/arrays.h"

#include <cstring>

#include "src/python/bindings/memory.h"

namespace nestor::python {

namespace {

using Code = nb::dlpack::dtype_code;

Code code_of(DType t) {
  return t == DType::boolean ? Code::Bool
         : t == DType::bf16  ? Code::Bfloat
         : is_float(t)       ? Code::Float
         : is_unsigned(t)    ? Code::UInt
                             : Code::Int;
}

std::optional<DType> dtype_of(nb::dlpack::dtype t) {
  for (size_t i = 0; i < kDTypes.size() && t.lanes == 1; ++i)
    if (t.bits == 8 * kDTypes[i].bytes && static_cast<Code>(t.code) == code_of(static_cast<DType>(i)))
      return static_cast<DType>(i);
  return std::nullopt;
}

// bf16 as NumPy holds it without ml_dtypes: 16 bits.
nb::dlpack::dtype numpy_dtype(DType t) {
  const Code code = t == DType::bf16 ? Code::UInt : code_of(t);
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * bytes_of(t)), 1};
}

std::string numpy_name(DType t) {
  return std::string(row_of(t).numpy);
}

template <class Array>
bool is_row_major(const Array& a) {
  int64_t stride = 1;
  for (size_t d = 0; d < a.ndim(); ++d)
    if (a.shape(d) == 0) return true;
  for (size_t d = a.ndim(); d-- > 0;) {
    if (a.shape(d) != 1 && a.stride(d) != stride) return false;
    stride *= static_cast<int64_t>(a.shape(d));
  }
  return true;
}

template <class Array>
std::vector<int64_t> shape_of(const Array& a) {
  std::vector<int64_t> out;
  for (size_t d = 0; d < a.ndim(); ++d) out.push_back(static_cast<int64_t>(a.shape(d)));
  return out;
}

std::string text_of(nb::handle value) {
  return nb::steal<nb::str>(PyObject_Str(value.ptr())).c_str();
}

std::string type_of_elements(nb::handle array) {
  return nb::hasattr(array, "dtype") ? text_of(array.attr("dtype")) : "";
}

void require_native_order(nb::handle value, const std::string& what, const std::string& elements) {
  if (!elements.starts_with('>') && !elements.starts_with('<')) return;
  const std::string native = text_of(value.attr("dtype").attr("newbyteorder")("="));
  throw nb::type_error(
      (what + " has elements of type " + elements + ", in another byte order: .astype(\"" + native + "\")")
          .c_str());
}

// ml_dtypes has arrays of small types, which no protocol names, with a byte for each element. Models have
// floats of these by their bits, and integers as they are.
template <class Array>
bool as_bytes(nb::handle value, const std::string& elements, Array& out) {
  const bool bits = elements.starts_with("float8_") || elements.starts_with("float4_");
  const bool integers =
      elements == "int4" || elements == "uint4" || elements == "int2" || elements == "uint2";
  if (!bits && !integers) return false;
  const char* as = elements[0] == 'i' ? "int8" : "uint8";
  return nb::hasattr(value, "astype") && nb::try_cast(value.attr(bits ? "view" : "astype")(as), out);
}

// As an array; NumPy's bf16, which no protocol of its names, by its bits.
template <class Array>
Array array_of(nb::handle value, const std::string& what, DType* dtype) {
  Array out;
  const bool number = nb::isinstance<nb::float_>(value) || nb::isinstance<nb::int_>(value);
  bool bf16 = false;
  if (number || !nb::try_cast(value, out)) {
    const std::string elements = type_of_elements(value);
    bf16 = elements == "bfloat16" && nb::hasattr(value, "view") &&
           nb::try_cast(value.attr("view")("uint16"), out);
    require_native_order(value, what, elements);
    const bool known = bf16 || as_bytes(value, elements, out);
    if (!known && nb::hasattr(value, "__dlpack__")) value.attr("__dlpack__")();  // it may say why not
    if (!known)
      throw nb::type_error((what + " is a " + text_of(nb::type_name(value.type())) +
                            (elements.empty() ? "" : " of " + elements) +
                            ": give a NumPy array in the machine's memory, or another that speaks DLPack")
                               .c_str());
  }
  const auto known = bf16 ? std::optional(DType::bf16) : dtype_of(out.dtype());
  if (!known)
    throw nb::type_error(
        (what + " has elements of type " + type_of_elements(value) + ", which no model takes").c_str());
  *dtype = *known;
  return out;
}

template <class Array>
void check(const Array& a, DType dtype, const std::string& what, const PlanTensor& wanted) {
  if (dtype != wanted.dtype)
    throw nb::type_error((what + " has elements of type " + numpy_name(dtype) + ", the model wants " +
                          numpy_name(wanted.dtype) + ": " + wanted.name + ".astype(\"" +
                          numpy_name(wanted.dtype) + "\")")
                             .c_str());
  const std::vector<int64_t> shape = shape_of(a);
  if (!fits(shape, wanted))
    throw nb::value_error(
        (what + " has the shape " + to_string(dtype, shape) + ", the model wants " + to_string(wanted))
            .c_str());
}

template <class Array>
bool is_aligned(const Array& a, DType t) {
  return reinterpret_cast<uintptr_t>(a.data()) % static_cast<uintptr_t>(bytes_of(t)) == 0;
}

}  // namespace

std::vector<int64_t> shape_of(const ReadArray& array) {
  return shape_of<ReadArray>(array);
}

ReadArray as_input(nb::handle array, const PlanTensor& wanted) {
  const std::string what = "input `" + wanted.name + "`";
  DType dtype = DType::f32;
  ReadArray out = array_of<ReadArray>(array, what, &dtype);
  check(out, dtype, what, wanted);
  if (is_row_major(out) && is_aligned(out, dtype)) return out;
  const nb::object numpy = nb::module_::import_("numpy");
  const bool knows_numpy = nb::hasattr(array, "__array__") || nb::hasattr(array, "__array_interface__") ||
                           !nb::hasattr(array, "__dlpack__");
  const nb::object from = knows_numpy ? nb::borrow(array) : numpy.attr("from_dlpack")(array);
  const nb::object copy = numpy.attr("array")(from, nb::arg("order") = "C");
  return array_of<ReadArray>(copy, what, &dtype);
}

WriteArray as_output(nb::handle array, const PlanTensor& wanted) {
  const std::string what = "output `" + wanted.name + "`";
  DType dtype = DType::f32;
  if (nb::hasattr(array, "flags") && nb::hasattr(array, "__array_interface__") &&
      !nb::cast<bool>(array.attr("flags")["WRITEABLE"]))
    throw nb::value_error((what + " is read only").c_str());
  WriteArray out = array_of<WriteArray>(array, what, &dtype);
  check(out, dtype, what, wanted);
  if (!is_row_major(out) || !is_aligned(out, dtype))
    throw nb::value_error(
        (what + " doesn't lie row major, or between elements: give an array as numpy.empty makes it")
            .c_str());
  return out;
}

nb::object new_array(DType dtype, const std::vector<int64_t>& shape, void** data) {
  const auto bytes = static_cast<size_t>(std::max<int64_t>(1, product(shape) * bytes_of(dtype)));
  *data = take_memory(bytes);
  const nb::capsule owner(*data, give_memory);
  const std::vector<size_t> extents(shape.begin(), shape.end());
  const nb::ndarray<nb::numpy> array(*data, extents.size(), extents.data(), owner, nullptr,
                                     numpy_dtype(dtype));
  nb::object out = nb::cast(array);
  if (dtype != DType::bf16) return out;
  return out.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
}

Tensor to_tensor(nb::handle array, const std::string& what) {
  const nb::object rows = nb::module_::import_("numpy").attr("array")(array, nb::arg("order") = "C");
  DType dtype = DType::f32;
  const ReadArray a = array_of<ReadArray>(rows, what, &dtype);
  Tensor out(dtype, shape_of(a));
  if (out.size() > 0) std::memcpy(out.data(), a.data(), static_cast<size_t>(out.bytes()));
  return out;
}

}  // namespace nestor::python

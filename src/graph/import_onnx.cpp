// ONNX: the protobuf message to a Model. The binary file and protobuf's JSON mapping both come through here;
// protobuf itself reads the mapping, so that whatever its Python twin prints is understood. libonnx's checker
// and shape inference aren't used: they don't know newer opsets.
#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <limits>

#include "src/graph/import.h"
#include "src/graph/newer_fields.h"
#include "src/graph/spell_out_narrow.h"
#include "src/graph/text_fields.h"
#include "src/ops/formats.h"

namespace nestor {

namespace {

// Fields that came after this onnx release, which keeps them as unknown ones.
constexpr int kDefaultsOfFunction = 11, kOverloadOfFunction = 13, kOverloadOfNode = 8;

std::vector<std::string> unknown_texts(const google::protobuf::UnknownFieldSet& fields, int number) {
  std::vector<std::string> out;
  for (int i = 0; i < fields.field_count(); ++i)
    if (const auto& f = fields.field(i);
        f.number() == number && f.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      out.push_back(f.length_delimited());
  return out;
}

// The operator's or function's name, with that of its overload.
template <class Proto>
std::string full_name(const std::string& op, const Proto& proto, int overload_field) {
  const auto overload = unknown_texts(proto.unknown_fields(), overload_field);
  return overload.empty() ? op : overload_name(op, overload.back());
}

class OnnxReader {
 public:
  OnnxReader(const std::string& file, onnx::ModelProto& proto) : file_(file), proto_(proto) {}

  Model read() {
    if (!proto_.has_graph()) fail("the model has no graph (missing field `graph`)");
    Model m;
    m.file = file_;
    for (const auto& o : proto_.opset_import()) m.opsets[domain(o.domain())] = o.version();
    if (m.opsets.empty()) {
      if (proto_.ir_version() >= 3) fail("the model says no opset (missing field `opset_import`)");
      m.opsets[""] = 1;  // before IR version 3 there was one opset
    }
    static_cast<ModelGraph&>(m) = graph(*proto_.mutable_graph(), "");
    for (auto& f : *proto_.mutable_functions()) m.functions.push_back(function(f));
    spell_out_narrow(m);
    return m;
  }

 private:
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const {
    file_error(file_, message, hint);
  }
  static std::string domain(const std::string& d) { return d == "ai.onnx" ? "" : d; }

  // `inside`: "" for the model's own graph, or where this one is, "node 3 (If): ".
  ModelGraph graph(onnx::GraphProto& g, const std::string& inside) const {
    ModelGraph out;
    out.name = g.name();
    for (const auto& v : g.input()) out.inputs.push_back(value(v, inside + "an input"));
    for (const auto& v : g.output()) out.outputs.push_back(value(v, inside + "an output"));
    for (const auto& v : g.value_info())
      if (!v.name().empty()) out.values.push_back(value(v, "a value"));
    for (auto& t : *g.mutable_initializer()) {
      const std::string name = t.name(), refused = refused_type(t.data_type());
      if (name.empty()) fail(inside + "an initializer has no name");
      const std::string where = fmt::format("{}initializer '{}'", inside, name);
      if (refused.empty() || !narrow_name(t.data_type()).empty())
        out.initializers.emplace_back(name, tensor(t, where));
      if (!refused.empty()) out.refused_initializers[name] = refused;
    }
    for (const auto& t : g.sparse_initializer())
      out.refused_initializers[t.values().name()] = "a sparse tensor";
    for (int i = 0; i < g.node_size(); ++i) out.nodes.push_back(node(*g.mutable_node(i), i, inside));
    return out;
  }

  ModelFunction function(onnx::FunctionProto& f) const {
    ModelFunction out;
    out.op = full_name(f.name(), f, kOverloadOfFunction);
    out.domain = domain(f.domain());
    out.inputs.assign(f.input().begin(), f.input().end());
    out.outputs.assign(f.output().begin(), f.output().end());
    for (const auto& o : f.opset_import()) out.opsets[domain(o.domain())] = o.version();
    const std::string where = fmt::format("function {}: ", f.name());
    for (int i = 0; i < f.node_size(); ++i) out.nodes.push_back(node(*f.mutable_node(i), i, where));
    ModelNode defaults;
    for (const std::string& bytes : unknown_texts(f.unknown_fields(), kDefaultsOfFunction)) {
      onnx::AttributeProto a;
      if (!a.ParseFromString(bytes)) fail(where + "a default of an attribute can't be parsed");
      attribute(a, where, defaults);
    }
    out.defaults = std::move(defaults.attrs);
    return out;
  }

  Tensor narrow_tensor(const onnx::TensorProto& t, const std::string& where) const {
    const ops::Format& type = *ops::format_of(t.data_type());
    const std::vector<int64_t> shape(t.dims().begin(), t.dims().end());
    if (t.data_location() == onnx::TensorProto::EXTERNAL) {
      const ExternalData data = external_data(t, where);
      return unpacked(file_, where, type, shape,
                      external_bytes(data.location, data.offset, data.length, where));
    }
    if (t.has_raw_data()) return unpacked(file_, where, type, shape, t.raw_data());
    std::string bytes;
    for (const int32_t byte : t.int32_data()) bytes += static_cast<char>(byte);
    return unpacked(file_, where, type, shape, bytes);
  }

  // What a tensor of that type is, where we don't have it; else "".
  static std::string refused_type(int code) {
    return dtype_from_onnx(code) ? "" : fmt::format("a tensor of {}", onnx_dtype_name(code));
  }

  static std::string refused_type(const onnx::TypeProto& t) {
    switch (t.value_case()) {
      case onnx::TypeProto::kTensorType:
        return refused_type(t.tensor_type().elem_type());
      case onnx::TypeProto::kSparseTensorType:
        return "a sparse tensor";
      case onnx::TypeProto::kSequenceType:
        return "a sequence";
      case onnx::TypeProto::kMapType:
        return "a map";
      case onnx::TypeProto::kOptionalType:
        return "an optional value";
      default:
        return "of a type that isn't known";
    }
  }

  ModelValue value(const onnx::ValueInfoProto& v, const std::string& kind) const {
    if (v.name().empty()) fail(kind + " has no name");
    ModelValue out;
    out.name = v.name();
    if (!v.has_type() || v.type().value_case() == onnx::TypeProto::VALUE_NOT_SET ||
        (v.type().has_tensor_type() && v.type().tensor_type().elem_type() == onnx::TensorProto::UNDEFINED)) {
      out.typed = out.ranked = false;
      return out;
    }
    out.refused = refused_type(v.type());
    if (!v.type().has_tensor_type()) return out;
    const auto& t = v.type().tensor_type();
    if (out.refused.empty()) out.dtype = *dtype_from_onnx(t.elem_type());
    out.ranked = t.has_shape();
    for (const auto& d : t.shape().dim()) {
      ModelDim dim;
      if (d.has_dim_value()) dim.value = d.dim_value();
      dim.name = d.dim_param();
      out.shape.push_back(dim);
    }
    return out;
  }

  ModelNode node(onnx::NodeProto& n, int index, const std::string& inside) const {
    std::string where = fmt::format("{}node {}", inside, index);
    if (!n.name().empty()) where += fmt::format(" '{}'", n.name());
    if (n.op_type().empty()) fail(where + " has no operator (missing field `op_type`)");
    ModelNode out;
    out.op = full_name(n.op_type(), n, kOverloadOfNode);
    out.domain = domain(n.domain());
    out.name = n.name();
    out.inputs.assign(n.input().begin(), n.input().end());
    out.outputs.assign(n.output().begin(), n.output().end());
    for (auto& a : *n.mutable_attribute()) attribute(a, fmt::format("{} ({})", where, n.op_type()), out);
    return out;
  }

  void attribute(onnx::AttributeProto& a, const std::string& node, ModelNode& out) const {
    const std::string where = fmt::format("{}: attribute `{}`", node, a.name());
    if (a.name().empty()) fail(node + ": an attribute has no name");
    if (out.attrs.count(a.name()) || out.refused_attrs.count(a.name()) || out.graphs.count(a.name()) ||
        out.attr_refs.count(a.name()))
      fail(where + " is given twice");
    if (!a.ref_attr_name().empty()) {
      out.attr_refs[a.name()] = a.ref_attr_name();
      return;
    }
    if (a.type() == onnx::AttributeProto::GRAPH) {
      out.graphs[a.name()] = std::make_shared<ModelGraph>(graph(*a.mutable_g(), node + ": "));
      return;
    }
    if (a.type() == onnx::AttributeProto::TENSOR && !refused_type(a.t().data_type()).empty()) {
      out.refused_attrs[a.name()] = refused_type(a.t().data_type());
      if (narrow_name(a.t().data_type()).empty()) return;
    }
    AttrValue& v = out.attrs[a.name()];
    switch (a.type()) {
      case onnx::AttributeProto::INT:
        v = int64_t{a.i()};
        return;
      case onnx::AttributeProto::FLOAT:
        v = static_cast<double>(a.f());
        return;
      case onnx::AttributeProto::STRING:
        v = a.s();
        return;
      case onnx::AttributeProto::TENSOR:
        v = tensor(*a.mutable_t(), where);
        return;
      case onnx::AttributeProto::INTS:
        v = std::vector<int64_t>(a.ints().begin(), a.ints().end());
        return;
      case onnx::AttributeProto::FLOATS:
        v = std::vector<double>(a.floats().begin(), a.floats().end());
        return;
      case onnx::AttributeProto::STRINGS:
        v = std::vector<std::string>(a.strings().begin(), a.strings().end());
        return;
      default:
        break;
    }
    out.attrs.erase(a.name());
    if (a.type() == onnx::AttributeProto::UNDEFINED) fail(where + " says no type (missing field `type`)");
    out.refused_attrs[a.name()] = "of type " + onnx::AttributeProto::AttributeType_Name(a.type());
  }

  // Leaves nothing of the data in the message.
  Tensor tensor(onnx::TensorProto& t, const std::string& where) const {
    Tensor out = copied(t, where);
    onnx::TensorProto().Swap(&t);
    return out;
  }

  Tensor copied(const onnx::TensorProto& t, const std::string& where) const {
    if (t.has_segment()) fail(where + " is cut into segments, which isn't supported");
    if (!narrow_name(t.data_type()).empty()) return narrow_tensor(t, where);
    const DType type = *dtype_from_onnx(t.data_type());
    const std::vector<int64_t> shape(t.dims().begin(), t.dims().end());
    if (t.data_location() == onnx::TensorProto::EXTERNAL) return external(t, type, shape, where);
    if (t.has_raw_data()) return tensor_from_bytes(file_, where, type, shape, t.raw_data());
    switch (type) {
      case DType::f32:
        return typed(where, type, shape, t.float_data());
      case DType::f64:
        return typed(where, type, shape, t.double_data());
      case DType::i64:
        return typed(where, type, shape, t.int64_data());
      case DType::u64:
      case DType::u32:
        return typed(where, type, shape, t.uint64_data());
      default:
        return typed(where, type, shape, t.int32_data());  // the halves as their bits
    }
  }

  template <class Data>
  Tensor typed(const std::string& where, DType type, const std::vector<int64_t>& shape,
               const Data& data) const {
    const int64_t want = checked_size(file_, where, type, shape);
    if (data.size() != want)
      fail(fmt::format("{} is {}: {} elements are given, {} needs {}", where,
                       data.size() < want ? "short" : "over-long", data.size(), to_string(type, shape),
                       want));
    Tensor out(type, shape);
    if (type == DType::f16 || type == DType::bf16) {
      for (int i = 0; i < data.size(); ++i)
        out.as<uint16_t>()[static_cast<size_t>(i)] = static_cast<uint16_t>(data[i]);
    } else {
      for (int i = 0; i < data.size(); ++i) {
        if constexpr (std::is_integral_v<std::decay_t<decltype(data[0])>>)
          out.set_int(i, data[i]);
        else
          out.set(i, data[i]);
      }
    }
    return out;
  }

  struct ExternalData {
    std::string location;
    int64_t offset = 0;
    std::optional<int64_t> length;
  };
  ExternalData external_data(const onnx::TensorProto& t, const std::string& where) const {
    ExternalData out;
    for (const auto& e : t.external_data()) {
      if (e.key() == "location") out.location = e.value();
      if (e.key() == "offset") out.offset = number(e.value(), where);
      if (e.key() == "length") out.length = number(e.value(), where);
    }
    if (out.location.empty()) fail(where + " is external but says no `location`");
    return out;
  }

  Tensor external(const onnx::TensorProto& t, DType type, const std::vector<int64_t>& shape,
                  const std::string& where) const {
    const auto [location, offset, length] = external_data(t, where);
    const int64_t want = checked_size(file_, where, type, shape) * bytes_of(type);
    if (length && *length != want)
      fail(fmt::format("{} is {}: its external data has {} bytes, {} needs {}", where,
                       *length < want ? "short" : "over-long", *length, to_string(type, shape), want));
    return tensor_from_bytes(file_, where, type, shape, external_bytes(location, offset, length, where));
  }

  std::string external_bytes(const std::string& location, int64_t offset, std::optional<int64_t> length,
                             const std::string& where) const {
    const std::string path = resolve_beside(file_, location);
    try {
      return read_range(path, offset, length);
    } catch (const UserError& e) {
      fail(fmt::format("{}: external data '{}': {}", where, location, e.diagnostic().message));
    }
  }

  int64_t number(const std::string& text, const std::string& where) const {
    int64_t out = 0;
    for (char c : text)
      if (c < '0' || c > '9' || __builtin_mul_overflow(out, 10, &out) ||
          __builtin_add_overflow(out, c - '0', &out))
        fail(fmt::format("{}: '{}' in its external data is not a byte count", where, text));
    return out;
  }

  const std::string& file_;
  onnx::ModelProto& proto_;
};

}  // namespace

Model read_onnx_binary(const std::string& path, std::istream& in) {
  if (std::filesystem::file_size(path) > static_cast<size_t>(std::numeric_limits<int>::max()))
    file_error(path, "larger than protobuf's limit of 2 GB", "store the weights as external data");
  onnx::ModelProto proto;
  if (!proto.ParseFromIstream(&in))
    file_error(path, "not an ONNX model, or a truncated one: its protobuf can't be parsed",
               "a model is an .onnx, a .json or a .nest file");
  escape_bad_text(proto);
  return OnnxReader(path, proto).read();
}

namespace {

void parse_json_form(const std::string& path, std::string_view text, google::protobuf::Message* to) {
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), to);
  if (status.ok()) return;
  std::string why(status.message().data(), status.message().size());
  if (why.size() > 240) why.replace(120, why.size() - 200, " ... ");  // it quotes whole tensors
  file_error(path, "not ONNX's JSON form: " + why);
}

}  // namespace

Model read_onnx_json(const std::string& path, std::string_view text, Json document) {
  const NewerFields newer = take_newer_fields(document);
  onnx::ModelProto proto;
  parse_json_form(path, newer.any ? document.dump() : text, &proto);
  document = {};
  for (const auto& [function, defaults] : newer.defaults)
    for (const std::string& json : defaults) {
      onnx::AttributeProto a;
      parse_json_form(path, json, &a);
      proto.mutable_functions(function)->mutable_unknown_fields()->AddLengthDelimited(kDefaultsOfFunction,
                                                                                      a.SerializeAsString());
    }
  return OnnxReader(path, proto).read();
}

}  // namespace nestor

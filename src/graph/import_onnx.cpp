// ONNX: the protobuf message to a Model. The binary file and protobuf's JSON mapping both come through here;
// protobuf itself reads the mapping, so that whatever its Python twin prints is understood. libonnx's checker
// and shape inference aren't used: they don't know newer opsets.
#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <onnx/onnx_pb.h>

#include <limits>

#include "src/graph/import.h"
#include "src/graph/text_fields.h"

namespace nestor {

namespace {

class OnnxReader {
 public:
  OnnxReader(const std::string& file, const onnx::ModelProto& proto) : file_(file), proto_(proto) {}

  Model read() {
    if (!proto_.has_graph()) fail("the model has no graph (missing field `graph`)");
    const onnx::GraphProto& g = proto_.graph();
    Model m;
    m.file = file_;
    m.name = g.name();
    for (const auto& o : proto_.opset_import()) m.opsets[domain(o.domain())] = o.version();
    if (m.opsets.empty()) {
      if (proto_.ir_version() >= 3) fail("the model says no opset (missing field `opset_import`)");
      m.opsets[""] = 1;  // before IR version 3 there was one opset
    }
    for (const auto& v : g.input()) m.inputs.push_back(value(v, "input"));
    for (const auto& v : g.output()) m.outputs.push_back(value(v, "output"));
    for (const auto& t : g.initializer()) {
      if (t.name().empty()) fail("an initializer has no name");
      m.initializers.emplace_back(t.name(), tensor(t, fmt::format("initializer '{}'", t.name())));
    }
    if (g.sparse_initializer_size() > 0)
      fail(fmt::format("sparse initializers aren't supported ('{}')",
                       g.sparse_initializer(0).values().name()));
    for (int i = 0; i < g.node_size(); ++i) m.nodes.push_back(node(g.node(i), i));
    return m;
  }

 private:
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const {
    file_error(file_, message, hint);
  }
  static std::string domain(const std::string& d) { return d == "ai.onnx" ? "" : d; }

  DType dtype(int code, const std::string& where) const {
    if (const auto t = dtype_from_onnx(code)) return *t;
    fail(fmt::format("{} has element type {}, which isn't supported", where, onnx_dtype_name(code)),
         "double, float, float16, bfloat16, int64, int32, int16, int8, uint8 and bool are");
  }

  ModelValue value(const onnx::ValueInfoProto& v, const char* kind) const {
    if (v.name().empty()) fail(fmt::format("an {} has no name", kind));
    ModelValue out;
    out.name = v.name();
    const std::string where = fmt::format("{} '{}'", kind, v.name());
    if (!v.has_type() || v.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) {
      out.typed = out.ranked = false;
      return out;
    }
    if (!v.type().has_tensor_type())
      fail(where + " is not a tensor (sequences, maps and optionals aren't supported)");
    const auto& t = v.type().tensor_type();
    out.dtype = dtype(t.elem_type(), where);
    out.ranked = t.has_shape();
    for (const auto& d : t.shape().dim()) {
      ModelDim dim;
      if (d.has_dim_value()) dim.value = d.dim_value();
      dim.name = d.dim_param();
      out.shape.push_back(dim);
    }
    return out;
  }

  ModelNode node(const onnx::NodeProto& n, int index) const {
    std::string where = fmt::format("node {}", index);
    if (!n.name().empty()) where += fmt::format(" '{}'", n.name());
    if (n.op_type().empty()) fail(where + " has no operator (missing field `op_type`)");
    ModelNode out;
    out.op = n.op_type();
    out.domain = domain(n.domain());
    out.name = n.name();
    out.inputs.assign(n.input().begin(), n.input().end());
    out.outputs.assign(n.output().begin(), n.output().end());
    for (const auto& a : n.attribute()) attribute(a, fmt::format("{} ({})", where, n.op_type()), out);
    return out;
  }

  void attribute(const onnx::AttributeProto& a, const std::string& node, ModelNode& out) const {
    const std::string where = fmt::format("{}: attribute `{}`", node, a.name());
    if (a.name().empty()) fail(node + ": an attribute has no name");
    if (out.attrs.count(a.name()) || out.refused_attrs.count(a.name())) fail(where + " is given twice");
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
        v = tensor(a.t(), where);
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
    if (a.type() == onnx::AttributeProto::GRAPH || a.type() == onnx::AttributeProto::GRAPHS)
      out.refused_attrs[a.name()] = "subgraph";
    else if (a.type() == onnx::AttributeProto::UNDEFINED)
      fail(where + " says no type (missing field `type`)");
    else
      out.refused_attrs[a.name()] = onnx::AttributeProto::AttributeType_Name(a.type());
  }

  Tensor tensor(const onnx::TensorProto& t, const std::string& where) const {
    const DType type = dtype(t.data_type(), where);
    const std::vector<int64_t> shape(t.dims().begin(), t.dims().end());
    if (t.has_segment()) fail(where + " is cut into segments, which isn't supported");
    if (t.data_location() == onnx::TensorProto::EXTERNAL) return external(t, type, shape, where);
    if (t.has_raw_data()) return tensor_from_bytes(file_, where, type, shape, t.raw_data());
    switch (type) {
      case DType::f32:
        return typed(where, type, shape, t.float_data());
      case DType::f64:
        return typed(where, type, shape, t.double_data());
      case DType::i64:
        return typed(where, type, shape, t.int64_data());
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

  Tensor external(const onnx::TensorProto& t, DType type, const std::vector<int64_t>& shape,
                  const std::string& where) const {
    std::string location;
    int64_t offset = 0;
    std::optional<int64_t> length;
    for (const auto& e : t.external_data()) {
      if (e.key() == "location") location = e.value();
      if (e.key() == "offset") offset = number(e.value(), where);
      if (e.key() == "length") length = number(e.value(), where);
    }
    if (location.empty()) fail(where + " is external but says no `location`");
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
  const onnx::ModelProto& proto_;
};

}  // namespace

Model read_onnx_binary(const std::string& path, std::string_view bytes) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    file_error(path, "larger than protobuf's limit of 2 GB", "store the weights as external data");
  onnx::ModelProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    file_error(path, "not an ONNX model, or a truncated one: its protobuf can't be parsed");
  escape_bad_text(proto);
  return OnnxReader(path, proto).read();
}

Model read_onnx_json(const std::string& path, std::string_view text) {
  onnx::ModelProto proto;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &proto);
  if (status.ok()) return OnnxReader(path, proto).read();
  std::string why(status.message().data(), status.message().size());
  if (why.size() > 240) why.replace(120, why.size() - 200, " ... ");  // it quotes whole tensors
  file_error(path, "not ONNX's JSON form: " + why);
}

}  // namespace nestor

// ONNX files and ONNX's JSON mapping: the same message in two clothes, so each case is read in both.
#include <google/protobuf/util/json_util.h>
#include <onnx/onnx_pb.h>

#include "catch.h"
#include "nestor/graph.h"
#include "nestor/half.h"
#include "tests/graph/files.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

onnx::ModelProto minimal() {
  onnx::ModelProto m;
  m.set_ir_version(8);
  m.add_opset_import()->set_version(17);
  auto* g = m.mutable_graph();
  g->set_name("net");
  auto* x = g->add_input();
  x->set_name("x");
  auto* t = x->mutable_type()->mutable_tensor_type();
  t->set_elem_type(1);
  t->mutable_shape()->add_dim()->set_dim_value(2);
  t->mutable_shape()->add_dim()->set_dim_param("N");
  t->mutable_shape()->add_dim();
  g->add_output()->set_name("y");
  auto* n = g->add_node();
  n->set_op_type("Relu");
  n->set_name("r");
  n->add_input("x");
  n->add_output("y");
  return m;
}

Model read_binary(const Folder& folder, const onnx::ModelProto& m) {
  return read_model(folder.write("m.onnx", m.SerializeAsString()));
}
Model read_json(const Folder& folder, const onnx::ModelProto& m) {
  std::string text;
  REQUIRE(google::protobuf::util::MessageToJsonString(m, &text).ok());
  return read_model(folder.write("m.json", text));
}
std::string error(const onnx::ModelProto& m) {
  const Folder folder;
  const std::string binary = error_of([&] { read_binary(folder, m); });
  const std::string json = error_of([&] { read_json(folder, m); });
  CHECK(binary.substr(binary.find(": error")) == json.substr(json.find(": error")));
  return binary;
}

onnx::AttributeProto* attribute(onnx::ModelProto& m, const std::string& name,
                                onnx::AttributeProto::AttributeType type) {
  auto* a = m.mutable_graph()->mutable_node(0)->add_attribute();
  a->set_name(name);
  a->set_type(type);
  return a;
}
onnx::TensorProto* weight(onnx::ModelProto& m, const std::string& name, int type, int64_t size) {
  auto* t = m.mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(type);
  t->add_dims(size);
  return t;
}

}  // namespace

TEST_CASE("An ONNX model is read from its binary and its JSON form alike") {
  onnx::ModelProto m = minimal();
  attribute(m, "i", onnx::AttributeProto::INT)->set_i(int64_t{1} << 60);
  attribute(m, "f", onnx::AttributeProto::FLOAT)->set_f(0.1f);
  attribute(m, "s", onnx::AttributeProto::STRING)->set_s("text");
  attribute(m, "is", onnx::AttributeProto::INTS)->add_ints(-3);
  attribute(m, "fs", onnx::AttributeProto::FLOATS)->add_floats(1.5f);
  attribute(m, "ss", onnx::AttributeProto::STRINGS)->add_strings("a");
  attribute(m, "body", onnx::AttributeProto::GRAPH)->mutable_g()->set_name("inner");
  auto* t = attribute(m, "t", onnx::AttributeProto::TENSOR)->mutable_t();
  t->set_data_type(7);
  t->add_int64_data(42);

  const Folder folder;
  for (const Model& r : {read_binary(folder, m), read_json(folder, m)}) {
    CHECK(r.name == "net");
    CHECK(r.opsets.at("") == 17);
    CHECK(r.inputs[0].shape[0].value == 2);
    CHECK(r.inputs[0].shape[1].name == "N");
    CHECK((!r.inputs[0].shape[2].value && r.inputs[0].shape[2].name.empty()));
    CHECK_FALSE(r.outputs[0].typed);
    const ModelNode& n = r.nodes.at(0);
    CHECK((n.op == "Relu" && n.name == "r" && n.inputs[0] == "x" && n.outputs[0] == "y"));
    CHECK(std::get<int64_t>(n.attrs.at("i")) == int64_t{1} << 60);
    CHECK(std::get<double>(n.attrs.at("f")) == 0.1f);
    CHECK(std::get<std::string>(n.attrs.at("s")) == "text");
    CHECK(std::get<std::vector<int64_t>>(n.attrs.at("is")).at(0) == -3);
    CHECK(std::get<std::vector<double>>(n.attrs.at("fs")).at(0) == 1.5);
    CHECK(std::get<std::vector<std::string>>(n.attrs.at("ss")).at(0) == "a");
    CHECK(std::get<Tensor>(n.attrs.at("t")).get_int(0) == 42);
    CHECK(n.graphs.at("body")->name == "inner");
  }
}

TEST_CASE("Typed fields and raw data of every element type") {
  onnx::ModelProto m = minimal();
  weight(m, "f32", 1, 1)->add_float_data(1.5f);
  weight(m, "f64", 11, 1)->add_double_data(2.5);
  weight(m, "f16", 10, 1)->add_int32_data(to_f16(-0.5));
  weight(m, "bf16", 16, 1)->add_int32_data(to_bf16(3));
  weight(m, "i64", 7, 1)->add_int64_data(INT64_MIN);
  weight(m, "i32", 6, 1)->add_int32_data(-7);
  weight(m, "i16", 5, 1)->add_int32_data(-8);
  weight(m, "i8", 3, 1)->add_int32_data(-9);
  weight(m, "u8", 2, 1)->add_int32_data(255);
  weight(m, "u16", 4, 1)->add_int32_data(65535);
  weight(m, "u32", 12, 1)->add_uint64_data(UINT32_MAX);
  weight(m, "u64", 13, 1)->add_uint64_data(UINT64_MAX);
  weight(m, "bool", 9, 1)->add_int32_data(1);
  weight(m, "raw16", 10, 1)->set_raw_data(std::string("\x00\x3c", 2));
  weight(m, "rawbool", 9, 2)->set_raw_data(std::string("\x00\x05", 2));
  weight(m, "none", 1, 0);
  const Folder folder;
  for (const Model& r : {read_binary(folder, m), read_json(folder, m)}) {
    std::map<std::string, Tensor> w(r.initializers.begin(), r.initializers.end());
    for (DType t : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16,
                    DType::i8, DType::u64, DType::u32, DType::u16, DType::u8, DType::boolean})
      CHECK(w.at(std::string(name_of(t))).dtype() == t);
    CHECK(w.at("f32").get(0) == 1.5);
    CHECK(w.at("f64").get(0) == 2.5);
    CHECK(w.at("f16").get(0) == -0.5);
    CHECK(w.at("bf16").get(0) == 3);
    CHECK(w.at("i64").get_int(0) == INT64_MIN);
    CHECK(w.at("i32").get_int(0) == -7);
    CHECK(w.at("i16").get_int(0) == -8);
    CHECK(w.at("i8").get_int(0) == -9);
    CHECK(w.at("u8").get_int(0) == 255);
    CHECK(w.at("u16").get_int(0) == 65535);
    CHECK(w.at("u32").get_int(0) == UINT32_MAX);
    CHECK(w.at("u64").get(0) == 0x1p64);
    CHECK(w.at("bool").get_int(0) == 1);
    CHECK(w.at("raw16").get(0) == 1);
    CHECK(w.at("rawbool").as<uint8_t>()[1] == 1);
    CHECK(w.at("none").size() == 0);
  }
}

TEST_CASE("Weights of 2 and 4 bits are unpacked where only DequantizeLinear reads them") {
  onnx::ModelProto m = minimal();
  auto* scale = weight(m, "scale", 1, 1);
  scale->clear_dims();
  scale->add_float_data(0.5f);
  weight(m, "i4", 22, 3)->set_raw_data(std::string("\x8f\x07", 2));  // -1 -8 7
  weight(m, "u4", 21, 3)->add_int32_data(0x2f);
  m.mutable_graph()->mutable_initializer(2)->add_int32_data(1);      // 15 2 1
  weight(m, "i2", 26, 5)->set_raw_data(std::string("\xe4\x02", 2));  // 0 1 -2 -1 -2
  for (const char* of : {"i4", "u4", "i2"}) {
    auto* n = m.mutable_graph()->add_node();
    n->set_op_type("DequantizeLinear");
    n->add_input(of);
    n->add_input("scale");
    n->add_output(std::string("real_") + of);
  }
  const Folder folder;
  const auto values = [](const Tensor& t) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < t.size(); ++i) out.push_back(t.get_int(i));
    return out;
  };
  for (const Model& r : {read_binary(folder, m), read_json(folder, m)}) {
    std::map<std::string, Tensor> w(r.initializers.begin(), r.initializers.end());
    CHECK(w.at("i4").dtype() == DType::i8);
    CHECK(w.at("u4").dtype() == DType::u8);
    CHECK(values(w.at("i4")) == std::vector<int64_t>{-1, -8, 7});
    CHECK(values(w.at("u4")) == std::vector<int64_t>{15, 2, 1});
    CHECK(values(w.at("i2")) == std::vector<int64_t>{0, 1, -2, -1, -2});
  }
  m.mutable_graph()->mutable_node(1)->set_op_type("QuantizeLinear");
  CHECK_THROWS_WITH(read_binary(folder, m),
                    Catch::Contains("`i4`, a tensor of int4, which isn't supported there"));
}

TEST_CASE("External data is read beside the model and nowhere else") {
  const Folder folder;
  folder.write("w.data", std::string("\1\0\0\0\2\0\0\0\3\0\0\0", 12));
  folder.write("secret", "1234");
  const auto model = [](const std::string& location, const std::string& offset, const std::string& length) {
    onnx::ModelProto m = minimal();
    auto* t = weight(m, "W", 6, 2);
    t->set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair("location", location), {"offset", offset}, {"length", length}})
      if (!value.empty()) {
        auto* e = t->add_external_data();
        e->set_key(key);
        e->set_value(value);
      }
    return m;
  };
  CHECK(read_binary(folder, model("w.data", "4", "8")).initializers[0].second.get_int(0) == 2);
  CHECK(read_json(folder, model("w.data", "4", "")).initializers[0].second.get_int(1) == 3);
  const auto refused = [&](const onnx::ModelProto& m) { return error_of([&] { read_binary(folder, m); }); };
  CHECK_THAT(refused(model("w.data", "", "")),
             ContainsSubstring("initializer 'W'") && ContainsSubstring("over-long"));
  CHECK_THAT(refused(model("w.data", "8", "")), ContainsSubstring("short"));
  CHECK_THAT(refused(model("w.data", "8", "8")),
             ContainsSubstring("initializer 'W'") && ContainsSubstring("too short"));
  CHECK_THAT(refused(model("w.data", "0", "12")), ContainsSubstring("over-long"));
  CHECK_THAT(refused(model("none.data", "", "")), ContainsSubstring("doesn't exist"));
  CHECK_THAT(refused(model("w.data", "x", "")), ContainsSubstring("'x'"));
  CHECK_THAT(refused(model("", "", "")), ContainsSubstring("`location`"));
  CHECK_THAT(refused(model("sub/../../m", "", "")), ContainsSubstring("outside the model's folder"));
  CHECK_THAT(refused(model("/etc/passwd", "", "")), ContainsSubstring("outside the model's folder"));

  // A link that leads out is a way out as well.
  const std::filesystem::path inner = folder / "inner";
  std::filesystem::create_directory(inner);
  std::filesystem::create_symlink(folder / "w.data", inner / "w.data");
  std::ofstream(inner / "m.onnx", std::ios::binary) << model("w.data", "4", "8").SerializeAsString();
  CHECK_THAT(error_of([&] { read_model(inner / "m.onnx"); }),
             ContainsSubstring("outside the model's folder"));
}

TEST_CASE("What is wrong with an ONNX file is named") {
  const auto changed = [](auto&& change) {
    onnx::ModelProto m = minimal();
    change(m);
    return error(m);
  };
  CHECK_THAT(changed([](auto& m) {
               m.clear_graph();
               m.mutable_graph();
               m.mutable_graph()->add_node();
               m.clear_opset_import();
             }),
             ContainsSubstring("`opset_import`"));
  CHECK_THAT(changed([](auto& m) { m.mutable_graph()->mutable_node(0)->clear_op_type(); }),
             ContainsSubstring("node 0 'r'") && ContainsSubstring("`op_type`"));
  CHECK_THAT(changed([](auto& m) { attribute(m, "a", onnx::AttributeProto::UNDEFINED); }),
             ContainsSubstring("node 0 'r' (Relu): attribute `a`"));
  CHECK_THAT(changed([](auto& m) {
               attribute(m, "a", onnx::AttributeProto::INT);
               attribute(m, "a", onnx::AttributeProto::INT);
             }),
             ContainsSubstring("given twice"));
  CHECK_THAT(changed([](auto& m) { weight(m, "W", 1, 2)->add_float_data(1); }),
             ContainsSubstring("initializer 'W' is short"));
  CHECK_THAT(changed([](auto& m) { weight(m, "W", 1, 2)->set_raw_data(std::string(12, '\0')); }),
             ContainsSubstring("initializer 'W' is over-long"));
  CHECK_THAT(changed([](auto& m) { weight(m, "W", 1, 2); }), ContainsSubstring("initializer 'W' is short"));
  CHECK_THAT(changed([](auto& m) { weight(m, "W", 1, -2); }), ContainsSubstring("negative dimension -2"));
  CHECK_THAT(changed([](auto& m) { weight(m, "W", 1, INT64_MAX); }), ContainsSubstring("too large"));

  const Folder folder;
  const std::string bytes = minimal().SerializeAsString();
  CHECK_THAT(error_of([&] { read_model(folder.write("m.onnx", bytes.substr(0, bytes.size() - 3))); }),
             ContainsSubstring("truncated"));
  CHECK_THAT(error_of([&] { read_model(folder.write("m.onnx", "hello, world")); }),
             ContainsSubstring("not an ONNX model"));
  CHECK_THAT(error_of([&] { read_model(folder.write("m.json", R"({"graph": {"node": [{"opType": 7}]}})")); }),
             ContainsSubstring("opType") || ContainsSubstring("op_type"));
  CHECK_THAT(error_of([&] { read_model(folder.write("m.json", R"({"graph": {"nodes": []}})")); }),
             ContainsSubstring("nodes"));
}

TEST_CASE("The example model reads the same from both of its files") {
  const std::string stem = std::string(NESTOR_SOURCE_DIR) + "/examples/digits/digits";
  const Model a = read_model(stem + ".json"), b = read_model(stem + ".onnx");
  REQUIRE(a.nodes.size() == b.nodes.size());
  REQUIRE(a.initializers.size() == b.initializers.size());
  for (size_t i = 0; i < a.initializers.size(); ++i) {
    CHECK(a.initializers[i].first == b.initializers[i].first);
    const Tensor &x = a.initializers[i].second, &y = b.initializers[i].second;
    REQUIRE(x.bytes() == y.bytes());
    CHECK(std::equal(static_cast<const char*>(x.data()), static_cast<const char*>(x.data()) + x.bytes(),
                     static_cast<const char*>(y.data())));
  }
}

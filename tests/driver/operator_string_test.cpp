#include "catch.h"
#include "nestor/driver.h"

using namespace nestor;

namespace {

std::string error_of(const std::string& text) {
  try {
    parse_operator(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an operator string is a model of one node") {
  const Model m = parse_operator(
      "Conv(f32[1,64,56,56], const f32[64,64,3,3]; pads=[1,1,1,1], group=1, auto_pad='NOTSET', alpha=0.5)");
  REQUIRE(m.nodes.size() == 1);
  const ModelNode& n = m.nodes[0];
  CHECK(n.op == "Conv");
  CHECK(n.domain.empty());
  CHECK(n.inputs == std::vector<std::string>{"x0", "x1"});
  CHECK(n.outputs == std::vector<std::string>{"y"});
  CHECK(std::get<std::vector<int64_t>>(n.attrs.at("pads")) == std::vector<int64_t>{1, 1, 1, 1});
  CHECK(std::get<int64_t>(n.attrs.at("group")) == 1);
  CHECK(std::get<std::string>(n.attrs.at("auto_pad")) == "NOTSET");
  CHECK(std::get<double>(n.attrs.at("alpha")) == 0.5);
  REQUIRE(m.inputs.size() == 1);
  CHECK(m.inputs[0].shape[1].value == 64);
  REQUIRE(m.initializers.size() == 1);
  CHECK(m.initializers[0].second.shape() == std::vector<int64_t>{64, 64, 3, 3});
}

TEST_CASE("constants come from the seed, literals as written, omitted inputs stay empty") {
  const auto first = [](const Model& m) { return m.initializers.at(0).second.get(0); };
  CHECK(first(parse_operator("Relu(const f32[4])", 1)) == first(parse_operator("Relu(const f32[4])", 1)));
  CHECK(first(parse_operator("Relu(const f32[4])", 1)) != first(parse_operator("Relu(const f32[4])", 2)));
  const Model m = parse_operator("Resize@13(f32[2,3], _, i64[2]{3,-4}) -> 2");
  CHECK(m.nodes[0].inputs == std::vector<std::string>{"x0", "", "x2"});
  CHECK(m.nodes[0].outputs == std::vector<std::string>{"y0", "y1"});
  CHECK(m.initializers[0].second.get_int(1) == -4);
  CHECK(m.opsets.at("") == 13);
  CHECK(parse_operator("my.ops.Twice(f32[])").nodes[0].domain == "my.ops");
}

TEST_CASE("mistakes in an operator string are underlined") {
  CHECK_THAT(error_of("Relu(f33[4])"), Catch::Matchers::ContainsSubstring("'f33' isn't an element type") &&
                                           Catch::Matchers::ContainsSubstring("\n  Relu(f33[4])\n       ^") &&
                                           Catch::Matchers::ContainsSubstring("f32"));
  CHECK_THAT(error_of("Relu(f32[-4])"), Catch::Matchers::ContainsSubstring("can't be negative"));
  CHECK_THAT(error_of("Relu(f32[99999999999999999999])"),
             Catch::Matchers::ContainsSubstring("doesn't fit 64 bits"));
  CHECK_THAT(error_of("Relu(f32[4]"), Catch::Matchers::ContainsSubstring("expected"));
  CHECK_THAT(error_of("Relu(f32[4]; a=1, a=2)"), Catch::Matchers::ContainsSubstring("given twice"));
  CHECK_THAT(error_of("Relu(f32[4]) junk"), Catch::Matchers::ContainsSubstring("nothing may follow"));
  CHECK_THAT(error_of("Relu(i64[2]{1})"), Catch::Matchers::ContainsSubstring("has 2 elements, given are 1"));
  for (const char* text : {"Relu(i64[1]{1e30})", "Relu(i8[1]{300})", "Relu(u8[1]{-1})", "Relu(i32[1]{0.5})",
                           "Relu(i64[1]{nan})", "Relu(bool[1]{2})"})
    CHECK_THAT(error_of(text), Catch::Matchers::ContainsSubstring("doesn't fit"));
  for (const char* text : {"Relu(i64[4611686018427387904]{1,3})", "Relu(i64[4294967296,4294967296]{1})"})
    CHECK_THAT(error_of(text), Catch::Matchers::ContainsSubstring(" elements, given are "));
  CHECK_THAT(error_of("Relu(f32[4]; a=[1,'x'])"),
             Catch::Matchers::ContainsSubstring("numbers or of strings"));
}

TEST_CASE("paths are not taken for operators") {
  CHECK(looks_like_operator("MatMul(f32[2,2], f32[2,2])"));
  CHECK_FALSE(looks_like_operator("models/net.onnx"));
  CHECK_FALSE(looks_like_operator("models/net(1).onnx"));
  CHECK_FALSE(looks_like_operator("net.json"));
}

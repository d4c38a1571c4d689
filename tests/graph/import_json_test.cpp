// The JSON shorthand and what is wrong with bad files.
#include "catch.h"
#include "nestor/graph.h"
#include "nestor/npz.h"
#include "tests/graph/files.h"

using namespace nestor;
using Catch::Matchers::ContainsSubstring;

namespace {

Model read(const std::string& text) {
  const Folder folder;
  return read_model(folder.write("m.json", text));
}
std::string error(const std::string& text) {
  return error_of([&] { read(text); });
}
// A model of one weight.
std::string with_weight(const std::string& weight) {
  return R"({"opset": 17, "inputs": [], "outputs": ["W"], "nodes": [], "weights": {"W": )" + weight + "}}";
}
// A model of one node.
std::string with_node(const std::string& node) {
  return R"({"opset": 17, "inputs": ["x"], "outputs": ["y"], "nodes": [)" + node + "]}";
}

}  // namespace

TEST_CASE("The shorthand says all a model can say") {
  const Model m = read(R"({
    "name": "net", "opset": 17,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, "N", null]}],
    "outputs": ["y", {"name": "z", "dtype": "i64", "shape": []}],
    "nodes": [
      {"op": "Conv", "name": "c", "inputs": ["x", "W", ""], "outputs": ["y"],
       "attrs": {"pads": [1, 1], "alpha": 0.5, "beta": 2, "auto_pad": "SAME_UPPER", "keep": true, "f": [1, 2.5],
                 "s": ["a", "b"], "t": {"dtype": "i32", "shape": [2], "data": [3, -4]}}},
      {"op": "Cast", "inputs": ["y"], "outputs": ["z"], "attrs": {"to": "i64"}},
      {"op": "Mine", "domain": "my.ops", "outputs": ["q"]}
    ],
    "weights": {"W": {"dtype": "f16", "shape": [2, 2], "data": [[1, 2], [3.5, "nan"]]}}})");
  CHECK(m.name == "net");
  CHECK(m.opsets.at("") == 17);
  REQUIRE(m.inputs.size() == 1);
  CHECK(m.inputs[0].shape[0].value == 1);
  CHECK(m.inputs[0].shape[1].name == "N");
  CHECK_FALSE(m.inputs[0].shape[2].value);
  CHECK_FALSE(m.outputs[0].typed);
  CHECK((m.outputs[1].typed && m.outputs[1].dtype == DType::i64 && m.outputs[1].ranked));
  const Attrs& a = m.nodes[0].attrs;
  CHECK(std::get<std::vector<int64_t>>(a.at("pads")) == std::vector<int64_t>{1, 1});
  CHECK(std::get<double>(a.at("alpha")) == 0.5);
  CHECK(std::get<int64_t>(a.at("beta")) == 2);
  CHECK(std::get<std::string>(a.at("auto_pad")) == "SAME_UPPER");
  CHECK(std::get<int64_t>(a.at("keep")) == 1);
  CHECK(std::get<std::vector<double>>(a.at("f")) == std::vector<double>{1, 2.5});
  CHECK(std::get<std::vector<std::string>>(a.at("s")).size() == 2);
  CHECK(std::get<Tensor>(a.at("t")).get_int(1) == -4);
  CHECK(std::get<std::string>(m.nodes[1].attrs.at("to")) == "i64");
  CHECK(m.nodes[2].domain == "my.ops");
  CHECK(m.nodes[0].inputs == std::vector<std::string>{"x", "W", ""});
  const Tensor& w = m.initializers.at(0).second;
  CHECK((w.dtype() == DType::f16 && w.get(2) == 3.5 && w.get(3) != w.get(3)));
}

TEST_CASE("An attribute may be a graph, in a graph") {
  const auto of = [](const std::string& inner) {
    return with_node(R"({"op": "If", "inputs": ["x"], "outputs": ["y"], "attrs": {"keep": 1, "then_branch": {
      "name": "t", "inputs": [], "outputs": [{"name": "z", "dtype": "f32", "shape": [2]}], "nodes": [])" +
                     inner + "}}}");
  };
  const Model m = read(of(R"(, "weights": {"z": {"dtype": "f32", "shape": [2], "data": [1, 2]}})"));
  const ModelGraph& g = *m.nodes.at(0).graphs.at("then_branch");
  CHECK((g.name == "t" && g.outputs.at(0).name == "z" && g.initializers.at(0).second.get(1) == 2));
  CHECK(m.nodes[0].attrs.count("keep") == 1);
  const std::string at = "nodes[0] (If).attrs.then_branch";
  CHECK_THAT(error(of(R"(, "opset": 17)")), ContainsSubstring(at + ": unknown field `opset`"));
  CHECK_THAT(error(of(R"(, "weights": {"z": {"dtype": "f32", "shape": [2], "data": [1]}})")),
             ContainsSubstring(at + ": weight 'z'.data: the data is short"));
}

TEST_CASE("Weights beside the model") {
  const Folder folder;
  write_npz(folder / "w.npz", {{"a", Tensor::random(DType::f32, {2, 3}, 1)}});
  folder.write("w.bin", std::string("\1\0\0\0\2\0\0\0\3\0\0\0", 12));
  const auto load = [&](const std::string& w) {
    return read_model(folder.write("m.json", with_weight(w))).initializers[0].second;
  };
  const auto refused = [&](const std::string& w) { return error_of([&] { load(w); }); };
  CHECK(load(R"({"npz": "w.npz", "key": "a"})").shape() == std::vector<int64_t>{2, 3});
  CHECK(load(R"({"file": "w.bin", "dtype": "i32", "shape": [3]})").get_int(2) == 3);
  CHECK(load(R"({"file": "w.bin", "offset": 4, "dtype": "i32", "shape": [1]})").get_int(0) == 2);

  CHECK_THAT(refused(R"({"npz": "w.npz", "key": "b"})"),
             ContainsSubstring("weight 'W'") && ContainsSubstring("no array 'b'"));
  CHECK_THAT(refused(R"({"npz": "v.npz", "key": "b"})"),
             ContainsSubstring("'v.npz'") && ContainsSubstring("doesn't exist"));
  CHECK_THAT(refused(R"({"npz": "w.npz", "key": "a", "shape": [6]})"), ContainsSubstring("f32[2,3]"));
  CHECK_THAT(refused(R"({"npz": "w.npz", "key": "a", "dtype": "i8"})"),
             ContainsSubstring("f32 instead of i8"));
  CHECK_THAT(refused(R"({"file": "w.bin", "dtype": "i32", "shape": [4]})"), ContainsSubstring("short"));
  CHECK_THAT(refused(R"({"file": "w.bin", "dtype": "i32", "shape": [2]})"), ContainsSubstring("over-long"));
  CHECK_THAT(refused(R"({"file": "w.bin", "offset": 8, "dtype": "i32", "shape": [2]})"),
             ContainsSubstring("short"));
  CHECK_THAT(refused(R"({"file": "../w.bin", "dtype": "i32", "shape": [3]})"),
             ContainsSubstring("outside the model's folder"));
  CHECK_THAT(refused(R"({"file": "/etc/passwd", "dtype": "u8", "shape": [3]})"),
             ContainsSubstring("outside the model's folder"));
  CHECK_THAT(refused(R"({"file": ".", "dtype": "u8", "shape": [3]})"),
             ContainsSubstring("a folder, not a file"));
}

TEST_CASE("Weights in the text") {
  CHECK_THAT(error(with_weight(R"({"dtype": "f32", "shape": [3], "data": [1, 2]})")),
             ContainsSubstring("weight 'W'") && ContainsSubstring("short"));
  CHECK_THAT(error(with_weight(R"({"dtype": "f32", "shape": [1], "data": [1, 2]})")),
             ContainsSubstring("over-long"));
  CHECK_THAT(error(with_weight(R"({"dtype": "f32", "shape": [2, 2], "data": [[1, 2], [3]]})")),
             ContainsSubstring("data[1]"));
  CHECK_THAT(error(with_weight(R"({"dtype": "f32", "shape": [1099511627776], "data": [1]})")),
             ContainsSubstring("short"));
  CHECK_THAT(error(with_weight(R"({"dtype": "f32", "shape": [4611686018427387904, 8], "data": []})")),
             ContainsSubstring("too large"));
  CHECK_THAT(error(with_weight(R"({"dtype": "f32", "shape": [-2], "data": []})")),
             ContainsSubstring("negative dimension -2"));
  CHECK_THAT(error(with_weight(R"({"dtype": "u8", "shape": [1], "data": [256]})")),
             ContainsSubstring("256 doesn't fit u8"));
  CHECK_THAT(error(with_weight(R"({"dtype": "i32", "shape": [1], "data": [1.5]})")),
             ContainsSubstring("expected an integer"));
  CHECK_THAT(error(with_weight(R"({"dtype": "f31", "shape": [1], "data": [1.5]})")),
             ContainsSubstring("'f31'"));
  CHECK_THAT(error(with_weight(R"({"dtype": "f32", "data": [1.5]})")),
             ContainsSubstring("missing field `shape`"));
  CHECK_THAT(error(with_weight("[1, 2]")), ContainsSubstring("weight 'W': expected an object"));
  CHECK(read(with_weight(R"({"dtype": "f32", "shape": [0, 4], "data": []})")).initializers[0].second.size() ==
        0);
}

// These wrote past the tensor: only the first element of each list said how deep it is.
TEST_CASE("Every list of nested data is checked before anything is written") {
  const auto many = [](const std::string& item, int count) {
    std::string out = item;
    for (int i = 1; i < count; ++i) out += ", " + item;
    return out;
  };
  const auto refused = [](const std::string& shape, const std::string& data) {
    const std::string tensor = R"({"dtype": "f32", "shape": )" + shape + R"(, "data": )" + data + "}";
    const std::string of_weight = error(with_weight(tensor));
    CHECK_THAT(of_weight, ContainsSubstring("weight 'W'"));
    CHECK_THAT(
        error(with_node(R"({"op": "Constant", "outputs": ["y"], "attrs": {"value": )" + tensor + "}}")),
        ContainsSubstring("attrs.value"));
    return of_weight;
  };
  const std::string longer = "[" + many("2", 1000) + "]";
  CHECK_THAT(refused("[2]", "[1, " + longer + "]"), ContainsSubstring("data: element 1 is a list"));
  CHECK_THAT(refused("[2]", "[1, [2, 3]]"), ContainsSubstring("data: element 1 is a list"));
  CHECK_THAT(refused("[2]", "[1, []]"), ContainsSubstring("data: element 1 is a list"));
  CHECK_THAT(refused("[2]", "[[1], [2]]"), ContainsSubstring("data: element 0 is a list"));
  CHECK_THAT(refused("[]", "[[1]]"), ContainsSubstring("data: element 0 is a list"));
  CHECK_THAT(refused("[2, 2]", "[[1, 2], [3, " + longer + "]]"),
             ContainsSubstring("data[1]: element 1 is a list"));
  CHECK_THAT(refused("[2, 2]", "[[1, 2], 3]"), ContainsSubstring("data: element 1 isn't a list"));
  CHECK_THAT(refused("[4]", "[1, " + longer + ", 3, 4]"), ContainsSubstring("data: element 1 is a list"));
  CHECK_THAT(refused("[2, 1, 2]", "[[[1, 2]], [[3, 4], [5, 6]]]"),
             ContainsSubstring("data[1]: the data is over-long"));
  CHECK_THAT(refused("[2, 0]", "[[], [1]]"), ContainsSubstring("data[1]: the data is over-long"));
  CHECK(read(with_weight(R"({"dtype": "f32", "shape": [2, 0], "data": [[], []]})")).initializers.size() == 1);
  CHECK(read(with_weight(R"({"dtype": "f32", "shape": [], "data": [1]})")).initializers.size() == 1);
}

TEST_CASE("Deep nesting and many dimensions are refused") {
  const auto times = [](const std::string& s, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += s;
    return out;
  };
  for (const int depth : {101, 200000}) {
    CHECK_THAT(error("{\"nodes\": " + times("[", depth) + times("]", depth) + "}"),
               ContainsSubstring("nested more than 100 deep"));
    CHECK_THAT(error(times("{\"graph\": ", depth) + times("}", depth)),
               ContainsSubstring("nested more than 100 deep"));
    const std::string ones = "[1" + times(", 1", depth) + "]";
    CHECK_THAT(error(with_weight(R"({"dtype": "f32", "shape": )" + ones + R"(, "data": [1]})")),
               ContainsSubstring("dimensions; at most 64 are supported"));
  }
  CHECK_THAT(error(with_weight(R"({"dtype": "f32", "shape": [1], "data": )" + times("[", 60) +
                               times("]", 60) + "}")),
             ContainsSubstring("data: element 0 is a list"));
}

TEST_CASE("Bad JSON is reported by line and column") {
  CHECK_THAT(error("{\n  \"opset\": 17,\n  \"nodes\": [{\"op\":"),
             ContainsSubstring("m.json:3:19:") && ContainsSubstring("truncated") && ContainsSubstring("^"));
  CHECK_THAT(error("{\"opset\": 17,,}"),
             ContainsSubstring("m.json:1:14:") && ContainsSubstring("not valid JSON"));
  CHECK_THAT(error("{\"opset\": 1e999}"),
             ContainsSubstring("m.json") && ContainsSubstring("number overflow parsing '1e999'"));
  CHECK_THAT(error("hello"), ContainsSubstring("m.json:1:1:"));
  CHECK_THAT(error(""), ContainsSubstring("empty"));
  CHECK_THAT(error("[1]"), ContainsSubstring("expected an object at the top"));
  CHECK_THAT(error("{}"), ContainsSubstring("`graph`") && ContainsSubstring("`nodes`"));
  CHECK_THAT(error(R"({"opset": 17, "opset": 18, "nodes": []})"),
             ContainsSubstring("`opset` is given twice"));
  CHECK_THAT(error_of([] { read_model("/nowhere/m.json"); }),
             ContainsSubstring("/nowhere/m.json") && ContainsSubstring("doesn't exist"));
}

TEST_CASE("Bad fields are reported by their path") {
  CHECK_THAT(error(R"({"inputs": [], "outputs": [], "nodes": []})"),
             ContainsSubstring("missing field `opset`"));
  CHECK_THAT(error(R"({"opset": 17, "inputs": [], "nodes": []})"),
             ContainsSubstring("missing field `outputs`"));
  CHECK_THAT(error(R"({"opset": 17, "inputs": [], "outputs": [], "nodes": [], "wieghts": {}})"),
             ContainsSubstring("did you mean `weights`?"));
  CHECK_THAT(error(with_node(R"({"inputs": ["x"], "outputs": ["y"]})")),
             ContainsSubstring("nodes[0]: missing field `op`"));
  CHECK_THAT(error(with_node(R"({"op": "Relu", "inputs": ["x"]})")),
             ContainsSubstring("nodes[0] (Relu): missing field `outputs`"));
  CHECK_THAT(error(with_node(R"({"op": "Relu", "name": "r", "inputs": [1], "outputs": ["y"]})")),
             ContainsSubstring("nodes[0] (Relu 'r').inputs[0]: expected a string, found 1"));
  CHECK_THAT(error(with_node(R"({"op": "A", "outputs": ["y"], "attrs": {"k": [1, "a"]}})")),
             ContainsSubstring("attrs.k"));
  CHECK_THAT(error(with_node(R"({"op": "A", "outputs": ["y"], "attrs": {"k": null}})")),
             ContainsSubstring("attrs.k"));
  CHECK_THAT(
      error(
          R"({"opset": 17, "inputs": [{"name": "x", "dtype": "f32", "shape": [1.5]}], "outputs": [], "nodes": []})"),
      ContainsSubstring("inputs[0].shape[0]: expected an integer"));
}

TEST_CASE("ONNX's mapping may have fields that libonnx doesn't know yet") {
  const Model m =
      read(R"({"irVersion": "11", "opsetImport": [{"version": "21"}, {"domain": "my", "version": "1"}],
    "configuration": [{"name": "two", "numDevices": 2}],
    "graph": {"name": "g", "metadataProps": [{"key": "from", "value": "a tool"}],
      "node": [{"opType": "Twice", "domain": "my", "overload": "b", "input": ["x"], "output": ["y"],
                "metadata_props": [{"key": "line", "value": "3"}], "deviceConfigurations": []}],
      "input": [{"name": "x", "metadataProps": []}], "output": [{"name": "y"}]},
    "functions": [
      {"name": "Twice", "domain": "my", "overload": "a", "input": ["x"], "output": ["y"]},
      {"name": "Twice", "domain": "my", "overload": "b", "input": ["x"], "output": ["y"], "valueInfo": [],
       "attributeProto": [{"name": "alpha", "f": 2.5, "type": "FLOAT"}],
       "node": [{"opType": "Elu", "input": ["x"], "output": ["y"],
                 "attribute": [{"name": "alpha", "refAttrName": "alpha", "type": "FLOAT"}]}]}]})");
  REQUIRE(m.functions.size() == 2);
  CHECK(m.functions[1].op == "Twice:b");
  CHECK(m.nodes.at(0).op == "Twice:b");
  CHECK(std::get<double>(m.functions[1].defaults.at("alpha")) == 2.5);
  CHECK_THAT(error(R"({"graph": {"nodes": []}})"), ContainsSubstring("nodes: Cannot find field"));
}

// The single-node cases of the onnx package, interpreted: the outside opinion on each operator's meaning,
// opset by opset. The package is in the virtual environment that `./dev setup` makes; without it the test
// says SKIPPED.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "nestor/interpret.h"
#include "nestor/print.h"
#include "tests/exported_cases.h"
#include "tests/ops/op_case.h"

using namespace nestor;
using nlohmann::json;

namespace {

AttrValue attribute_of(const json& j) {
  const std::string kind = j.begin().key();
  const json& v = j.begin().value();
  if (kind == "int") return v.get<int64_t>();
  if (kind == "float") return v.get<double>();
  if (kind == "ints") return v.get<std::vector<int64_t>>();
  if (kind == "floats") return v.get<std::vector<double>>();
  if (kind == "tensor") return tensor_of(v);
  return v.get<std::string>();
}

// Builds and runs the case's node. `constants`: all inputs are known at compile time, not only those that
// must be.
std::string run_case(const json& c, const OpDef& op, bool constants) {
  OpCase node(c["op"], c["opset"], c["domain"]);
  std::map<ValueId, Tensor> values;
  for (size_t i = 0; i < c["inputs"].size(); ++i) {
    if (c["inputs"][i].is_null()) {
      node.omitted();
      continue;
    }
    const Tensor t = tensor_of(c["inputs"][i]);
    const bool is_static =
        std::count(op.static_inputs.begin(), op.static_inputs.end(), static_cast<int>(i)) > 0;
    values[static_cast<ValueId>(node.graph().values.size())] = t;
    if (constants || is_static)
      node.constant(t);
    else
      node.input(t.dtype(), t.shape());
  }
  for (const auto& [name, value] : c["attrs"].items()) node.attr(name, attribute_of(value));
  const auto outputs = static_cast<int>(c["outputs"].size());
  node.outputs(outputs);

  const std::vector<TensorType> types = node.infer();
  std::vector<ValueId> ids;
  const PrimFunc f = op.fold && op.name == "Constant" ? PrimFunc{} : node.build(&ids);
  std::vector<Tensor> args;
  for (size_t k = 0; k < ids.size(); ++k) {
    const auto it = values.find(ids[k]);
    if (it != values.end()) {
      args.push_back(it->second);
      continue;
    }
    const TensorType& type = types[static_cast<size_t>(ids[k]) - node.graph().values.size()];
    args.emplace_back(type.dtype, type.shape);
  }
  if (!f.body) return "";  // a Constant: folding is tested elsewhere
  interpret(f, args);
  for (size_t k = 0; k < ids.size(); ++k) {
    if (values.count(ids[k])) continue;
    const json& wanted = c["outputs"][static_cast<size_t>(ids[k]) - node.graph().values.size()];
    const std::string d =
        wanted.is_null() ? "" : difference(args[k], tensor_of(wanted), c["rtol"], c["atol"]);
    if (!d.empty()) return d + "\n" + print(f);
  }
  return "";
}

// What our operators refuse on purpose. Anything else that a case throws is a bug.
bool is_known_limit(const std::string& message) {
  for (const char* limit :
       {"training isn't supported", "the output `Indices` isn't supported", "input 0 is f16",
        "input 1 is f16", "input 0 is bool", "depends on values", "of floats isn't supported"})
    if (message.find(limit) != std::string::npos) return true;
  UNSCOPED_INFO(message);
  return false;
}

// Runs every case of the file; at least `expected` must agree, and none may differ.
void check_cases(const std::string& script, int expected) {
  const std::string path = exported("ops/" + script);
  if (path.empty()) {
    WARN("SKIPPED: onnx or onnxruntime isn't in build/venv; ./dev setup installs them");
    return;
  }
  int passed = 0, refused = 0, unknown = 0, left_out = 0;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const json c = json::parse(line);
    if (c.contains("skipped")) {
      left_out = c["skipped"];
      continue;
    }
    const OpDef* op = find_op(c["domain"], c["op"], c["opset"]);
    if (!op || op->spelled_out) {  // those are tests/graph's
      ++unknown;
      continue;
    }
    INFO(c["name"] << " (" << c["op"] << ", opset " << c["opset"] << ")");
    std::string plain, folded;
    try {
      plain = run_case(c, *op, false);
      folded = run_case(c, *op, true);
    } catch (const UserError& e) {
      ++refused;
      CHECK(is_known_limit(e.what()));
      continue;
    }
    CHECK(plain == "");
    CHECK(folded == "");
    passed += plain.empty() && folded.empty();
  }
  WARN(script << ": " << passed << " cases agree, " << refused << " are refused, " << unknown
              << " are of operators we don't have here, " << left_out << " were left out");
  CHECK(passed >= expected);
}

}  // namespace

TEST_CASE("The onnx package's node cases") {
  check_cases("export_onnx_cases", 650);
}

TEST_CASE("What ONNX Runtime answers, over windows of every kind and at old opsets") {
  check_cases("export_sweeps", 3300);
}

TEST_CASE("What NumPy makes of NaN, infinities, zeros, denormals and the largest floats") {
  check_cases("export_special_values", 117);
}

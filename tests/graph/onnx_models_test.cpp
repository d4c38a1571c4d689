// The models of the onnx package's own tests that have more than one node, imported, optimized, partitioned
// and interpreted: operators written out as functions, and networks exported at old opsets.
#include <fstream>
#include <map>

#include "nestor/error.h"
#include "nestor/graph.h"
#include "nestor/ops.h"
#include "tests/exported_cases.h"
#include "tests/graph/run.h"

using namespace nestor;
using nlohmann::json;

namespace {

// Integer inputs are mostly shapes and axes, which we want to know at compile time.
bool becomes_constant(const Tensor& t) {
  return is_int(t.dtype()) && t.shape().size() <= 1;
}

// Where the outputs differ; "" where they agree.
std::string run_case(const json& c) {
  Model m = read_model(c["path"]);
  Values inputs;
  for (const auto& [name, value] : c["inputs"].items()) {
    const Tensor t = tensor_of(value);
    if (becomes_constant(t))
      m.initializers.emplace_back(name, t);
    else
      inputs[name] = t;
  }
  Graph g = build_graph(m);
  optimize(g, evaluate_by_interpreter);
  const Values outputs = run(g, partition(g), inputs);
  for (const auto& [name, wanted] : c["outputs"].items()) {
    if (!outputs.count(name)) return name + " is missing";
    const Tensor expected = tensor_of(wanted);
    // Expected values of halves were computed in halves: two units of theirs more.
    const double units = expected.dtype() == DType::f16    ? 0x1p-10
                         : expected.dtype() == DType::bf16 ? 0x1p-7
                                                           : 0;
    const double rtol = c["rtol"];
    const std::string d = difference(outputs.at(name), expected, rtol + units, c["atol"]);
    if (!d.empty()) return name + ": " + d + "\n" + print(g);
  }
  return "";
}

bool is_known(const std::string& op) {
  for (const OpDef* row : all_ops())
    if (row->name == op && row->domain != "nestor") return true;
  return false;
}

// What is refused on purpose, besides operators that we don't have.
bool is_known_limit(const std::string& message) {
  if (message.find("training isn't supported") != std::string::npos) return true;
  UNSCOPED_INFO(message);
  return false;
}

}  // namespace

TEST_CASE("The onnx package's models of several nodes") {
  const std::string path = exported("graph/export_onnx_models", NESTOR_BINARY_DIR "/onnx_models");
  if (path.empty()) {
    WARN("SKIPPED: the onnx package isn't in build/venv; ./dev setup installs it");
    return;
  }
  int passed = 0, unknown = 0, refused = 0, left_out = 0;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const json c = json::parse(line);
    if (c.contains("skipped")) {
      left_out = c["skipped"];
      continue;
    }
    const json& ops = c["ops"];
    if (!std::all_of(ops.begin(), ops.end(), [](const json& op) { return is_known(op); })) {
      ++unknown;
      continue;
    }
    INFO(c["name"]);
    std::string d;
    try {
      d = run_case(c);
    } catch (const UserError& e) {
      ++refused;
      CHECK(is_known_limit(e.what()));
      continue;
    }
    CHECK(d == "");
    passed += d.empty();
  }
  WARN(passed << " models agree, " << refused << " are refused, " << unknown << " have operators we don't, "
              << left_out << " were left out");
  CHECK(passed >= 585);
}

// The computation graph: typed values, operators, attributes, constants. Importers fill a Model (untyped, as the file
// says it); `build_graph` checks it once, whatever it came from, lists every problem in one error, and infers shapes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "nestor/error.h"
#include "nestor/ir.h"
#include "nestor/tensor.h"

namespace nestor {

using AttrValue = std::variant<int64_t, double, std::string, Tensor, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;
using Attrs = std::map<std::string, AttrValue>;

struct TensorType {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  bool operator==(const TensorType&) const = default;
};
inline std::string to_string(const TensorType& t) { return to_string(t.dtype, t.shape); }

// ---- What a file says ------------------------------------------------------------------------------------------

struct ModelDim {
  int64_t value = -1;  // -1: symbolic or unknown
  std::string name;    // of a symbolic dimension
};
struct ModelValue {
  std::string name;
  DType dtype = DType::f32;
  std::vector<ModelDim> shape;
};
struct ModelNode {
  std::string op, domain, name;  // name may be empty
  std::vector<std::string> inputs, outputs;  // "" marks an omitted optional one
  Attrs attrs;
};
struct Model {
  std::string file;
  std::map<std::string, int64_t> opsets;  // by domain, "" is ai.onnx
  std::vector<ModelValue> inputs, outputs;
  std::vector<std::pair<std::string, Tensor>> initializers;
  std::vector<ModelNode> nodes;
};

// Reads .onnx, or .json (ONNX's protobuf JSON mapping, or the shorthand), by content. External weights are looked up
// beside the file. Throws UserError naming file, place and cause.
Model read_model(const std::string& path);

// ---- The graph -------------------------------------------------------------------------------------------------

using ValueId = int;  // index into Graph::values; -1: an omitted optional input
struct Value {
  std::string name;
  TensorType type;
  Tensor constant;   // defined() for constants
  int producer = -1; // index into Graph::nodes; -1 for inputs and constants
};
struct Node {
  std::string op, name;
  int opset = 0;
  std::vector<ValueId> inputs, outputs;
  Attrs attrs;
  std::string domain;  // "" is ai.onnx
};
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // in topological order
  std::vector<ValueId> inputs, outputs;
};

struct BuildOptions {
  std::map<std::string, int64_t> dims;  // values of symbolic dimensions by name
};
Graph build_graph(const Model& model, const BuildOptions& options = {});
std::string print(const Graph& g);

// Runs one function on tensors: how constants are folded. The driver passes the JIT; tests may pass the interpreter.
using EvaluateFn = std::function<std::vector<Tensor>(const PrimFunc&, const std::vector<Tensor>& inputs)>;

struct GraphPass {
  const char* name;
  const char* summary;
  void (*run)(Graph&, const EvaluateFn&);
};
const std::vector<GraphPass>& graph_pipeline();  // fold constants, fold BatchNormalization, CSE, dead code ...
void optimize(Graph& g, const EvaluateFn& evaluate);

// ---- Partition -------------------------------------------------------------------------------------------------

// One call of a function in the partitioned graph. Arguments are graph values, in parameter order.
struct KernelCall {
  int func = 0;                // index into Partition::funcs; calls of structurally equal functions share one
  std::vector<ValueId> args;
  std::vector<int> nodes;      // the graph nodes fused in it
};
struct Partition {
  std::vector<PrimFunc> funcs;  // names unique
  std::vector<KernelCall> calls;  // in execution order
};
Partition partition(const Graph& g);  // fusion by pattern kinds, then each group to a PrimFunc

}  // namespace nestor

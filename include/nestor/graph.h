// The computation graph: typed values, operators, attributes, constants. Importers fill a Model (untyped, as
// the file says it); `build_graph` checks it once, whatever it came from, lists every problem in one error,
// and infers shapes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "nestor/error.h"
#include "nestor/ir.h"
#include "nestor/tensor.h"
#include "nestor/tensor_source.h"

namespace nestor {

using AttrValue = std::variant<int64_t, double, std::string, Tensor, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;
using Attrs = std::map<std::string, AttrValue>;

// ---- What a file says

struct ModelDim {
  std::optional<int64_t> value;  // absent: symbolic or unknown; so is -1
  std::string name;              // of a symbolic dimension; empty: addressed as `value.axis`
};
struct ModelValue {
  std::string name;
  DType dtype = DType::f32;
  std::vector<ModelDim> shape;
  bool typed = true;   // false: the file gives a name only (outputs)
  bool ranked = true;  // false: the file gives an element type but no shape
  std::string refused =
      {};  // the type, where it is one that we don't have: "a sequence", "a tensor of string"
};
struct ModelGraph;
struct ModelNode {
  std::string op, domain, name;              // name may be empty
  std::vector<std::string> inputs, outputs;  // "" marks an omitted optional one
  Attrs attrs;
  std::map<std::string, std::string>
      refused_attrs;  // those no AttrValue holds: name to kind ("SPARSE_TENSOR", ...)
  std::map<std::string, std::shared_ptr<const ModelGraph>> graphs = {};  // attributes that are graphs
  std::map<std::string, std::string> attr_refs = {};  // in a function: attributes that are the call's
  int opset = 0;  // of its domain, where a function brings its own; 0: the model's
};
// Nodes of a branch or a body also read values of the graphs around it.
struct ModelGraph {
  std::string name;
  std::vector<ModelValue> inputs, outputs;
  std::vector<std::pair<std::string, Tensor>> initializers;
  std::map<std::string, std::string> refused_initializers = {};  // of types that we don't have: name to type
  std::vector<ModelValue> values = {};                           // what the file says of others
  std::vector<ModelNode> nodes;
};
// An operator that the file itself defines.
struct ModelFunction {
  std::string op, domain;
  std::vector<std::string> inputs, outputs;
  Attrs defaults;
  std::vector<ModelNode> nodes;
  std::map<std::string, int64_t> opsets;
};
struct Model : ModelGraph {
  std::string file;
  std::map<std::string, int64_t> opsets;  // by domain, "" is ai.onnx
  std::vector<ModelFunction> functions = {};
};

// Reads .onnx, or .json (ONNX's protobuf JSON mapping, or the shorthand), by content. External weights are
// looked up beside the file. Throws UserError naming file, place and cause.
Model read_model(const std::string& path);

// ---- The graph

using ValueId = int;  // index into Graph::values; -1: an omitted optional input
struct Graph;
struct Value {
  std::string name;
  TensorType type;
  Tensor constant;    // defined() for constants
  int producer = -1;  // index into Graph::nodes; -1 for inputs and constants
  // The elements of a small tensor that is computed from symbolic sizes; else empty. It has no producer.
  std::vector<Expr> elements = {};
};
// The elements of a constant or of `elements`, each as an expression.
std::vector<Expr> known_elements(const Value& v);
struct Node {
  std::string op, name;
  int opset = 0;
  std::vector<ValueId> inputs, outputs;
  Attrs attrs;
  std::string domain;    // "" is ai.onnx
  std::string why = {};  // a pass made it what it is, or let it be, because ...
  std::vector<std::shared_ptr<const Graph>> bodies = {};  // of a loop, or of an If (src/graph/control_flow.h)
};
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // in topological order
  std::vector<ValueId> inputs, outputs;
  std::shared_ptr<Symbols> symbols = nullptr;  // of its shapes; null: they are numbers
};

// Runs one function on tensors, one per `in` or `const` parameter in order, and gives the outs: how constants
// are folded. The driver passes the JIT; tests may pass the interpreter.
using EvaluateFn = std::function<std::vector<Tensor>(const PrimFunc&, const std::vector<Tensor>& inputs)>;
std::vector<Tensor> evaluate_by_interpreter(const PrimFunc& f, const std::vector<Tensor>& inputs);

// A size that is known only at run time: its bounds, and what it usually is (0: a guess).
struct OpenSize {
  int64_t least = 1, most = Symbols::kMost, typical = 0;
};

// Of "1..64~16", from 1 to 64, usually 16, or parts of that; nullopt where the text is another kind of size.
// UserError where it isn't one that can be; `what` begins its message.
std::optional<OpenSize> parse_open_size(const std::string& what, const std::string& text);

struct BuildOptions {
  std::map<std::string, int64_t> dims;        // values of symbolic dimensions by name, or by `input.axis`
  std::map<std::string, OpenSize> open = {};  // those that stay symbolic, likewise
  bool symbolic = false;                      // so do all that are given no value
  EvaluateFn evaluate = {};  // of small constant nodes, which shapes depend on; default: the interpreter
  std::map<std::string, std::vector<int64_t>> shapes =
      {};                                              // of inputs; they must agree with what the model says
  std::map<std::string, TensorSource> constants = {};  // inputs, or weights, that hold this
  std::function<void(const std::string&)> warn = {};   // null: warnings aren't told
  bool control_flow = true;  // loops and branches of run time may be nodes; false: the target has none
  std::map<std::string, int64_t> found = {};  // sizes that values decide, by name, as a run found them
  int64_t max_trips = 0;  // iterations at most of a loop whose end is known only at run time; 0: any
};
// Throws one UserError that lists every problem of the model; NeedsValues where values of inputs, if they
// were constants, might solve some.
class NeedsValues : public UserError {
 public:
  NeedsValues(std::vector<std::string> of, std::vector<std::string> unbounded, Diagnostic d)
      : UserError(std::move(d)), inputs(std::move(of)), sizes(std::move(unbounded)) {}
  const std::vector<std::string> inputs;
  const std::vector<std::string> sizes;  // integers that --dim might bound
};
// Names of operators that build_graph reads as several others, or as parts of the graph, and that all_ops
// hasn't; sorted. domain: "" is ai.onnx.
std::vector<std::string> composed_operators(const std::string& domain = "");

Graph build_graph(const Model& model, const BuildOptions& options = {});
std::string print(const Graph& g);

struct GraphPass {
  const char* name;
  const char* summary;
  std::function<void(Graph&, const EvaluateFn&)> run;
};
constexpr int64_t kWidestVector = 16;  // f32 lanes
struct OptimizeOptions {
  int64_t lanes = kWidestVector;  // f32 in a vector
  bool waits = false;             // few micro-operations a cycle, and a far third-level cache
  bool winograd = true;           // use_winograd follows
  bool dots = true;               // an instruction multiplies bytes and adds up what belongs together
  bool bf16_dots = false;         // one of bf16, too
  bool halves = false;            // f16 and bf16 stay what they are between nodes, too
  std::function<void(const std::string&)> note = {};  // told which passes sizes that are open leave out
};
// Fold constants, fold BatchNormalization, CSE, dead code ...
std::vector<GraphPass> graph_pipeline(const OptimizeOptions& options = {});
void optimize(Graph& g, const EvaluateFn& evaluate, const OptimizeOptions& options = {});

// ---- Partition

// One call of a function in the partitioned graph. Arguments are graph values, in parameter order.
struct ControlFlow;  // src/graph/control_flow.h
struct KernelCall {
  int func = 0;  // index into Partition::funcs; calls of structurally equal functions share one
  std::vector<ValueId> args;
  std::vector<int> nodes;  // the graph nodes fused in it
  // A place where a loop or a branch begins or ends, and no call: func is -1, there are no arguments.
  std::shared_ptr<const ControlFlow> control = {};
  std::vector<Expr> sizes = {};  // the values of the function's dimensions, over the graph's symbols
};
// The function of one sample, for a function of as many samples as a run decides, each computed by itself.
struct OneSample {
  Var samples;
  PrimFunc func;
  std::vector<bool> sampled;  // parameters with a part for each sample, one behind the other
};
struct Partition {
  std::vector<PrimFunc> funcs;    // names unique
  std::vector<KernelCall> calls;  // in execution order
  // Values with the bytes of another (reshapes and the like): no kernel makes them. Maps to a value that
  // isn't itself an alias. A graph output may be an alias, an input or a constant: whoever runs the partition
  // copies it.
  std::map<ValueId, ValueId> alias;
  // Values (n, c, ...) that lie as (n, c/channel_block, ..., c%channel_block), the last block filled up with
  // lanes that nobody reads; their functions' parameters say so by shape.
  std::set<ValueId> blocked;
  int64_t channel_block = 1;
  // What the dimensions of functions usually are: schedules are chosen for these sizes.
  std::unordered_map<Var, int64_t> typical = {};
  std::map<int, OneSample> one_sample = {};  // by function
};
// The shape in which a value lies in memory.
Dims stored_shape(const Graph& g, const Partition& p, ValueId v);
// A constant (or a view of it) as the parameter `decl` has it: the same bytes in its shape, zeros behind them
// where its channels are filled up to whole blocks.
Tensor constant_argument(const Tensor& constant, const BufferDecl& decl);

struct PartitionOptions {
  bool fuse = true;  // false: each node a function of its own
  // Between functions that work by channels, f32 values lie in blocks of so many of them (NCHW16c): the
  // vector width. 1: every value is row major. The model's inputs and outputs always are, unless
  // `blocked_io`.
  int64_t channel_block = 1;
  bool blocked_io = false;  // for benchmarks: as if other functions stood before and behind the model
  // MatMul, Softmax and MatMul are one function: attention, whose scores need not go through memory.
  bool join_products = false;
  bool winograd = true;        // use_winograd follows: blocks are worth it with fewer of their lanes filled
  bool double_pumped = false;  // as of a Target: two groups of channels in a block go by half vectors
  // Bytes of weights that a core keeps near it; 0: those behind come fast enough (Target::far_l3).
  int64_t near_weights = 0;
};
// A group of nodes, in order, as one function: the last one's outputs are its results.
PrimFunc build_function(const Graph& g, const std::vector<int>& nodes, std::vector<ValueId>* args = nullptr);

// Of a model's weights, what is stored already for others of its sizes.
struct TransformedWeights {
  std::set<std::pair<size_t, int64_t>> known;  // by hash_of_bytes of the weights and Winograd's tile
  int64_t left = 0;                            // bytes that may come
};
size_t hash_of_bytes(const Tensor& t);

// What the choice between a direct convolution and Winograd's looks at.
struct WinogradOptions {
  int64_t lanes = 1;  // f32 in a vector
  int threads = 1;
  int64_t l2_bytes = 1 << 20, l3_bytes = 32 << 20;
  double l3_bytes_per_cycle = 16;
  bool far_l3 = false;  // Target::far_l3
  bool masks = true;    // vectors' lanes are loaded and stored singly as fast as all of them
  int64_t tile = 0;     // 0: as the model says; 2 to 4: wherever the algorithm applies, for tests
  // Bytes that transformed weights may have more than those they are made of. Less than 0: as many as the
  // weights of the model, or kSmallModel, if these are less.
  int64_t budget = -1;
  static constexpr int64_t kSmallModel = int64_t{64} << 20;
  const TransformedWeights* stored = nullptr;  // preferred where that costs little time
};
// Convolutions become Winograd's where a model of their cost says that it is faster: 3x3 windows, stride 1,
// one group, constant weights. What they read and write lies in blocks of channels; where it doesn't in `p`,
// the graph's partition, nodes that reorder are put in between. True where one did: `p` is then the new
// graph's, made as `how` says.
bool use_winograd(Graph& g, Partition& p, const PartitionOptions& how, const WinogradOptions& options,
                  const EvaluateFn& evaluate);
// What that came to, and what stayed direct for want of budget.
struct WinogradBytes {
  int convolutions = 0, over_budget = 0;
  int64_t added = 0;
};
WinogradBytes winograd_bytes(const Graph& g);

// Nodes that reorder stand before and behind strided convolutions that gain more by images in blocks of
// channels than the copies take. True where one does: `p` is then the new graph's.
bool reorder_images(Graph& g, Partition& p, const PartitionOptions& how);
// The same for functions that sum up and would convert an image between the two orders on their way.
bool separate_layouts(Graph& g, Partition& p, const PartitionOptions& how);

// Fusion by pattern kinds, then each group to a PrimFunc.
Partition partition(const Graph& g, const PartitionOptions& options = {});
std::string print(const Graph& g, const Partition& p);

}  // namespace nestor

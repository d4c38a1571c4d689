// Operators: one registration each says its types and shapes, its loop nest and how it fuses. A user's own
// come from .nest files (register_nest_file) through the same table.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nestor/error.h"
#include "nestor/graph.h"
#include "nestor/ir.h"

namespace nestor {

// How a group grows around an operator (fusion, src/graph/partition.cpp).
enum class Pattern : uint8_t {
  elementwise,  // one output element reads one element at the same place of each input (after broadcasting)
  broadcast,
  injective,  // one output element reads one element anywhere: transpose, slice, concat
  reduction,
  anchor,  // MatMul, Conv: takes an elementwise epilogue
  opaque   // stands alone
};

// What an operator sees of its node while types are inferred and its loop nest is built.
class OpContext {
 public:
  OpContext(const Graph& g, const Node& n) : graph_(g), node_(n) {}
  const Node& node() const { return node_; }
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool has_input(int i) const { return i < num_inputs() && node_.inputs[static_cast<size_t>(i)] >= 0; }
  const TensorType& input(int i) const;
  const Tensor* constant(int i) const;    // nullptr where input i isn't known at compile time
  const TensorType& output(int i) const;  // only while building
  bool has_output(int i) const;           // whether the node asks for output i

  int64_t get_int(const std::string& name, int64_t fallback) const;
  double get_float(const std::string& name, double fallback) const;
  std::string get_string(const std::string& name, const std::string& fallback) const;
  std::vector<int64_t> get_ints(const std::string& name, std::vector<int64_t> fallback) const;
  std::vector<std::string> get_strings(const std::string& name, std::vector<std::string> fallback) const;
  std::vector<double> get_floats(const std::string& name, std::vector<double> fallback) const;
  const Tensor* get_tensor(const std::string& name) const;
  bool is_string(const std::string& name) const;  // whether the attribute is there and a string
  bool has_attr(const std::string& name) const;
  // The integers of input i, numbers or sizes, or of the attribute (operators moved these from attributes to
  // inputs).
  Dims ints_from(int i, const std::string& attr) const;
  // The elements of input i as far as they are known when compiling: numbers, or expressions over the symbols
  // of sizes. Empty where they are computed at run time, or the tensor is empty.
  std::vector<Expr> elements(int i) const;
  Dim dim(const Expr& size) const;  // over the model's symbols

  // Throws the UserError that names the node and its opset.
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const;
  // Throws UnknownInput: what the result is depends on the value of input i.
  [[noreturn]] void fail_unknown(int i, const std::string& what = "") const;

 private:
  const Graph& graph_;
  const Node& node_;
};

// A tensor while a function is being built, indexed to make a load: X(n, c, y + r). A constant of one element
// has no buffer: it stands in the code as an immediate.
struct BuildTensor {
  Buffer buffer = nullptr;
  Dims shape = {};
  Expr immediate = {};
  explicit operator bool() const { return buffer || immediate; }  // false: an omitted or static input
  template <class... I>
  Expr operator()(I... i) const {
    return at(std::vector<Expr>{Expr(i)...});
  }
  Expr at(std::vector<Expr> indices) const {
    return immediate ? immediate : make::load(buffer, std::move(indices));
  }
  int rank() const { return static_cast<int>(shape.size()); }
  DType dtype() const { return immediate ? immediate.dtype() : buffer->type.dtype; }
};

// The value of an input would have to be known when compiling.
class UnknownInput : public UserError {
 public:
  UnknownInput(int number, Diagnostic d) : UserError(std::move(d)), input(number) {}
  const int input;
};

// One iterator of a block to be built. Names are the operator's own ("n", "o", "y"), so that traces replay in
// any model.
struct Axis {
  std::string name;
  Dim extent;
};

// Builds a function block by block. A block is named as the tensor it makes (names are made unique), gets one
// loop per axis, spatial ones first, and an iterator `vNAME` bound to each.
class FuncBuilder {
 public:
  using Body = std::function<Expr(const std::vector<Expr>&)>;
  using ReduceBody = std::function<Expr(const std::vector<Expr>& s, const std::vector<Expr>& r)>;

  explicit FuncBuilder(std::string name, std::shared_ptr<Symbols> symbols = nullptr);
  // Parameters and temporaries. Their names are made unique: the second T is T1.
  BuildTensor param(Role role, const std::string& name, const TensorType& type);
  BuildTensor temp(const std::string& name, const TensorType& type);

  // block: out[i...] = body(i...). Where `at` is given, the element written is at(i...).
  void compute(const BuildTensor& out, const std::vector<Axis>& axes, const Body& body,
               const std::function<std::vector<Expr>(const std::vector<Expr>&)>& at = {});
  // block: init out[i...] = start (default the identity); out[i...] op= body(i..., r...)
  void reduce(const BuildTensor& out, const std::vector<Axis>& spatial, const std::vector<Axis>& reduced,
              ReduceOp op, const ReduceBody& body, Expr start = {},
              const std::function<std::vector<Expr>(const std::vector<Expr>&)>& at = {});
  // The blocks of a whole function, its parameters standing for `args` and its symbolic dimensions for
  // `dims`.
  void inlined(const PrimFunc& f, const std::vector<BuildTensor>& args, const std::vector<Expr>& dims);
  PrimFunc finish();

 private:
  struct Nest;
  std::string unique(const std::string& name, std::map<std::string, int>& used);
  void add_block(Nest nest, Stmt init, Stmt body);
  void add_dims();

  PrimFunc func_;
  std::shared_ptr<Symbols> symbols_;
  std::vector<Stmt> body_;
  std::map<std::string, int> buffer_names_, block_names_;
};

struct OpDef {
  std::string name = {};               // "Conv"
  std::string domain = {};             // "" is ai.onnx
  int since = 1, until = 1000;         // opsets whose semantics this row implements, inclusive
  int min_inputs = 0, max_inputs = 0;  // max -1: any number
  Pattern pattern = Pattern::opaque;
  // Computes each pixel alike for all channels, dimension 1 of its tensors: faster where these lie in blocks
  // of lanes.
  bool by_channels = false;
  // What inputs are called in the loop IR, "X W B"; further ones repeat the last name.
  std::string params = "X";
  // Types of the outputs, in order: as many as the operator has, or as the node asks for. May throw through
  // ctx.fail.
  std::function<std::vector<TensorType>(const OpContext& ctx)> infer = {};
  // Appends the blocks that compute `outputs` (null buffer: not wanted) from `inputs` (null buffer: omitted,
  // static, or an immediate).
  std::function<void(const OpContext& ctx, FuncBuilder& b, const std::vector<BuildTensor>& inputs,
                     const std::vector<BuildTensor>& outputs)>
      build = {};
  // Other nodes stand for it in every graph (src/graph/spell_out_*): it has no `build`.
  bool spelled_out = false;
  // Inputs read at compile time only (shapes, axes): never a kernel's parameter.
  std::vector<int> static_inputs = {};
  // The value of output 0 where attributes, types and static inputs say it already (Constant, Shape); else
  // undefined.
  std::function<Tensor(const OpContext& ctx)> fold = {};
  std::string note = {};  // rules worth knowing: NaN, rounding, limits
};

// The exponentials of a Softmax's rows, with the row's maximum subtracted, and their sums: the result is
// their quotient. Appends blocks Max, Exp and Sum.
struct SoftmaxParts {
  BuildTensor exp, sum;  // like the input; without the axes that are normalized together
};
SoftmaxParts build_softmax_parts(const OpContext& ctx, FuncBuilder& b, const BuildTensor& x);

// How input i of a node reaches its loop nest.
enum class InputKind : uint8_t { none, immediate, parameter };  // none: omitted or static
InputKind input_kind(const OpDef& op, const OpContext& ctx, int i);
BuildTensor immediate(const Tensor& one_element);
BuildTensor immediate(const OpContext& ctx, int i);  // of input i, which is of that kind
std::string param_name(const OpDef& op, int i);      // "W"

// One node as a function of its own, unfused: parameters are the inputs of kind `parameter`, then the outputs
// (named Y). `args` receives the graph values in that order. Infers nothing: the graph's types must stand.
PrimFunc build_function(const Graph& g, const Node& n, std::vector<ValueId>* args = nullptr);

const OpDef* find_op(const std::string& domain, const std::string& name, int opset);  // nullptr: unknown
std::vector<const OpDef*> all_ops();                                                  // by name, then opset
void register_op(OpDef op);  // UserError where an operator of that name and opset is there already
std::string nearest_op(const std::string& name);  // spelled most alike, for hints

// A .nest file holds functions whose dimensions are template parameters: registers an operator of each
// function's name (src/ops/nest_file.cpp says how). Registering the same text again does nothing.
void register_nest_file(const std::string& path);

}  // namespace nestor

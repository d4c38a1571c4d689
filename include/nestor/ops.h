// Operators: one registration each says its types and shapes, its loop nest and how it fuses. A user's own come from
// .nest files (register_nest_file) through the same table.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nestor/graph.h"
#include "nestor/ir.h"

namespace nestor {

// How a group grows around an operator (fusion, src/graph/partition.cpp).
enum class Pattern : uint8_t {
  elementwise,  // one output element reads one element at the same place of each input (after broadcasting)
  broadcast,
  injective,    // one output element reads one element anywhere: transpose, slice, concat
  reduction,
  anchor,       // MatMul, Conv: takes an elementwise epilogue
  opaque        // stands alone
};

// What an operator sees of its node while types are inferred and its loop nest is built.
class OpContext {
 public:
  OpContext(const Graph& g, const Node& n) : graph_(g), node_(n) {}
  const Node& node() const { return node_; }
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool has_input(int i) const { return i < num_inputs() && node_.inputs[static_cast<size_t>(i)] >= 0; }
  const TensorType& input(int i) const;
  const Tensor* constant(int i) const;  // nullptr where input i isn't known at compile time
  const TensorType& output(int i) const;  // only while building

  int64_t get_int(const std::string& name, int64_t fallback) const;
  double get_float(const std::string& name, double fallback) const;
  std::string get_string(const std::string& name, const std::string& fallback) const;
  std::vector<int64_t> get_ints(const std::string& name, std::vector<int64_t> fallback) const;
  const Tensor* get_tensor(const std::string& name) const;
  bool has_attr(const std::string& name) const;
  // The constant integers of input i, or of the attribute (operators moved these from attributes to inputs).
  std::vector<int64_t> ints_from(int i, const std::string& attr) const;

  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const;  // UserError naming the node

 private:
  const Graph& graph_;
  const Node& node_;
};

// A buffer while a function is being built, indexed to make a load: X(n, c, y + r).
struct BuildTensor {
  Buffer buffer;
  std::vector<int64_t> shape;
  template <class... I>
  Expr operator()(I... i) const {
    return make::load(buffer, std::vector<Expr>{Expr(i)...});
  }
  Expr at(std::vector<Expr> indices) const { return make::load(buffer, std::move(indices)); }
  int rank() const { return static_cast<int>(shape.size()); }
};

// One iterator of a block to be built. Names are the operator's own ("n", "o", "y"), so that traces replay in any model.
struct Axis {
  std::string name;
  int64_t extent;
};

// Builds a function block by block. Each block gets loops named as its axes, in order, spatial ones first.
class FuncBuilder {
 public:
  explicit FuncBuilder(std::string name);
  BuildTensor param(Role role, const std::string& name, const TensorType& type);
  // A temporary of the whole function. Names of parameters, temporaries and blocks are made unique.
  BuildTensor temp(const std::string& name, const TensorType& type);

  // block: out[i...] = body(i...)
  void compute(const BuildTensor& out, const std::vector<Axis>& axes,
               const std::function<Expr(const std::vector<Expr>&)>& body);
  // block: init out[i...] = start (default the identity); out[i...] op= body(i..., r...)
  void reduce(const BuildTensor& out, const std::vector<Axis>& spatial, const std::vector<Axis>& reduced, ReduceOp op,
              const std::function<Expr(const std::vector<Expr>& s, const std::vector<Expr>& r)>& body, Expr start = {});
  PrimFunc finish();  // checks well-formedness

 private:
  PrimFunc func_;
  std::vector<Stmt> body_;
  std::string unique(const std::string& name);
  std::map<std::string, int> names_;
};

struct OpDef {
  std::string name;    // "Conv"
  std::string domain;  // "" is ai.onnx
  int since = 1, until = 1000;  // opsets whose semantics this row implements, inclusive
  int min_inputs = 0, max_inputs = 0;  // max -1: any number
  Pattern pattern = Pattern::opaque;
  // Output types; may throw through ctx.fail.
  std::function<std::vector<TensorType>(const OpContext& ctx)> infer;
  // Appends the blocks that compute `outputs` from `inputs` (null buffer: omitted or static input).
  std::function<void(const OpContext& ctx, FuncBuilder& b, const std::vector<BuildTensor>& inputs,
                     const std::vector<BuildTensor>& outputs)>
      build;
  std::vector<int> static_inputs;  // inputs read at compile time only (shapes, axes): never a kernel's parameter
  std::string note;  // e.g. "not differentiable at 0"
};

const OpDef* find_op(const std::string& domain, const std::string& name, int opset);  // nullptr: unknown
std::vector<const OpDef*> all_ops();
std::string nearest_op(const std::string& name);  // spelled most alike, for hints

// A .nest file holds functions whose dimensions are template parameters: registers an operator of each function's name.
void register_nest_file(const std::string& path);

}  // namespace nestor

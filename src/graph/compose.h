// Operators that are compositions of others. Each is written once, as the nodes that it stands for; the graph
// has no such operator (the other files compose_*.cpp).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nestor/ops.h"
#include "src/graph/model_names.h"

namespace nestor {

struct Composed {
  std::vector<ModelNode> nodes;
  std::vector<std::pair<std::string, Dims>> sizes;  // lists that they read, of open sizes
};

// The node that is composed, and the nodes that stand for it.
class Composer {
 public:
  Composer(const Graph& g, const Node& n, const ModelNode& of, FreshNames& fresh)
      : ctx_(g, n), of_(of), fresh_(fresh) {}

  const OpContext& ctx() const { return ctx_; }
  bool has(size_t i) const { return ctx_.has_input(static_cast<int>(i)); }
  std::string input(size_t i) const {  // its name; fails where it is omitted
    type(i);
    return of_.inputs[i];
  }
  const TensorType& type(size_t i) const { return ctx_.input(static_cast<int>(i)); }
  int64_t rank(size_t i) const { return static_cast<int64_t>(type(i).shape.size()); }
  bool wants(size_t i) const { return i < of_.outputs.size() && !of_.outputs[i].empty(); }
  // The integers of input i, which must be known when compiling.
  std::vector<int64_t> known(size_t i) const;
  int64_t known_number(size_t i) const;  // the one that it holds
  Dim number_from(size_t i) const;       // the same, which may be computed from open sizes
  const Dims& shape(size_t i) const { return type(i).shape; }
  Dim size(size_t i, size_t dimension) const;       // fails where input i has no such dimension
  int64_t axis(int64_t given, int64_t rank) const;  // counted from the front; fails where there is none

  // Appends a node of opset 23, and gives its (first) output's name. "" is an omitted input.
  std::string op(const std::string& name, std::vector<std::string> inputs, Attrs attrs = {},
                 size_t outputs = 1);
  // The same with an operator of our own.
  std::string own(const std::string& name, std::vector<std::string> inputs, Attrs attrs = {},
                  size_t outputs = 1);
  // A size that is known only when the model runs: that count, a scalar in i64, and at most `most`
  // (found_sizes.h).
  std::string found(const std::string& count, const Dim& most);
  std::string output(const std::string& first, size_t i) const;  // of the node whose first output that is
  std::string constant(Tensor t);
  std::string scalar(double value, DType type);
  std::string ints(const Dims& values);
  std::string number(const Dim& value);                           // a scalar in i64
  std::string counted(const Dim& n, int64_t rank, int64_t axis);  // 0, 1 ... n-1 along an axis, in i64
  std::string cast(const std::string& v, DType to);
  std::string reshaped(const std::string& v, const Dims& shape);
  std::string reduced(const std::string& name, const std::string& v, const std::vector<int64_t>& axes,
                      bool keep);
  std::string sliced(const std::string& v, int64_t axis, const Dim& from, const Dim& to);
  void give(size_t i, const std::string& v);  // it is output i

  Composed take() { return std::move(made_); }

 private:
  const OpContext ctx_;
  const ModelNode& of_;
  FreshNames& fresh_;
  Composed made_;
};

struct Composition {
  const char *domain, *name;
  int since;
  std::function<void(Composer&)> write;
};
std::vector<Composition> onnx_compositions();
std::vector<Composition> loss_compositions();
std::vector<Composition> region_compositions();
std::vector<Composition> step_compositions();
std::vector<Composition> contrib_compositions();
std::vector<Composition> quantized_compositions();
std::vector<Composition> attention_compositions();
std::vector<Composition> chosen_compositions();

// An image of a rank, [N, H, W, C] as [N, C, H, W], and back.
std::string channels_second(Composer& c, const std::string& v, int64_t rank);
std::string channels_last(Composer& c, const std::string& v, int64_t rank);

// The nodes that stand for the node `of`, whose inputs are known in `g` as those of n; nullopt where it is no
// composition. UserError where its attributes or inputs are none of the operator's.
std::optional<Composed> compose(const Graph& g, const Node& n, const ModelNode& of, FreshNames& fresh);
bool is_composition(const std::string& domain, const std::string& op, int opset);

}  // namespace nestor

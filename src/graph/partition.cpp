// From groups of nodes to functions. Blocks of the group's operators stand one after another; what goes from
// one to the next is a temporary. Constants of one element stand in the code as immediates, other weights are
// parameters, so that layers that differ in nothing but their weights share a function.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <unordered_map>

#include "nestor/error.h"
#include "nestor/layout.h"
#include "nestor/ops.h"
#include "nestor/walk.h"
#include "src/graph/block_channels.h"
#include "src/graph/blocked_values.h"
#include "src/graph/collapse.h"
#include "src/graph/edit.h"
#include "src/graph/function_table.h"
#include "src/graph/fusion.h"
#include "src/graph/map_pieces.h"
#include "src/graph/one_sample.h"
#include "src/graph/own_sizes.h"
#include "src/graph/split_groups.h"
#include "src/ops/transposed.h"

namespace nestor {

namespace {

// "LeakyRelu" to "leaky_relu".
std::string snake(const std::string& op) {
  std::string out;
  for (size_t i = 0; i < op.size(); ++i) {
    const auto upper = [&](size_t k) {
      return k < op.size() && std::isupper(static_cast<unsigned char>(op[k])) != 0;
    };
    if (i > 0 && upper(i) && (!upper(i - 1) || (i + 1 < op.size() && !upper(i + 1)))) out += '_';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(op[i])));
  }
  return out;
}

std::string short_name(const Graph& g, const Node& n) {
  const bool bias = n.inputs.size() > 2 && n.inputs[2] >= 0;
  if ((n.domain.empty() && n.op == "Conv") || ops::is_conv_transpose(n)) {
    const TensorType &x = value_of(g, n.inputs[0]).type, &w = value_of(g, n.inputs[1]).type;
    const bool depthwise = n.op == "Conv" && w.shape[1] == 1 && x.shape[1] > 1;
    return fmt::format("{}{}{}d{}", depthwise ? "depthwise_" : "", snake(n.op), x.shape.size() - 2,
                       bias ? "_bias" : "");
  }
  if (n.domain == "nestor" && n.op == "WinogradConv")
    return bias ? "winograd_conv2d_bias" : "winograd_conv2d";
  if (n.domain.empty() && n.op == "Gemm") return bias ? "gemm_bias" : "gemm";
  std::string name;
  for (char c : snake(n.op)) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  static const std::map<std::string, std::string> usual = {{"mat_mul", "matmul"},
                                                           {"is_na_n", "is_nan"},
                                                           {"batch_normalization", "batch_norm"},
                                                           {"layer_normalization", "layer_norm"}};
  if (const auto it = usual.find(name); it != usual.end()) return it->second;
  return name;
}

// "conv2d_bias_relu": the first anchor, then in order; long chains are cut.
std::string group_name(const Graph& g, const std::vector<int>& nodes) {
  constexpr size_t kMost = 6;
  std::vector<std::string> parts;
  bool anchored = false;
  for (int i : nodes) {
    const Node& n = g.nodes[static_cast<size_t>(i)];
    const bool anchor = find_op(n.domain, n.op, n.opset)->pattern == Pattern::anchor;
    parts.insert(anchor && !anchored ? parts.begin() : parts.end(), short_name(g, n));
    anchored = anchored || anchor;
  }
  if (parts.size() > kMost) {
    const std::string rest = fmt::format("and_{}_more", parts.size() - kMost + 1);
    parts.resize(kMost - 1);
    parts.push_back(rest);
  }
  return fmt::format("{}", fmt::join(parts, "_"));
}

// The name of a temporary: T for what an anchor makes, as where it stands alone with a bias behind it; else
// the operator's.
std::string temporary_name(const Graph& g, const Node& n, const OpDef& op) {
  if (op.pattern == Pattern::anchor) {
    const PrimFunc alone = build_function(g, n);
    const auto is_t = [](const BufferDecl& d) { return d.buffer->name == "T"; };
    if (std::none_of(alone.allocs.begin(), alone.allocs.end(), is_t)) return "T";
  }
  return short_name(g, n);
}

class GroupBuilder {
 public:
  GroupBuilder(const Graph& g, const std::vector<int>& group)
      : g_(g), group_(group), b_(group_name(g, group), g.symbols) {}

  PrimFunc build(std::vector<ValueId>& args) {
    for (int i : group_)
      for (ValueId v : node(i).outputs)
        if (v >= 0) tensors_[v] = {};  // made inside
    for (int i : group_) find_used_up(node(i));
    std::vector<int> nodes;
    for (int i : group_)
      if (!guards_.count(i)) nodes.push_back(i);
    for (int i : nodes) add_inputs(node(i), args);
    for (int i : nodes) add_outputs(node(i), i == group_.back(), args);
    for (int i : nodes) add_blocks(node(i));
    return b_.finish();
  }

 private:
  struct Rows {
    BuildTensor sum;
    bool guarded = false;
  };

  const Node& node(int i) const { return g_.nodes[static_cast<size_t>(i)]; }
  static const OpDef& op_of(const Node& n) { return *find_op(n.domain, n.op, n.opset); }

  void add_inputs(const Node& n, std::vector<ValueId>& args) {
    const OpDef& op = op_of(n);
    const OpContext ctx(g_, n);
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const ValueId v = n.inputs[static_cast<size_t>(i)];
      if (input_kind(op, ctx, i) != InputKind::parameter || tensors_.count(v)) continue;
      tensors_[v] = b_.param(is_constant(g_, v) ? Role::constant : Role::in, param_name(op, i), ctx.input(i));
      args.push_back(v);
    }
  }

  void add_outputs(const Node& n, bool sink, std::vector<ValueId>& args) {
    for (ValueId v : n.outputs) {
      if (v < 0 || is_used_up(n)) continue;
      const TensorType& type = value_of(g_, v).type;
      tensors_[v] = sink ? b_.param(Role::out, "Y", type) : b_.temp(temporary_name(g_, n, op_of(n)), type);
      if (sink) args.push_back(v);
    }
  }

  // The nodes of this group that read v.
  std::vector<int> readers(ValueId v) const {
    std::vector<int> out;
    for (int i : group_)
      if (const auto& in = node(i).inputs; std::find(in.begin(), in.end(), v) != in.end()) out.push_back(i);
    return out;
  }
  bool is(int i, const char* op) const { return node(i).domain.empty() && node(i).op == op; }

  // Attention: a Softmax that a product of this group uses up as its left operand, its rows of NaN set to 0
  // on the way or not: Where(IsNaN(P), 0, P), as PyTorch's exporter writes it for rows that are masked whole.
  void find_used_up(const Node& n) {
    if (n.op != "Softmax" || !n.domain.empty()) return;
    ValueId made = n.outputs[0];
    std::vector<int> read_by = readers(made), guard;
    if (read_by.size() == 2 && is(read_by[0], "IsNaN") && is(read_by[1], "Where")) {
      guard = read_by;
      const ValueId is_nan = node(guard[0]).outputs[0];
      const Node& where = node(guard[1]);
      const Tensor* zero = OpContext(g_, where).constant(1);
      if (readers(is_nan) != std::vector<int>{guard[1]} || where.inputs[0] != is_nan ||
          where.inputs[2] != made || !zero || zero->size() != 1 || zero->get(0) != 0)
        return;
      made = where.outputs[0];
      read_by = readers(made);
    }
    const bool used = std::any_of(read_by.begin(), read_by.end(), [&](int i) {
      return op_of(node(i)).pattern == Pattern::anchor && node(i).inputs[0] == made;
    });
    if (!used) return;
    used_up_[n.outputs[0]] = made;
    guards_.insert(guard.begin(), guard.end());
  }
  bool is_used_up(const Node& n) const { return !n.outputs.empty() && used_up_.count(n.outputs[0]); }

  // (exp / sum) V is (exp V) / sum: one quotient for each result, not for each score. The sum is at least 1,
  // so the result is no larger than its terms; these are as many times the values as there are keys, which
  // leaves room below f32's largest number for values of up to 4e34. It is NaN where any of its terms is;
  // such a row is 0 if it is guarded, also where V isn't finite.
  void divide_product(const Node& n, const Rows& rows, const BuildTensor& product, const BuildTensor& out) {
    const Dims& scores = value_of(g_, n.inputs[0]).type.shape;
    std::vector<Axis> axes;
    for (size_t d = 0; d + 2 < out.shape.size(); ++d) axes.push_back({fmt::format("b{}", d), out.shape[d]});
    axes.push_back({"i", out.shape[out.shape.size() - 2]});
    axes.push_back({"j", out.shape.back()});
    b_.compute(out, axes, [&](const std::vector<Expr>& i) {
      std::vector<Expr> row;  // batch dimensions are aligned at the last
      for (size_t d = 0; d + 1 < scores.size(); ++d)
        row.push_back(scores[d] == 1 ? Expr(0) : i[d + out.shape.size() - scores.size()]);
      const Expr sum = rows.sum.at(row), one = make::imm(1, sum.type()), zero = make::imm(0, sum.type());
      const Expr quotient = product.at(i) * (one / sum);
      return rows.guarded ? make::select(make::call(Intrinsic::is_nan, {sum}), zero, quotient) : quotient;
    });
  }

  void add_blocks(const Node& n) {
    const OpDef& op = op_of(n);
    const OpContext ctx(g_, n);
    if (is_used_up(n)) {
      const SoftmaxParts parts = build_softmax_parts(ctx, b_, tensors_.at(n.inputs[0]));
      const ValueId made = used_up_.at(n.outputs[0]);
      tensors_[made] = parts.exp;
      rows_[made] = {parts.sum, made != n.outputs[0]};
      return;
    }
    std::vector<BuildTensor> inputs, outputs;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const InputKind kind = input_kind(op, ctx, i);
      inputs.push_back({});
      if (kind == InputKind::immediate) inputs.back() = immediate(ctx, i);
      if (kind == InputKind::parameter) inputs.back() = tensors_.at(n.inputs[static_cast<size_t>(i)]);
    }
    for (ValueId v : n.outputs) outputs.push_back(v < 0 ? BuildTensor{} : tensors_.at(v));
    const auto rows = n.inputs.empty() ? rows_.end() : rows_.find(n.inputs[0]);
    if (rows == rows_.end()) return op.build(ctx, b_, inputs, outputs);
    const BuildTensor product = b_.temp("T", value_of(g_, n.outputs[0]).type);
    op.build(ctx, b_, inputs, {product});
    divide_product(n, rows->second, product, outputs[0]);
  }

  const Graph& g_;
  const std::vector<int>& group_;
  FuncBuilder b_;
  std::map<ValueId, BuildTensor> tensors_;
  std::map<ValueId, ValueId> used_up_;  // what a Softmax makes, and what of it a product reads
  std::set<int> guards_;                // nodes between the two
  std::map<ValueId, Rows> rows_;        // whose exponentials stand in tensors_, not yet divided
};

}  // namespace

Dims stored_shape(const Graph& g, const Partition& p, ValueId v) {
  Dims shape = value_of(g, v).type.shape;
  if (p.blocked.count(v)) {
    shape[1] = ceil_div(shape[1], p.channel_block);
    shape.push_back(p.channel_block);
  }
  return shape;
}

Tensor constant_argument(const Tensor& constant, const BufferDecl& decl) {
  const std::vector<int64_t> shape = logical_shape(decl);
  Tensor filled(constant.dtype(), shape);
  if (filled.size() == constant.size()) return constant.reshaped(shape);
  NESTOR_CHECK(filled.size() > constant.size()) << decl.buffer->name << " is less than its constant";
  std::memcpy(filled.data(), constant.data(), static_cast<size_t>(constant.bytes()));
  return filled;
}

PrimFunc build_function(const Graph& g, const std::vector<int>& nodes, std::vector<ValueId>* args) {
  std::vector<ValueId> unused;
  return GroupBuilder(g, nodes).build(args ? *args : unused);
}

namespace {

// A loop's or a branch's function stands for its bodies until these are inlined.
bool is_placeholder(const Graph& g, const KernelCall& call) {
  return !g.nodes[static_cast<size_t>(call.nodes[0])].bodies.empty();
}

PrimFunc as_built(const Graph& g, KernelCall& call, const PartitionOptions& options) {
  call.args.clear();
  PrimFunc f = GroupBuilder(g, call.nodes).build(call.args);
  if (g.symbols) f = g.symbols->with_equal(f);
  return options.fuse && !is_placeholder(g, call) ? map_pieces(f) : f;
}

PrimFunc in_blocks(PrimFunc f, const KernelCall& call, const Partition& p) {
  std::vector<bool> which;
  for (const ValueId v : call.args) which.push_back(p.blocked.count(v) > 0);
  if (std::find(which.begin(), which.end(), true) == which.end()) return f;
  return block_channels(f, which, p.channel_block).value();
}

void add_size(const Graph& g, const Expr& value, const Var& dim, KernelCall& call, Partition& p) {
  call.sizes.push_back(value);
  p.typical.emplace(dim, g.symbols->typical(value));
}

}  // namespace

Partition partition(const Graph& g, const PartitionOptions& options) {
  const Fusion fusion = fuse(g, options.fuse, options.join_products);
  Partition out;
  for (int i : fusion.views) {
    const Node& n = g.nodes[static_cast<size_t>(i)];
    const auto root = out.alias.find(n.inputs[0]);
    out.alias[n.outputs[0]] = root == out.alias.end() ? n.inputs[0] : root->second;
  }
  std::vector<PrimFunc> funcs;
  for (const std::vector<int>& group : fusion.groups) {
    KernelCall call;
    call.nodes = group;
    funcs.push_back(as_built(g, call, options));
    out.calls.push_back(std::move(call));
  }
  out.channel_block = options.channel_block;
  out.blocked = blocked_values(g, out, funcs, options);
  FunctionTable table(out.funcs);
  OwnSizes sizes(g.symbols);
  for (size_t c = 0; c < funcs.size(); ++c) {
    KernelCall& call = out.calls[c];
    PrimFunc f = in_blocks(std::move(funcs[c]), call, out);
    if (options.fuse && !is_placeholder(g, call)) f = collapse_dims(split_groups(f));
    if (!f.dims.empty()) sizes.name(f);
    for (const Var& d : f.dims) add_size(g, sizes.value(d), d, call, out);
    call.func = table.add(std::move(f));
  }
  return out;
}

namespace {

// The function of one sample of `call`, and what its parameters have of each sample.
std::optional<OneSample> one_sample(const Graph& g, const KernelCall& call, const Partition& p,
                                    const PartitionOptions& options, std::unordered_map<Var, Graph>& graphs) {
  const auto built = [&](const Graph& of) {
    KernelCall copy = call;
    PrimFunc f = as_built(of, copy, options);
    return in_blocks(std::move(f), copy, p);
  };
  const PrimFunc f = built(g);
  for (const Var& samples : f.dims) {
    const auto sampled = sampled_params(f, samples);
    if (!sampled) continue;
    if (!graphs.count(samples)) graphs.emplace(samples, with_size(g, samples, 1));
    return OneSample{samples, collapse_dims(split_groups(built(graphs.at(samples)))), *sampled};
  }
  return std::nullopt;
}

}  // namespace

void add_one_samples(const Graph& g, Partition& p, const PartitionOptions& options) {
  if (!options.fuse || !g.symbols) return;
  OwnSizes sizes(g.symbols);
  for (const KernelCall& call : p.calls)
    for (size_t d = 0; d < call.sizes.size(); ++d)
      sizes.know(p.funcs[static_cast<size_t>(call.func)].dims[d], call.sizes[d]);
  std::unordered_map<Var, Graph> graphs;
  std::set<int> done;  // functions whose other calls need nothing more
  for (KernelCall& call : p.calls) {
    if (call.sizes.empty() || is_placeholder(g, call) || done.count(call.func)) continue;
    std::optional<OneSample> one = one_sample(g, call, p, options, graphs);
    if (one && !one->func.dims.empty()) sizes.name(one->func);
    PrimFunc& f = p.funcs[static_cast<size_t>(call.func)];
    const std::vector<Expr> known = call.sizes;
    for (const Var& d : one ? one->func.dims : std::vector<Var>()) {
      const Expr value = sizes.value(d);
      const auto is_value = [&](const Expr& e) { return same_expr(e, value); };
      if (std::any_of(known.begin(), known.end(), is_value)) continue;
      if (call.sizes.size() == f.dims.size()) f.dims.push_back(d);
      add_size(g, value, d, call, p);
    }
    NESTOR_CHECK(call.sizes.size() == f.dims.size()) << f.name << " has other sizes of one sample";
    if (call.sizes.size() == known.size()) done.insert(call.func);
    if (one) p.one_sample.emplace(call.func, std::move(*one));
  }
}

}  // namespace nestor

// The table of operators: the built-in families, and what users add.
#include "src/ops/registry.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "nestor/error.h"
#include "nestor/nearest.h"

namespace nestor {

namespace {

struct Table {
  std::mutex mutex;
  std::deque<OpDef> rows;  // a deque: rows never move, so that pointers to them stay good

  Table() {
    ops::Rows all;
    for (auto* family :
         {ops::register_matmul,       ops::register_conv,          ops::register_conv_transpose,
          ops::register_col2im,       ops::register_quantized,     ops::register_quantize,
          ops::register_winograd,     ops::register_unary,         ops::register_binary,
          ops::register_pool,         ops::register_softmax,       ops::register_reduce,
          ops::register_arg_extremum, ops::register_normalization, ops::register_reshape,
          ops::register_movement,     ops::register_pad,           ops::register_gather,
          ops::register_scatter,      ops::register_one_hot,       ops::register_einsum,
          ops::register_attention,    ops::register_recurrent,     ops::register_top_k,
          ops::register_resize,       ops::register_grid_sample,   ops::register_space_depth,
          ops::register_triangle,     ops::register_scan,          ops::register_constant,
          ops::register_known,        ops::register_affine_grid,   ops::register_bits,
          ops::register_packed,       ops::register_formats,       ops::register_control_flow,
          ops::register_found_size,   ops::register_kept_boxes,    ops::register_order})
      family(all);
    for (OpDef& row : all) add(std::move(row));
  }

  // A row of that name whose opsets overlap [first, last].
  const OpDef* find(const std::string& domain, const std::string& name, int first, int last) const {
    for (const OpDef& row : rows)
      if (row.name == name && row.domain == domain && row.since <= last && first <= row.until) return &row;
    return nullptr;
  }

  void add(OpDef row) {
    if (find(row.domain, row.name, row.since, row.until))
      throw UserError("the operator `" + row.name + "` is registered already");
    NESTOR_CHECK(row.infer && (row.build || row.spelled_out)) << row.name << " has no infer or no build";
    rows.push_back(std::move(row));
  }
};

Table& table() {
  static Table t;
  return t;
}

std::string canonical(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

}  // namespace

const OpDef* find_op(const std::string& domain, const std::string& name, int opset) {
  std::lock_guard lock(table().mutex);
  return table().find(canonical(domain), name, opset, opset);
}

std::vector<const OpDef*> all_ops() {
  std::lock_guard lock(table().mutex);
  std::vector<const OpDef*> out;
  for (const OpDef& row : table().rows) out.push_back(&row);
  std::sort(out.begin(), out.end(), [](const OpDef* a, const OpDef* b) {
    return std::tie(a->name, a->domain, a->since) < std::tie(b->name, b->domain, b->since);
  });
  return out;
}

void register_op(OpDef op) {
  op.domain = canonical(op.domain);
  std::lock_guard lock(table().mutex);
  table().add(std::move(op));
}

std::string nearest_op(const std::string& name) {
  std::vector<std::string> names;
  for (const OpDef* op : all_ops()) names.push_back(op->name);
  return nearest_name(name, names);
}

InputKind input_kind(const OpDef& op, const OpContext& ctx, int i) {
  if (!ctx.has_input(i)) return InputKind::none;
  if (std::find(op.static_inputs.begin(), op.static_inputs.end(), i) != op.static_inputs.end())
    return InputKind::none;
  const Tensor* t = ctx.constant(i);
  const bool one = t ? t->size() == 1 : ctx.elements(i).size() == 1;
  return one ? InputKind::immediate : InputKind::parameter;
}

BuildTensor immediate(const OpContext& ctx, int i) {
  if (const Tensor* t = ctx.constant(i)) return immediate(*t);
  return {nullptr, ctx.input(i).shape, ctx.elements(i).at(0)};
}

BuildTensor immediate(const Tensor& t) {
  NESTOR_CHECK(t.size() == 1) << "an immediate of " << t.size() << " elements";
  const Type type{t.dtype(), 1};
  const Expr value =
      is_float(t.dtype()) ? make::float_imm(t.get(0), type) : make::int_imm(t.get_int(0), type);
  return {nullptr, t.shape(), value};
}

std::string param_name(const OpDef& op, int i) {
  size_t begin = 0;
  for (int k = 0; k < i; ++k) {
    const size_t next = op.params.find(' ', begin);
    if (next == std::string::npos) break;
    begin = next + 1;
  }
  return op.params.substr(begin, op.params.find(' ', begin) - begin);
}

PrimFunc build_function(const Graph& g, const Node& n, std::vector<ValueId>* args) {
  const OpDef* op = find_op(n.domain, n.op, n.opset);
  NESTOR_CHECK(op) << "unknown operator " << n.op;
  const OpContext ctx(g, n);
  std::string name = n.op;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  FuncBuilder b(name, g.symbols);
  std::vector<BuildTensor> inputs, outputs;
  std::vector<ValueId> values;                          // by parameter
  std::unordered_map<ValueId, BuildTensor> parameters;  // a value used twice is one
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const InputKind kind = input_kind(*op, ctx, i);
    inputs.push_back({});
    if (kind == InputKind::immediate) inputs.back() = immediate(ctx, i);
    if (kind != InputKind::parameter) continue;
    const ValueId v = n.inputs[static_cast<size_t>(i)];
    const auto [known, fresh] = parameters.try_emplace(v);
    if (fresh) {
      known->second = b.param(ctx.constant(i) ? Role::constant : Role::in, param_name(*op, i), ctx.input(i));
      values.push_back(v);
    }
    inputs.back() = known->second;
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    outputs.push_back({});
    if (n.outputs[i] < 0) continue;
    outputs.back() = b.param(Role::out, "Y", ctx.output(static_cast<int>(i)));
    values.push_back(n.outputs[i]);
  }
  op->build(ctx, b, inputs, outputs);
  if (args) *args = values;
  return b.finish();
}

}  // namespace nestor

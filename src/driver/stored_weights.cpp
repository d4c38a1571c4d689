#include "src/driver/stored_weights.h"

#include "nestor/nest_file.h"
#include "nestor/ops.h"
#include "src/driver/given_layouts.h"

namespace nestor {

namespace {

const Tensor& constant_behind(const CompiledModel& m, ValueId v) {
  for (auto it = m.partition.alias.find(v); it != m.partition.alias.end(); it = m.partition.alias.find(v))
    v = it->second;
  return m.graph.values[static_cast<size_t>(v)].constant;
}

bool is_matrix(const Param& p) {
  return p.role == Role::constant && p.decl.shape.size() == 2;
}

template <class See>
void for_each_matrix(const CompiledModel& m, const PrimFunc& f, const KernelCall& call, const See& see) {
  for (size_t i = 0; i < f.params.size(); ++i)
    if (const Tensor& t = constant_behind(m, call.args[i]); is_matrix(f.params[i]) && t.defined()) {
      std::vector<int64_t> shape;
      for (const Expr& e : f.params[i].decl.shape) shape.push_back(as_int(e).value_or(0));
      see(i, std::pair(hash_of_bytes(t), to_string(t.dtype(), shape)));
    }
}

// With usual sizes where some are open.
PrimFunc known(const PrimFunc& f, const Partition& p) {
  return f.dims.empty() ? f : with_dims(f, p.typical);
}

}  // namespace

void StoredWeights::add(const CompiledModel& m) {
  for (const KernelCall& call : m.partition.calls) {
    if (call.control) continue;
    const PrimFunc& f = m.funcs[static_cast<size_t>(call.func)].scheduled;
    for_each_matrix(m, f, call,
                    [&](size_t i, const Key& key) { layouts_.emplace(key, layout_of(f.params[i].decl)); });
  }
  for (const Node& n : m.graph.nodes)
    if (n.op == "WinogradConv" && n.domain == "nestor")
      if (const Tensor& weights = constant_behind(m, n.inputs[3]); weights.defined())
        transformed_.known.emplace(hash_of_bytes(weights), OpContext(m.graph, n).get_int("tile", 0));
}

void StoredWeights::give_layouts(CompiledModel& m, const CompileOptions& options) const {
  Partition& p = m.partition;
  std::map<int, GivenLayouts> given;  // by function
  for (const KernelCall& call : p.calls) {
    if (call.control) continue;
    const PrimFunc& f = p.funcs[static_cast<size_t>(call.func)];
    const auto [it, first] = given.try_emplace(call.func, f.params.size());
    for_each_matrix(m, f, call, [&](size_t i, const Key& key) {
      const auto found = layouts_.find(key);
      const bool same =
          found != layouts_.end() && (first || (it->second[i] && same_layout(*it->second[i], found->second)));
      it->second[i] = same ? std::optional(found->second) : std::nullopt;
    });
  }
  for (const auto& [func, layouts] : given) {
    PrimFunc& f = p.funcs[static_cast<size_t>(func)];
    const auto one = p.one_sample.find(func);
    const PrimFunc planned = known(one == p.one_sample.end() ? f : one->second.func, p);
    if (choose_schedule(planned, options).origin != "default" || !suit(layouts, planned, options.target))
      continue;
    f = with_layouts(std::move(f), layouts);
    if (one != p.one_sample.end()) one->second.func = with_layouts(std::move(one->second.func), layouts);
  }
}

}  // namespace nestor

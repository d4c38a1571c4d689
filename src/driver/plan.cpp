// The execution plan of a partitioned graph: every value gets a place, and every constant is packed as its
// readers need it.
//
// A value that a kernel computes is in the arena as long as it is read, or in the caller's output buffer if
// it is an output. Views (such as Reshape) share the place of the value they are views of. If an output is a
// view of an input, of a constant or of another output, it is copied at the end.

#include <cstring>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "nestor/driver.h"
#include "nestor/index_checks.h"
#include "nestor/layout.h"
#include "nestor/print.h"
#include "src/driver/count_flops.h"
#include "src/driver/device_plan.h"

namespace nestor {

namespace {

std::string layout_key(const BufferDecl& decl) {
  if (!decl.layout) return "";
  std::string key = "(";
  for (const Var& v : decl.layout->vars) key += v->name + ",";
  key += ")->(";
  for (const Expr& e : decl.layout->exprs) key += print(e) + ",";
  return key + ") pad " + std::to_string(decl.layout->pad);
}

class PlanBuilder {
 public:
  // let_go: constants go from the graph once all who read them have them packed.
  PlanBuilder(Graph& g, const Partition& p, const std::vector<CompiledFunction>& funcs, bool let_go)
      : graph_(g), partition_(p), funcs_(funcs), let_go_(let_go) {}

  std::shared_ptr<const Plan> build(int threads, bool workspace) {
    auto plan = std::make_shared<Plan>();
    plan->name = graph_.name;
    plan->threads = threads;
    for (ValueId v : graph_.inputs) plan->inputs.push_back(describe(v));
    for (ValueId v : graph_.outputs) plan->outputs.push_back(describe(v));
    for (const CompiledFunction& f : funcs_) {
      plan->kernels.push_back(f.lowered.name);
      if (workspace)
        plan->workspace_bytes = std::max(plan->workspace_bytes, workspace_bytes(f.lowered, threads));
    }
    place_inputs_and_outputs();
    place_temporaries(*plan);
    if (let_go_) count_readers();
    for (const KernelCall& call : partition_.calls) {
      plan->calls.push_back(plan_call(call));
      for (const int n : call.nodes)
        if (const Node& node = graph_.nodes[static_cast<size_t>(n)]; is_index_check(node))
          plan->calls.push_back({kCheck, {plan->calls.back().args.back()}, 0, found_by(node)});
    }
    copy_remaining_outputs(*plan);
    count_flops(*plan, graph_, partition_, funcs_);
    plan->weights = Tensor(DType::u8, {weight_bytes_});
    for (auto& [offset, tensor] : packed_) {
      std::memcpy(static_cast<uint8_t*>(plan->weights.data()) + offset, tensor.data(),
                  static_cast<size_t>(tensor.bytes()));
      tensor = {};
    }
    check_plan(*plan);
    return plan;
  }

 private:
  const Value& value(ValueId v) const { return graph_.values[static_cast<size_t>(v)]; }
  PlanTensor describe(ValueId v) const { return {value(v).name, value(v).type.dtype, value(v).type.shape}; }
  int64_t bytes(ValueId v) const { return describe(v).bytes(); }
  const PrimFunc& func(const KernelCall& call) const {
    return funcs_[static_cast<size_t>(call.func)].scheduled;
  }

  ValueId root(ValueId v) const {
    for (auto it = partition_.alias.find(v); it != partition_.alias.end(); it = partition_.alias.find(v))
      v = it->second;
    return v;
  }

  void place_inputs_and_outputs() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      places_[graph_.inputs[i]] = {Region::input, static_cast<int64_t>(i)};
    std::map<ValueId, bool> produced;
    for (const KernelCall& call : partition_.calls)
      for (size_t i = 0; i < call.args.size(); ++i)
        if (func(call).params[i].role == Role::out) produced[call.args[i]] = true;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ValueId r = root(graph_.outputs[i]);
      if (produced.count(r) && !places_.count(r)) places_[r] = {Region::output, static_cast<int64_t>(i)};
    }
  }

  void place_temporaries(Plan& plan) {
    std::vector<ValueId> values;  // in order of production
    std::vector<Lifetime> lives;
    std::map<ValueId, size_t> index;
    for (size_t step = 0; step < partition_.calls.size(); ++step) {
      const KernelCall& call = partition_.calls[step];
      for (size_t i = 0; i < call.args.size(); ++i) {
        const ValueId v = root(call.args[i]);
        if (func(call).params[i].role == Role::out) {
          NESTOR_CHECK(v == call.args[i] && !index.count(v))
              << "two producers of value '" << value(v).name << "'";
          if (places_.count(v)) continue;
          index[v] = values.size();
          values.push_back(v);
          const PlanTensor stored{"", value(v).type.dtype, stored_shape(graph_, partition_, v)};
          lives.push_back({stored.bytes(), static_cast<int>(step), static_cast<int>(step)});
        } else if (auto it = index.find(v); it != index.end()) {
          lives[it->second].last = static_cast<int>(step);
        }
      }
    }
    const ArenaLayout layout = plan_arena(lives);
    for (size_t i = 0; i < values.size(); ++i) places_[values[i]] = {Region::arena, layout.offsets[i]};
    plan.arena_bytes = layout.bytes;
  }

  // Of constants; those without any go.
  void count_readers() {
    readers_.assign(graph_.values.size(), 0);
    for (const KernelCall& call : partition_.calls)
      for (const ValueId v : call.args) ++readers_[static_cast<size_t>(root(v))];
    for (const ValueId v : graph_.outputs) ++readers_[static_cast<size_t>(root(v))];
    for (size_t v = 0; v < readers_.size(); ++v)
      if (readers_[v] == 0) graph_.values[v].constant = {};
  }

  // Packed once for each layout that someone asks for. v may be a view of the constant r.
  Place constant(ValueId r, ValueId v, const BufferDecl* decl) {
    const Tensor& bytes = value(r).constant;
    const Tensor logical = decl ? constant_argument(bytes, *decl) : bytes.reshaped(value(v).type.shape);
    const bool packs = decl && decl->layout;
    const std::string shape = to_string(logical.dtype(), logical.shape());
    const std::string filled = logical.size() > bytes.size() ? shape : "";
    const auto key = std::make_pair(r, packs ? shape + layout_key(*decl) : filled);
    auto it = weights_.find(key);
    if (it == weights_.end())
      it = weights_.emplace(key, place_bytes(packs ? pack(logical, *decl) : logical)).first;
    return {Region::weights, it->second};
  }

  // Equal bytes are stored once, whatever they are called and however they came about.
  int64_t place_bytes(Tensor packed) {
    const auto bytes_in = [](const Tensor& t) {
      return std::string_view(static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes()));
    };
    const size_t hash = std::hash<std::string_view>()(bytes_in(packed));
    const auto [begin, end] = packed_by_hash_.equal_range(hash);
    for (auto other = begin; other != end; ++other)
      if (bytes_in(packed_[other->second].second) == bytes_in(packed)) return packed_[other->second].first;
    packed_by_hash_.emplace(hash, packed_.size());
    const int64_t at = weight_bytes_;
    weight_bytes_ += align_up(packed.bytes());
    packed_.emplace_back(at, std::move(packed));
    return at;
  }

  Place place_of(ValueId v, const BufferDecl* decl) {
    const ValueId r = root(v);
    if (value(r).constant.defined()) {
      const Place place = constant(r, v, decl);
      if (let_go_ && --readers_[static_cast<size_t>(r)] == 0)
        graph_.values[static_cast<size_t>(r)].constant = {};
      return place;
    }
    auto it = places_.find(r);
    NESTOR_CHECK(it != places_.end()) << "value '" << value(r).name << "' is read before it is computed";
    return it->second;
  }

  PlanCall plan_call(const KernelCall& call) {
    PlanCall planned{call.func, {}, 0, ""};
    const PrimFunc& f = func(call);
    NESTOR_CHECK(f.params.size() == call.args.size())
        << f.name << " is called with " << call.args.size() << " args";
    for (size_t i = 0; i < call.args.size(); ++i)
      planned.args.push_back(place_of(call.args[i], &f.params[i].decl));
    for (int n : call.nodes) {
      const Node& node = graph_.nodes[static_cast<size_t>(n)];
      planned.label += (planned.label.empty() ? "" : " + ") + node.op;
    }
    return planned;
  }

  void copy_remaining_outputs(Plan& plan) {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ValueId v = graph_.outputs[i];
      const Place here{Region::output, static_cast<int64_t>(i)}, from = place_of(v, nullptr);
      if (from == here) continue;
      plan.calls.push_back({kCopy, {from, here}, bytes(v), "copy"});
    }
  }

  Graph& graph_;
  const Partition& partition_;
  const std::vector<CompiledFunction>& funcs_;
  const bool let_go_;
  std::vector<int> readers_;  // of constants, that have yet to come
  std::map<ValueId, Place> places_;
  std::map<std::pair<ValueId, std::string>, int64_t> weights_;
  std::vector<std::pair<int64_t, Tensor>> packed_;  // with offsets
  std::unordered_multimap<size_t, size_t> packed_by_hash_;
  int64_t weight_bytes_ = 0;
};

}  // namespace

std::shared_ptr<const Plan> build_plan(Graph& g, const Partition& p,
                                       const std::vector<CompiledFunction>& funcs, int threads,
                                       bool keep_constants) {
  return PlanBuilder(g, p, funcs, !keep_constants).build(threads, true);
}

std::shared_ptr<const Plan> build_device_plan(Graph& g, const Partition& p,
                                              const std::vector<CompiledFunction>& funcs,
                                              bool keep_constants) {
  return PlanBuilder(g, p, funcs, !keep_constants).build(1, false);
}

}  // namespace nestor

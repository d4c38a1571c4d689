// The execution plan of a partitioned graph: every value gets a place, and every constant is packed as its
// readers need it.
//
// A value that a kernel computes is in the arena as long as it is read, or in the caller's output buffer if
// it is an output. Views (such as Reshape) share the place of the value they are views of. If an output is a
// view of an input, of a constant or of another output, it is copied at the end.

#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "nestor/driver.h"
#include "nestor/index_checks.h"
#include "nestor/layout.h"
#include "nestor/print.h"
#include "nestor/walk.h"
#include "src/driver/count_flops.h"
#include "src/driver/device_plan.h"
#include "src/driver/plan_control.h"
#include "src/driver/size_table.h"
#include "src/graph/found_sizes.h"

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
      : graph_(g), partition_(p), funcs_(funcs), let_go_(let_go) {
    if (g.symbols) sizes_.emplace(g.symbols);
  }

  std::shared_ptr<const Plan> build(int threads, bool workspace) {
    auto plan = std::make_shared<Plan>();
    plan->name = graph_.name;
    plan->threads = threads;
    for (ValueId v : graph_.inputs) plan->inputs.push_back(describe(v));
    for (ValueId v : graph_.outputs) plan->outputs.push_back(describe(v));
    for (const CompiledFunction& f : funcs_) {
      plan->kernels.push_back(f.lowered.name);
      if (workspace && f.lowered.dims.empty())
        plan->workspace_bytes = std::max(plan->workspace_bytes, workspace_bytes(f.lowered, threads));
    }
    place_values(*plan);
    if (let_go_) count_readers();
    const ControlPlanner::Places places = {[this](ValueId v) { return place_of(v, nullptr); },
                                           [this](const Dim& number) { return place_number(number); },
                                           offsets_};
    for (size_t step = 0; step < partition_.calls.size(); ++step) {
      const KernelCall& call = partition_.calls[step];
      if (call.control) {
        control_->emit(static_cast<int>(step), places, plan->calls);
        continue;
      }
      plan->calls.push_back(plan_call(call));
      for (const int n : call.nodes)
        if (const Node& node = graph_.nodes[static_cast<size_t>(n)]; is_index_check(node))
          plan->calls.push_back({kCheck, {plan->calls.back().args.back()}, 0, found_by(node)});
        else if (is_found_size(node))
          add_found(node, *plan);
    }
    copy_remaining_outputs(*plan);
    count_flops(*plan, graph_, partition_, funcs_);
    plan->weights = Tensor(DType::u8, {weight_bytes_});
    for (auto& [offset, tensor] : packed_) {
      std::memcpy(static_cast<uint8_t*>(plan->weights.data()) + offset, tensor.data(),
                  static_cast<size_t>(tensor.bytes()));
      tensor = {};
    }
    if (sizes_) finish_sizes(*plan, threads);
    check_plan(*plan);
    return plan;
  }
  PrimFunc size_function() const { return sizes_ ? sizes_->function(kSizeFunction) : PrimFunc{}; }

 private:
  static constexpr const char* kSizeFunction = "sizes_of_run";

  // The call before this one made the size of a symbol.
  void add_found(const Node& node, Plan& plan) {
    const std::string& name = symbol_found_by(node);
    found_.push_back(sizes_->symbol(name));
    plan.calls.push_back({kFound, {plan.calls.back().args.back()}, found_.back(), name});
  }

  Expr bytes_expr(ValueId v) const {
    const Dims shape = stored_shape(graph_, partition_, v);
    return elements_of(shape).expr() * bytes_of(value(v).type.dtype);
  }

  // The workspace of each call, and what the shapes of inputs decide.
  void finish_sizes(Plan& plan, int threads) {
    std::vector<int64_t> workspace = {sizes_->add(Expr(plan.workspace_bytes))};
    plan.workspace_bytes = 0;
    for (const KernelCall& call : partition_.calls) {
      if (call.control) continue;
      const PrimFunc& f = funcs_[static_cast<size_t>(call.func)].lowered;
      if (f.dims.empty()) continue;
      VarMap values;
      for (size_t d = 0; d < f.dims.size(); ++d) values[f.dims[d]] = call.sizes[d];
      workspace.push_back(sizes_->add_most(substitute(workspace_size(f, threads), values)));
    }
    std::vector<int64_t> outputs, made;
    for (const ValueId v : graph_.outputs) {
      for (const Dim& d : value(v).type.shape) {
        outputs.push_back(sizes_->add_most(d.expr()));
        made.push_back(sizes_->add(d.expr()));
      }
      sizes_->require_bytes(value(v).type.shape, value(v).type.dtype, value(v).name);
    }
    std::vector<Dims> inputs;
    for (const ValueId v : graph_.inputs) {
      inputs.push_back(value(v).type.shape);
      sizes_->require_bytes(inputs.back(), value(v).type.dtype, value(v).name);
    }
    plan.sizes = sizes_->finish(plan.inputs, inputs, found_);
    plan.sizes.kernel = kSizeFunction;
    plan.sizes.workspaces = std::move(workspace);
    plan.sizes.outputs = std::move(outputs);
    plan.sizes.made = std::move(made);
    plan.sizes.arena = std::move(in_arena_);
  }

  const Value& value(ValueId v) const { return graph_.values[static_cast<size_t>(v)]; }
  PlanTensor describe(ValueId v) const {
    PlanTensor out{value(v).name, value(v).type.dtype, {}};
    const Dims& shape = value(v).type.shape;
    for (const Dim& d : shape) {
      out.shape.push_back(d.known() ? static_cast<int64_t>(d) : kOpenSize);
      if (!shape.known()) out.symbols.push_back(to_string(d));
    }
    return out;
  }
  const PrimFunc& func(const KernelCall& call) const {
    return funcs_[static_cast<size_t>(call.func)].scheduled;
  }

  ValueId root(ValueId v) const {
    for (auto it = partition_.alias.find(v); it != partition_.alias.end(); it = partition_.alias.find(v))
      v = it->second;
    return v;
  }

  // What values the functions write, by step; each has one that does.
  std::map<ValueId, int> written() const {
    std::map<ValueId, int> out;
    for (size_t step = 0; step < partition_.calls.size(); ++step) {
      const KernelCall& call = partition_.calls[step];
      if (call.control) continue;
      for (size_t i = 0; i < call.args.size(); ++i) {
        const ValueId v = call.args[i];
        if (func(call).params[i].role != Role::out) continue;
        const bool first = out.emplace(v, static_cast<int>(step)).second;
        NESTOR_CHECK(first && v == root(v)) << "two producers of value '" << value(v).name << "'";
      }
    }
    return out;
  }

  void place_values(Plan& plan) {
    PlanValues values{[this](ValueId v) { return root(v); }, [this](ValueId v) { return bytes(v); },
                      [this](ValueId v) { return stored_bytes(v); }, written()};
    control_.emplace(partition_, values);
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      control_->put(graph_.inputs[i], {Region::input, static_cast<int64_t>(i)});
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      if (const ValueId r = root(graph_.outputs[i]); control_->is_made(r) && !control_->has_place(r))
        control_->put(r, {Region::output, static_cast<int64_t>(i)});
    for (size_t step = 0; step < partition_.calls.size(); ++step) {
      const KernelCall& call = partition_.calls[step];
      const int at = static_cast<int>(step);
      if (call.control) control_->visit(at);
      for (size_t i = 0; i < call.args.size(); ++i)
        if (func(call).params[i].role != Role::out)
          control_->read(call.args[i], at);
        else
          control_->write(call.args[i], at);
    }
    // Outputs that are copied at the end.
    for (const ValueId v : graph_.outputs) control_->read(v, static_cast<int>(partition_.calls.size()));
    plan.pointers = control_->pointers();
    if (sizes_) return place_by_index();
    const ArenaLayout layout = plan_arena(control_->lives());
    offsets_ = layout.offsets;
    plan.arena_bytes = layout.bytes;
  }
  // Where sizes are open, the number that has the bytes.
  int64_t stored_bytes(ValueId v) {
    const Expr bytes = bytes_expr(v);
    if (!sizes_) return as_int(bytes).value();
    sizes_->require_bytes(value(v).type.shape, value(v).type.dtype, value(v).name);
    // What a branch that isn't taken would need may come out as less than none.
    return sizes_->add_most(Dim(max(bytes, Expr(0)), graph_.symbols).expr());
  }
  // The arena is laid out by runs: a buffer's place is its index.
  void place_by_index() {
    for (const Lifetime& l : control_->lives()) {
      offsets_.push_back(static_cast<int64_t>(in_arena_.size()));
      in_arena_.push_back({l.bytes, l.first, l.last});
    }
  }
  Dim bytes(ValueId v) const { return elements_of(value(v).type.shape) * bytes_of(value(v).type.dtype); }

  // Of constants; those without any go.
  void count_readers() {
    readers_.assign(graph_.values.size(), 0);
    for (const KernelCall& call : partition_.calls)
      for (const ValueId v : call.args) ++readers_[static_cast<size_t>(root(v))];
    for (const KernelCall& call : partition_.calls)
      if (call.control)
        for (const ValueId v : values_of(*call.control)) ++readers_[static_cast<size_t>(root(v))];
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
      // What a loop begins with, or a branch hands on, is asked for more often.
      if (let_go_ && decl && --readers_[static_cast<size_t>(r)] == 0)
        graph_.values[static_cast<size_t>(r)].constant = {};
      return place;
    }
    if (const ValueId same = control_->shared_with(r); same != r) return place_of(same, nullptr);
    const std::optional<Place> place = control_->place_of(r, offsets_);
    NESTOR_CHECK(place) << "value '" << value(r).name << "' is read before it is computed";
    return *place;
  }
  Place place_number(const Dim& number) {
    if (!number.known()) return {Region::sizes, sizes_->add(number.expr())};
    Tensor t(DType::i64, {});
    t.set_int(0, number);
    return {Region::weights, place_bytes(std::move(t))};
  }

  PlanCall plan_call(const KernelCall& call) {
    PlanCall planned{call.func, {}, 0, ""};
    const PrimFunc& f = func(call);
    NESTOR_CHECK(f.params.size() == call.args.size())
        << f.name << " is called with " << call.args.size() << " args";
    for (size_t i = 0; i < call.args.size(); ++i)
      planned.args.push_back(place_of(call.args[i], &f.params[i].decl));
    if (!call.sizes.empty()) planned.args.push_back({Region::sizes, sizes_->add_list(call.sizes)});
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
      PlanCall copy{kCopy, {from, here}, 0, "copy"};
      const Expr bytes = bytes_expr(v);
      if (const auto known = as_int(bytes))
        copy.bytes = *known;
      else
        copy.bytes_at = sizes_->add(bytes);
      plan.calls.push_back(std::move(copy));
    }
  }

  Graph& graph_;
  const Partition& partition_;
  const std::vector<CompiledFunction>& funcs_;
  const bool let_go_;
  std::vector<int> readers_;  // of constants, that have yet to come
  std::optional<ControlPlanner> control_;
  std::vector<int64_t> offsets_;  // of buffers in the arena
  std::map<std::pair<ValueId, std::string>, int64_t> weights_;
  std::vector<std::pair<int64_t, Tensor>> packed_;  // with offsets
  std::unordered_multimap<size_t, size_t> packed_by_hash_;
  int64_t weight_bytes_ = 0;
  std::optional<SizeTable> sizes_;  // where some are symbolic
  std::vector<int64_t> found_;      // symbols that calls find out, in their order
  std::vector<PlanSizes::InArena> in_arena_;
};

}  // namespace

std::shared_ptr<const Plan> build_plan(Graph& g, const Partition& p,
                                       const std::vector<CompiledFunction>& funcs, int threads,
                                       bool keep_constants, PrimFunc* size_function) {
  PlanBuilder builder(g, p, funcs, !keep_constants);
  auto plan = builder.build(threads, true);
  if (size_function) *size_function = builder.size_function();
  return plan;
}

std::shared_ptr<const Plan> build_device_plan(Graph& g, const Partition& p,
                                              const std::vector<CompiledFunction>& funcs,
                                              bool keep_constants) {
  return PlanBuilder(g, p, funcs, !keep_constants).build(1, false);
}

}  // namespace nestor

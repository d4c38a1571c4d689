#include "src/driver/merge_plans.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "nestor/simplify.h"
#include "nestor/walk.h"

namespace nestor {

namespace {

// What the function of sizes computes.
std::vector<Expr> stored_values(const PrimFunc& size_function) {
  std::vector<Expr> out;
  for_each_stmt(size_function.body, [&](const Stmt& s) {
    if (const auto* store = s.as<Store>()) out.push_back(store->value);
  });
  return out;
}

// Loads from one buffer as others.
class ReplaceLoads : public Rewriter {
 public:
  Buffer buffer;
  std::vector<Expr> by;  // of each index
  Expr expr(const Expr& e) override {
    const auto* load = e.as<Load>();
    if (!load || load->buffer != buffer) return children(e);
    const auto index = as_int(load->indices.at(0));
    return by.at(static_cast<size_t>(index.value()));
  }
};

Expr is_not_0(const Expr& number) {
  return make::binary(BinaryOp::ne, number, Expr(0));
}

[[noreturn]] void refuse_found(const std::string& name) {
  throw UserError("--specialize isn't supported here: values decide the size " + name +
                  " for some of the sizes, and for others it is known");
}

std::string_view bytes_in(const Tensor& t) {
  return {static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes())};
}

}  // namespace

PlanMerger::PlanMerger(CompiledModel open) : model_(std::move(open)), plan_(*model_.plan) {
  sizes_ = model_.size_function.params.at(0).decl.buffer;
  numbers_ = stored_values(model_.size_function);
  for (size_t k = 0; k < model_.funcs.size(); ++k)
    by_hash_.emplace(structural_hash(model_.funcs[k].lowered), static_cast<int>(k));
  model_.plan = nullptr;
  open_weights_ = place_weights(plan_);
  plan_.weights = {};
}

int PlanMerger::add_number(const Expr& number) {
  const auto [it, added] = by_number_.emplace(number, static_cast<int>(numbers_.size()));
  if (added) numbers_.push_back(number);
  return it->second;
}

// The other model's symbols, as numbers of this one's. Both find the same sizes, or a run's outputs wouldn't
// be what this model says.
std::vector<int64_t> PlanMerger::symbols_of(const CompiledModel& m) const {
  const std::vector<Symbol>& all = model_.graph.symbols->all();
  const std::vector<Symbol>& others = m.graph.symbols->all();
  std::vector<int64_t> out;
  for (const Symbol& s : others) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const Symbol& o) { return o.name == s.name; });
    if (s.bound && same == all.end()) refuse_found(s.name);
    NESTOR_CHECK(same != all.end()) << "the size " << s.name << " is open for chosen sizes alone";
    out.push_back(same - all.begin());
  }
  for (size_t s = 0; s < all.size(); ++s)
    if (all[s].bound && !std::count(out.begin(), out.end(), static_cast<int64_t>(s)))
      refuse_found(all[s].name);
  return out;
}

// What the other model's runs compute, of the symbols of this one.
std::vector<Expr> PlanMerger::numbers_of(const CompiledModel& m, const std::vector<int64_t>& symbols) const {
  ReplaceLoads replace;
  replace.buffer = m.size_function.params.at(0).decl.buffer;
  for (const int64_t s : symbols) replace.by.push_back(make::load(sizes_, {Expr(s)}));
  std::vector<Expr> out;
  for (const Expr& e : stored_values(m.size_function)) out.push_back(replace.expr(e));
  return out;
}

// That a run's sizes are those values, and all that the other model requires of them holds. What doesn't is
// no mistake: the run is then one of open sizes.
Expr PlanMerger::condition(const CompiledModel& m, const std::vector<Expr>& numbers,
                           const std::vector<std::optional<int64_t>>& values) const {
  Expr out = make::bool_imm(true);
  const auto require = [&](const Expr& e) { out = logical_and(out, e); };
  for (size_t s = 0; s < values.size(); ++s)
    if (values[s]) require(eq(make::load(sizes_, {Expr(static_cast<int64_t>(s))}), Expr(*values[s])));
  for (const PlanSizes::Requirement& r : m.plan->sizes.requirements)
    if (r.after < 0) require(is_not_0(numbers.at(static_cast<size_t>(r.number))));
  for (const PlanSizes::Check& c : m.plan->sizes.checks) {
    const Expr& wanted = numbers.at(static_cast<size_t>(c.number));
    for (const PlanSizes::Check& mine : plan_.sizes.checks) {
      const Expr& number = numbers_.at(static_cast<size_t>(mine.number));
      if (mine.place == c.place && !same_expr(number, wanted)) require(eq(number, wanted));
    }
  }
  return out;
}

void PlanMerger::add_buffers(PlanSizes& into, const PlanSizes& from, const std::vector<Expr>& numbers,
                             const Expr& chosen) {
  const auto bytes = [&](int64_t number) {
    return add_number(make::select(chosen, numbers.at(static_cast<size_t>(number)), Expr(0)));
  };
  for (const PlanSizes::InArena& v : from.arena) into.arena.push_back({bytes(v.bytes), v.first, v.last});
  for (const int64_t w : from.workspaces) into.workspaces.push_back(bytes(w));
}

// Of sizes that the model requires to be equal, the chosen ones may differ: where one is 1, it is broadcast.
void PlanMerger::choose_outputs(std::vector<int64_t>& outputs, const std::vector<int64_t>& chosen,
                                const std::vector<Expr>& numbers, const Expr& is_chosen) {
  NESTOR_CHECK(outputs.size() == chosen.size()) << chosen.size() << " dimensions of outputs";
  for (size_t d = 0; d < outputs.size(); ++d) {
    const Expr& open = numbers_.at(static_cast<size_t>(outputs[d]));
    const Expr& other = numbers.at(static_cast<size_t>(chosen[d]));
    if (!same_expr(open, other)) outputs[d] = add_number(make::select(is_chosen, other, open));
  }
}

// What the model requires of its sizes, it doesn't of chosen ones: those meet what their own model requires.
void PlanMerger::require_of_others() {
  for (PlanSizes::Requirement& r : plan_.sizes.requirements) {
    const Expr& holds = numbers_.at(static_cast<size_t>(r.number));
    r.number = add_number(make::select(any_, Expr(1), holds));
  }
}

int PlanMerger::kernel_for(CompiledFunction f, PrimFunc func, double flops) {
  const uint64_t hash = structural_hash(f.lowered);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (structural_equal(model_.funcs[static_cast<size_t>(it->second)].lowered, f.lowered)) return it->second;
  const auto taken = [&](const std::string& name) {
    return std::any_of(model_.funcs.begin(), model_.funcs.end(),
                       [&](const CompiledFunction& g) { return g.lowered.name == name; });
  };
  std::string name = f.lowered.name;
  for (int k = 1; taken(name); ++k) name = f.lowered.name + "_" + std::to_string(k);
  f.func.name = f.scheduled.name = f.lowered.name = func.name = name;
  const auto kernel = static_cast<int>(model_.funcs.size());
  by_hash_.emplace(hash, kernel);
  model_.funcs.push_back(std::move(f));
  model_.partition.funcs.push_back(std::move(func));
  plan_.kernels.push_back(name);
  plan_.kernel_flops.push_back(flops);
  return kernel;
}

int64_t PlanMerger::place_piece(const Tensor& piece) {
  const size_t hash = std::hash<std::string_view>()(bytes_in(piece));
  const auto [begin, end] = pieces_by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (bytes_in(pieces_[it->second].second) == bytes_in(piece)) return pieces_[it->second].first;
  const int64_t at = weight_bytes_;
  pieces_by_hash_.emplace(hash, pieces_.size());
  pieces_.emplace_back(at, piece);
  weight_bytes_ += align_up(piece.bytes());
  return at;
}

std::map<int64_t, int64_t> PlanMerger::place_weights(const Plan& plan) {
  std::set<int64_t> starts;
  for (const PlanCall& call : plan.calls)
    for (const Place& p : call.args)
      if (p.region == Region::weights) starts.insert(p.at);
  std::map<int64_t, int64_t> out;
  const auto* bytes = static_cast<const uint8_t*>(plan.weights.data());
  for (auto it = starts.begin(); it != starts.end(); ++it) {
    const int64_t end = std::next(it) == starts.end() ? plan.weights.bytes() : *std::next(it);
    Tensor piece(DType::u8, {end - *it});
    if (end > *it) std::memcpy(piece.data(), bytes + *it, static_cast<size_t>(end - *it));
    out[*it] = place_piece(piece);
  }
  return out;
}

void PlanMerger::add_calls(const std::vector<PlanCall>& calls, const Starts& from) {
  const auto first_call = static_cast<int64_t>(calls_.size());
  for (PlanCall call : calls) {
    if (call.kernel >= 0) call.kernel = from.kernels.at(static_cast<size_t>(call.kernel));
    if (call.kernel == kFound) call.bytes = from.symbols.at(static_cast<size_t>(call.bytes));
    if (call.bytes_at >= 0) call.bytes_at += static_cast<int>(from.number);
    call.target += first_call;
    for (Place& p : call.args) {
      if (p.region == Region::weights) p.at = from.weights.at(p.at);
      if (p.region == Region::arena) p.at += from.buffer;
      if (p.region == Region::sizes) p.at += from.number;
      if (p.region == Region::moving) p.at += from.pointer;
    }
    calls_.push_back(std::move(call));
  }
}

int64_t PlanMerger::add(CompiledModel chosen, const std::vector<std::optional<int64_t>>& values) {
  const Plan& plan = *chosen.plan;
  const int64_t weights_before = weight_bytes_;
  Starts from;
  from.number = static_cast<int64_t>(numbers_.size());
  from.buffer = static_cast<int64_t>(buffers_.arena.size());
  from.pointer = pointers_;
  pointers_ += plan.pointers;
  from.weights = place_weights(plan);
  from.symbols = symbols_of(chosen);
  const std::vector<Expr> numbers = numbers_of(chosen, from.symbols);
  const Expr is_chosen = condition(chosen, numbers, values);
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  add_buffers(buffers_, plan.sizes, numbers, is_chosen);
  for (const PlanSizes::Requirement& r : plan.sizes.requirements)
    if (r.after >= 0)
      of_chosen_.push_back(
          {r.text, add_number(make::select(is_chosen, numbers.at(static_cast<size_t>(r.number)), Expr(1))),
           from.symbols.at(static_cast<size_t>(r.after))});
  any_ = logical_or(any_, is_chosen);
  choose_outputs(plan_.sizes.outputs, plan.sizes.outputs, numbers, is_chosen);
  choose_outputs(plan_.sizes.made, plan.sizes.made, numbers, is_chosen);
  for (size_t k = 0; k < chosen.funcs.size(); ++k)
    from.kernels.push_back(kernel_for(std::move(chosen.funcs[k]), std::move(chosen.partition.funcs[k]),
                                      plan.kernel_flops.at(k)));
  // The flag of a jump is a byte, the first of the number.
  PlanCall skip{kSkip, {{Region::sizes, add_number(make::select(is_chosen, Expr(1), Expr(0)))}}, 0, ""};
  skip.target = static_cast<int64_t>(calls_.size() + plan.calls.size() + 2);
  calls_.push_back(std::move(skip));
  add_calls(plan.calls, from);
  ends_.push_back(calls_.size());
  calls_.push_back({kSkip, {}, 0, ""});
  return weight_bytes_ - weights_before;
}

CompiledModel PlanMerger::finish() {
  Starts from;
  from.buffer = static_cast<int64_t>(buffers_.arena.size());
  from.pointer = pointers_;
  from.weights = open_weights_;
  for (size_t s = 0; s < plan_.sizes.symbols.size(); ++s) from.symbols.push_back(static_cast<int64_t>(s));
  for (size_t k = 0; k < plan_.kernels.size(); ++k) from.kernels.push_back(static_cast<int>(k));
  const std::vector<Expr> numbers = numbers_;
  require_of_others();
  plan_.sizes.requirements.insert(plan_.sizes.requirements.end(), of_chosen_.begin(), of_chosen_.end());
  add_buffers(buffers_, plan_.sizes, numbers, logical_not(any_));
  add_calls(plan_.calls, from);
  for (const size_t end : ends_) calls_[end].target = static_cast<int64_t>(calls_.size());
  plan_.calls = std::move(calls_);
  plan_.pointers += pointers_;
  plan_.sizes.arena = std::move(buffers_.arena);
  plan_.sizes.workspaces = std::move(buffers_.workspaces);
  plan_.sizes.numbers = static_cast<int64_t>(numbers_.size());
  plan_.weights = Tensor(DType::u8, {weight_bytes_});
  for (auto& [offset, piece] : pieces_) {
    std::memcpy(static_cast<uint8_t*>(plan_.weights.data()) + offset, piece.data(),
                static_cast<size_t>(piece.bytes()));
    piece = {};
  }
  Param& out = model_.size_function.params.at(1);
  out.decl.shape = {Expr(plan_.sizes.numbers)};
  std::vector<Stmt> stores;
  for (size_t i = 0; i < numbers_.size(); ++i)
    stores.push_back(make::store(out.decl.buffer, {Expr(static_cast<int64_t>(i))}, numbers_[i]));
  model_.size_function.body = make::seq(std::move(stores));
  check_plan(plan_);
  model_.plan = std::make_shared<Plan>(std::move(plan_));
  return std::move(model_);
}

}  // namespace nestor

// Sizes that a run decides: read from the shapes of its inputs, checked, and the arena laid out for them. Done
// once for the same sizes in a row.
#include <algorithm>
#include <string>

#include "nestor/error.h"
#include "nestor/runtime.h"

namespace nestor {

namespace {

void check_symbols(const PlanSizes& sizes, const std::vector<int64_t>& values) {
  for (size_t s = 0; s < values.size(); ++s) {
    const PlanSymbol& symbol = sizes.symbols[s];
    if (values[s] < symbol.least || values[s] > symbol.most)
      throw UserError("the size " + symbol.name + " is " + std::to_string(values[s]) +
                      ", the model was compiled for " + std::to_string(symbol.least) + " to " +
                      std::to_string(symbol.most));
  }
}

}  // namespace

// Numbers, places in the arena, and memory that is large enough.
void Executor::compute_sizes(const std::vector<int64_t>& symbols) {
  const PlanSizes& plan = plan_->sizes;
  symbols_.clear();
  sizes_.assign(static_cast<size_t>(plan.count), 0);
  void* args[] = {const_cast<int64_t*>(symbols.data()), sizes_.data()};
  NESTOR_CHECK(size_kernel_(args, nullptr, nullptr) == 0) << "sizes of " << plan_->name;
  const auto number = [&](int i) { return sizes_[static_cast<size_t>(i)]; };
  for (const PlanSizes::Requirement& r : plan.requirements)
    if (number(r.number) == 0) throw UserError(plan_->name + " can't run on these sizes: " + r.text);
  std::vector<Lifetime> lives;
  for (const PlanSizes::InArena& v : plan.arena) lives.push_back({number(v.bytes), v.first, v.last});
  const ArenaLayout layout = plan_arena(lives);
  offsets_ = layout.offsets;
  int64_t workspace = 0;
  for (const int w : plan.workspace) workspace = std::max(workspace, number(w));
  const auto grow = [](Tensor& memory, int64_t bytes) {
    if (memory.bytes() >= bytes) return;
    memory = {};
    memory = Tensor(DType::u8, {bytes});
    prefer_large_pages(memory);
  };
  grow(arena_, layout.bytes);
  grow(workspace_, workspace);
  symbols_ = symbols;
}

std::vector<Runnable::Shape> Executor::fit(const std::vector<Shape>& inputs) {
  const PlanSizes& plan = plan_->sizes;
  if (!plan.any()) return Runnable::fit(inputs);
  std::vector<int64_t> symbols;
  for (const PlanSymbol& s : plan.symbols)
    symbols.push_back(inputs.at(static_cast<size_t>(s.input)).at(static_cast<size_t>(s.dim)));
  if (symbols != symbols_) {
    check_symbols(plan, symbols);
    compute_sizes(symbols);
  }
  const auto number = [&](int i) { return sizes_[static_cast<size_t>(i)]; };
  for (const PlanSizes::Shaped& s : plan.inputs) {
    const int64_t given = inputs.at(static_cast<size_t>(s.input)).at(static_cast<size_t>(s.dim));
    if (given == number(s.number)) continue;
    throw UserError("dimension " + std::to_string(s.dim) + " of input '" +
                    plan_->inputs[static_cast<size_t>(s.input)].name + "' is " + std::to_string(given) +
                    ", it must be " + std::to_string(number(s.number)) + " beside the other inputs");
  }
  std::vector<Shape> out;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    out.push_back(plan_->outputs[i].shape);
    for (size_t d = 0; d < out[i].size(); ++d)
      if (out[i][d] == kOpenSize) out[i][d] = number(plan.outputs[i][d]);
  }
  return out;
}

}  // namespace nestor

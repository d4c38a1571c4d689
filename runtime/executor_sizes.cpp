// Runs whose sizes their inputs decide.
#include "nestor/error.h"
#include "runtime/fitted_sizes.h"

namespace nestor {

FittedSizes::FittedSizes(const PlanSizes& plan, KernelFn kernel) {
  NESTOR_CHECK(kernel) << "no kernel for the sizes";
  for (const PlanSymbol& s : plan.symbols) symbols_.push_back({s.what.c_str(), s.least, s.most, s.place});
  for (const PlanSizes::Check& c : plan.checks) checks_.push_back({c.what.c_str(), c.place, c.number});
  for (const PlanSizes::Requirement& r : plan.requirements)
    requirements_.push_back({r.text.c_str(), r.number, r.after});
  for (const PlanSizes::InArena& v : plan.arena) arena_.push_back({v.bytes, v.first, v.last});
  const auto count = [](const auto& list) { return static_cast<int64_t>(list.size()); };
  plan_ = {reinterpret_cast<nestor_kernel>(kernel),
           symbols_.data(),
           checks_.data(),
           requirements_.data(),
           arena_.data(),
           plan.workspaces.data(),
           plan.outputs.data(),
           plan.made.data(),
           plan.numbers,
           count(symbols_),
           count(checks_),
           count(requirements_),
           count(arena_),
           count(plan.workspaces),
           count(plan.outputs)};
  fit_ = nestor_fit_create(&plan_);
  if (!fit_) throw std::bad_alloc();
}

FittedSizes::~FittedSizes() {
  nestor_fit_destroy(fit_);
}

bool FittedSizes::fit(const std::vector<int64_t>& dims) {
  const int32_t result = nestor_fit_sizes(&plan_, fit_, dims.data());
  if (result == NESTOR_SIZES_BAD) throw UserError(fit_->why);
  return result == NESTOR_SIZES_NEW;
}

void FittedSizes::found(int64_t symbol, int64_t size) {
  if (nestor_found_size(&plan_, fit_, symbol, size) == NESTOR_SIZES_BAD) throw UserError(fit_->why);
}

namespace {

std::vector<Runnable::Shape> shapes_of(const std::vector<PlanTensor>& outputs, const int64_t* numbers,
                                       const std::vector<int64_t>& dims) {
  std::vector<Runnable::Shape> out;
  auto number = dims.begin();
  for (const PlanTensor& t : outputs) {
    out.push_back(t.shape);
    for (int64_t& size : out.back()) size = numbers[*number++];
  }
  return out;
}

}  // namespace

std::vector<Runnable::Shape> Executor::made() const {
  if (!sizes_ || plan_->sizes.made == plan_->sizes.outputs) return {};
  return shapes_of(plan_->outputs, sizes_->numbers(), plan_->sizes.made);
}

std::map<std::string, int64_t> Executor::found() const {
  std::map<std::string, int64_t> out;
  for (size_t s = 0; s < plan_->sizes.symbols.size(); ++s)
    if (plan_->sizes.symbols[s].place == kFoundByRun)
      out[plan_->sizes.symbols[s].name] = sizes_->symbols()[s];
  return out;
}

std::string FittedSizes::given() {
  fit_->why[0] = 0;
  nestor_add_sizes(&plan_, fit_);
  return fit_->why;
}

void FittedSizes::forget() {
  fit_->arena_bytes = -1;
}

std::vector<Runnable::Shape> Executor::fit(const std::vector<Shape>& inputs) {
  if (!sizes_) return Runnable::fit(inputs);
  const std::vector<int64_t> dims = dims_of(plan_->inputs, inputs);
  const auto grow = [](Tensor& memory, int64_t bytes) {
    if (memory.bytes() >= bytes) return;
    memory = {};
    memory = Tensor(DType::u8, {bytes});
    prefer_large_pages(memory);
  };
  if (sizes_->fit(dims)) try {
      grow(arena_, sizes_->arena_bytes());
      grow(workspace_, sizes_->workspace_bytes());
    } catch (const UserError& e) {
      sizes_->forget();
      throw UserError(e.diagnostic().message + sizes_->given());
    }
  return shapes_of(plan_->outputs, sizes_->numbers(), plan_->sizes.outputs);
}

}  // namespace nestor

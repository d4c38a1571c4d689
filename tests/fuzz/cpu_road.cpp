#include <cstring>

#include "nestor/codegen.h"
#include "nestor/error.h"
#include "nestor/interpret.h"
#include "nestor/print.h"
#include "nestor/simplify.h"
#include "nestor/walk.h"
#include "runtime/kernel_rt.h"
#include "tests/fuzz/road_common.h"
#include "tests/fuzz/roads.h"

namespace nestor {

namespace {

class CpuRoad : public Road {
 public:
  Entry add(const Subject& given, const PrimFunc& given_schedule, int64_t number) override {
    PrimFunc scheduled = given_schedule;
    const Subject subject = start_sums(given, scheduled);
    Lowered l;
    Entry entry = lower_for(target_, subject, scheduled, number, "f" + std::to_string(batch_.size()), l);
    if (!entry.taken) return entry;
    try {
      workspace_size(l.lowered, 2);
    } catch (const UserError& e) {
      return {false, e.diagnostic().message, {}};
    }
    batch_.push_back(std::move(l));
    return entry;
  }

  std::vector<std::pair<int64_t, Finding>> run() override {
    std::vector<PrimFunc> funcs;
    for (const Lowered& l : batch_) funcs.push_back(l.lowered);
    std::vector<std::pair<int64_t, Finding>> out;
    if (funcs.empty()) return out;
    std::shared_ptr<JitModule> module;
    try {
      module = JitModule::compile(funcs, target_);
    } catch (const std::exception& e) {
      if (funcs.size() > 1) throw;
      return {{batch_[0].number, {"machine", e.what()}}};
    }
    nestor_pool* pool = nestor_pool_create(2);
    for (const Lowered& l : batch_) out.emplace_back(l.number, run_all(l, *module, pool));
    nestor_pool_destroy(pool);
    batch_.clear();
    return out;
  }

 private:
  static Finding run_all(const Lowered& l, const JitModule& module, nestor_pool* pool) {
    for (std::vector<int64_t> dims : l.subject.sizes) {
      VarMap values;
      for (size_t i = 0; i < dims.size(); ++i) values[l.lowered.dims[i]] = Expr(dims[i]);
      const auto bytes = as_int(simplify(substitute(workspace_size(l.lowered, 2), values)));
      NESTOR_CHECK(bytes.has_value()) << "bytes of " << l.lowered.name;
      Finding f = run_one(l.at(dims), dims, *bytes, module, pool);
      if (f.failed()) return {f.kind, f.what + print_sizes(l.lowered, dims) + "\n" + print(l.lowered)};
    }
    return {};
  }

  // `l` at the sizes `dims`, which the kernel gets, too.
  static Finding run_one(const Lowered& l, std::vector<int64_t>& dims, int64_t bytes, const JitModule& module,
                         nestor_pool* pool) {
    std::vector<Tensor> expected, got = l.args();
    if (const Finding f = interpret_lowered(l, expected); f.failed()) return f;
    std::vector<void*> pointers;
    for (Tensor& t : got) pointers.push_back(t.data());
    pointers.push_back(dims.data());
    Tensor workspace(DType::u8, {bytes});
    std::memset(workspace.data(), 0xff, static_cast<size_t>(workspace.bytes()));  // NaN everywhere
    if (module.lookup(l.lowered.name)(pointers.data(), workspace.data(), pool) != 0)
      return {"machine", "the kernel returned an error"};
    return agree(l, expected, got, "machine");
  }

  Target target_ = host_target();
  std::vector<Lowered> batch_;
};

}  // namespace

std::unique_ptr<Road> cpu_road() {
  return std::make_unique<CpuRoad>();
}

}  // namespace nestor

#include "emulator.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "nestor/emulate.h"
#include "nestor/error.h"
#include "src/emulate/blocks.h"

namespace nestor::testing {

namespace {

std::vector<EmulatedCode::Part> parts_of(const std::vector<CudaProgram>& programs) {
  std::vector<EmulatedCode::Part> out;
  for (const CudaProgram& p : programs) out.push_back({p.source, p.kernels});
  return out;
}

Emulation::Index index_of(const std::array<int64_t, 3>& d) {
  return {static_cast<unsigned>(d[0]), static_cast<unsigned>(d[1]), static_cast<unsigned>(d[2])};
}

}  // namespace

struct Emulator::Impl {
  explicit Impl(const std::vector<CudaProgram>& programs) : code(parts_of(programs)) {
    handle = dlopen(code.library().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw EmulationError(std::string("the compiled kernels can't be loaded: ") + dlerror());
    library.attach = symbol<void (*)(Emulation*)>("nestor_attach");
    library.poison = symbol<void (*)()>("nestor_poison_shared");
  }
  ~Impl() { dlclose(handle); }
  template <class F>
  F symbol(const std::string& name) const {
    void* f = dlsym(handle, name.c_str());
    if (!f) throw EmulationError("the compiled kernels lack " + name);
    return reinterpret_cast<F>(f);
  }
  EmulatedCode code;
  void* handle = nullptr;
  EmulatedLibrary library;
};

Emulator::Emulator(const std::vector<CudaProgram>& programs) {
  try {
    impl_ = std::make_unique<Impl>(programs);
  } catch (const UserError& e) {
    throw EmulationError(e.what());
  }
}

Emulator::~Emulator() = default;

void Emulator::run(const CudaProgram& program, std::vector<Tensor>& args, LoopOrder order,
                   uint64_t seed) const {
  std::mt19937_64 rng(seed);
  const auto ordered = [&](size_t n) {
    std::vector<size_t> out(n);
    std::iota(out.begin(), out.end(), size_t{0});
    if (order == LoopOrder::reverse) std::reverse(out.begin(), out.end());
    if (order == LoopOrder::random) std::shuffle(out.begin(), out.end(), rng);
    return out;
  };
  std::vector<void*> memory;
  for (Tensor& t : args) memory.push_back(t.data());
  std::vector<Tensor> temporaries;
  for (const int64_t bytes : program.temporary_bytes) {
    temporaries.emplace_back(DType::u8, std::vector<int64_t>{bytes});
    std::memset(temporaries.back().data(), 0xff, static_cast<size_t>(bytes));
    memory.push_back(temporaries.back().data());
  }
  for (const CudaKernel& k : program.kernels) {
    std::vector<void*> pointers;
    for (const int a : k.args) pointers.push_back(&memory.at(static_cast<size_t>(a)));
    const auto& kernel = *impl_->symbol<const EmulatedKernel*>(k.name + "_emulated");
    const std::string problem =
        run_emulated(impl_->library, kernel, pointers.data(),
                     {index_of(k.grid), index_of(k.block), static_cast<size_t>(k.dynamic_shared)}, ordered);
    if (!problem.empty()) throw EmulationError(k.name + ": " + problem);
  }
}

}  // namespace nestor::testing

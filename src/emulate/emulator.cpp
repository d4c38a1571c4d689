#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "nestor/emulate.h"
#include "nestor/error.h"
#include "src/emulate/blocks.h"
#include "src/emulate/count.h"
#include "src/emulate/races.h"

namespace nestor {

namespace {

std::vector<EmulatedCode::Part> parts_of(const std::vector<CudaProgram>& programs) {
  std::vector<EmulatedCode::Part> out;
  for (const CudaProgram& p : programs) out.push_back({p.source, p.kernels});
  return out;
}

Emulation::Index index_of(const std::array<int64_t, 3>& d) {
  return {static_cast<unsigned>(d[0]), static_cast<unsigned>(d[1]), static_cast<unsigned>(d[2])};
}

// What a program's kernels point to: its arguments, then its temporaries, which hold garbage.
struct ProgramMemory {
  std::vector<void*> at;
  std::vector<size_t> bytes;
  std::vector<Tensor> temporaries;

  ProgramMemory(const CudaProgram& program, std::vector<Tensor>& args) {
    for (Tensor& t : args) add(t);
    for (const int64_t n : program.temporary_bytes) {
      temporaries.emplace_back(DType::u8, std::vector<int64_t>{n});
      std::memset(temporaries.back().data(), 0xff, static_cast<size_t>(n));
      add(temporaries.back());
    }
  }
  void add(Tensor& t) {
    at.push_back(t.data());
    bytes.push_back(static_cast<size_t>(t.bytes()));
  }
};

}  // namespace

struct Emulator::Impl {
  Impl(const std::vector<CudaProgram>& programs, Tracing how)
      : code(parts_of(programs), how), library(code.library()) {
    NESTOR_CHECK(library.loaded()) << "the compiled kernels can't be loaded";
  }

  void run(ProgramMemory& memory, const CudaKernel& k, const EmulatedOrder& order,
           LaunchObserver* observer) const {
    EmulatedLaunch launch{index_of(k.grid), index_of(k.block), static_cast<size_t>(k.dynamic_shared), {}, {}};
    std::vector<void*> pointers;
    for (const int a : k.args) {
      pointers.push_back(&memory.at.at(static_cast<size_t>(a)));
      launch.bytes.push_back(memory.bytes[static_cast<size_t>(a)]);
    }
    if (observer) launch.observers.push_back(observer);
    const std::string problem = run_emulated(library, kernel(k), pointers.data(), launch, order);
    if (!problem.empty()) throw UserError(k.name + ": " + problem);
  }

  const EmulatedKernel& kernel(const CudaKernel& k) const {
    const EmulatedKernel* found = library.kernel(k.name);
    NESTOR_CHECK(found) << "the compiled kernels lack " << k.name;
    return *found;
  }

  EmulatedCode code;
  EmulatedLibrary library;
};

Emulator::Emulator(const std::vector<CudaProgram>& programs, Tracing tracing)
    : impl_(std::make_unique<Impl>(programs, tracing)) {}

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
  ProgramMemory memory(program, args);
  for (const CudaKernel& k : program.kernels) {
    RaceChecker races(impl_->kernel(k));
    impl_->run(memory, k, ordered, impl_->library.traced() ? &races : nullptr);
  }
}

std::vector<MemoryCounts> Emulator::count(const CudaProgram& program, std::vector<Tensor>& args,
                                          int64_t most_blocks) const {
  NESTOR_CHECK(impl_->library.traced()) << "counts need tracing";
  ProgramMemory memory(program, args);
  std::vector<MemoryCounts> out;
  for (const CudaKernel& k : program.kernels) {
    bool blocks = true;
    const auto some =
        [&](size_t n) {  // the first call is for the grid, the next ones are for threads of a block
          const auto most = static_cast<size_t>(most_blocks);
          const size_t wanted = blocks && most_blocks > 0 ? std::min(n, most) : n;
          blocks = false;
          std::vector<size_t> order;
          for (size_t i = 0; i < wanted; ++i) order.push_back(i * n / wanted);
          return order;
        };
    MemoryCounter counter;
    impl_->run(memory, k, some, &counter);
    out.push_back(counter.counts(static_cast<int>(k.args.size())));
  }
  return out;
}

}  // namespace nestor

#include "emulator.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "emulation.h"

namespace nestor::testing {

namespace {

namespace ctx = boost::context;
using Thread = void (*)(void**);
constexpr size_t kStack = 64 << 10;

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The threads of one block.
class BlockRun {
 public:
  BlockRun(Emulation& e, Thread thread, void** args, int64_t count) : e_(e) {
    e.self = this;
    e.wait = [](void* self) { static_cast<BlockRun*>(self)->wait(); };
    for (int64_t t = 0; t < count; ++t)
      fibers_.emplace_back(std::allocator_arg, ctx::fixedsize_stack(kStack),
                           [this, thread, args](ctx::fiber&& host) {
                             host_ = std::move(host);
                             thread(args);
                             return std::move(host_);
                           });
  }

  // Rounds from barrier to barrier. Threads that wait for ones that have finished are let go, so that all
  // come to an end, and reported afterwards.
  std::string run(const std::vector<size_t>& order) {
    std::string problem;
    for (;;) {
      size_t waiting = 0, finished = 0;
      for (const size_t t : order) {
        if (!fibers_[t]) {
          ++finished;
          continue;
        }
        const auto n = static_cast<unsigned>(t);
        e_.thread = {n % e_.block_dim.x, n / e_.block_dim.x % e_.block_dim.y,
                     n / e_.block_dim.x / e_.block_dim.y};
        fibers_[t] = std::move(fibers_[t]).resume();
        (fibers_[t] ? waiting : finished) += 1;
      }
      if (waiting == 0) return problem;
      if (finished > 0 && problem.empty())
        problem = std::to_string(waiting) + " threads wait at a barrier, " + std::to_string(finished) +
                  " have finished";
    }
  }

 private:
  void wait() {
    const Emulation::Index me = e_.thread;
    host_ = std::move(host_).resume();
    e_.thread = me;
  }

  Emulation& e_;
  std::vector<ctx::fiber> fibers_;
  ctx::fiber host_;
};

std::vector<size_t> ordered(int64_t n, LoopOrder order, std::mt19937_64& rng) {
  std::vector<size_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), size_t{0});
  if (order == LoopOrder::reverse) std::reverse(out.begin(), out.end());
  if (order == LoopOrder::random) std::shuffle(out.begin(), out.end(), rng);
  return out;
}

}  // namespace

struct Emulator::Impl {
  void* library = nullptr;

  template <class F>
  F* function(const std::string& name) const {
    void* f = dlsym(library, name.c_str());
    if (!f) throw EmulationError("the compiled kernels lack " + name);
    return reinterpret_cast<F*>(f);
  }
};

Emulator::Emulator(const std::vector<CudaProgram>& programs) : impl_(std::make_unique<Impl>()) {
  std::string folder = (std::filesystem::temp_directory_path() / "nestor-emulation-XXXXXX").string();
  if (!mkdtemp(folder.data())) throw EmulationError("no folder for the compiled kernels");
  const std::string source = folder + "/kernels.cpp", library = folder + "/kernels.so", log = folder + "/log";
  {
    std::ofstream out(source);
    out << "#include \"" NESTOR_SOURCE_DIR "/tests/cuda/emulation.h\"\n";
    for (size_t i = 0; i < programs.size(); ++i) {
      out << "namespace program_" << i << " {\n" << programs[i].source;
      for (const CudaKernel& k : programs[i].kernels) out << "NESTOR_EMULATE(" << k.name << ")\n";
      out << "}\n";
    }
  }
  const std::string command = NESTOR_CXX
                              " -std=c++17 -O1 -w -ffp-contract=off -fPIC -shared -DNESTOR_EMULATED " +
                              source + " -o " + library + " >" + log + " 2>&1";
  const bool compiled = std::system(command.c_str()) == 0;
  const std::string messages = read_text(log);
  if (compiled) impl_->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::filesystem::remove_all(folder);
  if (!compiled) throw EmulationError("the emitted source does not compile:\n" + messages);
  if (!impl_->library)
    throw EmulationError(std::string("the compiled kernels can't be loaded: ") + dlerror());
}

Emulator::~Emulator() {
  if (impl_->library) dlclose(impl_->library);
}

void Emulator::run(const CudaProgram& program, std::vector<Tensor>& args, LoopOrder order,
                   uint64_t seed) const {
  std::mt19937_64 rng(seed);
  std::vector<void*> memory;
  for (Tensor& t : args) memory.push_back(t.data());
  std::vector<Tensor> temporaries;
  for (const int64_t bytes : program.temporary_bytes) {
    temporaries.emplace_back(DType::u8, std::vector<int64_t>{bytes});
    std::memset(temporaries.back().data(), 0xff, static_cast<size_t>(bytes));
    memory.push_back(temporaries.back().data());
  }
  auto* poison = impl_->function<void()>("nestor_poison_shared");
  Emulation e{};
  impl_->function<void(Emulation*)>("nestor_attach")(&e);
  const auto index = [](const std::array<int64_t, 3>& d) {
    return Emulation::Index{static_cast<unsigned>(d[0]), static_cast<unsigned>(d[1]),
                            static_cast<unsigned>(d[2])};
  };
  for (const CudaKernel& k : program.kernels) {
    std::vector<void*> pointers;
    for (const int a : k.args) pointers.push_back(memory.at(static_cast<size_t>(a)));
    pointers.push_back(nullptr);
    e.grid_dim = index(k.grid);
    e.block_dim = index(k.block);
    const int64_t threads = k.block[0] * k.block[1] * k.block[2];
    for (const size_t b : ordered(k.grid[0] * k.grid[1] * k.grid[2], order, rng)) {
      const auto n = static_cast<unsigned>(b);
      e.block = {n % e.grid_dim.x, n / e.grid_dim.x % e.grid_dim.y, n / e.grid_dim.x / e.grid_dim.y};
      poison();
      BlockRun block(e, impl_->function<void(void**)>(k.name + "_emulated"), pointers.data(), threads);
      const std::string problem = block.run(ordered(threads, order, rng));
      if (!problem.empty()) throw EmulationError(k.name + ": " + problem);
    }
  }
}

}  // namespace nestor::testing

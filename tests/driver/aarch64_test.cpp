// An artifact for aarch64, made here, runs under an emulator with its threads and says bit for bit what its
// lowered functions say when they are interpreted.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "nestor/artifact.h"
#include "nestor/driver.h"
#include "nestor/interpret.h"

using namespace nestor;
namespace fs = std::filesystem;

namespace {

#ifdef NESTOR_AARCH64_RUN
constexpr bool kCanRun = true;
#else
constexpr bool kCanRun = false;
#define NESTOR_AARCH64_RUN ""
#define NESTOR_AARCH64_LINK ""
#define NESTOR_AARCH64_LIBC ""
#endif

// The model's plan with the interpreter for kernels.
NamedTensors interpreted(const CompiledModel& m, const NamedTensors& inputs) {
  std::vector<Kernel> kernels;
  for (const std::string& name : m.plan->kernels)
    for (const PrimFunc& f : m.lowered()) {
      if (f.name != name) continue;
      kernels.emplace_back([f](void* const* args, void*, void*) {
        std::vector<Tensor> tensors;
        for (size_t i = 0; i < f.params.size(); ++i) {
          const BufferDecl& d = f.params[i].decl;
          Tensor t(d.buffer->type.dtype, {as_int(d.shape.at(0)).value()});
          std::memcpy(t.data(), args[i], static_cast<size_t>(t.bytes()));
          tensors.push_back(t);
        }
        interpret(f, tensors);
        for (size_t i = 0; i < tensors.size(); ++i)
          if (f.params[i].role == Role::out)
            std::memcpy(args[i], tensors[i].data(), static_cast<size_t>(tensors[i].bytes()));
        return 0;
      });
    }
  return Executor(m.plan, kernels, nullptr).run(inputs);
}

std::vector<Tensor> emulated(const CompiledModel& m, const NamedTensors& inputs) {
  const fs::path dir = fs::temp_directory_path() / ("nestor_aarch64_model_" + std::to_string(::getpid()));
  fs::create_directories(dir);
  const auto path = [&](const char* name) { return (dir / name).string(); };
  write_artifact(*m.plan, m.lowered(), m.target, {path("m.so"), "m", WeightsPlace::automatic});
  std::ofstream in(path("in"), std::ios::binary);
  const auto put = [&](size_t n) {
    const auto count = static_cast<int64_t>(n);
    in.write(reinterpret_cast<const char*>(&count), sizeof count);
  };
  put(m.plan->inputs.size());
  put(m.plan->outputs.size());
  for (const auto* list : {&m.plan->inputs, &m.plan->outputs})
    for (const PlanTensor& t : *list) put(static_cast<size_t>(t.bytes()));
  for (const PlanTensor& t : m.plan->inputs)
    in.write(static_cast<const char*>(inputs.at(t.name).data()), t.bytes());
  in.close();
  CHECK(std::system(
            (NESTOR_AARCH64_LINK " -o " + path("program") + " " + path("m.so") + " " NESTOR_AARCH64_LIBC)
                .c_str()) == 0);
  CHECK(std::system((NESTOR_AARCH64_RUN " -E LD_LIBRARY_PATH=" + dir.string() + " " + path("program") +
                     " < " + path("in") + " > " + path("out"))
                        .c_str()) == 0);
  std::vector<Tensor> out;
  std::ifstream file(path("out"), std::ios::binary);
  for (const PlanTensor& t : m.plan->outputs) {
    Tensor got(t.dtype, t.shape);
    file.read(static_cast<char*>(got.data()), got.bytes());
    CHECK(file.gcount() == got.bytes());
    out.push_back(got);
  }
  fs::remove_all(dir);
  return out;
}

}  // namespace

TEST_CASE("an artifact for aarch64 says under an emulator what its lowered functions say") {
  if (!kCanRun) {
    WARN("SKIPPED: needs qemu-aarch64, ld.lld and the C library of libc6-arm64-cross");
    return;
  }
  for (const int threads : {1, 2}) {
    CompileOptions options;
    options.target = parse_target("aarch64");
    options.target.parallel_us = 0;  // whatever can run in parallel does
    options.threads = threads;
    options.schedules = default_schedules();
    options.build.dims["batch"] = 3;
    const CompiledModel m =
        compile_model(std::string(NESTOR_SOURCE_DIR) + "/examples/digits/digits.json", options);
    NamedTensors inputs;
    for (const PlanTensor& t : m.plan->inputs) inputs[t.name] = Tensor::random(t.dtype, t.shape, 3);
    const NamedTensors want = interpreted(m, inputs);
    const std::vector<Tensor> got = emulated(m, inputs);
    for (size_t i = 0; i < got.size(); ++i) {
      const Tensor& expected = want.at(m.plan->outputs[i].name);
      INFO(threads << " threads, output " << m.plan->outputs[i].name);
      CHECK(std::memcmp(got[i].data(), expected.data(), static_cast<size_t>(expected.bytes())) == 0);
    }
  }
}

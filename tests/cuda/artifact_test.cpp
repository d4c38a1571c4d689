// Artifacts for CUDA from C, on a stub of the driver (tests/cuda/stub): real images are chosen and loaded,
// and emulated kernels stand for them.
#include "nestor/artifact.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>

#include "catch.h"
#include "check.h"
#include "models.h"
#include "nestor/device.h"
#include "nestor/emulate.h"
#include "tests/command.h"
#include "tests/graph/files.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

// What a command prints, whether it fails or not.
std::string words_of(const std::string& command) {
  return output_of("(" + command + ") || true");
}

// A model as an artifact, and the program that runs it.
class Made {
 public:
  Made(const std::string& name, const Model& read, const std::string& targets, bool check_indices = false)
      : name_(name) {
    CompileOptions options;
    options.target = parse_targets(targets).front();
    options.schedules = default_schedules();
    options.check_indices = check_indices;
    model = compile_model(Source{build_graph(read, {}), std::nullopt}, options);
    const CudaModule module = make_cuda_module(model.lowered(), model.target);
    code_ = std::make_unique<EmulatedCode>(module);
    ArtifactOptions how;
    how.path = path(name + ".so");
    PendingFiles files;
    write_artifact({make_cuda_plan(*model.plan, module),
                    compile_images(module.source, parse_targets(targets)), nvrtc_version(), targets},
                   how, files);
    files.commit();
    output_of("cc -std=c11 -Wall -Wextra -Werror " NESTOR_SOURCE_DIR "/tests/cuda/device_main.c -o " +
              path("program") + " -ldl -lpthread");
    output_of("cc -std=c11 -Wall -Wextra -Werror -fsyntax-only -x c " + path(name + ".h"));
  }

  std::string path(const std::string& file) const { return folder_ / file; }

  // environment: more of it for the stub.
  std::string command(const std::string& environment = "") const {
    std::string sizes;
    for (const PlanTensor& t : model.plan->inputs) sizes += fmt::format(" {}", t.bytes());
    sizes += " /";
    for (const PlanTensor& t : model.plan->outputs) sizes += fmt::format(" {}", t.bytes());
    return fmt::format(
        "LD_LIBRARY_PATH={}/tests/cuda/stub NESTOR_STUB_KERNELS={} NESTOR_STUB_LOG={} {} {} {} {} {}{}",
        NESTOR_BINARY_DIR, code_->library(), path("log"), environment, path("program"), path(name_ + ".so"),
        name_, folder_ / "", sizes);
  }

  CompiledModel model;

 private:
  std::string name_;
  Folder folder_;
  std::unique_ptr<EmulatedCode> code_;
};

NamedTensors inputs_of(const CompiledModel& m, uint64_t seed) {
  NamedTensors out;
  for (const PlanTensor& t : m.plan->inputs) out[t.name] = Tensor::random(t.dtype, t.shape, ++seed);
  return out;
}

void write_bytes(const std::string& path, const std::vector<PlanTensor>& order, const NamedTensors& tensors) {
  std::ofstream out(path, std::ios::binary);
  for (const PlanTensor& t : order)
    out.write(static_cast<const char*>(tensors.at(t.name).data()), tensors.at(t.name).bytes());
}

std::string bytes_of(const std::vector<PlanTensor>& order, const NamedTensors& tensors) {
  std::string out;
  for (const PlanTensor& t : order)
    out.append(static_cast<const char*>(tensors.at(t.name).data()),
               static_cast<size_t>(tensors.at(t.name).bytes()));
  return out;
}

}  // namespace

TEST_CASE(
    "artifacts run from C in two threads with an instance each, on tensors of the host and of the device") {
  if (!has_nvrtc()) return;
  Model digits = read_model(NESTOR_SOURCE_DIR "/examples/digits/digits.json");
  for (ModelValue& v : digits.inputs)
    for (ModelDim& d : v.shape)
      if (!d.value) d.value = 1;
  for (const auto& [name, read] : std::vector<NamedModel>{{"digits", digits},
                                                          {"mobilenet", mobilenet_v2(32)},
                                                          {"bert", bert_block(6, 24, 3)},
                                                          {"lstm", lstm_step(5, 4)},
                                                          {"unet", unet_block(8)}}) {
    INFO(name);
    const Made made(name, read, "cuda:sm_80,sm_90");
    const Device device(made.model, true);
    const auto runnable = device.make_runnable();
    std::string wanted[2];
    for (int t = 0; t < 2; ++t) {
      const NamedTensors inputs = inputs_of(made.model, static_cast<uint64_t>(10 * t));
      write_bytes(made.path("in." + std::to_string(t)), runnable->inputs(), inputs);
      wanted[t] = bytes_of(runnable->outputs(), runnable->run(inputs));
    }
    CHECK(output_of(made.command()) == "");
    for (int t = 0; t < 2; ++t) CHECK(read_text(made.path("out." + std::to_string(t))) == wanted[t]);
    // Of nine runs of each instance, the first on each kind of tensors are calls.
    const std::string log = read_text(made.path("log"));
    CHECK(log.find(", 12 of graphs") != std::string::npos);
    CHECK(output_of(made.command("NESTOR_STUB_NO_GRAPHS=1")) == "");
    CHECK(read_text(made.path("log")).find(log.substr(0, log.find(' ')) + " launches, 0 of graphs") == 0);
    for (int t = 0; t < 2; ++t) CHECK(read_text(made.path("out." + std::to_string(t))) == wanted[t]);
  }
}

TEST_CASE("an artifact for CUDA says why it can't start") {
  if (!has_nvrtc()) return;
  const Made made("lstm", lstm_step(5, 4), "cuda:sm_80,sm_90a");
  for (int t = 0; t < 2; ++t)
    write_bytes(made.path("in." + std::to_string(t)), made.model.plan->inputs, inputs_of(made.model, 1));
  const auto says = [&](const std::string& environment) { return words_of(made.command(environment)); };
  CHECK(says("NESTOR_STUB_SM=80") == "");
  CHECK(says("NESTOR_STUB_SM=86") == "");   // machine code of the same major version
  CHECK(says("NESTOR_STUB_SM=90") == "");   // sm_90a's
  CHECK(says("NESTOR_STUB_SM=103") == "");  // PTX
  CHECK_THAT(
      says("NESTOR_STUB_SM=75"),
      Catch::Contains("an emulated device is sm_75, and there is code for sm_80, sm_90a, sm_80 and newer: "
                      "compile with --target cuda:sm_75"));
  CHECK_THAT(says("NESTOR_STUB_MEMORY=1000"),
             Catch::Contains("the device has too little memory: ") && Catch::Contains("and 1000 are free"));
  CHECK_THAT(says("NESTOR_STUB_SM=103 NESTOR_STUB_DRIVER=11040 NESTOR_STUB_REFUSES=1"),
             Catch::Contains("the driver is of CUDA 11.4 and can't load code that was made by CUDA ") &&
                 Catch::Contains("update the driver"));
  CHECK_THAT(says("NESTOR_STUB_KERNELS="),
             Catch::Contains("the driver can't load the kernels: device kernel image"));
  if (cuda_status().gpu.empty())
    CHECK_THAT(says("LD_LIBRARY_PATH=" + made.path("")),
               Catch::Contains("there is no NVIDIA driver on this machine (libcuda.so.1)"));
}

TEST_CASE("an artifact for CUDA checks indices") {
  if (!has_nvrtc()) return;
  const Made made("rows", gather_rows(), "cuda:sm_80", true);
  Tensor rows(DType::i64, {3});
  rows.set_int(1, 7);
  for (int t = 0; t < 2; ++t)
    write_bytes(made.path("in." + std::to_string(t)), made.model.plan->inputs, {{"rows", rows}});
  std::string command = made.command();
  CHECK(words_of(command + " >/dev/null; echo $?") == "1\n");
}

TEST_CASE("targets of one artifact are sorted, and are CUDA's") {
  const auto names = [](const std::string& text) {
    std::string out;
    for (const Target& t : parse_targets(text)) out += t.name + " ";
    return out;
  };
  CHECK(names("cuda:sm_90,sm_80,cuda:sm_90a,sm_80") == "cuda:sm_80 cuda:sm_90 cuda:sm_90a ");
  CHECK(names("x86-64-v3") == "x86-64-v3 ");
  CHECK_THROWS_WITH(parse_targets("native,x86-64-v3"), Catch::Contains("several targets are for CUDA only"));
  CHECK_THROWS_WITH(parse_targets("cuda:sm_80,sm_81"), Catch::Contains("unknown target 'cuda:sm_81'"));
}

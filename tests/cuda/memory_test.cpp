// Memory traffic of memory-bound works, counted by the emulator: device memory in whole sectors, shared
// memory without bank conflicts, each element read once.
#include <fmt/format.h>

#include "catch.h"
#include "check.h"
#include "nestor/driver.h"
#include "nestor/emulate.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Counted {
  std::string text;
  CudaProgram program;
  std::vector<MemoryCounts> kernels;
};

// By the default schedule, a few blocks of each kernel.
std::vector<Counted> counted(const std::vector<const char*>& works, int64_t most_blocks) {
  CompileOptions options;
  options.target = parse_target("cuda:sm_80");
  options.schedules = default_schedules();
  std::vector<Counted> out;
  std::vector<CudaProgram> programs;
  std::vector<PrimFunc> lowered;
  for (const char* text : works) {
    CompiledModel m = compile_model(text, options);
    REQUIRE(m.funcs.size() == 1);
    PrimFunc f = m.funcs[0].lowered;
    f.name += "_" + std::to_string(out.size());
    out.push_back({text, make_cuda(f, options.target), {}});
    programs.push_back(out.back().program);
    lowered.push_back(f);
  }
  const Emulator emulator(programs, Tracing::on);
  for (size_t i = 0; i < out.size(); ++i) {
    std::vector<Tensor> args;
    for (const Param& p : lowered[i].params)
      args.emplace_back(p.decl.buffer->type.dtype,
                        std::vector<int64_t>{as_int(p.decl.shape.at(0)).value_or(1)});
    out[i].kernels = emulator.count(out[i].program, args, most_blocks);
  }
  return out;
}

}  // namespace

TEST_CASE("memory-bound works move whole sectors, and pass through shared memory without conflicts") {
  for (const Counted& c : counted(
           {
               "Softmax(f32[16384,1024])",
               "LayerNormalization(f32[16384,1024], const f32[1024], const f32[1024])",
               "ReduceSum(f32[1048576])",
               "ReduceMean@13(f32[16384,4096]; axes=[1])",
               "Transpose(f32[8192,8192]; perm=[1,0])",
               "Add(f32[16384,8192], f32[16384,8192])",
               "Relu(f32[16384,8192])",
               "Softmax(f32[1536,128])",
               "LayerNormalization(f32[128,768], const f32[768], const f32[768])",
               "RMSNormalization(f32[64,8192], const f32[8192])",
               "InstanceNormalization(f32[8,64,64,64], const f32[64], const f32[64])",
               "ReduceMean@13(f32[4096,4096]; axes=[0])",
               "GlobalAveragePool(f32[8,1280,16,16])",
               "Transpose(f32[8,64,56,56]; perm=[0,2,3,1])",
               "Transpose(f32[128,12,64]; perm=[1,0,2])",
               "Add(f32[4096,1024], f32[1024])",
               "Cast(f16[4096,1024]; to=1)",
               "Mul(f64[1000,512], f64[1000,1])",
               "ArgMax(f32[1000,1024]; axis=1)",
           },
           4))
    for (const MemoryCounts& k : c.kernels) {
      INFO(c.text << "\n" << c.program.source);
      CHECK(static_cast<double>(k.sectors) <= 1.15 * static_cast<double>(k.ideal_sectors));
      CHECK(static_cast<double>(k.wavefronts) <= 1.1 * static_cast<double>(k.ideal_wavefronts));
    }
}

TEST_CASE("softmax and norms read each element of rows up to 8K once from device memory") {
  for (const Counted& c : counted(
           {"Softmax(f32[6,1000])", "Softmax(f32[3,8192])", "Softmax(f32[3,5,70]; axis=1)",
            "LogSoftmax(f32[2,8192])", "LayerNormalization(f32[3,8192], const f32[8192], const f32[8192])",
            "RMSNormalization(f32[3,1500], const f32[1500])",
            "InstanceNormalization(f32[2,8,64,64], const f32[8], const f32[8])"},
           0)) {
    INFO(c.text << "\n" << c.program.source);
    REQUIRE(c.kernels.size() == 1);
    const MemoryCounts::Buffer& x = c.kernels[0].buffers.at(0);
    CHECK(x.read == x.distinct_read);
  }
}

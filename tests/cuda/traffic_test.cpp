// Memory traffic of products and convolutions by their default schedules, counted by the emulator: shared
// wavefronts and global sectors against the ideal. The bounds are goldens, to be lowered when a schedule gets
// better; the aim is 1.1 of the ideal wavefronts. Memory-bound works are in memory_test.cpp.
#include <fmt/format.h>

#include "catch.h"
#include "kernels.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Work {
  const char *name, *spec;
  bool tiled;                  // through shared memory
  double wavefronts, sectors;  // at most, of the ideal
};

const Work kWorks[] = {
    {"mm_nn", "MatMul(f32[640,640], const f32[640,640])", true, 1, 1},
    {"mm_nt", "Gemm(f32[640,640], const f32[640,640]; transB=1)", true, 1, 1},
    {"mm_tn", "Gemm(f32[640,640], const f32[640,640]; transA=1)", true, 1, 1},
    {"mm_tt", "Gemm(f32[640,640], const f32[640,640]; transA=1, transB=1)", true, 1, 1},
    {"mm_ragged", "MatMul(f32[200,130], const f32[130,190])", true, 1, 1.52},
    {"mm_batched", "MatMul(f32[3,128,64], f32[3,64,128])", true, 1, 1},
    {"mm_f16", "MatMul(f16[256,256], const f16[256,256])", true, 1, 1.02},
    {"mm_384", "MatMul(f32[384,384], const f32[384,384])", true, 1, 1},
    {"mm_skinny", "MatMul(f32[8,768], const f32[768,3072])", true, 1, 1},
    {"mm_skinny_t", "Gemm(f32[8,768], const f32[3072,768]; transB=1)", false, 1, 1},
    {"mm_parts", "MatMul(f32[64,2048], const f32[2048,64])", true, 1, 1},
    {"conv1_parts", "Conv(f32[1,960,7,7], const f32[160,960,1,1])", true, 1, 1.12},
    {"gemv", "MatMul(f32[1,512], const f32[512,1024])", true, 1, 1},
    {"conv1", "Conv(f32[8,64,56,56], const f32[64,64,1,1])", true, 1, 1},
    {"conv3", "Conv(f32[8,16,56,56], const f32[64,16,3,3]; pads=[1,1,1,1])", true, 1, 1.15},
    {"conv3_given", "Conv(f32[1,64,56,56], f32[64,64,3,3]; pads=[1,1,1,1])", true, 1.1, 1.15},
    {"conv3_28", "Conv(f32[1,128,28,28], const f32[128,128,3,3]; pads=[1,1,1,1])", true, 1.1, 1.15},
    {"conv3_s2", "Conv(f32[1,128,56,56], const f32[128,128,3,3]; pads=[1,1,1,1], strides=[2,2])", true, 1.1,
     1.15},
    {"conv3_7", "Conv(f32[1,512,7,7], const f32[512,512,3,3]; pads=[1,1,1,1])", true, 1.1, 1.18},
    {"conv3_rgb", "Conv(f32[1,3,224,224], const f32[32,3,3,3]; pads=[1,1,1,1], strides=[2,2])", true, 1.1,
     1.18},
    {"conv7", "Conv(f32[1,3,224,224], const f32[64,3,7,7]; pads=[3,3,3,3], strides=[2,2])", true, 1.1, 1.15},
    {"conv3_unet", "Conv(f32[1,64,64,64], const f32[64,64,3,3]; pads=[1,1,1,1])", true, 1.1, 1.15},
    {"conv3_ragged", "Conv(f32[1,96,37,37], const f32[24,96,3,3]; pads=[1,1,1,1])", true, 1.1, 1.15},
    {"conv3_f16", "Conv(f16[8,64,56,56], const f16[64,64,3,3]; pads=[1,1,1,1])", true, 1.1, 1.23},
    {"dw3", "Conv(f32[8,144,56,56], const f32[144,1,3,3]; group=144, pads=[1,1,1,1])", true, 1.1, 1.15},
    {"dw3_112", "Conv(f32[1,32,112,112], const f32[32,1,3,3]; group=32, pads=[1,1,1,1])", true, 1.1, 1.15},
    {"dw3_s2", "Conv(f32[1,96,112,112], const f32[96,1,3,3]; group=96, pads=[1,1,1,1], strides=[2,2])", true,
     1.1, 1.15},
    {"dw3_7", "Conv(f32[1,960,7,7], const f32[960,1,3,3]; group=960, pads=[1,1,1,1])", true, 1.1, 1.57},
    {"dw5_s2", "Conv(f32[1,240,28,28], const f32[240,1,5,5]; group=240, pads=[2,2,2,2], strides=[2,2])", true,
     1.1, 1.15},
    {"attention", "Attention(f32[1,12,128,64], f32[1,12,128,64], f32[1,12,128,64])", true, 1.1, 1.15},
    {"causal", "Attention(f32[1,4,1024,64], f32[1,4,1024,64], f32[1,4,1024,64]; is_causal=1)", true, 1.1,
     1.15},
    {"attention197", "Attention(f32[1,3,197,64], f32[1,3,197,64], f32[1,3,197,64])", true, 1.1, 1.15},
};

// The blocks of each kernel that are counted.
constexpr int64_t kBlocks = 6;

double ratio(int64_t did, int64_t ideal) {
  return ideal == 0 ? 1 : static_cast<double>(did) / static_cast<double>(ideal);
}

}  // namespace

TEST_CASE("products by default schedules move no more than the goldens say") {
  std::vector<CudaProgram> programs;
  std::vector<std::vector<Tensor>> args;
  for (const Work& w : kWorks) {
    INFO(w.name);
    CudaCase c = make_operator_case(w.spec, "", w.name);
    programs.push_back(std::move(c.program));
    args.push_back(std::move(c.lowered_inputs));
  }
  const Emulator emulator(programs, Tracing::on);
  fmt::print("{:12} {:>7} {:>10} {:>8} {:>8}\n", "work", "kernels", "wavefronts", "of ideal", "sectors");
  for (size_t i = 0; i < programs.size(); ++i) {
    const Work& w = kWorks[i];
    int64_t wavefronts = 0, ideal_wavefronts = 0, sectors = 0, ideal_sectors = 0;
    std::string lines;
    const std::vector<MemoryCounts> counts = emulator.count(programs[i], args[i], kBlocks);
    for (const MemoryCounts& c : counts) {
      wavefronts += c.wavefronts;
      ideal_wavefronts += c.ideal_wavefronts;
      sectors += c.sectors;
      ideal_sectors += c.ideal_sectors;
      for (const MemoryCounts::Line& l : c.lines) {
        CHECK(l.line > 0);
        lines += fmt::format("line {}: {} instructions {} {} bytes a lane of {} memory, {} for {}\n", l.line,
                             l.instructions, l.write ? "write" : "read", l.bytes,
                             l.shared ? "shared" : "global", l.did, l.ideal);
      }
    }
    const double of_shared = ratio(wavefronts, ideal_wavefronts), of_global = ratio(sectors, ideal_sectors);
    fmt::print("{:12} {:>7} {:>10} {:>8.3f} {:>8.3f}\n", w.name, counts.size(), wavefronts, of_shared,
               of_global);
    INFO(w.name << "\n" << lines << programs[i].source);
    CHECK((ideal_wavefronts > 0) == w.tiled);
    CHECK(of_shared <= w.wavefronts + 0.005);
    CHECK(of_global <= w.sectors + 0.005);
  }
}

// What the default schedules' kernels ask of memory, counted by emulation on small sizes: shared wavefronts
// and global sectors against the ideal, how often an input's elements are read, and the number of kernels.
// The bounds are goldens: a schedule that gets better tightens them. What is wanted in the end: 1.1 of the
// ideal wavefronts, 1.15 of the ideal sectors, and 1 read where memory is the limit.
#include <fmt/format.h>

#include "catch.h"
#include "kernels.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Work {
  const char *name, *spec;
  size_t kernels;
  double wavefronts, sectors;  // at most, of the ideal
  double reads;  // at most, of each element of the first input; 0: it is read often, for products
};

// Of a product's kernel, so many blocks are counted; of others all.
constexpr int64_t kBlocks = 12;

const Work kWorks[] = {
    {"mm_nn", "MatMul(f32[256,256], const f32[256,256])", 1, 1, 1, 0},
    {"mm_nt", "Gemm(f32[256,256], const f32[256,256]; transB=1)", 1, 1, 1, 0},
    {"mm_tn", "Gemm(f32[256,256], const f32[256,256]; transA=1)", 1, 1, 1, 0},
    {"mm_tt", "Gemm(f32[256,256], const f32[256,256]; transA=1, transB=1)", 1, 1, 1, 0},
    {"mm_ragged", "MatMul(f32[200,130], const f32[130,190])", 1, 1, 1.38, 0},
    {"mm_batched", "MatMul(f32[3,128,64], f32[3,64,128])", 1, 1, 1, 0},
    {"mm_f16", "MatMul(f16[256,256], const f16[256,256])", 1, 1, 1.32, 0},
    {"gemv", "MatMul(f32[1,512], const f32[512,1024])", 1, 1, 1, 0},
    {"conv1", "Conv(f32[2,64,14,14], const f32[64,64,1,1])", 1, 1, 1.11, 0},
    {"conv3", "Conv(f32[2,16,14,14], const f32[32,16,3,3]; pads=[1,1,1,1])", 1, 1, 1.53, 0},
    {"dw3", "Conv(f32[2,16,14,14], const f32[16,1,3,3]; group=16, pads=[1,1,1,1])", 1, 1, 1.23, 0},
    {"softmax", "Softmax(f32[64,1024])", 1, 1, 1, 1},
    {"softmax_8k", "Softmax(f32[8,8192])", 1, 1, 1, 1},
    {"lnorm", "LayerNormalization(f32[64,1024], const f32[1024], const f32[1024])", 1, 1, 1, 1},
    {"rsum", "ReduceSum(f32[65536])", 2, 1, 1, 1},
    {"rmean", "ReduceMean@13(f32[64,4096]; axes=[1])", 1, 1, 1, 1},
    {"rmax_rows", "ReduceMax@13(f32[512,300]; axes=[0])", 2, 1, 1.12, 1},
    {"pool", "GlobalAveragePool(f32[4,64,14,14])", 1, 1, 1.12, 1},
    {"transp", "Transpose(f32[256,256]; perm=[1,0])", 1, 1, 1, 1},
    {"transp_3d", "Transpose(f32[8,100,72]; perm=[0,2,1])", 1, 1, 1.06, 1},
    {"add", "Add(f32[512,256], f32[512,256])", 1, 1, 1, 1},
    {"relu", "Relu(f32[512,256])", 1, 1, 1, 1},
    {"add_row", "Add(f32[512,250], f32[250])", 1, 1, 1.04, 1},
    {"concat", "Concat(f32[64,100], f32[64,156]; axis=1)", 2, 1, 1.08, 1},
};

double ratio(int64_t a, int64_t b) {
  return b == 0 ? 1 : static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

TEST_CASE("kernels by default schedules move no more than the goldens say") {
  std::vector<CudaProgram> programs;
  std::vector<std::vector<Tensor>> args;
  for (const Work& w : kWorks) {
    INFO(w.name);
    CudaCase c = make_operator_case(w.spec, "", w.name);
    programs.push_back(std::move(c.program));
    args.push_back(std::move(c.lowered_inputs));
  }
  const Emulator emulator(programs, Tracing::on);
  fmt::print("{:12} {:>7} {:>10} {:>8} {:>6}\n", "work", "kernels", "wavefronts", "sectors", "reads");
  for (size_t i = 0; i < programs.size(); ++i) {
    const Work& w = kWorks[i];
    int64_t wavefronts = 0, ideal_wavefronts = 0, sectors = 0, ideal_sectors = 0, read = 0, distinct = 0;
    std::string lines;
    const std::vector<MemoryCounts> counts = emulator.count(programs[i], args[i], w.reads > 0 ? 0 : kBlocks);
    for (size_t k = 0; k < counts.size(); ++k) {
      const MemoryCounts& c = counts[k];
      wavefronts += c.wavefronts;
      ideal_wavefronts += c.ideal_wavefronts;
      sectors += c.sectors;
      ideal_sectors += c.ideal_sectors;
      for (size_t a = 0; a < c.buffers.size(); ++a) {
        if (programs[i].kernels[k].args[a] != 0) continue;
        read += c.buffers[a].read;
        distinct = std::max(distinct, c.buffers[a].distinct_read);
      }
      for (const MemoryCounts::Line& l : c.lines)
        lines += fmt::format("line {}: {} instructions {} {} bytes a lane of {} memory, {} for {}\n", l.line,
                             l.instructions, l.write ? "write" : "read", l.bytes,
                             l.shared ? "shared" : "global", l.did, l.ideal);
    }
    const double of_shared = ratio(wavefronts, ideal_wavefronts), of_global = ratio(sectors, ideal_sectors),
                 of_reads = ratio(read, distinct);
    fmt::print("{:12} {:>7} {:>10.3f} {:>8.3f} {:>6}\n", w.name, counts.size(), of_shared, of_global,
               w.reads > 0 ? fmt::format("{:.2f}", of_reads) : "");
    INFO(w.name << "\n" << lines << programs[i].source);
    CHECK(counts.size() <= w.kernels);
    CHECK(of_shared <= w.wavefronts);
    CHECK(of_global <= w.sectors);
    if (w.reads > 0) CHECK(of_reads <= w.reads);
  }
}

// Kernels access only their own memory: each runs with its arguments and its workspace between protected
// pages, once directly before the page behind and once directly after the page before, and gives the same
// results. Small kernels are also interpreted with detection of races.
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/driver.h"
#include "nestor/interpret.h"
#include "nestor/library.h"

using namespace nestor;

namespace {

enum class Side { behind, before };

class Guarded {
 public:
  Guarded(int64_t bytes, Side side) {
    constexpr size_t kPage = 4096;
    const auto n = static_cast<size_t>(bytes), whole = (n + kPage - 1) / kPage * kPage;
    size_ = whole + 2 * kPage;
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + kPage, whole, PROT_READ | PROT_WRITE) == 0);
    std::memset(base_ + kPage, 0xff, whole);  // NaNs: what is read beyond the data shows
    data_ = base_ + kPage + (side == Side::behind ? whole - n : 0);
  }
  Guarded(const Guarded&) = delete;
  ~Guarded() { munmap(base_, size_); }
  void* data() const { return data_; }

 private:
  char *base_, *data_;
  size_t size_;
};

bool is_out(const PrimFunc& f, size_t i) {
  return f.params[i].role == Role::out;
}

// As machine code takes it: constants packed.
Tensor as_passed(const CompiledFunction& f, size_t i, const std::vector<Tensor>& args) {
  const BufferDecl& decl = f.scheduled.params[i].decl;
  return decl.layout ? pack(args[i], decl) : args[i];
}

void run_guarded(const CompiledFunction& f, const Target& target, Side side) {
  const std::vector<Tensor> args = random_args(f.func, 7);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < args.size(); ++i)
    if (!is_out(f.func, i)) inputs.push_back(args[i]);
  const std::vector<Tensor> want = run_function(f, inputs, target);

  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<void*> pointers;
  for (size_t i = 0; i < args.size(); ++i) {
    const Tensor t = as_passed(f, i, args);
    memory.push_back(std::make_unique<Guarded>(t.bytes(), side));
    pointers.push_back(memory.back()->data());
    if (!is_out(f.func, i)) std::memcpy(pointers.back(), t.data(), static_cast<size_t>(t.bytes()));
  }
  const int64_t scratch = (workspace_bytes(f.lowered, 1) + 63) / 64 * 64;
  const Guarded workspace(scratch, side);
  const auto module = JitModule::compile({f.lowered}, target);
  REQUIRE(module->lookup(f.lowered.name)(pointers.data(), workspace.data(), nullptr) == 0);
  for (size_t i = 0, out = 0; i < args.size(); ++i)
    if (is_out(f.func, i)) {
      const Tensor& w = want[out++];
      CHECK(std::memcmp(pointers[i], w.data(), static_cast<size_t>(w.bytes())) == 0);
    }
}

void watch_races(const CompiledFunction& f) {
  std::vector<Tensor> args = random_args(f.scheduled, 7);
  InterpretOptions options;
  options.check_races = true;
  options.order = LoopOrder::random;
  options.seed = 7;
  REQUIRE_NOTHROW(interpret(f.scheduled, args, options));
}

// Of every family that is benchmarked, small, with sizes that don't divide.
std::vector<std::string> specs() {
  std::vector<std::string> out = {
      "MatMul(f32[37,29], const f32[29,65])",
      "MatMul(f32[3,17,19], f32[3,19,33])",
      "MatMul(f32[1,70], const f32[70,51])",
      "Conv(f32[1,17,9,11], const f32[33,17,3,3], const f32[33]; pads=[1,1,1,1])",
      "Conv(f32[1,16,12,12], const f32[32,16,3,3]; pads=[1,1,1,1])",
      "Conv(f32[1,3,15,15], const f32[16,3,7,7]; strides=[2,2], pads=[3,3,3,3])",
      "Conv(f32[1,19,8,8], const f32[19,1,5,5]; group=19, pads=[2,2,2,2])",
      "Conv(f32[1,12,9,9], const f32[24,4,3,3]; group=3, strides=[2,2], pads=[1,1,1,1])",
      "Conv(f32[2,35,7,7], const f32[17,35,1,1])",
      "ConvTranspose(f32[1,17,7,6], const f32[17,33,4,4], const f32[33]; strides=[2,2], pads=[1,1,1,1])",
      "ConvTranspose(f32[1,16,7,9], const f32[16,32,3,3]; strides=[2,2], pads=[1,1,1,1], "
      "output_padding=[1,1])",
      "ConvTranspose(f32[1,12,9], const f32[12,1,6], const f32[12]; group=12, strides=[3])",
      "Softmax(f32[5,133])",
      "Softmax(f32[40,37])",
      "LayerNormalization(f32[9,77], const f32[77], const f32[77])",
      "Gelu(f32[7,101])",
      "ReduceSum@11(f32[19,101]; axes=[1])",
      "ReduceSum@11(f32[101,35]; axes=[0])",
      "ReduceMean@11(f32[70,12]; axes=[1])",
      "ReduceMax@11(f32[5,23,18]; axes=[1])",
      "Transpose(f32[37,53]; perm=[1,0])",
      "Transpose(f32[2,9,5,33]; perm=[0,2,1,3])",
      "Transpose(f32[1,3,21,23]; perm=[0,2,3,1])",
      "MaxPool(f32[1,19,13,13]; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1])",
      "AveragePool(f32[1,5,9,9]; kernel_shape=[2,2], strides=[2,2])",
      "Concat(f32[7,21], f32[7,38]; axis=1)",
      "Slice(f32[31,41], const i64[2]{3,5}, const i64[2]{29,40}, const i64[2]{0,1})",
      "Pad(f32[1,5,9,9], const i64[8]{0,0,1,1,0,0,1,1})",
      "Gather(f32[50,67], i64[13])",
      "Gather(f32[5000,2560], i64[1])",
      "Gather(f32[5000,2560], i64[9])",
      "Gather(f32[20,5000,64], i64[9]; axis=1)",
      "Gather(i8[50000,129], i64[5,2])",
      "Gather(f32[3000,700], i32[9])",
      "Gather(f32[5000,2560], i64[3,3])",
      "ConvTranspose(f32[1,2,9,9], const f32[2,3,2,2]; strides=[2,2])",
      "ConvTranspose(f32[1,8,9,9], const f32[8,20,3,3]; strides=[3,3])",
      "ConvTranspose(f32[1,8,9,17], const f32[8,20,4,4]; strides=[4,4], dilations=[2,2])",
      "ConvTranspose(f32[1,8,19], const f32[8,20,3]; strides=[4], dilations=[4])",
      "ConvTranspose(f64[1,8,19], const f64[8,2,3]; strides=[3])",
      "ConvTranspose(f32[1,96,9,9], const f32[96,6,3,3]; strides=[2,2], group=4)",
      "Conv(f32[1,62,12,12], const f32[16,62,7,7]; pads=[3,3,3,3], strides=[2,2])",
      "Conv(f32[1,48,13,13], const f32[48,24,3,3]; group=2, pads=[1,1,1,1])",
      "Add(f32[33,51], f32[51])"};
  std::mt19937 rng(41);
  const auto draw = [&](int most) { return std::to_string(1 + rng() % static_cast<unsigned>(most)); };
  for (int n = 0; n < 8; ++n) {
    const std::string m = draw(40), k = draw(40), c = draw(40), hw = std::to_string(5 + rng() % 8);
    const std::string in = "f32[1," + c + "," + hw + "," + hw + "]";
    out.push_back("MatMul(f32[" + m + "," + k + "], f32[" + k + "," + c + "])");
    out.push_back("Conv(" + in + ", const f32[" + m + "," + c + ",3,3]; pads=[1,0,0,1], strides=[1,2])");
    out.push_back("MaxPool(" + in + "; kernel_shape=[2,3])");
    out.push_back("Transpose(f32[" + m + "," + k + "," + c + "]; perm=[2,0,1])");
  }
  return out;
}

void check_kernels(const std::string& spec, const Target& target, bool blocked_io) {
  CompileOptions options;
  options.target = target;
  options.schedules = default_schedules();
  options.blocked_io = blocked_io;
  for (const CompiledFunction& f : compile_model(spec, options).funcs) {
    INFO(spec << ", function " << f.func.name << " for " << target.name << (blocked_io ? ", in blocks" : ""));
    run_guarded(f, target, Side::behind);
    run_guarded(f, target, Side::before);
    watch_races(f);
  }
}

std::vector<Target> targets() {
  return {host_target(), parse_target("x86-64-v3")};
}

}  // namespace

TEST_CASE("default kernels stay between guard pages and run without races") {
  for (const Target& target : targets())
    for (const std::string& spec : specs()) check_kernels(spec, target, false);
}

TEST_CASE("so do those that work on channels in blocks, Winograd's too") {
  for (const Target& target : targets())
    for (const char* spec : {"Conv(f32[1,64,14,15], const f32[64,64,3,3], const f32[64]; pads=[1,1,1,1])",
                             "Conv(f32[1,55,9,9], const f32[55,1,3,3]; group=55, pads=[1,1,1,1])",
                             "Conv(f32[1,64,11,11], const f32[64,8,3,3]; group=8, pads=[1,1,1,1])",
                             "Conv(f32[1,30,12,12], const f32[91,30,1,1]; strides=[2,2])",
                             "ConvTranspose(f32[1,64,9,9], const f32[64,6,3,3]; strides=[2,2], group=8)",
                             "ConvTranspose(f32[1,8,9,19], const f32[8,90,4,4]; strides=[4,4])",
                             "Conv(f32[1,62,12,12], const f32[16,62,7,7]; pads=[3,3,3,3], strides=[2,2])",
                             "ConvTranspose(f32[1,384,9,9], const f32[384,48,4,4]; strides=[2,2], group=8)",
                             "MaxPool(f32[1,30,13,13]; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1])"})
      check_kernels(spec, target, true);
}

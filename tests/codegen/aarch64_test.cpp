// Kernels for aarch64 agree with the interpreter too: linked with a tiny main and run under qemu.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agree.h"
#include "random_function.h"

using namespace nestor;

namespace {

#if defined(NESTOR_QEMU_AARCH64) && defined(NESTOR_LLD)
constexpr bool kCanRun = true;
#else
constexpr bool kCanRun = false;
#define NESTOR_QEMU_AARCH64 ""
#define NESTOR_LLD ""
#define NESTOR_AARCH64_MAIN ""
#endif

// Runs the function under the emulator; args are written in place.
void run_emulated(PrimFunc f, std::vector<Tensor>& args) {
  static int count = 0;
  namespace fs = std::filesystem;
  const fs::path dir = fs::temp_directory_path() /
                       ("nestor_aarch64_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
  fs::create_directory(dir);
  f.name = "kernel";
  const auto path = [&](const char* name) { return (dir / name).string(); };
  std::ofstream(path("kernel.o"), std::ios::binary) << emit_object({f}, parse_target("aarch64"));
  std::ofstream in(path("in"), std::ios::binary);
  const auto put = [&](int64_t n) { in.write(reinterpret_cast<const char*>(&n), sizeof n); };
  put(static_cast<int64_t>(args.size()));
  for (const Tensor& t : args) {
    put(t.bytes());
    in.write(static_cast<const char*>(t.data()), t.bytes());
  }
  put(workspace_bytes(f, 2));
  in.close();
  const std::string link = std::string(NESTOR_LLD) + " -static -o " + path("program") +
                           " " NESTOR_AARCH64_MAIN " " + path("kernel.o");
  const std::string run =
      std::string(NESTOR_QEMU_AARCH64) + " " + path("program") + " < " + path("in") + " > " + path("out");
  CHECK(std::system(link.c_str()) == 0);
  CHECK(std::system(run.c_str()) == 0);
  std::ifstream out(path("out"), std::ios::binary);
  for (Tensor& t : args) {
    out.read(static_cast<char*>(t.data()), t.bytes());
    CHECK(out.gcount() == t.bytes());
  }
  fs::remove_all(dir);
}

void check_emulated(const PrimFunc& f, uint64_t seed) {
  INFO(print(f));
  std::vector<Tensor> expected = testing::hard_args(f, seed), actual = testing::hard_args(f, seed);
  interpret(f, expected);
  run_emulated(f, actual);
  testing::compare(f, expected, actual);
}

}  // namespace

TEST_CASE("aarch64: random expressions agree with the interpreter") {
  if (!kCanRun) {
    WARN("SKIPPED: needs qemu-aarch64, ld.lld and clang for aarch64");
    return;
  }
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    check_emulated(testing::random_function(seed), seed);
  }
}

TEST_CASE("aarch64: parallel loops, masks and worker slices agree with the interpreter") {
  if (!kCanRun) return;
  check_emulated(parse_func(R"(
func f(in X: f32[4000], out Y: f32[4000]) {
  parallel p in 10 {
    alloc T: f32[4096] {
      for i in 101 {
        let v = ramp(i * 4, 1, 4) {
          T[v] mask (v < x4(400)) = fma(X[v + x4(p * 400)] mask (v < x4(400)), x4(2.0f32), x4(1.0f32))
        }
      }
      for i in 400 {
        Y[p * 400 + i] = T[399 - i]
      }
    }
  }
}
)"),
                 1);
}

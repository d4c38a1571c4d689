// Gathers whose places a table of i32 holds: close together they are loaded and permuted, else element by
// element; what comes out is the same, and nothing behind the buffer is read.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>

#include "agree.h"

using namespace nestor;

namespace {

// Elements of a row of X that the table says, the first `count` of 16.
std::string gathers(int lanes, int count) {
  const std::string mask =
      count < lanes ? fmt::format(" mask (ramp(0, 1, {0}) < x{0}({1}))", lanes, count) : "";
  return fmt::format(R"(
func f(in X: f32[100], in At: i32[{0}], out Y: f32[{0}]) {{
  Y[ramp(0, 1, {0})]{1} = X[x{0}(20) + i64x{0}(At[ramp(0, 1, {0})]{1})]{1}
}}
)",
                     lanes, mask);
}

// n floats that end where no memory is.
class LastOfPage {
 public:
  explicit LastOfPage(size_t n) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* pages = mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    begin_ = static_cast<char*>(pages);
    REQUIRE(mprotect(begin_ + page_, page_, PROT_NONE) == 0);
    floats_ = reinterpret_cast<float*>(begin_ + page_ - n * sizeof(float));
    std::iota(floats_, floats_ + n, 0.0F);
  }
  ~LastOfPage() { munmap(begin_, 2 * page_); }
  LastOfPage(const LastOfPage&) = delete;
  LastOfPage& operator=(const LastOfPage&) = delete;
  float* floats() const { return floats_; }

 private:
  size_t page_;
  char* begin_;
  float* floats_;
};

// Places of lanes from 20 on, up to the last of 100 elements.
std::vector<std::vector<int32_t>> places(int lanes) {
  const std::vector<std::function<int(int)>> of = {
      [](int i) { return i; },           [](int i) { return i / 2; },
      [](int i) { return 79 - 15 + i; }, [](int i) { return 2 * i; },
      [](int i) { return 17 * i / 8; },  [](int i) { return 48 + 2 * i; },
      [](int i) { return 5 * i; },       [](int i) { return 79 - i; },
      [](int i) { return i * 7 % 16; },  [](int) { return 79; },
      [](int i) { return -20 + i; },     [](int i) { return 79 - 15 + i / 3 * 3; },
      [](int i) { return i ? 79 : -20; }};
  std::vector<std::vector<int32_t>> out;
  for (const auto& f : of) {
    out.emplace_back();
    for (int i = 0; i < lanes; ++i) out.back().push_back(f(i));
  }
  return out;
}

}  // namespace

TEST_CASE("gathers by a table give the elements it names, near or far, all or the first lanes") {
  const LastOfPage x(100);
  std::vector<Target> targets = {host_target()};
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    const Target t = parse_target(name);
    if (host_target().has_feature(t.lanes(4) == 16 ? "avx512f" : t.lanes(4) == 8 ? "avx2" : "sse4.2"))
      targets.push_back(t);
  }
  for (const Target& target : targets)
    for (const int lanes : {8, 16})
      for (const int count : {0, 1, 5, 7, lanes - 1, lanes}) {
        const PrimFunc f = parse_func(gathers(lanes, count));
        const auto module = JitModule::compile({f}, target);
        for (std::vector<int32_t> at : places(lanes)) {
          std::vector<float> y(static_cast<size_t>(lanes), -1);
          void* args[] = {x.floats(), at.data(), y.data()};
          REQUIRE(module->lookup("f")(args, nullptr, nullptr) == 0);
          for (int i = 0; i < lanes; ++i) {
            INFO(lanes << " lanes, " << count << " of them, lane " << i << " at "
                       << at[static_cast<size_t>(i)]);
            REQUIRE(y[static_cast<size_t>(i)] ==
                    (i < count ? static_cast<float>(20 + at[static_cast<size_t>(i)]) : -1.0F));
          }
        }
      }
}

TEST_CASE("what is close together is permuted, with two registers where one is too short") {
  if (!host_target().has_feature("avx512f")) return;
  const std::string assembly = emit_asm({parse_func(gathers(16, 16))}, parse_target("x86-64-v4"));
  CHECK(assembly.find("vpermd") != std::string::npos);
  CHECK((assembly.find("vpermt2d") != std::string::npos || assembly.find("vpermi2d") != std::string::npos));
}

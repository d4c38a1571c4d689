// Stores of the first lanes are divided into whole stores on cores with slow masked stores.
#include <fmt/format.h>

#include "agree.h"

using namespace nestor;
using nestor::testing::check_agree;

namespace {

Target zen(const char* cpu) {
  Target t = parse_target("x86-64-v3");
  t.cpu = cpu;
  return t;
}

// `lanes` of rows of 40 elements are copied at once, `count` of them; what is behind stays.
std::string copies(const std::string& type, int lanes, int count) {
  return fmt::format(R"(
func f(in X: {0}[200], out Y: {0}[200]) {{
  for i in 5 {{
    Y[ramp(i * 40, 1, {1})] mask (ramp(0, 1, {1}) < x{1}({2})) = X[ramp(i * 40, 1, {1})] mask (ramp(0, 1, {1}) < x{1}({2}))
  }}
}}
)",
                     type, lanes, count);
}

bool has_masked_store(const std::string& text, const Target& target) {
  const std::string assembly = emit_asm({parse_func(text)}, target);
  for (size_t at = assembly.find("vmaskmov"); at != std::string::npos;
       at = assembly.find("vmaskmov", at + 1)) {
    const std::string line = assembly.substr(at, assembly.find('\n', at) - at);
    if (line.back() == ')') return true;
  }
  return false;
}

}  // namespace

TEST_CASE("what is left over of a vector is stored by parts where masked stores are slow") {
  const std::string seven = copies("f32", 8, 7);
  CHECK_FALSE(has_masked_store(seven, zen("znver3")));
  CHECK(has_masked_store(seven, parse_target("x86-64-v3")));
  // A sum of rows meets what it stored: passed on whole.
  const std::string sum = R"(
func f(in X: f32[80], out Y: f32[8]) {
  for i in 10 {
    Y[ramp(0, 1, 8)] mask (ramp(0, 1, 8) < x8(5)) = Y[ramp(0, 1, 8)] mask (ramp(0, 1, 8) < x8(5)) + X[ramp(i * 8, 1, 8)]
  }
}
)";
  CHECK(has_masked_store(sum, zen("znver3")) == has_masked_store(sum, parse_target("x86-64-v3")));
}

TEST_CASE("every number of first lanes of every type is stored, and none behind") {
  if (!host_target().has_feature("avx2")) return;
  for (const char* type : {"f32", "i32", "f64", "i8", "f16"})
    for (const int lanes : {4, 8, 16})
      for (int count = 1; count < lanes; ++count) {
        INFO(type << " " << count << " of " << lanes);
        check_agree(parse_func(copies(type, lanes, count)), 3, zen("znver3"), 1);
      }
}

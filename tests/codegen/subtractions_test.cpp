// A load minus an invariant becomes a sum with a memory operand, and gives the same bits.
#include <fmt/format.h>

#include "agree.h"

using namespace nestor;
using nestor::testing::check_agree;

namespace {

// Whole vectors of X, less one element of M; `more` may use it otherwise.
std::string less_mean(const std::string& more) {
  return fmt::format(R"(
func f(in X: f32[256], in M: f32[32], out Z: f32[8192]) {{
  for i in 32 {{
    for j in 32 {{
      Z[ramp(i * 256 + j * 8, 1, 8)] = (X[ramp(j * 8, 1, 8)] - x8(M[i])){}
    }}
  }}
}}
)",
                     more);
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a subtrahend that stays is negated before the loop, and the load is an operand") {
  for (const char* target : {"x86-64-v3", "x86-64-v4"}) {
    INFO(target);
    const std::string once = emit_asm({parse_func(less_mean(""))}, parse_target(target));
    CHECK(count(once, "vsubps") == 0);
    CHECK(count(once, "vaddps\t(%") == 1);
    // It would be in two registers.
    const std::string also = " * x8(M[i])";
    CHECK(count(emit_asm({parse_func(less_mean(also))}, parse_target(target)), "vsubps") == 1);
  }
  CHECK(count(emit_asm({parse_func(less_mean(""))}, parse_target("x86-64-v2")), "subps") == 2);
}

TEST_CASE("what is added negated is the difference: of infinities, zeros and NaN too") {
  check_agree(less_mean(""));
  check_agree(less_mean(" * x8(M[i])"));
  check_agree(R"(
func f(in X: f32[256], in M: f32[32], out Z: f32[256]) {
  for i in 32 {
    for j in 8 {
      Z[i * 8 + j] = X[i * 8 + j] - M[i]
    }
  }
}
)");
  check_agree(R"(
func f(in X: f64[256], in M: f64[4], out Z: f64[256]) {
  for i in 4 {
    for j in 16 {
      Z[ramp(i * 64 + j * 4, 1, 4)] = X[ramp(i * 64 + j * 4, 1, 4)] - x4(M[i])
    }
  }
}
)");
}

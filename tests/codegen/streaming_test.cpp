// Non-temporal stores: whole vectors at aligned addresses only, whatever the alignment of the caller's
// tensors.
#include "agree.h"

using namespace nestor;

namespace {

// A copy of n elements in vectors of 16, those of `pitch` apart.
std::string copy(int64_t n, const std::string& index, const std::string& loop = "for") {
  const std::string size = std::to_string(n);
  return "func f(in X: f32[" + size + "], out Y: f32[" + size + "]) {\n  " + loop + " i in " +
         std::to_string(n / 16) + " {\n    Y[ramp(" + index +
         ", 1, 16)] streaming = X[ramp(i * 16, 1, 16)] + x16(1.0f32)\n  }\n}\n";
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("streaming stores are what they say, in one of two versions of the loop, behind a fence") {
  const Target target = parse_target("x86-64-v4");
  for (const char* loop : {"for", "parallel"}) {
    const std::string text = emit_asm({parse_func(copy(1024, "i * 16", loop))}, target);
    CHECK(count(text, "vmovnt") == 1);
    CHECK(count(text, "sfence") == 1);
    CHECK(count(text, "vmovup") >= 1);  // the version for tensors that aren't aligned
  }
  // 8 elements off: no vector is aligned.
  CHECK(count(emit_asm({parse_func(copy(1024, "i * 16 - i * 8", "for"))}, target), "vmovnt") == 0);
  const std::string arm = emit_asm({parse_func(copy(1024, "i * 16"))}, parse_target("aarch64"));
  CHECK(count(arm, "stnp") > 0);
}

TEST_CASE("streaming stores write the same to aligned and to unaligned tensors") {
  const PrimFunc f = parse_func(copy(1024, "i * 16"));
  testing::check_agree(f);
  testing::check_agree(parse_func(copy(1024, "i * 16", "parallel")));
  const auto module = JitModule::compile({f}, host_target());
  for (int64_t offset : {0, 1, 4, 8, 16}) {
    Tensor x(DType::f32, {1024 + 64}), y(DType::f32, {1024 + 64});
    for (int64_t i = 0; i < x.size(); ++i) {
      x.set(i, static_cast<double>(i));
      y.set(i, -1);
    }
    void* args[] = {x.data(), static_cast<float*>(y.data()) + offset};
    REQUIRE(module->lookup("f")(args, nullptr, nullptr) == 0);
    for (int64_t i = 0; i < y.size(); ++i)
      REQUIRE(y.get(i) == (i >= offset && i < 1024 + offset ? static_cast<double>(i - offset) + 1 : -1));
  }
}

// Assembly has the line numbers of the loop nest, and is the same with and without them.
#include <algorithm>
#include <sstream>

#include "catch.h"
#include "nestor/codegen.h"
#include "nestor/cuda.h"
#include "nestor/parse.h"
#include "nestor/print.h"

using namespace nestor;

namespace {

// Two loops one after the other, the second parallel, so that it becomes a function of its own.
PrimFunc sample() {
  return parse_func(R"(
func sample(in A: f32[4096], out Y: f32[4096], out Z: f32[4096]) {
  for i in 256 {
    Y[ramp(i*16, 1, 16)] = A[ramp(i*16, 1, 16)] * x16(3.0f32)
  }
  parallel j in 64 {
    for k in 4 {
      Z[ramp(j*64+k*16, 1, 16)] = sqrt(A[ramp(j*64+k*16, 1, 16)])
    }
  }
})");
}

int line_with(const std::string& text, const std::string& part) {
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find(part) != std::string::npos) return number;
  }
  return -1;
}

int line_of(const std::vector<CodeLine>& listing, const std::string& mnemonic) {
  for (const CodeLine& l : listing)
    if (l.text.find(mnemonic) != std::string::npos) return l.line;
  return -1;
}

}  // namespace

TEST_CASE("instructions have the line of their statement") {
  const PrimFunc f = sample();
  const std::string text = print(f);
  for (const char* name : {"x86-64-v4", "x86-64-v3", "aarch64"}) {
    INFO(name);
    const Target target = parse_target(name);
    const auto listing = emit_asm_with_lines(f, target);
    const bool arm = target.arch() == "aarch64";
    CHECK(line_of(listing, arm ? "fmul" : "vmulps") == line_with(text, "3.0f32"));
    CHECK(line_of(listing, arm ? "fsqrt" : "vsqrtps") == line_with(text, "sqrt"));
    // Every branch back belongs to a loop's header.
    const int i = line_with(text, "for i"), j = line_with(text, "parallel j"), k = line_with(text, "for k");
    std::vector<int> branches;
    for (const CodeLine& l : listing)
      if (l.text.rfind(arm ? "\tb." : "\tj", 0) == 0) branches.push_back(l.line);
    for (const int loop : {i, j, k}) CHECK(std::count(branches.begin(), branches.end(), loop) >= 1);
  }
}

TEST_CASE("lines change no instruction, and nothing else is in the listing") {
  const PrimFunc f = sample();
  for (const char* name : {"x86-64-v4", "aarch64"}) {
    const Target target = parse_target(name);
    const auto texts = [&](const std::vector<CodeLine>& listing) {
      std::vector<std::string> out;
      for (const CodeLine& l : listing) out.push_back(l.text);
      // LLVM's aarch64 orders the set-up of a call differently beside debug locations.
      if (target.arch() == "aarch64") std::sort(out.begin(), out.end());
      return out;
    };
    const auto with = emit_asm_with_lines(f, target), without = parse_asm(emit_asm({f}, target), target);
    CHECK(texts(with) == texts(without));
    for (const CodeLine& l : without) CHECK(l.line == 0);
    for (const CodeLine& l : with) CHECK((l.text[0] != '\t' || l.text[1] != '.'));
  }
}

TEST_CASE("CUDA source knows its lines too, and is the same text") {
  const PrimFunc f = parse_func(R"(
func sample(in A: f32[4096], out Y: f32[4096]) {
  blockIdx.x b in 32 {
    threadIdx.x t in 128 {
      if b*128+t < 4000 {
        Y[b*128+t] = sqrt(A[b*128+t])
      }
    }
  }
})");
  const Target target = parse_target("cuda:sm_80");
  const std::string text = print(f);
  std::string source;
  int found = 0;
  for (const CodeLine& l : emit_cuda_with_lines(f, target)) {
    source += l.text + "\n";
    const auto is = [&](const char* here, const char* there) {
      if (l.text.find(here) == std::string::npos) return;
      INFO(l.text);
      CHECK(l.line == line_with(text, there));
      ++found;
    };
    is("= blockIdx.x", "blockIdx.x b");
    is("= threadIdx.x", "threadIdx.x t");
    is("if (", "if b");
    is("sqrt", "sqrt");
    if (l.text.find("__global__") != std::string::npos) CHECK(l.line == 0);
  }
  CHECK(found == 4);
  CHECK(source == emit_cuda(f, target));
}

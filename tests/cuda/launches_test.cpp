// Launches of whole models: no kernel leaves most of an A100 idle if its work would suffice for more threads.
#include <fmt/format.h>

#include "catch.h"
#include "check.h"
#include "models.h"
#include "nestor/driver.h"
#include "nestor/graph.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

struct Launch {
  std::string text;
  int64_t threads = 0;
  int64_t elements = 0;  // of the largest tensor that it touches
};

std::vector<Launch> launches_of(const Model& model) {
  CompileOptions options;
  options.target = parse_target("cuda:sm_80");
  options.schedules = default_schedules();
  const CompiledModel compiled = compile_model(Source{build_graph(model, {}), std::nullopt}, options);
  std::vector<Launch> out;
  for (const CompiledFunction& f : compiled.funcs) {
    const CudaProgram program = make_cuda(f.lowered, compiled.target);
    std::vector<int64_t> elements;
    for (const Param& p : f.lowered.params) elements.push_back(as_int(p.decl.shape.at(0)).value_or(0));
    for (const int64_t bytes : program.temporary_bytes) elements.push_back(bytes / 4);
    for (const CudaKernel& k : program.kernels) {
      Launch l;
      l.threads = k.grid[0] * k.grid[1] * k.grid[2] * k.block[0] * k.block[1] * k.block[2];
      for (const int a : k.args) l.elements = std::max(l.elements, elements.at(static_cast<size_t>(a)));
      l.text = fmt::format("{} <<<({}, {}, {}), ({}, {}, {})>>> {} elements", k.name, k.grid[0], k.grid[1],
                           k.grid[2], k.block[0], k.block[1], k.block[2], l.elements);
      out.push_back(l);
    }
  }
  return out;
}

// Products have their own family, which splits their sums.
bool is_product(const std::string& kernel) {
  const auto has = [&](const char* what) { return kernel.find(what) != std::string::npos; };
  return has("matmul") || has("gemm") || (has("conv2d") && !has("depthwise"));
}

}  // namespace

TEST_CASE(
    "kernels of MobileNetV2 at 224 and of a block of BERT-base at 128 have 64 threads a multiprocessor") {
  for (const Model& model : {mobilenet_v2(224), bert_block(128, 768, 12)}) {
    std::string few;
    for (const Launch& l : launches_of(model)) {
      UNSCOPED_INFO(l.text);
      if (!is_product(l.text) && l.threads < 64 * 108 && l.elements >= 64 * 108) few += l.text + "\n";
    }
    CHECK(few == "");
  }
}

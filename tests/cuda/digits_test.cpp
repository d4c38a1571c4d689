// Every function of the digits CNN, by its default schedule: the emitted text passes under emulation and
// compiles.
#include "catch.h"
#include "check.h"
#include "nestor/graph.h"
#include "nestor/parse.h"
#include "nestor/schedule.h"
#include "schedules/library/cuda.h"

using namespace nestor;
using namespace nestor::testing;

namespace {

std::vector<PrimFunc> digits_functions() {
  BuildOptions options;
  const Model model = read_model(NESTOR_SOURCE_DIR "/examples/digits/digits.json");
  for (const ModelValue& v : model.inputs)
    for (const ModelDim& d : v.shape)
      if (!d.value) options.dims[d.name] = 2;
  Graph g = build_graph(model, options);
  optimize(g, evaluate_by_interpreter);
  return partition(g).funcs;
}

CudaCase by_default(const PrimFunc& f, const Target& target) {
  return make_case(f, apply(f, default_cuda_schedule(f, target)), target);
}

}  // namespace

TEST_CASE("every function of the digits CNN passes under emulation by its default schedule") {
  std::vector<CudaCase> cases;
  for (const PrimFunc& f : digits_functions()) cases.push_back(by_default(f, parse_target("cuda:sm_80")));
  REQUIRE(cases.size() >= 4);
  for (const CudaCase& c : cases)
    for (const CudaKernel& k : c.program.kernels) {
      INFO(c.program.source);
      CHECK(k.block[0] > 1);  // nothing is left to a single thread
    }
  check_cases(cases);
}

TEST_CASE("NVRTC compiles every function of the digits CNN for sm_80 and sm_90a") {
  if (!has_nvrtc()) return;
  for (const PrimFunc& f : digits_functions())
    for (const std::string sm : {"cuda:sm_80", "cuda:sm_90a"}) {
      const Target target = parse_target(sm);
      const CudaCase c = by_default(f, target);
      INFO(c.program.source);
      CHECK_FALSE(compile_cubin(c.program.source, target).empty());
    }
}

// Every operator of the catalog, whatever its types, has CUDA code by its default schedule that gives what
// the lowered function gives, bit for bit.
#include "tests/ops/catalog.h"

#include "catch.h"
#include "check.h"
#include "nestor/error.h"
#include "nestor/schedule.h"
#include "schedules/library/cuda.h"
#include "tests/codegen/agree.h"

using namespace nestor;
using namespace nestor::testing;

TEST_CASE("every operator of the catalog becomes CUDA code") {
  const Target target = parse_target("cuda:sm_80");
  std::vector<CudaCase> cases;
  std::vector<CudaProgram> programs;
  std::string refused;
  for (CatalogEntry& e : catalog()) {
    PrimFunc f = e.node.build();
    if (!f.body) continue;  // a view, or known at compile time
    f.name += "_" + std::to_string(cases.size());
    try {
      cases.push_back(make_case(f, apply(f, default_cuda_schedule(f, target)), target));
      programs.push_back(cases.back().program);
    } catch (const UserError& error) {
      refused += e.what + ": " + error.what() + "\n";
    }
  }
  CHECK(refused == "");
  CHECK(cases.size() > 200);
  const Emulator emulator(programs, Tracing::on);
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<Tensor> wanted, got;
    for (const Tensor& t : cases[i].lowered_inputs) {
      wanted.push_back(t.clone());
      got.push_back(t.clone());
    }
    interpret(cases[i].meant, wanted);
    emulator.run(cases[i].program, got, LoopOrder::random, i);
    for (size_t p = 0; p < wanted.size(); ++p) {
      INFO(cases[i].func.name << " " << p << "\n" << cases[i].program.source);
      for (int64_t e = 0; e < wanted[p].size(); ++e) REQUIRE(same_bits(wanted[p], got[p], e));
    }
  }
}

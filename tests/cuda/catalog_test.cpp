// Every operator of the catalog, whatever its types, has CUDA code by its default schedule that gives what
// the lowered function gives, bit for bit.
#include "tests/ops/catalog.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include "catch.h"
#include "check.h"
#include "nestor/error.h"
#include "nestor/passes.h"
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
    if (is_for_cpus_only(e)) continue;
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

TEST_CASE("NVRTC compiles 200 drawn operators for a drawn architecture") {
  if (!has_nvrtc()) return;
  const char* given = std::getenv("NESTOR_SEED");  // replays a failure
  const uint64_t seed = given ? std::stoull(given) : std::random_device()();
  std::mt19937_64 rng(seed);
  std::vector<std::string> targets;
  for (const std::string& t : known_targets())
    if (t.starts_with("cuda:")) targets.push_back(t);
  const Target target = parse_target(targets.at(rng() % targets.size()));
  std::vector<CatalogEntry> entries = catalog();
  std::erase_if(entries, is_for_cpus_only);
  std::vector<size_t> drawn(entries.size());
  std::iota(drawn.begin(), drawn.end(), size_t{0});
  std::shuffle(drawn.begin(), drawn.end(), rng);
  drawn.resize(std::min<size_t>(drawn.size(), 200));
  constexpr size_t kTogether = 20;  // in one module
  std::vector<PrimFunc> lowered;
  for (size_t i = 0; i < drawn.size(); ++i) {
    PrimFunc f = entries[drawn[i]].node.build();
    f.name += "_" + std::to_string(i);
    if (f.body) lowered.push_back(lower(apply(f, default_cuda_schedule(f, target)), target));
    if (lowered.size() < kTogether && i + 1 < drawn.size()) continue;
    const std::string source = make_cuda_module(lowered, target).source;
    INFO("NESTOR_SEED=" << seed << " " << target.name << "\n" << source);
    CHECK_FALSE(compile_cubin(source, target).empty());
    lowered.clear();
  }
}

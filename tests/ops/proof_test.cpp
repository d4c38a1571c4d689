// The default schedule of every operator is proved, for processors and for CUDA. Where elements are written is
// what inputs say for a few of them, which no proof follows: it says so.
#include "nestor/proof.h"

#include "catch.h"
#include "nestor/library.h"
#include "nestor/print.h"
#include "tests/ops/catalog.h"

using namespace nestor;

TEST_CASE("Every operator's default schedules are proved") {
  int proved = 0;
  for (const char* name : {"x86-64-v4", "x86-64-v3", "cuda:sm_80"}) {
    const Target target = parse_target(name);
    for (const CatalogEntry& e : catalog()) {
      // Our own operators are made where channels lie in blocks of lanes, on CPUs.
      if (target.kind == TargetKind::cuda && !e.node.node().domain.empty()) continue;
      const PrimFunc f = e.node.build();
      const Trace trace = default_schedule(f, target);
      const Proof p = verify_schedule(f, apply(f, trace), {.seconds = 60});
      INFO(e.what << " for " << name << "\n" << print(f) << print(trace) << describe(p));
      if (e.what.starts_with("Scatter") || e.what == "KeptBoxes" || e.what == "Order") {
        CHECK(describe(p).find("isn't linear in loops and iterators") != std::string::npos);
        continue;
      }
      CHECK(p.ok());
      proved += p.ok();
    }
  }
  CHECK(proved > 100);
}

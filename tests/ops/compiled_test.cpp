// Every operator as machine code, unscheduled and with its loops vectorized and parallel: bit for bit what
// the interpreter makes of the same lowered function, on ordinary and on hard values; and close to what the
// operator's own loop nest says.
#include "catch.h"
#include "nestor/passes.h"
#include "nestor/schedule.h"
#include "nestor/walk.h"
#include "tests/codegen/agree.h"
#include "tests/ops/catalog.h"

using namespace nestor;

namespace {

// The innermost spatial loop of each block vectorized, the outermost parallel, where the primitives agree.
PrimFunc with_vectors(const PrimFunc& f) {
  Schedule s(f);
  for (const std::string& block : block_names(f)) {
    const std::vector<LoopInfo> loops = loops_of(s.func(), block);
    if (loops.empty()) continue;
    for (size_t i = loops.size(); i-- > 0;)
      if (s.try_step("vectorize " + block + "." + loops[i].name)) break;
    s.try_step("parallel " + block + "." + loops[0].name);
  }
  return s.func();
}

void check_close(const PrimFunc& f, const PrimFunc& lowered) {
  std::vector<Tensor> expected = random_args(f, 9), actual;
  for (const Tensor& t : expected) actual.push_back(t.clone());
  interpret(f, expected);
  testing::run_jit(lowered, actual, 2, host_target());
  for (size_t a = 0; a < expected.size(); ++a)
    for (int64_t i = 0; i < expected[a].size(); ++i) {
      const double x = expected[a].get(i), y = actual[a].get(i);
      INFO("element " << i << ": the loop nest says " << x << ", the machine " << y);
      const bool agree =
          (std::isnan(x) && std::isnan(y)) || x == y || std::abs(x - y) <= 1e-5 * std::max(1.0, std::abs(x));
      REQUIRE(agree);
    }
}

}  // namespace

TEST_CASE("Every operator compiled agrees with the interpreter") {
  size_t scheduled = 0;
  const std::vector<CatalogEntry> all = catalog();
  for (const CatalogEntry& e : all) {
    const PrimFunc f = e.node.build(), vectors = with_vectors(f);
    scheduled += !structural_equal(f, vectors);
    for (const PrimFunc& g : {f, vectors}) {
      INFO(e.what << "\n" << print(g));
      const PrimFunc lowered = lower(g, host_target());
      testing::check_agree(lowered);
      check_close(f, lowered);
    }
  }
  CHECK(scheduled > all.size() * 3 / 4);
}
